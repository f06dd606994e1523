"""Linear interpolation of small integers at the points of a grid.

Rows are weighed and summed in float32, then the pixels of a row, and rounded. Sums so near the middle between two whole
numbers that these roundings could matter are made again, of doubles, by the kernel for any points: results are its own.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

import numpy as np

from ...kernels cimport LK_BLEND_PIXELS, LK_CAST, LK_ROUND, LK_SAMPLE, LK_WEIGH, lk_kernel
from ...kernels.blend cimport lk_blend_pixels, lk_blend_pixels_fn
from ...kernels.filters cimport (
    LK_SAMPLE_MARGIN, LK_WEIGH_EACH, LK_WEIGH_HALVES, lk_cast_fn, lk_cast_row, lk_combine, lk_combine_fn, lk_round_fn,
    lk_round_row, lk_sample, lk_sample_fn,
)
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row, element_bytes
from ...runtime.team cimport threads_for
from ..moves.convert import TYPES
from ..executor cimport aligned, ceil_div
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    AXES = 3
    BLOCK_BYTES = 192 << 10  # of rows whose pixels are interpolated together, before and after: in the second cache
    POINTS = 64             # that are made of doubles at a time
    ITEM = sizeof(float)


cdef bint halved(taps) except -1:
    """Whether points of the last axis are each between two elements of their own, those of others there or at elements."""
    at, weight = taps[-1]
    pairs = np.arange(at.size).reshape(-1, 2).T
    if not ((weight == 0.5).all() and np.array_equal(at, pairs)):
        return False
    return all(((w == 0.5) | (w == 0) | (w == 1)).all() for _, w in taps)


cdef class Zooming(Operation):
    """The values of x on a grid; arrays (x, y), of as many axes, one to three, x contiguous, in y the last axis.

    Parameters
    ----------
    arrays : (ndarray, ndarray)
    element : {"u8", "s8", "u16", "s16"}
    taps : sequence of (ndarray, ndarray)
        By axis: indices and weights in doubles, both (2, extent of y); indices do not descend.
    points : sequence of ndarray of float64
        By axis: coordinates; those outside of x have the nearest.
    offsets : sequence of ndarray of int64
        As `Sampling` takes them.
    doubt, slope : float
        Sums in float32 are at most `doubt` + `slope` * |sum| from those in doubles; `doubt` 0: they are exact.
    limits : (float, float)
        The least and the largest number of the element.
    threads : int
    """

    cdef lk_combine_fn sum_rows, halve  # halve: NULL where sums are of floats
    cdef lk_blend_pixels_fn sum_pixels
    cdef lk_round_fn round
    cdef lk_sample_fn sample
    cdef lk_cast_fn cast
    cdef lk_sample template
    cdef int element, threads, rank
    cdef int64_t count[AXES]          # extents of y; axes in front of its own have one
    cdef int64_t y_rows[AXES]         # strides
    cdef const int64_t *at[AXES]      # offsets in x in bytes
    cdef const double *weight[AXES]
    cdef const double *point[AXES]
    cdef const int64_t *offset[AXES]  # of the axes that there are, as are sizes
    cdef int64_t size[AXES]
    cdef const int32_t *pixel_at
    cdef const float *pixel_weight
    cdef int64_t item, width, sums_row, values_row, block, blocks, tasks, thread_bytes
    cdef double doubt, slope

    def __cinit__(self, arrays, str element, taps, points, offsets, double doubt, double slope, limits, int threads):
        cdef ndarray x = arrays[0], y = arrays[1]
        cdef lk_sample *s = &self.template
        cdef int i, axis
        self.bind(tuple(arrays))
        self.element, self.item, self.rank, self.doubt = TYPES[element], element_bytes(TYPES[element]), x.ndim, doubt
        self.slope = slope
        x_shape, x_strides, y_shape, y_strides = arrays[0].shape, arrays[0].strides, arrays[1].shape, arrays[1].strides
        if not (1 <= x.ndim <= AXES and y.ndim == x.ndim == len(taps) and x.itemsize == y.itemsize == self.item
                and arrays[0].flags.c_contiguous and (y_strides[-1] == self.item or y_shape[-1] == 1)):
            raise ValueError(f"zoom of {element}: {x_shape} and {y_shape}, strides {x_strides} and {y_strides}")
        self.sum_rows = <lk_combine_fn>best_row(LK_WEIGH, "f32").fn
        self.sum_pixels = <lk_blend_pixels_fn>best_row(LK_BLEND_PIXELS, "f32").fn
        self.round = <lk_round_fn>best_row(LK_ROUND, "f32").fn
        self.sample = <lk_sample_fn>best_row(LK_SAMPLE, element).fn
        self.cast = <lk_cast_fn>best_row(LK_CAST, "f64").fn
        self.halve = NULL
        for i in range(AXES):
            axis = i - (AXES - self.rank)
            self.count[i], self.y_rows[i], self.at[i] = 1, 0, NULL
            if axis < 0:
                continue
            at, weight = taps[axis]
            n, self.count[i], self.y_rows[i] = x_shape[axis], y_shape[axis], y_strides[axis]
            if not (at.shape == weight.shape == (2, y_shape[axis]) and len(points[axis]) == y_shape[axis]
                    and len(offsets[axis]) == n + 2 * LK_SAMPLE_MARGIN and at.min(initial=0) >= 0 and at.max(initial=0) < n):
                raise ValueError(f"zoom: indices and weights do not lead from {n} to {y_shape[axis]}")
            self.at[i] = <const int64_t *>self.keep(at * x_strides[axis], np.int64)
            self.weight[i] = <const double *>self.keep(weight, np.float64)
            self.point[axis] = <const double *>self.keep(points[axis], np.float64)
            self.offset[axis] = <const int64_t *>self.keep(offsets[axis], np.int64)
            self.size[axis] = n
        if doubt == 0 and halved(taps):
            self.halve = <lk_combine_fn>best_row(LK_WEIGH, element).fn
        self.pixel_at = <const int32_t *>self.keep(taps[self.rank - 1][0], np.int32)
        self.pixel_weight = <const float *>self.keep(taps[self.rank - 1][1], np.float32)
        self.width = x_shape[self.rank - 1]
        s.rank, s.order, s.rounds, s.least, s.most = self.rank, 1, 1, limits[0], limits[1]
        self.sums_row = aligned((self.width + 2 * best_row(LK_BLEND_PIXELS, "f32").lanes) * ITEM)
        self.values_row = aligned(self.count[2] * ITEM)
        self.threads = threads_for(threads, 4.0 * ITEM * y.size)
        self.block = min(ceil_div(self.count[1], 4 * self.threads), BLOCK_BYTES // (self.sums_row + self.values_row))
        self.block = max(1, self.block)
        self.blocks = ceil_div(self.count[1], self.block)
        self.tasks = self.blocks * self.count[0] if y.size else 0
        self.thread_bytes = self.block * (self.sums_row + self.values_row) + aligned(4 * self.count[2])
        self.thread_bytes += POINTS * 8 * (AXES + 2)
        self.workspace = self.threads * self.thread_bytes

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef double bytes = 8.0 * ITEM * self.tasks * self.block * (self.width + self.count[2])
        if self.tasks:
            self.run_chunks(self.threads, self.tasks, chunks_of(bytes), at, workspace, self.thread_bytes)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """A block of rows of y."""
        cdef int64_t outer = task // self.blocks, inner = task % self.blocks * self.block, k, found = 0
        cdef int64_t rows = min(self.block, self.count[1] - inner)
        cdef char *values = workspace + self.block * self.sums_row
        cdef char *doubtful = values + self.block * self.values_row
        cdef char *y = at[1] + outer * self.y_rows[0] + inner * self.y_rows[1]
        cdef lk_blend_pixels p
        cdef lk_round_row r
        for k in range(rows):
            self.sum_row(at[0], outer, inner + k, workspace + k * self.sums_row if self.halve == NULL
                         else y + k * self.y_rows[1])
        if self.halve != NULL:
            return
        p.x, p.y, p.x_row, p.y_row, p.rows = workspace, values, self.sums_row, self.values_row, rows
        p.at, p.weight, p.taps, p.count, p.unit, p.y_step = self.pixel_at, self.pixel_weight, 2, self.count[2], 1, ITEM
        self.sum_pixels(&p)
        r.count, r.element, r.doubt, r.slope = self.count[2], self.element, self.doubt, self.slope
        r.doubtful, r.found = <int32_t *>doubtful, &found
        for k in range(rows):
            r.x, r.y = values + k * self.values_row, y + k * self.y_rows[1]
            self.round(&r)
            if found:
                self.make_again(at[0], r.y, outer, inner + k, r.doubtful, found, doubtful + aligned(4 * self.count[2]))

    cdef void sum_row(self, const char *x, int64_t outer, int64_t inner, char *to) noexcept nogil:
        """The sum of the rows of x around a row of y, or that row."""
        cdef const char *rows[4]
        cdef float weight[4]
        cdef int64_t index[2]
        cdef int64_t a, b, i, n = 0
        cdef int64_t tap[2]
        cdef double product
        cdef const char *row
        cdef lk_combine c
        memset(&c, 0, sizeof(c))
        index[0], index[1] = outer, inner
        for a in range(1 if self.at[0] == NULL else 2):
            for b in range(1 if self.at[1] == NULL else 2):
                row, product, tap[0], tap[1] = x, 1, a, b
                for i in range(2):
                    if self.at[i] != NULL:
                        row += self.at[i][tap[i] * self.count[i] + index[i]]
                        product *= self.weight[i][tap[i] * self.count[i] + index[i]]
                if product != 0:
                    rows[n], weight[n] = row, <float>product
                    n += 1
        c.x, c.y, c.taps, c.count, c.weight = rows, to, n, self.width, weight
        c.kind, c.element, c.end, c.rows = LK_WEIGH_EACH, self.element, 0, 1
        if self.halve == NULL:
            self.sum_rows(&c)
        else:
            c.kind, c.count = LK_WEIGH_HALVES, self.count[2]
            if inner + 1 < self.count[1]:
                c.ahead_row = self.at[1][inner + 1] - self.at[1][inner]
            self.halve(&c)

    cdef void make_again(self, const char *x, char *y, int64_t outer, int64_t inner, const int32_t *which, int64_t count,
                         char *workspace) noexcept nogil:
        """Some pixels of a row of y, of doubles."""
        cdef double *coordinates = <double *>workspace
        cdef const double *at[AXES]
        cdef int64_t first = 0, i, n, axis
        cdef lk_sample s = self.template
        cdef lk_cast_row w
        s.x, s.offset, s.size, s.at, s.y = x, self.offset, self.size, at, coordinates + AXES * POINTS
        w.x, w.y, w.element = <const char *>s.y, <char *>(coordinates + (AXES + 1) * POINTS), self.element
        while first < count:
            n = min(<int64_t>POINTS, count - first)
            for axis in range(self.rank):
                at[axis] = coordinates + axis * POINTS
                for i in range(n):
                    coordinates[axis * POINTS + i] = self.point[axis][
                        which[first + i] if axis == self.rank - 1 else inner if axis == self.rank - 2 else outer]
            s.count = w.count = n
            self.sample(&s)
            self.cast(&w)
            for i in range(n):
                memcpy(y + which[first + i] * self.item, w.y + i * self.item, self.item)
            first += POINTS
