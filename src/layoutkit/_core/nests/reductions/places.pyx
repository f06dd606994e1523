"""Where the largest and the smallest numbers are: along an axis, and in the windows of a pooling."""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from ...ndarray cimport NPY_INT64, PyArray_TYPE, import_array, ndarray
from ...runtime.team cimport threads_for
from ..checks cimport check_order
from .compared cimport number
from ..executor cimport ceil_div
from ..operation cimport Operation, chunks_of

from ..element_types import COMPARED

import_array()

cdef enum:
    COLUMNS = 256  # of a task
    AXES = 3


cdef inline void look_at(const number *x, number *best, int32_t *place, int32_t i, int64_t count, bint largest,
                         bint last) noexcept nogil:
    """Keep what is better in a row; `last` also what is as good. NaN is better than all numbers."""
    cdef int64_t j
    cdef bint better
    for j in range(count):
        if largest:
            better = (x[j] >= best[j] if last else x[j] > best[j]) | ((x[j] != x[j]) & (last | (best[j] == best[j])))
        else:
            better = (x[j] <= best[j] if last else x[j] < best[j]) | ((x[j] != x[j]) & (last | (best[j] == best[j])))
        best[j] = x[j] if better else best[j]
        place[j] = i if better else place[j]


cdef void best_of_columns(const number *x, int64_t *y, int64_t n, int64_t row, int64_t count, bint largest,
                          bint last) noexcept nogil:
    """The places of the best numbers of at most COLUMNS columns."""
    cdef number best[COLUMNS]
    cdef int32_t place[COLUMNS]
    cdef int64_t i, j
    for j in range(count):
        best[j], place[j] = x[j], 0
    for i in range(1, n):
        if largest and not last:  # known to the compiler
            look_at(x + i * row, best, place, <int32_t>i, count, True, False)
        elif largest:
            look_at(x + i * row, best, place, <int32_t>i, count, True, True)
        elif last:
            look_at(x + i * row, best, place, <int32_t>i, count, False, True)
        else:
            look_at(x + i * row, best, place, <int32_t>i, count, False, False)
    for j in range(count):
        y[j] = place[j]


cdef class BestAlong(Operation):
    """The place of the largest or smallest number along an axis, for arrays (x, y).

    Parameters
    ----------
    x : ndarray [outer, n, inner]
        Of one of the types of `COMPARED`, 0 < n < 2^31.
    y : ndarray of int64 [outer, inner]
        Both in C order.
    largest : bool
        NaN is better than all numbers.
    last : bool
        Of several that are equal, the last one, else the first one.
    threads : int
    """

    cdef int64_t n, row, parts, tasks, chunks
    cdef int type_number, item, threads
    cdef bint largest, last

    def __init__(self, ndarray x not None, ndarray y not None, bint largest, bint last, int threads):
        self.bind((x, y))
        if x.dtype.name not in COMPARED or PyArray_TYPE(y) != NPY_INT64 or x.ndim != 3:
            raise ValueError(f"best: {x.dtype} of shape {(<object>x).shape} to {y.dtype}")
        if (<object>y).shape != (x.shape[0], x.shape[2]) or not 0 < x.shape[1] < 1 << 31:
            raise ValueError(f"best: {(<object>x).shape} to {(<object>y).shape}")
        check_order((x, y), "best")
        self.type_number, self.item, self.largest, self.last = COMPARED.index(x.dtype.name), x.itemsize, largest, last
        self.n, self.row = x.shape[1], x.shape[2]
        self.parts = ceil_div(self.row, COLUMNS)
        self.tasks = x.shape[0] * self.parts
        cost = 2.0 * x.size * self.item
        self.threads, self.chunks = <int>max(1, min(threads_for(threads, cost), self.tasks)), chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        self.run_chunks(self.threads, self.tasks, self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t first = task % self.parts * COLUMNS, count = min(<int64_t>COLUMNS, self.row - first)
        cdef int64_t outer = task // self.parts
        cdef const char *x = at[0] + (outer * self.n * self.row + first) * self.item
        cdef int64_t *y = <int64_t *>at[1] + outer * self.row + first
        if self.type_number == 0:
            best_of_columns(<const float *>x, y, self.n, self.row, count, self.largest, self.last)
        elif self.type_number == 1:
            best_of_columns(<const double *>x, y, self.n, self.row, count, self.largest, self.last)
        elif self.type_number == 2:
            best_of_columns(<const int64_t *>x, y, self.n, self.row, count, self.largest, self.last)
        elif self.type_number == 3:
            best_of_columns(<const int32_t *>x, y, self.n, self.row, count, self.largest, self.last)
        elif self.type_number == 4:
            best_of_columns(<const uint8_t *>x, y, self.n, self.row, count, self.largest, self.last)
        else:
            best_of_columns(<const int8_t *>x, y, self.n, self.row, count, self.largest, self.last)


cdef struct Windows:
    int64_t size[AXES]  # of a plane
    int64_t out[AXES]
    int64_t kernel[AXES]
    int64_t stride[AXES]
    int64_t dilation[AXES]
    int64_t before[AXES]
    int64_t step[AXES]  # of the places of elements


cdef inline void inside(const Windows *w, int axis, int64_t i, int64_t *first, int64_t *end) noexcept nogil:
    """The taps of output i that lie inside of the plane."""
    cdef int64_t begin = i * w.stride[axis] - w.before[axis], dilation = w.dilation[axis]
    first[0] = 0 if begin >= 0 else ceil_div(-begin, dilation)
    end[0] = 0 if begin >= w.size[axis] else min(w.kernel[axis], ceil_div(w.size[axis] - begin, dilation))


cdef inline void pool_tap(const number *x, int64_t stride, number *best, int32_t *place, int32_t at,
                          int64_t count) noexcept nogil:
    """Keep what is larger, or the first, or NaN, of a tap of `count` windows; its place in the plane is `at` in the first one."""
    cdef int64_t j
    cdef bint larger
    cdef number value
    for j in range(count):
        value = x[j * stride]
        larger = (value > best[j]) | (place[j] < 0) | (value != value)
        best[j] = value if larger else best[j]
        place[j] = at + <int32_t>j * <int32_t>stride if larger else place[j]


cdef void pool_row(const number *x, number *y, int64_t *places, const Windows *w, int64_t depth, int64_t high,
                   int64_t begin, number least) noexcept nogil:
    """A row of outputs; the places of the elements of the plane count from `begin`."""
    cdef int64_t first[AXES]
    cdef int64_t end[AXES]
    cdef int64_t j, left, low, top, a, b, c, begins, ends, row, at, stride = w.stride[2], shift
    cdef int32_t place[COLUMNS]
    inside(w, 0, depth, first, end)
    inside(w, 1, high, first + 1, end + 1)
    left = 0
    while left < w.out[2]:
        low = min(<int64_t>COLUMNS, w.out[2] - left) if stride < w.size[2] else 1
        for j in range(low):
            y[left + j], place[j] = least, -1
        for a in range(first[0], end[0]):
            for b in range(first[1], end[1]):
                row = (depth * w.stride[0] - w.before[0] + a * w.dilation[0]) * w.size[1]
                row = (row + high * w.stride[1] - w.before[1] + b * w.dilation[1]) * w.size[2]
                # the taps that any of these columns has inside
                begins = max(<int64_t>0, ceil_div(w.before[2] - (left + low - 1) * stride, w.dilation[2]))
                ends = min(w.kernel[2], ceil_div(w.before[2] + w.size[2] - left * stride, w.dilation[2]))
                for c in range(begins, ends):
                    shift = c * w.dilation[2] - w.before[2]
                    j = max(<int64_t>0, ceil_div(-shift, stride) - left) if shift < 0 else 0
                    top = min(low, ceil_div(w.size[2] - shift, stride) - left) if shift < w.size[2] else 0
                    if j >= top:
                        continue
                    at = row + (left + j) * stride + shift
                    if stride == 1:  # known to the compiler
                        pool_tap(x + at, 1, y + left + j, place + j, <int32_t>at, top - j)
                    elif stride == 2:
                        pool_tap(x + at, 2, y + left + j, place + j, <int32_t>at, top - j)
                    else:
                        pool_tap(x + at, stride, y + left + j, place + j, <int32_t>at, top - j)
        for j in range(low):
            at = max(place[j], 0)
            if w.step[2] != 1:  # by column
                row = at // w.size[2]
                at = at % w.size[2] * w.step[2] + row % w.size[1] * w.step[1] + row // w.size[1]
            places[left + j] = 0 if place[j] < 0 else begin + at
        left += low


cdef class PoolingPlaces(Operation):
    """The largest numbers of windows, and where they are, for arrays (x, y, places).

    Parameters
    ----------
    x : ndarray [planes, depth, height, width]
        Of one of the types of `COMPARED`.
    y : ndarray [planes, ..]
        Of the type of `x`; NaN where a window has one, the smallest number of the type where it has no element.
    places : ndarray of int64 [planes, ..]
        The indices of the elements in the flattened `x`, of several NaN that of the last one; all in C order.
    windows : sequence of (kernel, stride, dilation, padding before)
        By axis.
    by_column : bool
        The places count the elements of a plane along its first axis first.
    least : number
        The smallest of the type.
    threads : int
    """

    cdef Windows windows
    cdef int64_t planes, plane, rows, chunks
    cdef int type_number, item, threads
    cdef double least
    cdef int64_t least_whole

    def __init__(self, ndarray x not None, ndarray y not None, ndarray places not None, windows, bint by_column, least,
                 int threads):
        cdef int k
        self.bind((x, y, places))
        if x.dtype.name not in COMPARED or y.dtype != x.dtype or PyArray_TYPE(places) != NPY_INT64:
            raise ValueError(f"pooling: {x.dtype} to {y.dtype} and {places.dtype}")
        if x.ndim != 4 or y.ndim != 4 or x.shape[0] != y.shape[0] or (<object>places).shape != (<object>y).shape:
            raise ValueError(f"pooling: {(<object>x).shape} to {(<object>y).shape} and {(<object>places).shape}")
        check_order((x, y, places), "pooling")
        self.type_number, self.item = COMPARED.index(x.dtype.name), x.itemsize
        if x.shape[1] * x.shape[2] * x.shape[3] >= 1 << 31:
            raise ValueError(f"pooling: places of {(<object>x).shape[1:]} elements, expected fewer than 2^31")
        self.least = least
        self.least_whole = 0 if x.dtype.kind == "f" else least
        self.planes, self.plane = x.shape[0], x.shape[1] * x.shape[2] * x.shape[3]
        for k, (kernel, stride, dilation, before) in enumerate(windows):
            self.windows.size[k], self.windows.out[k] = x.shape[1 + k], y.shape[1 + k]
            self.windows.kernel[k], self.windows.stride[k] = kernel, stride
            self.windows.dilation[k], self.windows.before[k] = dilation, before
        self.windows.step[0] = 1 if by_column else x.shape[2] * x.shape[3]
        self.windows.step[1] = x.shape[1] if by_column else x.shape[3]
        self.windows.step[2] = x.shape[1] * x.shape[2] if by_column else 1
        self.rows = y.shape[1] * y.shape[2]
        taps = self.windows.kernel[0] * self.windows.kernel[1] * self.windows.kernel[2]
        cost = 8.0 * y.size * taps
        tasks = self.planes * self.rows if y.size else 0
        self.threads, self.chunks = <int>max(1, min(threads_for(threads, cost), tasks)), chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.windows.out[2]:
            self.run_chunks(self.threads, self.planes * self.rows, self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t plane = task // self.rows, row = task % self.rows
        cdef int64_t depth = row // self.windows.out[1], high = row % self.windows.out[1], begin = plane * self.plane
        cdef const char *x = at[0] + begin * self.item
        cdef char *y = at[1] + task * self.windows.out[2] * self.item
        cdef int64_t *places = <int64_t *>at[2] + task * self.windows.out[2]
        if self.type_number == 0:
            pool_row(<const float *>x, <float *>y, places, &self.windows, depth, high, begin, <float>self.least)
        elif self.type_number == 1:
            pool_row(<const double *>x, <double *>y, places, &self.windows, depth, high, begin, self.least)
        elif self.type_number == 2:
            pool_row(<const int64_t *>x, <int64_t *>y, places, &self.windows, depth, high, begin, self.least_whole)
        elif self.type_number == 3:
            pool_row(<const int32_t *>x, <int32_t *>y, places, &self.windows, depth, high, begin, <int32_t>self.least_whole)
        elif self.type_number == 4:
            pool_row(<const uint8_t *>x, <uint8_t *>y, places, &self.windows, depth, high, begin, <uint8_t>self.least_whole)
        else:
            pool_row(<const int8_t *>x, <int8_t *>y, places, &self.windows, depth, high, begin, <int8_t>self.least_whole)
