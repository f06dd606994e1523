"""Interpolation along axes, as an operation: rows are summed, then the pixels of a row."""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

import numpy as np

from ..axes import is_contiguous, offsets

from ...kernels cimport LK_BLEND_PIXELS, LK_BLEND_ROWS, lk_kernel
from ...kernels.blend cimport lk_blend_pixels, lk_blend_pixels_fn, lk_blend_rows, lk_blend_rows_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, threads_for
from ..executor cimport aligned, share
from ..operation cimport Operation

import_array()

cdef enum:
    MAX_ROWS = 64  # that are summed: the product of the taps of both axes
    BLOCK_ROWS = 16           # rows of y whose pixels are interpolated together,
    BLOCK_BYTES = 96 << 10    # and what they are computed from
    ITEM = sizeof(float)
WIDTHS = {"f32": 4, "bf16": 2, "f16": 2}


cdef class Interpolation(Operation):
    """``y = sum over taps of weight * x`` along some axes of real numbers, each of its own.

    Parameters
    ----------
    x, y : ndarray
        Their axes: outer ones, those that are interpolated, and inner ones, whose elements are a *pixel*. The inner ones
        are contiguous in both, in x with the last of the interpolated ones.
    axes, unit : int
        The number of outer axes; the elements of a pixel.
    taps : sequence of (ndarray, ndarray) or None
        By interpolated axis, one to three: indices and weights, both (taps, extent of y); None: the axis is that of x.
    threads : int
    types : {"f32", "bf16", "f16"}
        Sums are of f32, and rounded once.
    """

    cdef lk_blend_rows_fn sum_rows
    cdef lk_blend_pixels_fn sum_pixels
    cdef int threads
    cdef int64_t outer                # iterations of the outer axes
    cdef int64_t count[2]             # by axis of rows: extent of y,
    cdef int64_t taps[2]              # rows of x that are summed,
    cdef int64_t y_rows[2]            # strides in y,
    cdef const int64_t *at[2]         # offsets in x by tap and row; NULL: there is no such axis
    cdef const float *weight[2]
    cdef int64_t x_elements, y_pixels  # of a row
    cdef int64_t unit, y_step         # elements of a pixel; bytes from a pixel of y to the next
    cdef int item                     # bytes of an element of x and y
    cdef int64_t pixel_taps           # pixels that are summed
    cdef int64_t buffer, block        # bytes of a row in a buffer, and rows
    cdef const int64_t *x_outer       # offsets
    cdef const int64_t *y_outer
    cdef const int32_t *pixel_at      # elements; NULL: the pixels of a row are those of x
    cdef const float *pixel_weight

    def __init__(self, ndarray x not None, ndarray y not None, int axes, int64_t unit, taps, int threads,
                 str types="f32"):
        cdef const lk_kernel *row
        cdef int i, rank = <int>len(taps)
        self.bind((x, y))
        self.outer, self.unit, self.item = 0, unit, WIDTHS[types]
        x_shape, x_strides = (<object>x).shape, (<object>x).strides
        y_shape, y_strides = (<object>y).shape, (<object>y).strides
        if x.itemsize != self.item or y.itemsize != self.item or not 1 <= rank <= 3 or x.ndim != y.ndim or axes + rank > x.ndim:
            raise ValueError(f"interpolation: {x_shape} and {y_shape} of {x.itemsize} bytes, along {rank} axes from {axes} on")
        last = axes + rank - 1
        if not (is_contiguous(x_shape[last:], x_strides[last:], self.item)
                and is_contiguous(y_shape[last + 1:], y_strides[last + 1:], self.item)):
            raise ValueError(f"interpolation: strides {x_strides} and {y_strides}: pixels are not contiguous")
        if int(np.prod(x_shape[last + 1:])) != unit:
            raise ValueError(f"interpolation: pixels of {x_shape[last + 1:]}, expected {unit} elements")
        if not y.size:
            return
        taps = [None if t is None else (np.asarray(t[0], np.int64), np.asarray(t[1], np.float32)) for t in taps]
        for of_axis, n, m in zip(taps, x_shape[axes:], y_shape[axes:]):
            if (of_axis is None and n != m) or (of_axis is not None and not fits(of_axis, n, m)):
                raise ValueError(f"interpolation: indices and weights do not lead from {n} to {m}")
        self.x_elements, self.y_pixels = x_shape[last] * unit, y_shape[last]
        self.y_step = y_strides[last] if y_shape[last] > 1 else unit * self.item
        for i in range(2):
            self.count[i], self.taps[i], self.at[i], self.weight[i], self.y_rows[i] = 1, 1, NULL, NULL, 0
            axis = last - 2 + i
            if axis < axes:
                continue
            at, weight = taps[axis - axes] or (np.arange(y_shape[axis])[None], np.ones((1, y_shape[axis]), np.float32))
            self.count[i], self.taps[i], self.y_rows[i] = y_shape[axis], len(at), y_strides[axis]
            self.at[i] = <const int64_t *>self.keep(at * x_strides[axis], np.int64)
            self.weight[i] = <const float *>self.keep(weight, np.float32)
        if self.taps[0] * self.taps[1] > MAX_ROWS:
            raise ValueError(f"interpolation: sums of {self.taps[0] * self.taps[1]} rows, at most {MAX_ROWS}")
        self.pixel_at, self.pixel_taps = NULL, 1
        if taps[rank - 1] is None and self.item < ITEM:  # sums of rows are rounded as pixels of one tap
            taps[rank - 1] = np.arange(y_shape[last])[None], np.ones((1, y_shape[last]), np.float32)
        if taps[rank - 1] is not None:
            at, weight = taps[rank - 1]
            if (np.diff(at, axis=1) < 0).any():
                raise ValueError("interpolation: indices of a row descend")
            self.pixel_at, self.pixel_taps = <const int32_t *>self.keep(at * unit, np.int32), len(at)
            self.pixel_weight = <const float *>self.keep(weight, np.float32)
        outer = list(zip(x_shape[:axes], x_strides, y_strides))
        self.outer = int(np.prod(x_shape[:axes], dtype=np.int64))
        self.x_outer = <const int64_t *>self.keep(offsets(outer, 1), np.int64)
        self.y_outer = <const int64_t *>self.keep(offsets(outer, 2), np.int64)
        row = best_row(LK_BLEND_ROWS, types)
        self.sum_rows, lanes = <lk_blend_rows_fn>row.fn, row.lanes
        row = best_row(LK_BLEND_PIXELS, types)
        self.sum_pixels = <lk_blend_pixels_fn>row.fn
        rows = self.outer * self.count[0] * self.count[1]
        self.threads = <int>min(threads_for(threads, 2.0 * y.size * ITEM * self.pixel_taps), rows)
        self.buffer = aligned((self.x_elements + 2 * lanes) * ITEM)
        self.block = max(1, min(BLOCK_ROWS, BLOCK_BYTES // self.buffer)) if self.pixel_at != NULL and unit == 1 else 1
        self.workspace = self.buffer * self.block * self.threads

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.outer:
            self.run_shares(self.threads, at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef int64_t first, last, n, rows = self.outer * self.count[0] * self.count[1]
        while lk_claim(portions, share(rows, parts, part), share(rows, parts, part + 1), &first, &last):
            while first < last:
                n = min(min(self.block, last - first), self.count[1] - first % self.count[1])
                self.run_rows(at[0], at[1], first, n, workspace + slot * self.block * self.buffer)
                first += n

    cdef void run_rows(self, const char *x, char *y, int64_t i, int64_t rows, char *buffer) noexcept nogil:
        """Rows of y from number `i` on, which differ only in the last axis of rows."""
        cdef int64_t inner = i % self.count[1], outer = i // self.count[1] % self.count[0], k
        cdef lk_blend_pixels p
        i //= self.count[0] * self.count[1]
        x += self.x_outer[i]
        y += self.y_outer[i] + outer * self.y_rows[0] + inner * self.y_rows[1]
        if self.pixel_at == NULL:
            for k in range(rows):
                self.sum_row(x, y + k * self.y_rows[1], outer, inner + k)
            return
        p.x = self.sum_row(x, buffer, outer, inner)
        for k in range(1, rows):
            self.sum_row(x, buffer + k * self.buffer, outer, inner + k)
        p.x_row = self.buffer
        p.y, p.at, p.weight, p.taps = y, self.pixel_at, self.pixel_weight, self.pixel_taps
        p.count, p.unit, p.y_step, p.rows, p.y_row = self.y_pixels, self.unit, self.y_step, rows, self.y_rows[1]
        self.sum_pixels(&p)

    cdef const char *sum_row(self, const char *x, char *to, int64_t outer, int64_t inner) noexcept nogil:
        """The sum of rows of x, where it is: at `to`, or, of pixels of several elements, in x if it is a row of that."""
        cdef const char *rows[MAX_ROWS]
        cdef float weight[MAX_ROWS]
        cdef lk_blend_rows sums
        cdef int64_t a, b, n = 0
        for a in range(self.taps[0]):
            for b in range(self.taps[1]):
                rows[n], weight[n] = x, 1
                if self.at[0] != NULL:
                    rows[n] += self.at[0][a * self.count[0] + outer]
                    weight[n] *= self.weight[0][a * self.count[0] + outer]
                if self.at[1] != NULL:
                    rows[n] += self.at[1][b * self.count[1] + inner]
                    weight[n] *= self.weight[1][b * self.count[1] + inner]
                n += 1
        sums.x, sums.weight, sums.taps, sums.count, sums.y = rows, weight, n, self.x_elements, to
        if self.pixel_at == NULL:
            self.sum_into_row(&sums, to)
        elif n > 1 or weight[0] != 1 or self.item < ITEM:
            self.sum_rows(&sums)
        elif self.unit == 1:  # vectors beyond the end of a row are read then
            memcpy(to, rows[0], self.x_elements * ITEM)
        else:
            return rows[0]
        return to

    cdef void sum_into_row(self, lk_blend_rows *sums, char *y) noexcept nogil:
        """Sum rows of x to a row of y, where the pixels of a row are not interpolated."""
        cdef const char *rows[MAX_ROWS]
        cdef int64_t j, t
        sums.y = y
        if self.y_step == self.unit * ITEM:
            self.sum_rows(sums)
            return
        for t in range(sums.taps):
            rows[t] = sums.x[t]
        sums.x, sums.count = rows, self.unit
        for j in range(self.y_pixels):
            self.sum_rows(sums)
            sums.y += self.y_step
            for t in range(sums.taps):
                rows[t] += self.unit * ITEM


def fits(taps, n, m):
    """Whether indices and weights are those of `m` sums of `n` elements."""
    at, weight = taps
    return at.shape == weight.shape == (len(at), m) and len(at) > 0 and at.min() >= 0 and at.max() < n
