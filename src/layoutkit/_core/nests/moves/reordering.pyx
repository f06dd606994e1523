"""Writing an array from another one: how threads share it, and the check of a call's arrays."""

from libc.stdint cimport int64_t

from ...ndarray cimport PyArray_CheckExact, PyArray_DATA, PyArray_DESCR, PyArray_ISWRITEABLE, import_array, ndarray, npy_intp
from ...runtime.pace cimport Pace, done, pace_of
from ...runtime.signals cimport go_on, interrupted
from ...runtime.team cimport lk_claim, lk_portions, share_out

import_array()


cdef struct Run:  # what the shares of a region have in common
    void *reordering
    const char *src
    char *dst
    int64_t chunk, chunks, share_parts


cdef void run_share(void *argument, int slot, int share, int shares, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t parts = r.share_parts, begin = (r.chunk * shares + share) * parts, first, last
    while lk_claim(portions, begin, begin + parts, &first, &last):
        (<Reordering>r.reordering).part(r.src, r.dst, first, last, r.chunks * shares * parts)


cdef class Reordering:
    """Writes an array from another one, in parts: moves elements (`Program`) or converts numbers."""

    def between(self, ndarray src, int64_t src_at, ndarray dst, int64_t dst_at, int threads):
        """Run all of it between arrays from these bytes on, after their first elements."""
        self.call(<const char *>PyArray_DATA(src) + src_at, <char *>PyArray_DATA(dst) + dst_at, threads)

    cdef int call(self, const char *src, char *dst, int threads) except -1:
        """Run all of it, with the GIL held."""
        with nogil:
            self.paced(src, dst, threads)
        return go_on()

    cdef bint paced(self, const char *src, char *dst, int threads) noexcept nogil:
        """Run all of it, in chunks between which signals are checked for; whether one has stopped it."""
        cdef Pace pace
        if self.chunks == 1:
            self.run(src, dst, threads)
            return False
        pace = pace_of(self.chunks)
        while pace.at < pace.end:
            self.run(src, dst, threads, pace.at // pace.size, pace.end // pace.size)
            done(&pace)
            if interrupted():
                return True
        return False

    cdef void run(self, const char *src, char *dst, int threads, int64_t chunk=0, int64_t chunks=1) noexcept nogil:
        """Run one of `chunks`, which together are all of it."""
        cdef Run r
        r.reordering, r.src, r.dst, r.chunk, r.chunks = <void *>self, src, dst, chunk, chunks
        r.share_parts = self.share_parts
        share_out(threads, run_share, &r)

    cdef void part(self, const char *src, char *dst, int64_t first, int64_t end, int64_t parts) noexcept nogil:
        """Run parts [first, end) of `parts`, which together are all of it, on one thread."""


cdef enum:
    MAX_AXES = 64  # of an array: numpy's limit

cdef struct Extent:
    int ndim
    npy_intp shape[MAX_AXES]
    npy_intp strides[MAX_AXES]
    npy_intp lo, hi  # bytes from the first element


cdef class BoundReorder:
    """A reorder for arrays of fixed shapes, strides and dtypes: checks the arrays of a call, and runs.

    Parameters
    ----------
    moves : Reordering
    dtypes : (dtype, dtype)
        Of the array and of what is written.
    src, dst : (shape, strides)
        Strides in bytes.
    threads : int
    what : str
        The operation, for errors.
    check : callable
        Called with `what` and an array of a subclass of ndarray; raises TypeError if the subclass must not be ignored.
    """

    cdef Reordering moves
    cdef Extent src, dst
    cdef object src_dtype, dst_dtype, what, check
    cdef int threads

    def __cinit__(self, Reordering moves not None, dtypes, src, dst, int threads, what, check):
        self.moves, self.threads, self.what, self.check = moves, threads, what, check
        self.src_dtype, self.dst_dtype = dtypes
        set_extent(&self.src, src, self.src_dtype.itemsize)
        set_extent(&self.dst, dst, self.dst_dtype.itemsize)

    def __call__(self, ndarray array not None, ndarray out not None):
        """Move `array` to `out`."""
        cdef const char *s = <const char *>PyArray_DATA(array)
        cdef char *d = <char *>PyArray_DATA(out)
        if not (PyArray_CheckExact(array) and PyArray_CheckExact(out)):
            self.check(array, self.what)
            self.check(out, self.what)
        if not (fits(array, &self.src, self.src_dtype) and fits(out, &self.dst, self.dst_dtype)):
            raise ValueError(f"{self.what}: planned for {text_of(&self.src)} {self.src_dtype} to {text_of(&self.dst)} "
                             f"{self.dst_dtype}; got {text_of_array(array)} to {text_of_array(out)}")
        if not PyArray_ISWRITEABLE(out):
            raise ValueError(f"{self.what}: out is read-only")
        if s + self.src.lo < d + self.dst.hi and d + self.dst.lo < s + self.src.hi:
            raise ValueError(f"{self.what}: out overlaps the array")
        self.moves.call(s, d, self.threads)

    def __repr__(self):
        return f"<{self.what}: {text_of(&self.src)} {self.src_dtype} to {text_of(&self.dst)} {self.dst_dtype}>"


cdef set_extent(Extent *e, shape_and_strides, itemsize):
    shape, strides = shape_and_strides
    e.ndim, e.lo, e.hi = len(shape), 0, itemsize
    for i, (n, s) in enumerate(zip(shape, strides, strict=True)):
        e.shape[i], e.strides[i] = n, s
        if n > 1:
            e.lo += min(0, (n - 1) * s)
            e.hi += max(0, (n - 1) * s)


cdef bint fits(ndarray array, const Extent *e, dtype):
    cdef int i
    if array.ndim != e.ndim or (<void *>PyArray_DESCR(array) != <void *>dtype and array.dtype != dtype):
        return False
    for i in range(e.ndim):
        if array.shape[i] != e.shape[i] or (array.strides[i] != e.strides[i] and e.shape[i] > 1):
            return False
    return True


cdef text_of_array(object array):
    return f"{array.shape} {array.strides} {array.dtype}"


cdef text_of(const Extent *e):
    return f"{tuple([e.shape[i] for i in range(e.ndim)])} {tuple([e.strides[i] for i in range(e.ndim)])}"
