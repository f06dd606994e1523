"""Pooling of channels that lie together: the loop nest around the micro-kernels of pooling.c.

A task is a row of outputs, of all channels of a run; where there are few rows, of some vectors of them.
"""

from cython.parallel cimport parallel
cimport openmp
from libc.stdint cimport int64_t
from numpy cimport PyArray_DATA, import_array, ndarray

from .executor cimport ceil_div, share
from .registry cimport LK_POOLING, best_row, lk_kernel, lk_pooling, lk_pooling_fn
from .team cimport team

import_array()

cdef enum:
    FEW_TASKS = 4     # a thread
    CHUNK_VECTORS = 4  # of channels, where rows are few


cdef struct Axis:
    int64_t size, out, kernel, stride, dilation, before, x_stride, y_stride
    const float *scale  # by output; NULL: the largest


cdef Axis axis_of(ndarray x, ndarray y, int i, window, ndarray scale) except *:
    cdef Axis a
    a.size, a.out, a.x_stride, a.y_stride = x.shape[i], y.shape[i], x.strides[i], y.strides[i]
    a.kernel, a.stride, a.dilation, a.before = window
    a.scale = NULL if scale is None else <const float *>PyArray_DATA(scale)
    return a


cdef inline int64_t taps_of(const Axis *a, int64_t at, int64_t *first) noexcept nogil:
    """How many taps output `at` has inside, and where the first one reads."""
    cdef int64_t begin = at * a.stride - a.before, lo = 0, hi = a.kernel
    if begin < 0:
        lo = min(a.kernel, ceil_div(-begin, a.dilation))
    if begin + (a.kernel - 1) * a.dilation >= a.size:
        hi = max(lo, ceil_div(a.size - begin, a.dilation))
    first[0] = begin + lo * a.dilation
    return hi - lo


def pool(str types, ndarray x not None, ndarray y not None, windows, scales, int threads):
    """Pool `x` into `y`.

    Parameters
    ----------
    types : {"f32", "bf16", "f16"}
        Of `x` and `y`, whose elements are as wide.
    x, y : ndarray
        Axes: image, run of channels, depth, height, width, channel of the run; channels are contiguous.
    windows : three of (kernel, stride, dilation, padding before)
    scales : three of ndarray of float32, or None
        Means: by output along each axis, what sums are multiplied with. None: the largest.
    threads : int
    """
    cdef const lk_kernel *row = best_row(LK_POOLING, types)
    cdef lk_pooling_fn fn = <lk_pooling_fn>row.fn
    cdef const char *source = <const char *>PyArray_DATA(x)
    cdef char *destination = <char *>PyArray_DATA(y)
    cdef Axis depth, height, width
    cdef lk_pooling p
    cdef int64_t n = x.shape[0], runs = x.shape[1], channels = x.shape[5], chunk = channels, chunks = 1, tasks, item = x.itemsize
    cdef int64_t x_image = x.strides[0], x_run = x.strides[1], y_image = y.strides[0], y_run = y.strides[1]
    cdef int tid, count
    if x.itemsize != y.itemsize or item != (4 if types == "f32" else 2):
        raise ValueError(f"pool: elements of {x.itemsize} and {y.itemsize} bytes, expected {types}")
    if channels > 1 and (x.strides[5] != item or y.strides[5] != item):
        raise ValueError("pool: channels that are not contiguous")
    given = scales or (None, None, None)
    depth = axis_of(x, y, 2, windows[0], given[0])
    height = axis_of(x, y, 3, windows[1], given[1])
    width = axis_of(x, y, 4, windows[2], given[2])
    if runs * n * depth.out * height.out < FEW_TASKS * threads:
        chunk = CHUNK_VECTORS * row.lanes
        chunks = ceil_div(channels, chunk)
    tasks = n * runs * chunks * depth.out * height.out
    if tasks == 0 or width.out == 0:
        return
    p.x_col, p.y_col = width.x_stride, width.y_stride
    p.x_depth, p.x_row = depth.x_stride * depth.dilation, height.x_stride * height.dilation
    p.cols, p.taps, p.step, p.dilation = width.out, width.kernel, width.stride, width.dilation
    p.before, p.size, p.scale, p.factor = width.before, width.size, width.scale, 1
    with nogil:
        count = team(<int>min(threads, tasks))
        if count == 1:
            rows_of(fn, p, source, destination, &depth, &height, runs, chunks, chunk, channels, x_image, x_run, y_image,
                    y_run, item, 0, tasks)
        else:
            with parallel(num_threads=count):
                tid = openmp.omp_get_thread_num()
                rows_of(fn, p, source, destination, &depth, &height, runs, chunks, chunk, channels, x_image, x_run,
                        y_image, y_run, item, share(tasks, openmp.omp_get_num_threads(), tid),
                        share(tasks, openmp.omp_get_num_threads(), tid + 1))


cdef void rows_of(lk_pooling_fn fn, lk_pooling p, const char *x, char *y, const Axis *depth, const Axis *height,
                  int64_t runs, int64_t chunks, int64_t chunk, int64_t channels, int64_t x_image, int64_t x_run,
                  int64_t y_image, int64_t y_run, int64_t item, int64_t task, int64_t end) noexcept nogil:
    """The rows of tasks [task, end)."""
    cdef int64_t i, d, part, run, image, q, r
    while task < end:
        i, d = task % height.out, task // height.out
        d, part = d % depth.out, d // depth.out
        part, run = part % chunks, part // chunks
        run, image = run % runs, run // runs
        p.depths, p.rows = taps_of(depth, d, &q), taps_of(height, i, &r)
        p.x = x + image * x_image + run * x_run + q * depth.x_stride + r * height.x_stride + part * chunk * item
        p.y = y + image * y_image + run * y_run + d * depth.y_stride + i * height.y_stride + part * chunk * item
        p.count = min(chunk, channels - part * chunk)
        if p.scale != NULL:
            p.factor = <double>depth.scale[d] * height.scale[i]
        fn(&p)
        task += 1
