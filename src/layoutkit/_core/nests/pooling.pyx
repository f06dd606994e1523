"""Pooling and its gradient: the loop nests around pooling.c and pooling_back.c.

With channels innermost or in blocks, a task is a row of outputs for all channels of a run, or some vectors of these if
there are few rows. Windows overlap, so a task of the gradient is all pixels of an image, for all or some of the channels of
a run. Where pixels are contiguous, a task is some rows of outputs of a channel.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memset
from numpy cimport PyArray_DATA, import_array, ndarray

import numpy as np

from ..kernels cimport LK_POOLING, LK_POOLING_BACK, LK_TAKE, lk_kernel
from ..kernels.pooling cimport lk_pooling, lk_pooling_back, lk_pooling_back_fn, lk_pooling_fn
from ..kernels.take cimport lk_take, lk_take_fn
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport aligned, ceil_div, share
from .operation cimport Operation

import_array()

cdef enum:
    FEW_TASKS = 4     # per thread
    CHUNK_VECTORS = 4  # of channels, where rows are few
    BLOCK_ELEMENTS = 2048  # of rows of a channel, with their pads


WIDTHS = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}


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


cdef inline int64_t taps_of(const PoolAxis *a, int64_t at, int64_t *first) noexcept nogil:
    """How many taps output `at` has inside, and where the first one reads."""
    cdef int64_t begin = at * a.stride - a.before, lo = 0, hi = a.kernel
    if begin < 0:
        lo = min(a.kernel, ceil_div(-begin, a.dilation))
    if begin + (a.kernel - 1) * a.dilation >= a.size:
        hi = max(lo, ceil_div(a.size - begin, a.dilation))
    first[0] = begin + lo * a.dilation
    return hi - lo


cdef inline double loads_of(const PoolAxis *depth, const PoolAxis *height, const PoolAxis *width) noexcept nogil:
    """How many pixels the windows of a channel have, at most."""
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
    """Plan for arrays like these, but not where they lie; as of `pool`."""
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
    of_axes = scales or (None, None, None)
    for i in range(3):
        axes[i] = axis_of(x, y, 2 + i, windows[i], of_axes[i])
    t.item = item
    for i in range(2):
        t.x_stride[i], t.to_stride[i] = x.strides[i], y.strides[i]
    t.n, t.runs, t.channels, t.chunk, t.chunks = x.shape[0], x.shape[1], channels, channels, 1
    r.fn = <lk_pooling_fn>row.fn
    r.threads = threads_for(most, loads_of(&axes[0], &axes[1], &axes[2]) * t.n * t.runs * channels * item)
    if t.runs * t.n * axes[0].out * axes[1].out < FEW_TASKS * r.threads:
        t.chunk = CHUNK_VECTORS * row.lanes
        t.chunks = ceil_div(channels, t.chunk)
    r.count = t.n * t.runs * t.chunks * axes[0].out * axes[1].out if axes[2].out else 0
    r.threads = <int>min(r.threads, r.count)
    memset(p, 0, sizeof(lk_pooling))
    p.x_col, p.y_col = axes[2].x_stride, axes[2].y_stride
    p.x_depth, p.x_row = axes[0].x_stride * axes[0].dilation, axes[1].x_stride * axes[1].dilation
    p.cols, p.taps, p.step, p.dilation = axes[2].out, axes[2].kernel, axes[2].stride, axes[2].dilation
    p.before, p.size, p.scale, p.factor = axes[2].before, axes[2].size, axes[2].scale, 1
    return 0


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
    """`pool` as an operation on (x, y), arrays of any shape: `six` are views of them, as `pool` takes them."""

    cdef Run planned
    cdef object scales  # which the plan points to

    def __cinit__(self, arrays, six, str types, windows, scales, int threads):
        x, y = six
        self.bind(tuple(arrays))
        self.scales = scales
        prepare(&self.planned, types, x, y, windows, scales, threads)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r = self.planned
        r.tasks.x, r.tasks.to = at[0], at[1]
        if r.count:
            share_out(r.threads, pool_share, &r)


cdef void pool_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t first, last
    while lk_claim(portions, share(r.count, parts, part), share(r.count, parts, part + 1), &first, &last):
        rows_of(r.fn, r.pooling, &r.tasks, r.axes, first, last)


cdef void rows_of(lk_pooling_fn fn, lk_pooling p, const Tasks *t, const PoolAxis *axes, int64_t task,
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
        p.depths, p.rows = taps_of(depth, d, &q), taps_of(height, i, &r)
        p.x = t.x + image * t.x_stride[0] + run * t.x_stride[1] + q * depth.x_stride + r * height.x_stride + first
        p.y = t.to + image * t.to_stride[0] + run * t.to_stride[1] + d * depth.y_stride + i * height.y_stride + first
        p.count = min(t.chunk, t.channels - part * t.chunk)
        if p.scale != NULL:
            p.factor = scale_of(depth, d, t.item == 8) * scale_of(height, i, t.item == 8)
        fn(&p)
        task += 1


cdef class PlanePooling(Operation):
    """Pooling of f32 whose pixels are contiguous.

    Windows are summed, or their largest found, along depth and height first, into rows with pads in the workspace; then
    along width: if windows are more than a pixel apart, from the elements of each tap brought together.

    Parameters
    ----------
    arrays : (ndarray, ndarray)
        Of any shape.
    five : (ndarray, ndarray)
        Views of them: image, channel, depth, height, width, which is contiguous.
    windows, scales, threads
        As of `pool`.
    """

    cdef lk_pooling_fn fn
    cdef lk_take_fn take
    cdef lk_pooling columns, rows     # along height; along width
    cdef PoolAxis axes[3]
    cdef int64_t channels, images, x_stride[2], y_stride[2]
    cdef int64_t lead, skipped        # pads before a row of x; elements of it that no window reads
    cdef int64_t pitch, block, blocks  # elements of a row with pads; rows of a task; tasks of a plane
    cdef int64_t step, taps, dilation, run_count
    cdef const int64_t *runs          # where means have equal factors: first outputs of a row, and the end
    cdef const float *ones
    cdef int64_t taps_at, slot_bytes  # in the workspace of a thread
    cdef bint flat                    # rows of results have neither pads nor gaps
    cdef int threads

    def __init__(self, arrays, five, windows, scales, int threads):
        cdef int64_t item = sizeof(float), inside, reach
        cdef ndarray x, y
        x, y = five
        if x.ndim != 5 or y.ndim != 5 or x.itemsize != item or y.itemsize != item:
            raise ValueError(f"pool: {x.ndim} and {y.ndim} axes of {x.itemsize} and {y.itemsize} bytes, expected 5 of f32")
        if (x.shape[4] > 1 and x.strides[4] != item) or (y.shape[4] > 1 and y.strides[4] != item):
            raise ValueError("pool: pixels that are not contiguous")
        self.bind(tuple(arrays))
        self.fn, self.take = <lk_pooling_fn>best_row(LK_POOLING, "f32").fn, <lk_take_fn>best_row(LK_TAKE, "x32").fn
        of_axes = [None] * 3 if scales is None else [np.ascontiguousarray(s, np.float32) for s in scales]
        for i in range(3):
            self.axes[i] = axis_of(x, y, 2 + i, windows[i], of_axes[i])
            if scales is not None:
                self.keep(of_axes[i])
        self.images, self.channels = x.shape[0], x.shape[1]
        for i in range(2):
            self.x_stride[i], self.y_stride[i] = x.strides[i], y.strides[i]
        cdef const PoolAxis *width = &self.axes[2]
        self.taps, self.dilation = width.kernel, width.dilation
        self.step = width.stride if width.out > 1 else 1
        self.lead, self.skipped = max(0, width.before), max(0, -width.before)
        inside, reach = max(0, width.size - self.skipped), (self.taps - 1) * self.dilation
        self.pitch = ceil_div(max(self.lead + inside, (width.out - 1) * self.step + reach + 1), self.step) * self.step
        self.block = max(1, min(BLOCK_ELEMENTS // self.pitch, self.axes[1].out))
        self.blocks = ceil_div(self.axes[1].out, self.block) if y.size else 0
        self.taps_at = aligned((self.block * self.pitch + reach) * item)
        self.slot_bytes = self.taps_at
        if self.step > 1:
            self.slot_bytes += aligned(self.taps * self.block * (self.pitch // self.step) * item)
        runs = [0, width.out]
        if scales:
            runs = [0, *(np.flatnonzero(np.diff(of_axes[2])) + 1).tolist(), width.out]
        self.run_count = len(runs) - 1
        self.runs = <const int64_t *>self.keep(runs, np.int64)
        self.ones = <const float *>self.keep(np.ones(self.block, np.float32)) if scales else NULL
        self.flat = self.run_count == 1 and self.pitch // self.step == width.out and self.axes[1].y_stride == width.out * item
        self.set_templates(inside)
        self.threads = threads_for(threads, loads_of(&self.axes[0], &self.axes[1], &self.axes[2])
                                   * self.images * self.channels * item)
        self.workspace = self.threads * self.slot_bytes

    cdef int set_templates(self, int64_t inside) except -1:
        """What all calls of the kernels have in common; `inside`: the elements of a row of x that windows may read."""
        cdef const PoolAxis *depth = &self.axes[0]
        cdef const PoolAxis *height = &self.axes[1]
        cdef int64_t item = sizeof(float)
        memset(&self.columns, 0, sizeof(lk_pooling))
        memset(&self.rows, 0, sizeof(lk_pooling))
        cdef lk_pooling *c = &self.columns
        cdef lk_pooling *r = &self.rows
        c.x_depth, c.x_col, c.y_col = depth.x_stride * depth.dilation, height.x_stride, self.pitch * item
        c.rows, c.taps, c.step, c.dilation = 1, height.kernel, height.stride, height.dilation
        c.size, c.count, c.factor = height.size, inside, 1
        r.depths, r.rows, r.taps, r.step, r.dilation = 1, self.taps, 1, 1, 1
        r.x_col, r.y_col, r.factor = self.pitch // self.step * item, height.y_stride, 1
        r.x_row = (self.dilation if self.step == 1 else self.block * (self.pitch // self.step)) * item
        r.scale = self.ones
        return 0

    cdef void run_tasks(self, const char *x, char *y, char *scratch, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        """A share of the tasks."""
        cdef int64_t first, last, i, count = self.images * self.channels * self.axes[0].out * self.blocks
        cdef float none = 0 if self.ones != NULL else -INFINITY
        cdef bint filled = False
        while lk_claim(portions, share(count, parts, part), share(count, parts, part + 1), &first, &last):
            if not filled:  # the pads: all else is written before it is read
                for i in range(self.taps_at // <int64_t>sizeof(float)):
                    (<float *>scratch)[i] = none
                filled = True
            for i in range(first, last):
                self.run_task(x, y, scratch, i)

    cdef void run_task(self, const char *x, char *y, char *scratch, int64_t task) noexcept nogil:
        cdef lk_pooling c = self.columns, r = self.rows
        cdef lk_take t
        cdef int64_t item = sizeof(float), i, q, block = task % self.blocks * self.block, d = task // self.blocks
        cdef int64_t channel = d // self.axes[0].out, image = channel // self.channels
        d, channel = d % self.axes[0].out, channel % self.channels
        c.depths = taps_of(&self.axes[0], d, &q)
        c.cols = r.cols = r.size = min(self.block, self.axes[1].out - block)
        c.x = x + image * self.x_stride[0] + channel * self.x_stride[1] + q * self.axes[0].x_stride + self.skipped * item
        c.y, c.before = scratch + self.lead * item, self.axes[1].before - block * c.step
        if self.ones != NULL:
            c.scale, c.factor = <const float *>self.axes[1].scale + block, scale_of(&self.axes[0], d, False)
        self.fn(&c)
        c.x = scratch
        if self.step > 1:
            c.x = scratch + self.taps_at
            t.at, t.count, t.unit, t.y_step, t.repeat = NULL, c.cols * (self.pitch // self.step), item, item, 1
            t.step = self.step * item
            for i in range(self.taps):
                t.x, t.y = scratch + i * self.dilation * item, scratch + self.taps_at + i * r.x_row
                self.take(&t)
        y += image * self.y_stride[0] + channel * self.y_stride[1] + d * self.axes[0].y_stride + block * r.y_col
        if self.flat:
            r.cols = r.size = 1
        for i in range(self.run_count):
            r.x, r.y, r.count = c.x + self.runs[i] * item, y + self.runs[i] * item, self.runs[i + 1] - self.runs[i]
            if self.flat:
                r.count *= c.cols
            if self.ones != NULL:
                r.factor = (<const float *>self.axes[2].scale)[self.runs[i]]
            self.fn(&r)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef PlanesRun r
        r.nest, r.x, r.y, r.workspace = <void *>self, at[0], at[1], workspace
        if self.images * self.channels * self.axes[0].out * self.blocks:
            share_out(self.threads, planes_share, &r)


cdef struct PlanesRun:
    void *nest
    const char *x
    char *y
    char *workspace


cdef void planes_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const PlanesRun *r = <const PlanesRun *>argument
    (<PlanePooling>r.nest).run_tasks(r.x, r.y, r.workspace + slot * (<PlanePooling>r.nest).slot_bytes, part, parts, portions)


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
    of_axes = scales or (None, None, None)
    for i in range(3):
        axes[i] = axis_of(x, dy, 2 + i, windows[i], of_axes[i])
        t.dx[i] = dx.strides[2 + i]
    t.n, t.runs, t.channels, t.chunk, t.chunks = x.shape[0], x.shape[1], channels, channels, 1
    threads = threads_for(threads, loads_of(&axes[0], &axes[1], &axes[2]) * t.n * t.runs * channels * item)
    t.x, t.dy, t.to = <const char *>PyArray_DATA(x), <const char *>PyArray_DATA(dy), <char *>PyArray_DATA(dx)
    for i in range(2):
        t.x_stride[i], t.dy_stride[i], t.to_stride[i] = x.strides[i], dy.strides[i], dx.strides[i]
    if t.n * t.runs < FEW_TASKS * threads:
        t.chunk = CHUNK_VECTORS * row.lanes
        t.chunks = ceil_div(channels, t.chunk)
    if t.n * t.runs * t.chunks == 0:
        return
    g.window.x_col, g.window.y_col, g.dx_col = axes[2].x_stride, axes[2].y_stride, t.dx[2]
    g.window.x_depth, g.window.x_row = axes[0].x_stride * axes[0].dilation, axes[1].x_stride * axes[1].dilation
    g.dx_depth, g.dx_row = t.dx[0] * axes[0].dilation, t.dx[1] * axes[1].dilation
    g.window.cols, g.window.taps, g.window.step = axes[2].out, axes[2].kernel, axes[2].stride
    g.window.dilation, g.window.before, g.window.size = axes[2].dilation, axes[2].before, axes[2].size
    g.window.scale, g.window.factor = axes[2].scale, 1
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
        images_of(r.fn, r.pooling[0], r.tasks, r.axes, first, last)


cdef void images_of(lk_pooling_back_fn fn, lk_pooling_back g, const Tasks *t, const PoolAxis *axes, int64_t task,
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
                g.window.depths, g.window.rows = taps_of(&axes[0], d, &q), taps_of(&axes[1], i, &r)
                g.window.x = x + q * axes[0].x_stride + r * axes[1].x_stride
                g.dx = dx + q * t.dx[0] + r * t.dx[1]
                g.window.y = <char *>dy + d * axes[0].y_stride + i * axes[1].y_stride
                if g.window.scale != NULL:
                    g.window.factor = scale_of(&axes[0], d, t.item == 8) * scale_of(&axes[1], i, t.item == 8)
                fn(&g)
        task += 1
