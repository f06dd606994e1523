"""Columns of windows summed to an image again, and the largest pixels of the bins of regions: planes one by one."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from ...ndarray cimport (
    NPY_FLOAT64, NPY_INT64, PyArray_TYPE, import_array, ndarray,
)
from ...runtime.team cimport threads_for
from ..checks cimport check_reals
from ..executor cimport aligned, ceil_div
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    AXES = 3

ctypedef fused real:
    float
    double

cdef struct Windows:
    int64_t size[AXES]   # of the image
    int64_t count[AXES]  # of windows
    int64_t kernel[AXES]
    int64_t stride[AXES]
    int64_t dilation[AXES]
    int64_t before[AXES]  # padding


cdef inline void limits(const Windows *w, int axis, int64_t tap, int64_t *shift, int64_t *first, int64_t *end) noexcept nogil:
    """Where a tap of window 0 is, and the windows whose tap is inside of the image."""
    cdef int64_t stride = w.stride[axis], rest
    shift[0] = tap * w.dilation[axis] - w.before[axis]
    rest = w.size[axis] - shift[0]
    first[0] = ceil_div(-shift[0], stride) if shift[0] < 0 else 0
    end[0] = min(w.count[axis], ceil_div(rest, stride)) if rest > 0 else 0


cdef void add_columns(const real *x, real *y, const Windows *w) noexcept nogil:
    """Add all taps of a plane."""
    cdef int64_t shift[AXES]
    cdef int64_t first[AXES]
    cdef int64_t end[AXES]
    cdef int64_t a, b, c, i, j, k, stride = w.stride[2]
    cdef int64_t windows = w.count[0] * w.count[1] * w.count[2]
    cdef const real *row
    cdef real *to
    for a in range(w.kernel[0]):
        limits(w, 0, a, shift, first, end)
        for b in range(w.kernel[1]):
            limits(w, 1, b, shift + 1, first + 1, end + 1)
            for c in range(w.kernel[2]):
                limits(w, 2, c, shift + 2, first + 2, end + 2)
                for i in range(first[0], end[0]):
                    for j in range(first[1], end[1]):
                        row = x + (i * w.count[1] + j) * w.count[2]
                        to = y + ((i * w.stride[0] + shift[0]) * w.size[1] + j * w.stride[1] + shift[1]) * w.size[2] + shift[2]
                        if stride == 1:  # known to the compiler
                            for k in range(first[2], end[2]):
                                to[k] += row[k]
                        else:
                            for k in range(first[2], end[2]):
                                to[k * stride] += row[k]
                x += windows


cdef class Columns(Operation):
    """Sums of windows that overlap, for arrays (x, y).

    Parameters
    ----------
    x : ndarray [planes, taps, windows]
        float32 or float64.
    y : ndarray [planes, depth, height, width]
        Of the type of `x`; both in C order.
    windows : sequence of (windows, kernel, stride, dilation, padding before)
        By axis.
    threads : int
    """

    cdef Windows windows
    cdef int64_t planes, x_plane, y_plane, chunks
    cdef int threads
    cdef bint doubles

    def __init__(self, ndarray x not None, ndarray y not None, windows, int threads):
        cdef int i
        cdef int64_t taps = 1, count = 1
        self.bind((x, y))
        check_reals((x, y), x, y, "columns")
        if x.ndim != 3 or y.ndim != 4 or x.shape[0] != y.shape[0] or len(windows) != AXES:
            raise ValueError(f"columns: {(<object>x).shape} to {(<object>y).shape}")
        for i, (of, kernel, stride, dilation, before) in enumerate(windows):
            self.windows.size[i], self.windows.count[i], self.windows.kernel[i] = y.shape[1 + i], of, kernel
            self.windows.stride[i], self.windows.dilation[i], self.windows.before[i] = stride, dilation, before
            taps *= kernel
            count *= of
        if (x.shape[1], x.shape[2]) != (taps, count):
            raise ValueError(f"columns: {(<object>x).shape}, expected {taps} taps of {count} windows")
        self.planes, self.x_plane, self.y_plane = x.shape[0], taps * count, y.shape[1] * y.shape[2] * y.shape[3]
        self.doubles = PyArray_TYPE(x) == NPY_FLOAT64
        cost = 3.0 * x.nbytes + y.nbytes
        self.threads, self.chunks = <int>max(1, min(threads_for(threads, cost), self.planes)), chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        self.run_chunks(self.threads, self.planes, self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t item = 8 if self.doubles else 4
        cdef const char *x = at[0] + task * self.x_plane * item
        cdef char *y = at[1] + task * self.y_plane * item
        memset(y, 0, self.y_plane * item)
        if self.doubles:
            add_columns(<const double *>x, <double *>y, &self.windows)
        else:
            add_columns(<const float *>x, <float *>y, &self.windows)


cdef struct Span:  # of a region's bins along a row
    int64_t first, end  # columns
    int64_t most        # of a bin


cdef Span span_of(const int64_t *columns, int64_t wide) noexcept nogil:
    cdef Span span
    cdef int64_t q
    span.first, span.end, span.most = columns[0], columns[1], 0
    for q in range(wide):
        span.first, span.end = min(span.first, columns[2 * q]), max(span.end, columns[2 * q + 1])
        span.most = max(span.most, columns[2 * q + 1] - columns[2 * q])
    return span


cdef inline real larger(real best, real value) noexcept nogil:
    """NaN is larger than all numbers."""
    return value if (value > best) | (value != value) else best


cdef void largest_of_bins(const real *x, real *y, int64_t width, const int64_t *rows, const int64_t *columns,
                          int64_t high, int64_t wide, real *line) noexcept nogil:
    """Of the rows of bins, the largest of each column, in `line`; then of the columns of each bin, as many as the widest one
    has. Bins without a pixel are 0."""
    cdef Span span = span_of(columns, wide)
    cdef int64_t p, q, i, j, last
    cdef const real *row
    cdef real best
    for p in range(high):
        if rows[2 * p] >= rows[2 * p + 1]:
            for q in range(wide):
                y[p * wide + q] = 0
            continue
        row = x + rows[2 * p] * width
        for j in range(span.first, span.end):
            line[j] = row[j]
        for i in range(rows[2 * p] + 1, rows[2 * p + 1]):
            row = x + i * width
            for j in range(span.first, span.end):
                line[j] = larger(line[j], row[j])
        for q in range(wide):
            j, last = columns[2 * q], columns[2 * q + 1] - 1
            if j > last:
                y[p * wide + q] = 0
                continue
            best = line[j]
            for i in range(1, span.most):
                best = larger(best, line[min(j + i, last)])
            y[p * wide + q] = best


cdef class Bins(Operation):
    """The largest pixel of each bin of regions, for arrays (x, rows, columns, images, y).

    Parameters
    ----------
    x : ndarray [images, channels, height, width]
        float32 or float64.
    rows, columns : ndarray of int64 [regions, bins, 2]
        The first pixel of each bin along an axis, and the one behind its last one: both inside, checked by the caller.
    images : ndarray of int64 [regions]
        Which each region is of: checked by the caller.
    y : ndarray [regions, channels, bins, bins]
        Of the type of `x`; all in C order.
    threads : int
    """

    cdef int64_t regions, channels, plane, width, high, wide, chunks
    cdef int64_t line  # bytes of a thread
    cdef int threads
    cdef bint doubles

    def __init__(self, ndarray x not None, ndarray rows not None, ndarray columns not None, ndarray images not None,
                 ndarray y not None, int threads):
        self.bind((x, rows, columns, images, y))
        check_reals((x, rows, columns, images, y), x, y, "bins")
        if x.ndim != 4 or y.ndim != 4 or x.shape[1] != y.shape[1]:
            raise ValueError(f"bins: {(<object>x).shape} to {(<object>y).shape}")
        self.regions, self.channels, self.high, self.wide = y.shape[0], y.shape[1], y.shape[2], y.shape[3]
        self.plane, self.width = x.shape[2] * x.shape[3], x.shape[3]
        for table, shape in ((rows, (self.regions, self.high, 2)), (columns, (self.regions, self.wide, 2)),
                             (images, (self.regions,))):
            if table.shape != shape or PyArray_TYPE(<ndarray>table) != NPY_INT64:
                raise ValueError(f"bins: {table.dtype} of shape {table.shape}, expected int64 of {shape}")
        self.doubles = PyArray_TYPE(x) == NPY_FLOAT64
        pixels = (rows[..., 1] - rows[..., 0]).clip(0).sum(1) * (columns[..., 1] - columns[..., 0]).clip(0).sum(1)
        cost = 8.0 * float(pixels.sum()) * self.channels
        self.line = aligned(self.width * x.itemsize)
        tasks = self.regions * self.channels
        self.threads, self.chunks = <int>max(1, min(threads_for(threads, cost), tasks)), chunks_of(cost)
        self.workspace = self.threads * self.line

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.wide:
            self.run_chunks(self.threads, self.regions * self.channels, self.chunks, at, workspace, self.line)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t region = task // self.channels, channel = task % self.channels
        cdef int64_t image = (<const int64_t *>at[3])[region], x = (image * self.channels + channel) * self.plane
        cdef int64_t y = task * self.high * self.wide
        cdef const int64_t *rows = <const int64_t *>at[1] + 2 * region * self.high
        cdef const int64_t *columns = <const int64_t *>at[2] + 2 * region * self.wide
        if self.doubles:
            largest_of_bins(<const double *>at[0] + x, <double *>at[4] + y, self.width, rows, columns, self.high, self.wide,
                            <double *>workspace)
        else:
            largest_of_bins(<const float *>at[0] + x, <float *>at[4] + y, self.width, rows, columns, self.high, self.wide,
                            <float *>workspace)
