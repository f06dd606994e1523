"""Normalisations: mean and variance of sets of elements, and ``(x - mean) / sqrt(variance + epsilon) * scale + bias``.

The nests around moments.c, scale.c and epilogue.c. A *slab* is a set of elements with common statistics, or, if such sets
are small, several of them. *Partial* statistics of parts of a slab are combined in a fixed order, so that results do not
depend on the number of threads. A thread computes the statistics of a slab, then its results, while it is in the cache; of
few large slabs, threads share first the partial statistics, then the pieces of the results.
"""

from libc.stdint cimport int64_t

import numpy as np

from ...kernels cimport LK_EPILOGUE, LK_MOMENTS, LK_SCALE
from ...kernels.elementwise cimport lk_epilogue, lk_epilogue_fn
from ...kernels.normalise cimport lk_moments, lk_moments_fn, lk_scaling, lk_scaling_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from ..executor cimport aligned, ceil_div, share
from ..operation cimport Operation
from ..convolutions.route cimport Epilogue

from ..axes import merged

import_array()

WIDTHS = {"f32": 4, "bf16": 2, "f16": 2}

cdef enum:
    PIECE = 4096                 # elements that stay in L1 between the steps of an epilogue
    ROWS = 64                    # at a time
    SLABS_PER_THREAD = 4         # if there are fewer, threads share slabs,
    MIN_SHARED_ELEMENTS = 65536  # each of at least so many elements


cdef list dims_of(ndarray x, ndarray y):
    """By axis the size, and the strides of both arrays."""
    return [(x.shape[i], x.strides[i], y.strides[i]) for i in range(x.ndim)]


cdef Loops loops_of(list dims) except *:
    """Loops over axes, (size, stride of x, stride of y) from outer to inner."""
    cdef Loops l
    dims = merged(dims)
    if len(dims) > MAX_LOOPS:
        raise ValueError(f"an array with {len(dims)} axes that cannot be merged, at most {MAX_LOOPS}")
    l.axes, l.total = len(dims), 1
    for i, (size, x, y) in enumerate(dims):
        l.size[i], l.x[i], l.y[i] = size, x, y
        l.total *= size
    return l


cdef void slabs_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Normalisation>(<const Run *>argument).nest).run_slabs(<const Run *>argument, slot, part, parts, portions)


cdef void partials_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Normalisation>(<const Run *>argument).nest).run_partials(<const Run *>argument, part, parts, portions)


cdef void pieces_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    (<Normalisation>(<const Run *>argument).nest).run_pieces(<const Run *>argument, slot, part, parts, portions)


cdef class Normalisation(Operation):
    """The base class. A subclass divides the arrays into slabs, and these into parts with partial statistics, and pieces.

    Parameters
    ----------
    types : {"f32", "bf16", "f16"}
        Of the elements of both arrays.
    x, y : ndarray
        Of one shape. Subclasses say which axes must be contiguous.
    scale, bias : ndarray of float32, or None
    epsilon : float
    epilogue : Epilogue or None
        Applied to the results; without tensors.
    threads : int
    about_zero : bool, optional
        The mean is not subtracted: RMS normalisation.
    """

    def __init__(self, str types, ndarray x not None, ndarray y not None, scale, bias, double epsilon, epilogue,
                 int threads, *, bint about_zero=False):
        if (<object>x).shape != (<object>y).shape or not x.itemsize == y.itemsize == WIDTHS[types]:
            raise ValueError(f"normalise: {x.dtype} of shape {(<object>x).shape} to {y.dtype} of shape "
                             f"{(<object>y).shape}, expected {types} of one shape")
        self.bind((x, y))
        self.moments_kernel = <lk_moments_fn>best_row(LK_MOMENTS, types).fn
        self.item, self.epilogue, self.steps, self.scratch_bytes = x.itemsize, epilogue, 0, 0
        if epilogue is not None and self.epilogue.f.steps:
            self.steps = self.epilogue.f.steps
            self.epilogue_kernel = <lk_epilogue_fn>best_row(LK_EPILOGUE, types).fn
            self.scratch_bytes = 0 if types == "f32" else PIECE * sizeof(float)
        self.scale_kernel = <lk_scaling_fn>best_row(LK_SCALE, f"{types}_f32" if self.scratch_bytes else types).fn
        self.about_zero, self.epsilon = about_zero, epsilon
        self.scales = NULL if scale is None else <const float *>self.keep(scale, np.float32)
        self.biases = NULL if bias is None else <const float *>self.keep(bias, np.float32)
        self.threads = threads_for(threads, 3.0 * x.size * x.itemsize)

    cdef int set_workspace(self) except -1:
        """The last step of planning: the workspace, from the bytes of statistics and scratch of a thread."""
        self.statistics_bytes = aligned(self.statistics_bytes)
        self.workspace = self.threads * (self.statistics_bytes + self.scratch_bytes)
        return 0

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int64_t slab
        r.nest, r.x, r.y, r.statistics = <void *>self, at[0], at[1], workspace
        r.scratch = workspace + self.threads * self.statistics_bytes
        if self.threads == 1 or self.slabs >= SLABS_PER_THREAD * self.threads or self.elements < MIN_SHARED_ELEMENTS:
            if self.slabs:
                share_out(<int>min(self.threads, self.slabs), slabs_share, &r)
            return
        for slab in range(self.slabs):
            r.slab = slab
            share_out(<int>min(self.threads, self.partials), partials_share, &r)
            self.combine(slab, workspace)
            share_out(<int>min(self.threads, self.pieces), pieces_share, &r)

    cdef void run_slabs(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        """A share of the slabs, each by one thread."""
        cdef char *statistics = r.statistics + slot * self.statistics_bytes
        cdef int64_t slab, last
        while lk_claim(portions, share(self.slabs, parts, part), share(self.slabs, parts, part + 1), &slab, &last):
            while slab < last:
                self.measure(r.x, slab, 0, self.partials, statistics)
                self.combine(slab, statistics)
                self.apply(r.x, r.y, slab, 0, self.pieces, statistics, r.scratch + slot * self.scratch_bytes)
                slab += 1

    cdef void run_partials(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil:
        """A share of the partial statistics of one slab."""
        cdef int64_t first, last
        while lk_claim(portions, share(self.partials, parts, part), share(self.partials, parts, part + 1), &first, &last):
            self.measure(r.x, r.slab, first, last, r.statistics)

    cdef void run_pieces(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        """A share of the pieces of one slab, from the last to the first, as the last elements read are in the cache."""
        cdef int64_t begin = share(self.pieces, parts, part), end = share(self.pieces, parts, part + 1), first, last
        while lk_claim(portions, begin, end, &first, &last):
            self.apply(r.x, r.y, r.slab, begin + end - last, begin + end - first, r.statistics,
                       r.scratch + slot * self.scratch_bytes)

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        """Partial statistics [first, end) of a slab."""
        pass

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        """The statistics of a slab, from partial ones."""
        pass

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        """Pieces [first, end) of the results of a slab."""
        pass

    cdef void scale_rows(self, const lk_scaling *all_rows, int64_t channel, char *scratch) noexcept nogil:
        """Rows of results, and their epilogue while they are in L1; `channel` is that of the first row."""
        cdef lk_scaling g = all_rows[0]
        cdef lk_epilogue f
        cdef int64_t row[ROWS]
        cdef int64_t i, at, rows, along, across
        if not self.steps:
            self.scale_kernel(all_rows)
            return
        f = self.epilogue.f
        f.channel_row, f.channel_col, f.row, f.add, f.offset = self.channel_row, self.channel_col, row, NULL, 0
        g.count = min(all_rows.count, PIECE)
        rows = max(1, min(ROWS, PIECE // max(1, g.count)))
        for i in range(rows):
            row[i] = i * all_rows.y_row
        at = 0
        while at < all_rows.count:
            g.count, i = min(all_rows.count - at, PIECE), 0
            while i < all_rows.rows:
                g.rows = min(rows, all_rows.rows - i)
                g.x = all_rows.x + i * all_rows.x_row + at * self.item
                f.y = all_rows.y + i * all_rows.y_row + at * self.item
                g.y = f.y
                if self.scratch_bytes:
                    g.y, g.y_row = scratch, g.count * sizeof(float)
                    f.sums, f.sums_row = g.y, g.y_row
                along, across = (at, i) if all_rows.by_column else (i, at)
                g.mean, g.factor, g.shift = all_rows.mean + along, all_rows.factor + along, all_rows.shift + along
                if all_rows.scale != NULL:
                    g.scale = all_rows.scale + across
                if all_rows.bias != NULL:
                    g.bias = all_rows.bias + across
                f.rows, f.count = g.rows, g.count
                f.channel = channel + i * self.channel_row + at * self.channel_col
                self.scale_kernel(&g)
                self.epilogue_kernel(&f)
                i += rows
            at += PIECE


cdef class ShortRows(Normalisation):
    """Rows of contiguous elements, each with statistics of its own: the axes of the arrays from `axis` on.

    A slab is a block of rows. If `channels` is not 0, row i has the scale and bias of channel ``i % channels``; else each
    element of a row has its own.
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
        if channels and x.size:  # a slab is part of one image
            outer.append((self.rows // channels, channels * self.x_row, channels * self.y_row))
            self.rows = channels
        self.block = max(1, min(ROWS, SEGMENT // max(1, self.count), self.rows))
        self.loops = loops_of(outer)
        self.blocks = ceil_div(self.rows, self.block)
        self.slabs = self.loops.total * self.blocks if x.size else 0
        self.elements, self.partials, self.pieces = 0, 1, 1
        self.statistics_bytes = ROWS * (2 * sizeof(double) + 3 * sizeof(float))
        self.set_workspace()

    cdef void measure(self, const char *x, int64_t slab, int64_t first, int64_t end, char *statistics) noexcept nogil:
        cdef lk_moments m
        cdef int64_t x_at, y_at, row = slab % self.blocks * self.block
        iteration_at(&self.loops, slab // self.blocks, &x_at, &y_at)
        m.x, m.x_row, m.count = x + x_at + row * self.x_row, self.x_row, self.count
        m.rows = min(self.block, self.rows - row)
        m.by_column, m.about_zero = 0, self.about_zero
        m.mean = <double *>statistics
        m.squares = m.mean + ROWS
        self.moments_kernel(&m)

    cdef void combine(self, int64_t slab, char *statistics) noexcept nogil:
        cdef const double *mean = <const double *>statistics
        cdef float *numbers = <float *>(statistics + 2 * ROWS * sizeof(double))
        cdef int64_t i, c, row = slab % self.blocks * self.block
        cdef double factor, bias = 0
        for i in range(min(self.block, self.rows - row)):
            factor = inverse_deviation(mean[ROWS + i], <double>self.count, self.epsilon)
            if self.channels:
                c = (row + i) % self.channels
                factor *= 1 if self.scales == NULL else self.scales[c]
                bias = 0 if self.biases == NULL else self.biases[c]
            set_scaling(mean[i], factor, bias, numbers, i, ROWS)

    cdef void apply(self, const char *x, char *y, int64_t slab, int64_t first, int64_t end, const char *statistics,
                    char *scratch) noexcept nogil:
        cdef lk_scaling g
        cdef const float *numbers = <const float *>(statistics + 2 * ROWS * sizeof(double))
        cdef int64_t x_at, y_at, row = slab % self.blocks * self.block
        iteration_at(&self.loops, slab // self.blocks, &x_at, &y_at)
        g.x, g.y = x + x_at + row * self.x_row, y + y_at + row * self.y_row
        g.x_row, g.y_row, g.rows, g.count = self.x_row, self.y_row, min(self.block, self.rows - row), self.count
        g.mean, g.factor, g.shift, g.by_column = numbers, numbers + ROWS, numbers + 2 * ROWS, 0
        g.scale = g.bias = NULL
        g.limit, g.add = 0, NULL
        if not self.channels:
            g.scale, g.bias = self.scales, self.biases
        self.scale_rows(&g, row, scratch)


cpdef bint suits_rows(ndarray x, ndarray y, int axis) except -1:
    """Whether the axes from `axis` on are runs of contiguous elements, in both arrays."""
    inner = merged(dims_of(x, y)[axis:])
    return x.size == 0 or len(inner) == 0 or (len(inner) == 1 and inner[0][1:] == (x.itemsize, y.itemsize))
