"""Normalisations: mean and variance of sets of elements, and ``(x - mean) / sqrt(variance + epsilon) * scale + bias``.

The nests around moments.c, scale.c and epilogue.c. A *slab* has statistics of its own, or, if these sets are small,
those of several. Its statistics are measured part by part, and the parts combined in a fixed order, so that results do
not depend on the number of threads. A thread measures a slab and makes its results while it is in the cache; of few
large slabs, threads share first the measuring, then the rest.
"""

from libc.stdint cimport int64_t
from numpy cimport PyArray_DATA, import_array, ndarray

import numpy as np

from ..kernels cimport LK_EPILOGUE, LK_MOMENTS, LK_SCALE
from ..kernels.elementwise cimport lk_epilogue, lk_epilogue_fn
from ..kernels.normalise cimport lk_moments, lk_moments_fn, lk_scaling, lk_scaling_fn
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport aligned, ceil_div, share
from .operation cimport Operation
from .route cimport Epilogue

import_array()

WIDTHS = {"f32": 4, "bf16": 2, "f16": 2}

cdef enum:
    PIECE = 4096          # elements that stay in L1 between the steps of an epilogue
    ROWS = 64             # at a time
    FEW_SLABS = 4         # for a thread
    LEAST_SHARED = 65536  # elements of a slab that threads share


cdef list dims_of(ndarray x, ndarray y):
    """By axis the size, and the strides of both arrays."""
    return [(x.shape[i], x.strides[i], y.strides[i]) for i in range(x.ndim)]


cdef list merged(list dims):
    """The same iterations, (size, stride, stride) from outer to inner, in as few loops as can be."""
    found = []
    for size, *strides in dims:
        if size == 1:
            continue
        if found and tuple([size * stride for stride in strides]) == found[-1][1:]:
            found[-1] = (found[-1][0] * size, *strides)
        else:
            found.append((size, *strides))
    return found


cdef Loops loops_of(list dims) except *:
    cdef Loops l
    dims = merged(dims)
    if len(dims) > MAX_LOOPS:
        raise ValueError(f"an array with {len(dims)} axes that lie apart, at most {MAX_LOOPS}")
    l.axes, l.total = len(dims), 1
    for i, (size, x, y) in enumerate(dims):
        l.size[i], l.x[i], l.y[i] = size, x, y
        l.total *= size
    return l


cdef void slabs_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Normalisation>(<const Run *>argument).nest).slabs_of(<const Run *>argument, slot, part, parts, portions)


cdef void measures_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Normalisation>(<const Run *>argument).nest).measures_of(<const Run *>argument, part, parts, portions)


cdef void pieces_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Normalisation>(<const Run *>argument).nest).pieces_of(<const Run *>argument, slot, part, parts, portions)


cdef class Normalisation(Operation):
    """The base: a class divides the arrays into slabs, and these into measures and pieces.

    Parameters
    ----------
    types : {"f32", "bf16", "f16"}
        Of the elements of both arrays.
    x, y : ndarray
        Of one shape; where they are not contiguous, a class says.
    scale, bias : ndarray of float32, or None
    epsilon : float
    epilogue : Epilogue or None
        What is done with the results; without tensors.
    threads : int
    about_zero : bool, optional
        Means are taken to be 0.
    """

    def __init__(self, str types, ndarray x not None, ndarray y not None, scale, bias, double epsilon, epilogue,
                 int threads, *, bint about_zero=False):
        if (<object>x).shape != (<object>y).shape or not x.itemsize == y.itemsize == WIDTHS[types]:
            raise ValueError(f"normalise: {x.dtype} of shape {(<object>x).shape} to {y.dtype} of shape "
                             f"{(<object>y).shape}, expected {types} of one shape")
        self.bind((x, y))
        self.moments = <lk_moments_fn>best_row(LK_MOMENTS, types).fn
        self.item, self.width, self.epilogue, self.steps = x.itemsize, x.itemsize, epilogue, 0
        self.scratch_bytes = 0
        if epilogue is not None and self.epilogue.f.steps:
            self.steps, self.width = self.epilogue.f.steps, sizeof(float)
            self.finishing = <lk_epilogue_fn>best_row(LK_EPILOGUE, types).fn
            self.scratch_bytes = 0 if types == "f32" else PIECE * sizeof(float)
        self.scaling = <lk_scaling_fn>best_row(LK_SCALE, f"{types}_f32" if self.scratch_bytes else types).fn
        self.about_zero, self.epsilon = about_zero, epsilon
        self.scale, self.bias = (None if a is None else np.ascontiguousarray(a, np.float32) for a in (scale, bias))
        self.scales = NULL if scale is None else <const float *>PyArray_DATA(self.scale)
        self.biases = NULL if bias is None else <const float *>PyArray_DATA(self.bias)
        self.threads = threads_for(threads, 3.0 * x.size * x.itemsize)

    cdef int settle(self) except -1:
        """After a class has said what slabs there are: the workspace."""
        self.statistics_bytes = aligned(self.statistics_bytes)
        self.workspace = self.threads * (self.statistics_bytes + self.scratch_bytes)
        return 0

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int64_t slab
        r.nest, r.x, r.y, r.statistics = <void *>self, at[0], at[1], workspace
        r.scratch = workspace + self.threads * self.statistics_bytes
        if self.threads == 1 or self.slabs >= FEW_SLABS * self.threads or self.elements < LEAST_SHARED:
            if self.slabs:
                share_out(<int>min(self.threads, self.slabs), slabs_share, &r)
            return
        for slab in range(self.slabs):
            r.slab = slab
            share_out(<int>min(self.threads, self.measures), measures_share, &r)
            self.combine(slab, workspace)
            share_out(<int>min(self.threads, self.pieces), pieces_share, &r)

    cdef void slabs_of(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        """Slabs, from the first statistics to the last result."""
        cdef char *statistics = r.statistics + slot * self.statistics_bytes
        cdef int64_t slab, last
        while lk_claim(portions, share(self.slabs, parts, part), share(self.slabs, parts, part + 1), &slab, &last):
            while slab < last:
                self.measure(r.x, slab, 0, self.measures, statistics)
                self.combine(slab, statistics)
                self.apply(r.x, r.y, slab, 0, self.pieces, statistics, r.scratch + slot * self.scratch_bytes)
                slab += 1

    cdef void measures_of(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil:
        """Of one slab that threads share."""
        cdef int64_t first, last
        while lk_claim(portions, share(self.measures, parts, part), share(self.measures, parts, part + 1), &first, &last):
            self.measure(r.x, r.slab, first, last, r.statistics)

    cdef void pieces_of(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        """From the last piece to the first: what was measured last is still in the cache."""
        cdef int64_t begin = share(self.pieces, parts, part), end = share(self.pieces, parts, part + 1), first, last
        while lk_claim(portions, begin, end, &first, &last):
            self.apply(r.x, r.y, r.slab, begin + end - last, begin + end - first, r.statistics,
                       r.scratch + slot * self.scratch_bytes)

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        """Parts [first, end) of the statistics of a slab."""
        pass

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        """The statistics of a slab, from those of its parts."""
        pass

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        """Pieces [first, end) of the results of a slab."""
        pass

    cdef void scaled(self, const lk_scaling *whole, int64_t channel, char *scratch) noexcept nogil:
        """Rows of results, and their epilogue while they are in L1; `channel`: of the first of them."""
        cdef lk_scaling g = whole[0]
        cdef lk_epilogue f
        cdef int64_t row[ROWS]
        cdef int64_t i, at, rows, along, across
        if not self.steps:
            self.scaling(whole)
            return
        f = self.epilogue.f
        f.channel_row, f.channel_col, f.row, f.add, f.offset = self.channel_row, self.channel_col, row, NULL, 0
        g.count = min(whole.count, PIECE)
        rows = max(1, min(ROWS, PIECE // max(1, g.count)))
        for i in range(rows):
            row[i] = i * whole.y_row
        at = 0
        while at < whole.count:
            g.count, i = min(whole.count - at, PIECE), 0
            while i < whole.rows:
                g.rows = min(rows, whole.rows - i)
                g.x = whole.x + i * whole.x_row + at * self.item
                f.y = whole.y + i * whole.y_row + at * self.item
                g.y = f.y
                if self.scratch_bytes:
                    g.y, g.y_row = scratch, g.count * sizeof(float)
                    f.sums, f.sums_row = g.y, g.y_row
                along, across = (at, i) if whole.by_column else (i, at)
                g.mean, g.factor, g.shift = whole.mean + along, whole.factor + along, whole.shift + along
                if whole.scale != NULL:
                    g.scale = whole.scale + across
                if whole.bias != NULL:
                    g.bias = whole.bias + across
                f.rows, f.count = g.rows, g.count
                f.channel = channel + i * self.channel_row + at * self.channel_col
                self.scaling(&g)
                self.finishing(&f)
                i += rows
            at += PIECE


cdef class ShortRows(Normalisation):
    """Rows of contiguous elements, each with statistics of its own: the axes of the arrays from `axis` on.

    `channels`: scale and bias are those of row ``i % channels``; 0: of the element. A slab is some rows.
    """

    cdef Loops loops            # over blocks of rows
    cdef int64_t rows, count, block, blocks, channels, x_row, y_row

    def __init__(self, types, ndarray x, ndarray y, scale, bias, epsilon, epilogue, threads, int axis, int64_t channels,
                 **options):
        Normalisation.__init__(self, types, x, y, scale, bias, epsilon, epilogue, threads, **options)
        dims = dims_of(x, y)
        inner, outer = merged(dims[axis:]), merged(dims[:axis]) or [(1, 0, 0)]
        if not suits_rows(x, y, axis):
            raise ValueError("normalise: rows that are not contiguous")
        self.count = inner[0][0] if inner else 1
        self.rows, self.x_row, self.y_row = outer.pop()
        self.channels, self.channel_row, self.channel_col = channels, channels > 0, channels == 0
        if channels and x.size:  # a slab is of one image
            outer.append((self.rows // channels, channels * self.x_row, channels * self.y_row))
            self.rows = channels
        self.block = max(1, min(ROWS, SEGMENT // max(1, self.count), self.rows))
        self.loops = loops_of(outer)
        self.blocks = ceil_div(self.rows, self.block)
        self.slabs = self.loops.total * self.blocks if x.size else 0
        self.elements, self.measures, self.pieces = 0, 1, 1
        self.statistics_bytes = ROWS * (2 * sizeof(double) + 3 * sizeof(float))
        self.settle()

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t x_at, y_at, row = slab % self.blocks * self.block
        place(&self.loops, slab // self.blocks, &x_at, &y_at)
        m.x, m.x_row, m.count = x + x_at + row * self.x_row, self.x_row, self.count
        m.rows = min(self.block, self.rows - row)
        m.down, m.about_zero = 0, self.about_zero
        m.mean = <double *>statistics
        m.squares = m.mean + ROWS
        self.moments(&m)

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef const double *mean = <const double *>statistics
        cdef float *numbers = <float *>(statistics + 2 * ROWS * sizeof(double))
        cdef int64_t i, c, row = slab % self.blocks * self.block
        cdef double factor, bias = 0
        for i in range(min(self.block, self.rows - row)):
            factor = deviation(mean[ROWS + i], <double>self.count, self.epsilon)
            if self.channels:
                c = (row + i) % self.channels
                factor *= 1 if self.scales == NULL else self.scales[c]
                bias = 0 if self.biases == NULL else self.biases[c]
            put(mean[i], factor, bias, numbers, i, ROWS)

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef lk_scaling g
        cdef const float *numbers = <const float *>(statistics + 2 * ROWS * sizeof(double))
        cdef int64_t x_at, y_at, row = slab % self.blocks * self.block
        place(&self.loops, slab // self.blocks, &x_at, &y_at)
        g.x, g.y = x + x_at + row * self.x_row, y + y_at + row * self.y_row
        g.x_row, g.y_row, g.rows, g.count = self.x_row, self.y_row, min(self.block, self.rows - row), self.count
        g.mean, g.factor, g.shift, g.by_column = numbers, numbers + ROWS, numbers + 2 * ROWS, 0
        g.scale = g.bias = NULL
        if not self.channels:
            g.scale, g.bias = self.scales, self.biases
        self.scaled(&g, row, scratch)


cpdef bint suits_rows(ndarray x, ndarray y, int axis) except -1:
    """Whether the axes from `axis` on are runs of contiguous elements, in both arrays."""
    inner = merged(dims_of(x, y)[axis:])
    return x.size == 0 or len(inner) == 0 or (len(inner) == 1 and inner[0][1:] == (x.itemsize, y.itemsize))
