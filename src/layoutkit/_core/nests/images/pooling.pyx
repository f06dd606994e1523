"""Pooling and its gradient: the loop nests around pooling.c, plane_pooling.c and pooling_back.c.

With channels innermost or in blocks, a task is a row of outputs for all channels of a run, or some vectors of these if
there are few rows. Windows overlap, so a task of the gradient is all pixels of an image, for all or some of the channels of
a run. Where pixels are contiguous, a task is some rows of outputs of a channel.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

import numpy as np

from ...kernels cimport LK_PLANE_POOLING, LK_POOLING, LK_POOLING_BACK, lk_kernel
from ...kernels.pooling cimport (
    LK_PLANE_BYTES, lk_plane_pooling, lk_plane_pooling_fn, lk_pooling, lk_pooling_back, lk_pooling_back_fn, lk_pooling_fn,
)
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from ..executor cimport ceil_div, share
from ..operation cimport Operation

import_array()

cdef enum:
    FEW_TASKS = 4     # per thread
    CHUNK_VECTORS = 4  # of channels, where rows are few
    BLOCK_ROWS = 256  # of a channel, whose vectors stay in L1,
    BLOCK_BYTES = 128 << 10  # and which stay in L2 themselves


WIDTHS = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "u8": 1, "s8": 1}


cdef struct PoolAxis:
    int64_t size, out, kernel, stride, dilation, before, x_stride, y_stride
    const void *scale  # by output, reals; NULL: the largest


cdef struct Tasks:
    const char *x
    const char *dy        # of gradients
    char *to              # the result
    int64_t x_stride[2]   # of an image, of a run of channels
    int64_t dy_stride[2]
    int64_t to_stride[2]
    int64_t dx[3]         # of a pixel, of gradients
    int64_t n, runs, channels, chunk, chunks, item


cdef PoolAxis axis_of(ndarray x, ndarray y, int i, window, ndarray scale) except *:
    cdef PoolAxis a
    a.size, a.out, a.x_stride, a.y_stride = x.shape[i], y.shape[i], x.strides[i], y.strides[i]
    a.kernel, a.stride, a.dilation, a.before = window
    a.scale = NULL if scale is None else PyArray_DATA(scale)
    return a


cdef inline double scale_of(const PoolAxis *a, int64_t at, bint wide) noexcept nogil:
    return (<const double *>a.scale)[at] if wide else (<const float *>a.scale)[at]


cdef inline int64_t taps_inside(const PoolAxis *a, int64_t at, int64_t *first) noexcept nogil:
    """How many taps output `at` has inside, and where the first one reads."""
    cdef int64_t begin = at * a.stride - a.before, lo = 0, hi = a.kernel
    if begin < 0:
        lo = min(a.kernel, ceil_div(-begin, a.dilation))
    if begin + (a.kernel - 1) * a.dilation >= a.size:
        hi = max(lo, ceil_div(a.size - begin, a.dilation))
    first[0] = begin + lo * a.dilation
    return hi - lo


cdef inline double loads_per_channel(const PoolAxis *depth, const PoolAxis *height, const PoolAxis *width) noexcept nogil:
    """The pixels of all windows of a channel, at most."""
    cdef double outputs = <double>depth.out * height.out * width.out
    return outputs * min(depth.kernel, depth.size) * min(height.kernel, height.size) * min(width.kernel, width.size)


cdef struct Run:
    lk_pooling_fn fn
    lk_pooling pooling
    Tasks tasks
    PoolAxis axes[3]
    int64_t count  # of tasks; 0: there is nothing to do
    int threads


cdef int prepare(Run *r, str types, ndarray x, ndarray y, windows, scales, int most) except -1:
    """Plan `pool` for arrays like these, all but their addresses."""
    cdef const lk_kernel *row = best_row(LK_POOLING, types)
    cdef PoolAxis *axes = r.axes
    cdef Tasks *t = &r.tasks
    cdef lk_pooling *p = &r.pooling
    cdef int64_t channels = x.shape[5], item = x.itemsize
    cdef int i
    if x.itemsize != y.itemsize or item != WIDTHS[types]:
        raise ValueError(f"pool: elements of {x.itemsize} and {y.itemsize} bytes, expected {types}")
    if channels > 1 and (x.strides[5] != item or y.strides[5] != item):
        raise ValueError("pool: channels that are not contiguous")
    scales_by_axis = scales or (None, None, None)
    for i in range(3):
        axes[i] = axis_of(x, y, 2 + i, windows[i], scales_by_axis[i])
    t.item = item
    for i in range(2):
        t.x_stride[i], t.to_stride[i] = x.strides[i], y.strides[i]
    t.n, t.runs, t.channels, t.chunk, t.chunks = x.shape[0], x.shape[1], channels, channels, 1
    r.fn = <lk_pooling_fn>row.fn
    r.threads = threads_for(most, loads_per_channel(&axes[0], &axes[1], &axes[2]) * t.n * t.runs * channels * item)
    if t.runs * t.n * axes[0].out * axes[1].out < FEW_TASKS * r.threads:
        t.chunk = CHUNK_VECTORS * row.lanes
        t.chunks = ceil_div(channels, t.chunk)
    r.count = t.n * t.runs * t.chunks * axes[0].out * axes[1].out if axes[2].out else 0
    r.threads = <int>min(r.threads, r.count)
    set_window(p, axes)
    return 0


cdef void set_window(lk_pooling *p, const PoolAxis *axes):
    """Set what all rows of outputs have in common."""
    memset(p, 0, sizeof(lk_pooling))
    p.x_col, p.y_col = axes[2].x_stride, axes[2].y_stride
    p.x_depth, p.x_row = axes[0].x_stride * axes[0].dilation, axes[1].x_stride * axes[1].dilation
    p.cols, p.taps, p.step, p.dilation = axes[2].out, axes[2].kernel, axes[2].stride, axes[2].dilation
    p.before, p.size, p.scale, p.factor = axes[2].before, axes[2].size, axes[2].scale, 1


def pool(str types, ndarray x not None, ndarray y not None, windows, scales, int threads):
    """Pool `x` into `y`.

    Parameters
    ----------
    types : {"f32", "f64", "bf16", "f16"}
        The type of both `x` and `y`.
    x, y : ndarray
        Axes: image, run of channels, depth, height, width, channel of the run; channels are contiguous.
    windows : three of (kernel, stride, dilation, padding before)
    scales : three of ndarray of the reals of `types`, or None
        Means: by output along each axis, what sums are multiplied with. None: the largest.
    threads : int
    """
    cdef Run r
    prepare(&r, types, x, y, windows, scales, threads)
    r.tasks.x, r.tasks.to = <const char *>PyArray_DATA(x), <char *>PyArray_DATA(y)
    with nogil:
        if r.count:
            share_out(r.threads, pool_share, &r)


cdef class Pooling(Operation):
    """`pool` as an operation on (x, y), arrays of any shape, of which `views` are as `pool` takes them; also of u8 and s8,
    with `integers`: the zero point of x, the scale of x by that of y, the zero point of y."""

    cdef Run planned
    cdef object scales  # which the plan points to

    def __cinit__(self, arrays, views, str types, windows, scales, int threads, integers=(0, 1, 0)):
        x, y = views
        self.bind(tuple(arrays))
        self.scales = scales
        prepare(&self.planned, types, x, y, windows, scales, threads)
        self.planned.pooling.x_zero, self.planned.pooling.ratio, self.planned.pooling.y_zero = integers

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r = self.planned
        r.tasks.x, r.tasks.to = at[0], at[1]
        if r.count:
            share_out(r.threads, pool_share, &r)


cdef void pool_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t first, last
    while lk_claim(portions, share(r.count, parts, part), share(r.count, parts, part + 1), &first, &last):
        pool_rows(r.fn, r.pooling, &r.tasks, r.axes, first, last)


cdef void pool_rows(lk_pooling_fn fn, lk_pooling p, const Tasks *t, const PoolAxis *axes, int64_t task,
                  int64_t end) noexcept nogil:
    """The rows of tasks [task, end)."""
    cdef const PoolAxis *depth = &axes[0]
    cdef const PoolAxis *height = &axes[1]
    cdef int64_t i, d, part, run, image, first, q, r
    while task < end:
        i, d = task % height.out, task // height.out
        d, part = d % depth.out, d // depth.out
        part, run = part % t.chunks, part // t.chunks
        run, image = run % t.runs, run // t.runs
        first = part * t.chunk * t.item
        p.depths, p.rows = taps_inside(depth, d, &q), taps_inside(height, i, &r)
        p.x = t.x + image * t.x_stride[0] + run * t.x_stride[1] + q * depth.x_stride + r * height.x_stride + first
        p.y = t.to + image * t.to_stride[0] + run * t.to_stride[1] + d * depth.y_stride + i * height.y_stride + first
        p.count = min(t.chunk, t.channels - part * t.chunk)
        if p.scale != NULL:
            p.factor = scale_of(depth, d, t.item == 8) * scale_of(height, i, t.item == 8)
        fn(&p)
        task += 1


cdef class PlanePooling(Operation):
    """Pooling of f32 whose pixels are contiguous.

    Parameters
    ----------
    arrays : (ndarray, ndarray)
        Of any shape.
    views : (ndarray, ndarray)
        Views of them: image, channel, depth, height, width, which is contiguous.
    windows, scales, threads
        As of `pool`.
    """

    cdef lk_plane_pooling_fn fn
    cdef lk_plane_pooling pooling
    cdef PoolAxis axes[3]
    cdef int64_t channels, images, x_stride[2], y_stride[2]
    cdef int64_t block, blocks  # rows of outputs of a task; tasks of a plane
    cdef int64_t slot_bytes     # in the workspace of a thread
    cdef int threads

    def __init__(self, arrays, views, windows, scales, int threads):
        cdef int64_t item = sizeof(float), planes, rows, taps
        cdef ndarray x, y
        x, y = views
        if x.ndim != 5 or y.ndim != 5 or x.itemsize != item or y.itemsize != item:
            raise ValueError(f"pool: {x.ndim} and {y.ndim} axes of {x.itemsize} and {y.itemsize} bytes, expected 5 of f32")
        if (x.shape[4] > 1 and x.strides[4] != item) or (y.shape[4] > 1 and y.strides[4] != item):
            raise ValueError("pool: pixels that are not contiguous")
        self.bind(tuple(arrays))
        self.fn = <lk_plane_pooling_fn>best_row(LK_PLANE_POOLING, "f32").fn
        scales_by_axis = [None] * 3 if scales is None else [np.ascontiguousarray(s, np.float32) for s in scales]
        for i in range(3):
            self.axes[i] = axis_of(x, y, 2 + i, windows[i], scales_by_axis[i])
            if scales is not None:
                self.keep(scales_by_axis[i])
        self.images, self.channels = x.shape[0], x.shape[1]
        for i in range(2):
            self.x_stride[i], self.y_stride[i] = x.strides[i], y.strides[i]
        cdef const PoolAxis *depth = &self.axes[0]
        cdef const PoolAxis *height = &self.axes[1]
        cdef const PoolAxis *width = &self.axes[2]
        self.threads = threads_for(threads, loads_per_channel(depth, height, width) * self.images * self.channels * item)
        planes, taps = self.images * self.channels * depth.out, (height.kernel - 1) * height.dilation + 1
        rows = min(BLOCK_ROWS, max(2 * taps, BLOCK_BYTES // max(1, abs(height.x_stride))))
        rows = max(1, (rows - taps) // height.stride)
        if planes < FEW_TASKS * self.threads:
            rows = min(rows, ceil_div(height.out, FEW_TASKS * self.threads))
        self.block = max(1, min(rows, height.out))
        self.blocks = ceil_div(height.out, self.block) if y.size else 0
        self.slot_bytes = ((self.block - 1) * height.stride + taps) * LK_PLANE_BYTES
        self.workspace = self.threads * self.slot_bytes
        cdef lk_plane_pooling *p = &self.pooling
        memset(p, 0, sizeof(lk_plane_pooling))
        p.x_depth, p.x_row, p.y_row, p.cols = depth.x_stride * depth.dilation, height.x_stride, height.y_stride, width.out
        p.row_taps, p.row_step, p.row_dilation, p.row_size = height.kernel, height.stride, height.dilation, height.size
        p.taps, p.step, p.dilation = width.kernel, width.stride, width.dilation
        p.before, p.size, p.scale, p.factor = width.before, width.size, <const float *>width.scale, 1

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef int64_t first, last, i, count = self.images * self.channels * self.axes[0].out * self.blocks
        while lk_claim(portions, share(count, parts, part), share(count, parts, part + 1), &first, &last):
            for i in range(first, last):
                self.run_task(at[0], at[1], workspace + slot * self.slot_bytes, i)

    cdef void run_task(self, const char *x, char *y, char *scratch, int64_t task) noexcept nogil:
        cdef lk_plane_pooling p = self.pooling
        cdef const PoolAxis *height = &self.axes[1]
        cdef int64_t q, row = task % self.blocks * self.block, d = task // self.blocks
        cdef int64_t channel = d // self.axes[0].out, image = channel // self.channels
        d, channel = d % self.axes[0].out, channel % self.channels
        p.depths, p.rows = taps_inside(&self.axes[0], d, &q), min(self.block, height.out - row)
        p.x = x + image * self.x_stride[0] + channel * self.x_stride[1] + q * self.axes[0].x_stride
        p.y = y + image * self.y_stride[0] + channel * self.y_stride[1] + d * self.axes[0].y_stride + row * p.y_row
        p.row_before, p.scratch = height.before - row * height.stride, scratch
        if p.scale != NULL:
            p.row_scale, p.factor = <const float *>height.scale + row, scale_of(&self.axes[0], d, False)
        self.fn(&p)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.images * self.channels * self.axes[0].out * self.blocks:
            self.run_shares(self.threads, at, workspace)


def pool_back(str types, ndarray x not None, ndarray dy not None, ndarray dx not None, windows, scales, int threads):
    """The gradient of `pool`, from `x` and the gradient `dy` of its outputs, into `dx`, which is overwritten.

    As of `pool`, for `types` "f32" and "f64"; `dx` has the shape of `x`, which is not read for means.
    """
    cdef const lk_kernel *row = best_row(LK_POOLING_BACK, types)
    cdef lk_pooling_back_fn fn = <lk_pooling_back_fn>row.fn
    cdef PoolAxis axes[3]
    cdef lk_pooling_back g
    cdef Tasks t
    cdef int64_t channels = x.shape[5], item = x.itemsize
    cdef BackRun r
    cdef int i
    if not x.itemsize == dy.itemsize == dx.itemsize == WIDTHS[types]:
        raise ValueError(f"pool: elements of {x.itemsize}, {dy.itemsize} and {dx.itemsize} bytes, expected {types}")
    if channels > 1 and not (dy.strides[5] == dx.strides[5] == item and (scales or x.strides[5] == item)):
        raise ValueError("pool: channels that are not contiguous")
    scales_by_axis = scales or (None, None, None)
    for i in range(3):
        axes[i] = axis_of(x, dy, 2 + i, windows[i], scales_by_axis[i])
        t.dx[i] = dx.strides[2 + i]
    t.n, t.runs, t.channels, t.chunk, t.chunks = x.shape[0], x.shape[1], channels, channels, 1
    threads = threads_for(threads, loads_per_channel(&axes[0], &axes[1], &axes[2]) * t.n * t.runs * channels * item)
    t.x, t.dy, t.to = <const char *>PyArray_DATA(x), <const char *>PyArray_DATA(dy), <char *>PyArray_DATA(dx)
    for i in range(2):
        t.x_stride[i], t.dy_stride[i], t.to_stride[i] = x.strides[i], dy.strides[i], dx.strides[i]
    if t.n * t.runs < FEW_TASKS * threads:
        t.chunk = CHUNK_VECTORS * row.lanes
        t.chunks = ceil_div(channels, t.chunk)
    if t.n * t.runs * t.chunks == 0:
        return
    set_window(&g.window, axes)
    g.dx_depth, g.dx_row, g.dx_col = t.dx[0] * axes[0].dilation, t.dx[1] * axes[1].dilation, t.dx[2]
    t.item = item
    r.fn, r.pooling, r.tasks, r.axes, r.count = fn, &g, &t, axes, t.n * t.runs * t.chunks
    with nogil:
        share_out(<int>min(threads, r.count), back_share, &r)


cdef struct BackRun:
    lk_pooling_back_fn fn
    const lk_pooling_back *pooling
    const Tasks *tasks
    const PoolAxis *axes
    int64_t count


cdef void back_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const BackRun *r = <const BackRun *>argument
    cdef int64_t first, last
    while lk_claim(portions, share(r.count, parts, part), share(r.count, parts, part + 1), &first, &last):
        pool_back_images(r.fn, r.pooling[0], r.tasks, r.axes, first, last)


cdef void pool_back_images(lk_pooling_back_fn fn, lk_pooling_back g, const Tasks *t, const PoolAxis *axes, int64_t task,
                    int64_t end) noexcept nogil:
    """The images of tasks [task, end)."""
    cdef int64_t part, run, image, d, i, w, q, r, first
    cdef const char *x
    cdef const char *dy
    cdef char *dx
    while task < end:
        part, run = task % t.chunks, task // t.chunks
        run, image = run % t.runs, run // t.runs
        first = part * t.chunk * t.item
        x = t.x + image * t.x_stride[0] + run * t.x_stride[1] + first
        dy = t.dy + image * t.dy_stride[0] + run * t.dy_stride[1] + first
        dx = t.to + image * t.to_stride[0] + run * t.to_stride[1] + first
        g.window.count = min(t.chunk, t.channels - part * t.chunk)
        for d in range(axes[0].size):
            for i in range(axes[1].size):
                for w in range(axes[2].size):
                    memset(dx + d * t.dx[0] + i * t.dx[1] + w * t.dx[2], 0, g.window.count * t.item)
        for d in range(axes[0].out):
            for i in range(axes[1].out):
                g.window.depths, g.window.rows = taps_inside(&axes[0], d, &q), taps_inside(&axes[1], i, &r)
                g.window.x = x + q * axes[0].x_stride + r * axes[1].x_stride
                g.dx = dx + q * t.dx[0] + r * t.dx[1]
                g.window.y = <char *>dy + d * axes[0].y_stride + i * axes[1].y_stride
                if g.window.scale != NULL:
                    g.window.factor = scale_of(&axes[0], d, t.item == 8) * scale_of(&axes[1], i, t.item == 8)
                fn(&g)
        task += 1
