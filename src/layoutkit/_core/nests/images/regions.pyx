"""Means, or the largest, of what lies at points of the bins of regions: tables of points as those of a grid."""

from libc.stdint cimport int64_t

import numpy as np

from ...ndarray cimport (
    NPY_FLOAT64, NPY_INT64, PyArray_TYPE, import_array, ndarray,
)
from ...runtime.team cimport threads_for
from ..checks cimport check_reals
from ..executor cimport aligned, ceil_div
from ..operation cimport Operation, chunks_of
from .pixel_sums cimport TOGETHER, aligned_table, over_channels

import_array()

cdef enum:
    CHANNELS = 64          # of a task of a region
    TABLE_TAPS = 1 << 20   # of a table, if it is of more than one bin
    TASK_TAPS = 1 << 25    # of all channels of a task, if those are more than are summed together

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

    cdef int64_t regions, channels, height, width, rows, columns, most, chunks, taps, table_bytes
    cdef int64_t each, groups          # channels of a task, and how many times as many there are
    cdef int64_t each_columns, parts   # bins of a row of a task, the same
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
        self.taps = 4 * most * most
        if mean:  # those of one pixel are merged
            self.taps = min(2 * most, 2 * self.height + 2) * min(2 * most, 2 * self.width + 2)
        self.taps = max(<int64_t>1, self.taps)
        cost = 4.0 * y.size * self.taps
        parts = threads_for(threads, cost)
        self.each_columns = max(<int64_t>1, min(self.columns, TABLE_TAPS // self.taps))
        self.each = CHANNELS if self.regions * self.rows < 4 * parts else self.channels
        self.each = max(<int64_t>TOGETHER, min(self.each, TASK_TAPS // (self.taps * self.each_columns)))
        self.groups, self.parts = ceil_div(self.channels, self.each), ceil_div(self.columns, self.each_columns)
        self.threads = <int>max(1, min(parts, self.regions * self.groups * self.rows * self.parts))
        self.chunks = chunks_of(cost)
        self.table_bytes = aligned(8 * 8 * most) + aligned_table(self.each_columns, self.taps)
        self.workspace = self.threads * self.table_bytes

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef int64_t tasks = self.regions * self.groups * self.rows * self.parts
        if self.channels and self.columns:
            self.run_chunks(self.threads, tasks, self.chunks, at, workspace, self.table_bytes)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """Some bins of a row of a region, of some channels."""
        cdef int64_t part = task % self.parts * self.each_columns, row = task // self.parts % self.rows
        cdef int64_t region = task // (self.parts * self.rows * self.groups)
        cdef int64_t channel = task // (self.parts * self.rows) % self.groups * self.each
        cdef int64_t channels = min(self.each, self.channels - channel), bins = min(self.each_columns, self.columns - part)
        cdef int64_t plane = self.height * self.width, all_bins = self.rows * self.columns, i, j
        cdef int64_t *first = <int64_t *>workspace + 8 * self.most
        cdef int64_t *offset = first + bins + 1
        cdef char *weight = <char *>(offset + bins * self.taps)
        self.make_table(region, row, part, bins, at, <int64_t *>workspace, first, offset, weight)
        i = ((<const int64_t *>at[3])[region] * self.channels + channel) * plane
        j = (region * self.channels + channel) * all_bins + row * self.columns + part
        if self.doubles:
            over_channels(<const double *>at[0] + i, plane, first, offset, <const double *>weight, bins,
                          <double *>at[4] + j, all_bins, channels, not self.mean)
        else:
            over_channels(<const float *>at[0] + i, plane, first, offset, <const float *>weight, bins,
                          <float *>at[4] + j, all_bins, channels, not self.mean)

    cdef void make_table(self, int64_t region, int64_t row, int64_t begin, int64_t bins, char **at, int64_t *room,
                         int64_t *first, int64_t *offset, char *weight) noexcept nogil:
        """Fill the table of bins of a row."""
        cdef const double *corners = <const double *>at[1] + 4 * region
        cdef const int64_t *counts = <const int64_t *>at[2] + 2 * region
        cdef int64_t high = max(counts[0], <int64_t>0), wide = max(counts[1], <int64_t>0), used = 0, bin, i, j
        cdef double down = max(corners[3] - corners[1], self.least_span) / self.rows
        cdef double right = max(corners[2] - corners[0], self.least_span) / self.columns, w
        cdef Bin rows, columns
        rows.at, rows.weight = room, <double *>room + 2 * self.most
        columns.at, columns.weight = room + 4 * self.most, <double *>room + 6 * self.most
        fill_bin(&rows, corners[1] + row * down, down / max(high, <int64_t>1), high, self.height, self.mean)
        for bin in range(bins):
            fill_bin(&columns, corners[0] + (begin + bin) * right, right / max(wide, <int64_t>1), wide, self.width, self.mean)
            first[bin] = used
            for i in range(rows.count):
                for j in range(columns.count):
                    offset[used] = rows.at[i] * self.width + columns.at[j]
                    w = rows.weight[i] * columns.weight[j]
                    if self.doubles:
                        (<double *>weight)[used] = w
                    else:
                        (<float *>weight)[used] = <float>w
                    used += 1
        first[bins] = used
