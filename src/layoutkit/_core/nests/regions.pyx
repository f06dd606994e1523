"""Means, or the largest, of what lies at points of the bins of regions: tables of points as those of a grid."""

from libc.stdint cimport int64_t

import numpy as np

from ..ndarray cimport (
    NPY_FLOAT64, NPY_INT64, PyArray_TYPE, import_array, ndarray,
)
from ..runtime.team cimport threads_for
from .checks cimport check_reals
from .executor cimport aligned, ceil_div
from .operation cimport Operation, chunks_of
from .pixel_sums cimport aligned_table, over_channels

import_array()

cdef enum:
    CHANNELS = 64  # of a task of a region

cdef struct Bin:  # the pixels that count along an axis
    int64_t *at
    double *weight
    int64_t count


cdef inline void add_tap(Bin *bin, int64_t at, double weight, bint merges) noexcept nogil:
    """A pixel more; if it is one of the last two, `merges` its weight with theirs."""
    cdef int64_t i
    if merges:
        if weight == 0:
            return
        for i in range(max(<int64_t>0, bin.count - 2), bin.count):
            if bin.at[i] == at:
                bin.weight[i] += weight
                return
    bin.at[bin.count], bin.weight[bin.count] = at, weight
    bin.count += 1


cdef inline void fill_bin(Bin *bin, double begin, double step, int64_t count, int64_t n, bint mean) noexcept nogil:
    """The pixels around `count` points of an axis of n pixels; those further outside than 1 count 0."""
    cdef int64_t i, low
    cdef double at, part, share = 1.0 / count if mean and count else 1.0
    cdef bint inside
    bin.count = 0
    for i in range(count):
        at = begin + (i + 0.5) * step
        inside = -1 <= at <= n
        at = min(max(at, 0.0), n - 1.0) if inside else 0.0  # it may also be NaN
        low = <int64_t>at
        part = at - low
        add_tap(bin, low, (1 - part) * share if inside else 0, mean)
        add_tap(bin, min(low + 1, n - 1), part * share if inside else 0, mean)


cdef class Regions(Operation):
    """Means, or the largest, of what lies at points of the bins of regions, for arrays (x, corners, counts, images, y).

    Parameters
    ----------
    x : ndarray [images, channels, height, width]
        float32 or float64, neither axis empty.
    corners : ndarray of float64 [regions, 4]
        Left, top, right and bottom, in pixels from the center of the first one.
    counts : ndarray of int64 [regions, 2]
        The points of a bin along height and width, which need not be positive, but at most `most`.
    images : ndarray of int64 [regions]
        Which each region is of: checked by the caller.
    y : ndarray [regions, channels, bins, bins]
        Of the type of `x`; all in C order.
    most : int
    least_span : float
        Height and width of a region, at least.
    mean : bool
        Else the largest of all products of pixels and weights.
    threads : int
    """

    cdef int64_t regions, channels, height, width, rows, columns, most, groups, chunks, taps, table_bytes
    cdef double least_span
    cdef bint doubles, mean
    cdef int threads

    def __init__(self, ndarray x not None, ndarray corners not None, ndarray counts not None, ndarray images not None,
                 ndarray y not None, int64_t most, double least_span, bint mean, int threads):
        self.bind((x, corners, counts, images, y))
        check_reals((x, corners, counts, images, y), x, y, "regions")
        if x.ndim != 4 or y.ndim != 4 or 0 in (<object>x).shape[2:]:
            raise ValueError(f"regions: {(<object>x).shape} to {(<object>y).shape}")
        self.regions, self.channels, self.rows, self.columns = y.shape[0], x.shape[1], y.shape[2], y.shape[3]
        self.height, self.width, self.most, self.mean, self.least_span = x.shape[2], x.shape[3], most, mean, least_span
        if ((<object>corners).shape != (self.regions, 4) or (<object>counts).shape != (self.regions, 2) or
                (<object>images).shape != (self.regions,) or y.shape[1] != self.channels):
            raise ValueError(f"regions: corners of shape {(<object>corners).shape}, counts of {(<object>counts).shape},"
                             f" images of {(<object>images).shape} for {(<object>y).shape}")
        if (PyArray_TYPE(corners) != NPY_FLOAT64 or PyArray_TYPE(counts) != NPY_INT64 or PyArray_TYPE(images) != NPY_INT64
                or np.max(counts, initial=0) > most):
            raise ValueError(f"regions: corners of {corners.dtype}, at most {np.max(counts, initial=0)} points of"
                             f" {counts.dtype}, images of {images.dtype}")
        self.doubles = PyArray_TYPE(x) == NPY_FLOAT64
        cost = 4.0 * y.size * max(1, 4 * most * most)
        parts = threads_for(threads, cost)
        self.groups = ceil_div(self.channels, CHANNELS) if self.regions < 4 * parts else 1
        self.threads = <int>max(1, min(parts, self.regions * self.groups))
        self.chunks = chunks_of(cost)
        self.taps = 4 * most * most
        self.table_bytes = aligned(8 * 8 * most) + aligned_table(self.columns, self.taps)
        self.workspace = self.threads * self.table_bytes

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.channels and self.columns:
            self.run_chunks(self.threads, self.regions * self.groups, self.chunks, at, workspace, self.table_bytes)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t region = task // self.groups, group = task % self.groups, row
        cdef int64_t each = ceil_div(self.channels, self.groups), begin = group * each
        cdef const double *corners = <const double *>at[1] + 4 * region
        cdef const int64_t *counts = <const int64_t *>at[2] + 2 * region
        cdef double high = max(corners[3] - corners[1], self.least_span), wide = max(corners[2] - corners[0], self.least_span)
        cdef int64_t image = (<const int64_t *>at[3])[region]
        for row in range(self.rows):
            self.run_row(row, corners[1] + row * (high / self.rows), high / self.rows / max(counts[0], <int64_t>1), counts[0],
                         corners[0], wide / self.columns, counts[1], begin, min(each, self.channels - begin), image, region,
                         at, workspace)

    cdef void run_row(self, int64_t row, double top, double down, int64_t high, double left, double bin_width, int64_t wide,
                      int64_t channel, int64_t channels, int64_t image, int64_t region, char **at,
                      char *workspace) noexcept nogil:
        """A row of bins of some channels of a region."""
        cdef int64_t room = 2 * self.most, column, used = 0, i, j, plane = self.height * self.width
        cdef int64_t bins = self.rows * self.columns
        cdef Bin rows, columns
        cdef int64_t *first
        cdef int64_t *offset
        cdef char *weight
        cdef double w
        rows.at, rows.weight = <int64_t *>workspace, <double *>workspace + room
        columns.at, columns.weight = <int64_t *>workspace + 2 * room, <double *>workspace + 3 * room
        first = <int64_t *>workspace + 4 * room
        offset = first + self.columns + 1
        weight = <char *>(offset + self.columns * self.taps)
        fill_bin(&rows, top, down, max(high, <int64_t>0), self.height, self.mean)
        for column in range(self.columns):
            fill_bin(&columns, left + column * bin_width, bin_width / max(wide, <int64_t>1), max(wide, <int64_t>0), self.width,
                     self.mean)
            first[column] = used
            for i in range(rows.count):
                for j in range(columns.count):
                    offset[used] = rows.at[i] * self.width + columns.at[j]
                    w = rows.weight[i] * columns.weight[j]
                    if self.doubles:
                        (<double *>weight)[used] = w
                    else:
                        (<float *>weight)[used] = <float>w
                    used += 1
        first[self.columns] = used
        i, j = (image * self.channels + channel) * plane, (region * self.channels + channel) * bins + row * self.columns
        if self.doubles:
            over_channels(<const double *>at[0] + i, plane, first, offset, <const double *>weight, self.columns,
                          <double *>at[4] + j, bins, channels, not self.mean)
        else:
            over_channels(<const float *>at[0] + i, plane, first, offset, <const float *>weight, self.columns,
                          <float *>at[4] + j, bins, channels, not self.mean)
