"""Convolutions of little work, and gradients of filters, whose filter comes with each call.

Packing a filter moves its numbers, and their places depend on shapes only: once they are known, a call puts the numbers
there and runs. Memory is kept between calls, as calls are short: they keep the GIL.
"""

from cython cimport critical_section
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from ...ndarray cimport NPY_INT32, PyArray_DATA, import_array, ndarray
from ..executor cimport WeightSums, aligned, elements
from ..operation cimport Operation

from numpy import uint8, zeros

import_array()

cdef enum:
    LINE_BYTES = 64

cdef uint32_t INFINITE = 0x7F800000  # the exponent of Inf and NaN in f32,
cdef uint64_t INFINITE_WIDE = 0x7FF0000000000000  # and in f64


cdef class Small:
    """The base: a call on tensors of some forms.

    Parameters
    ----------
    like : tensor
        Of the form of the result.
    attributes : tuple
        Of the call; for the caller.
    item : {4, 8}
        Bytes of an element.
    """

    def __init__(self, like, tuple attributes not None, int item):
        self.like, self.attributes, self.item = like, attributes, item

    cdef bint run(self, char **at, char *result) noexcept:
        """Compute on tensors at these addresses; False if their numbers need another way."""
        return False


cdef int take_memory(Small small, int64_t nbytes) except -1:
    small.memory = zeros(nbytes + LINE_BYTES, uint8)
    small.workspace = <char *>aligned(<int64_t>PyArray_DATA(small.memory))
    return 0


cdef bint fill(const Fill *f, const char *tensor, int item) noexcept nogil:
    """Put the numbers of a tensor into their places; whether all are finite."""
    cdef int64_t i
    cdef uint32_t number, largest = 0
    cdef uint64_t wide, widest = 0
    if item == 4:
        for i in range(f.count):
            number = (<const uint32_t *>tensor)[f.sources[i]]
            largest = max(largest, number & INFINITE)
            (<uint32_t *>f.packed)[f.places[i]] = number
    else:
        for i in range(f.count):
            wide = (<const uint64_t *>tensor)[f.sources[i]]
            widest = max(widest, wide & INFINITE_WIDE)
            (<uint64_t *>f.packed)[f.places[i]] = wide
    return largest != INFINITE and widest != INFINITE_WIDE


cdef class SmallConvolution(Small):
    """A convolution, or a transposed one, of (x, filter, bias).

    Parameters
    ----------
    like, attributes, item
        As of the base.
    operation : Operation
        On (x, result), one thread, with packed filters that are finite.
    fills : sequence of (packed, places, sources, tensor)
        Arrays that it reads, with the places (int32) in each of the numbers that are no pads, and of which element of the
        filter, tensor 1, or the bias, tensor 2, each of these is.
    """

    def __init__(self, like, tuple attributes not None, int item, Operation operation not None, fills):
        cdef ndarray packed, places, sources
        Small.__init__(self, like, attributes, item)
        self.operation, self.owned, self.count = operation, list(fills), <int>len(fills)
        take_memory(self, operation.workspace)
        self.fills = <Fill *>calloc(max(1, self.count), sizeof(Fill))
        if self.fills == NULL:
            raise MemoryError(f"a convolution with {self.count} packed arrays")
        for i, (packed, places, sources, tensor) in enumerate(self.owned):
            f = self.fills + <int>i
            f.packed, f.count, f.tensor = <char *>PyArray_DATA(packed), places.size, tensor
            f.places, f.sources = <int32_t *>elements(places, NPY_INT32), <int32_t *>elements(sources, NPY_INT32)
            if packed.itemsize != item or sources.size != places.size or tensor not in (1, 2):
                raise ValueError(f"{places.size} places in {packed.dtype} for {sources.size} numbers of tensor {tensor}")

    def __dealloc__(self):
        free(self.fills)

    cdef bint run(self, char **at, char *result) noexcept:
        cdef char *two[2]
        cdef bint finite = True
        cdef int i
        two[0], two[1] = at[0], result
        with critical_section(self):
            for i in range(self.count):
                finite = fill(&self.fills[i], at[self.fills[i].tensor], self.item) and finite
            if finite:
                self.operation.run(two, self.workspace)
        return finite


cdef class SmallSums(Small):
    """The gradient of a filter, of (x, gradient of the result).

    Parameters
    ----------
    like, attributes, item
        As of the base.
    sums : WeightSums
        On one thread.
    sources : ndarray of int32
        For each element of the result, in the order of memory, its place in the sums.
    """

    def __init__(self, like, tuple attributes not None, int item, WeightSums sums not None, ndarray sources not None):
        Small.__init__(self, like, attributes, item)
        self.sums, self.table, self.count = sums, sources, sources.size
        self.sources = <int32_t *>elements(sources, NPY_INT32)
        if sums.threads != 1:
            raise ValueError(f"sums on {sums.threads} threads, expected 1")
        take_memory(self, aligned(sums.slabs * sums.slab_bytes) + sums.thread_bytes)

    cdef bint run(self, char **at, char *result) noexcept:
        cdef WeightSums s = self.sums
        cdef char *totals = self.workspace
        cdef int64_t chunk, i
        with critical_section(self):
            for chunk in range(s.chunks):
                s.run(at[0], at[1], totals, totals + aligned(s.slabs * s.slab_bytes), chunk)
            if s.slabs > 1:
                s.add_slabs(totals)
            if self.item == 4:
                for i in range(self.count):
                    (<uint32_t *>result)[i] = (<const uint32_t *>totals)[self.sources[i]]
            else:
                for i in range(self.count):
                    (<uint64_t *>result)[i] = (<const uint64_t *>totals)[self.sources[i]]
        return True


cdef class SmallTotals(Small):
    """The gradient of a bias: the sums of a tensor (N, C, ..) over all axes but the second, in f64.

    Parameters
    ----------
    like, attributes, item
        As of the base.
    shape, strides : tuple of int
        Of the tensor, of at most five axes; strides in elements.
    """

    def __init__(self, like, tuple attributes not None, int item, tuple shape not None, tuple strides not None):
        cdef int more = 5 - <int>len(shape)
        Small.__init__(self, like, attributes, item)
        if more < 0 or len(strides) != len(shape) or len(shape) < 2:
            raise ValueError(f"sums of a tensor of shape {shape} and strides {strides}")
        shape, strides = (*shape[:2], *(1,) * more, *shape[2:]), (*strides[:2], *(0,) * more, *strides[2:])
        for i in range(5):
            self.sizes[i], self.strides[i] = shape[i], strides[i]

    cdef bint run(self, char **at, char *result) noexcept:
        cdef int64_t n, c, d, h, w, row, step = self.strides[4]
        cdef double total
        for c in range(self.sizes[1]):
            total = 0
            for n in range(self.sizes[0]):
                for d in range(self.sizes[2]):
                    for h in range(self.sizes[3]):
                        row = n * self.strides[0] + c * self.strides[1] + d * self.strides[2] + h * self.strides[3]
                        if self.item == 4:
                            for w in range(self.sizes[4]):
                                total += (<const float *>at[0])[row + w * step]
                        else:
                            for w in range(self.sizes[4]):
                                total += (<const double *>at[0])[row + w * step]
            if self.item == 4:
                (<float *>result)[c] = <float>total
            else:
                (<double *>result)[c] = total
        return True
