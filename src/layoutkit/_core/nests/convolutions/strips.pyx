"""Depthwise k x k down strips of columns: the loop nest around the micro-kernels of strips.c.

A task is a run of channels of some rows of an image. It is processed strip by strip, each of them vector by vector of
channels, from its first row to its last. Rows are divided only if there would be too few tasks for the threads.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from ..executor import NOTHING, Footprint

from ...kernels.depthwise cimport lk_strips, lk_strips_fn
from ...kernels.elementwise cimport lk_epilogue
from ..executor cimport Executor, Geometry, Tasks, aligned, ceil_div, clip_of, more, share


cdef class Strips(Executor):
    """Each output channel reads its own input channel.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, run, h, w) of an image, a run of channels, a pixel; a strips row. Kernel (1, k, k) of that row,
        stride 1 or 2, dilation 1.
    channels, padded : int
        Output channels, without and with the pads, which are written as well.
    run : int
        Channels of a task, which are contiguous: whole vectors, but for the last run.
    chunks : int
        The number of parts into which the rows are cut.

    The packed filter is [vectors of channels][k][k][lanes], the bias [vectors][lanes], both of the type of the sums.
    Narrow results are rounded by the micro-kernel, or, if the epilogue is more than a clip, after it.
    """

    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t channels, padded, run_channels, runs, chunks, strips, taps
    cdef int64_t *pixel          # offsets of the outputs of a row
    cdef int64_t sum_channels  # of the sums of a strip, whole vectors
    cdef int64_t sums_bytes    # of all of these sums
    cdef bint far

    def __init__(self, nest, int64_t channels, int64_t padded, int64_t run, int64_t chunks):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef int64_t i
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.channels, self.padded, self.run_channels, self.chunks = channels, padded, run, chunks
        self.taps = self.g.kernel[1] * self.g.kernel[2]
        self.runs = ceil_div(channels, run)
        self.strips = ceil_div(self.g.out[2], self.nr)
        self.total = self.g.n * self.runs * chunks
        self.far = self.is_far(channels)
        self.pixel = <int64_t *>calloc(max(1, self.g.out[2]), sizeof(int64_t))
        self.sum_channels = ceil_div(min(run, channels), self.lanes) * self.lanes
        i = ceil_div(self.g.out[1], chunks) * self.nr if self.rounding else 0  # outputs of a strip
        self.sums_bytes = aligned(i * self.sum_channels * self.sum_item)
        self.ws_thread = self.sums_bytes + aligned(i * sizeof(int64_t))
        if self.pixel == NULL:
            raise MemoryError(f"convolution: a table of {self.g.out[2]} columns")
        for i in range(self.g.out[2]):
            self.pixel[i] = i * self.y_stride[3]

    def __dealloc__(self):
        free(self.pixel)

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        _, rows, columns = self.positions(True)
        last = self.runs - 1
        reads = [(0, g.n - 1, self.x_stride[0]), (*rows, self.x_stride[2]), (*columns, self.x_stride[3])]
        writes = [(0, g.n - 1, self.y_stride[0]), (0, g.out[1] - 1, self.y_stride[2]),
                  (0, g.out[2] - 1, self.y_stride[3])]
        read, written = self.channels - last * self.run_channels, self.padded - last * self.run_channels
        source = [([*reads, (last, last, self.x_stride[1])], self.x_item * read)]
        destination = [([*writes, (last, last, self.y_stride[1])], self.y_item * written)]
        if last:
            source.append(([*reads, (0, last - 1, self.x_stride[1])], self.x_item * self.run_channels))
            destination.append(([*writes, (0, last - 1, self.y_stride[1])], self.y_item * self.run_channels))
        filters = ceil_div(self.channels, self.lanes) * self.lanes
        return Footprint(tuple(source), tuple(destination), self.taps * self.sum_item * filters, self.sum_item * filters)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef const Geometry *g = &self.g
        cdef lk_strips_fn fn = <lk_strips_fn>self.micro_kernel
        cdef lk_strips s
        cdef int64_t n, run, chunk, rest, i, j, first, row, count, at, column, pads
        cdef const char *from_
        cdef char *to
        cdef const void *clip = clip_of(epilogue, False, self.padded > self.channels)
        s.x_row, s.x_col, s.y_row, s.y_col = self.x_stride[2], self.x_stride[3], self.y_stride[2], self.y_stride[3]
        cdef bint buffered = self.rounding and epilogue != NULL and clip == NULL
        cdef lk_epilogue f
        if buffered:
            f = epilogue[0]
            f.sums, f.sums_row = workspace, self.sum_channels * self.sum_item
        s.clip, s.bias, s.positive = clip, NULL, self.positive
        s.step = <int>max(g.stride[1], g.stride[2])  # that of a single output is 1
        s.wide, s.far = buffered or not self.rounding, self.far
        while task < end or more(tasks, &task, &end):
            chunk, rest = task % self.chunks, task // self.chunks
            run, n = rest % self.runs, rest // self.runs
            row = share(g.out[1], self.chunks, chunk)
            s.rows = share(g.out[1], self.chunks, chunk + 1) - row
            at = run * self.run_channels
            count = min(self.run_channels, self.channels - at)
            s.vectors = ceil_div(count, self.lanes)
            s.x_lanes = (<uint32_t>1 << count % self.lanes) - 1
            s.y_lanes = (<uint32_t>1 << min(self.lanes, self.padded - at - count // self.lanes * self.lanes)) - 1
            s.top = g.before[1] - row * g.stride[1]
            s.bottom = s.top + g.size[1]
            from_ = (x + n * self.x_stride[0] + run * self.x_stride[1]
                     + (row * g.stride[1] - g.before[1]) * self.x_stride[2])
            to = y + n * self.y_stride[0] + run * self.y_stride[1] + row * self.y_stride[2]
            s.w = w + at * self.taps * self.sum_item
            if bias != NULL:
                s.bias = bias + at * self.sum_item
            for i in range(self.strips):
                first = share(g.out[2], self.strips, i)
                s.cols = <int>(share(g.out[2], self.strips, i + 1) - first)
                column = first * g.stride[2] - g.before[2]
                s.inside = 0
                for j in range((s.cols - 1) * g.stride[2] + g.kernel[2]):
                    s.inside |= <uint32_t>(0 <= column + j < g.size[2]) << j
                s.x = from_ + column * s.x_col
                s.y = to + first * self.y_stride[3]
                if not buffered:
                    fn(&s)
                    continue
                s.y, s.y_col, s.y_row = workspace, f.sums_row, s.cols * f.sums_row
                fn(&s)
                self.round_strip(&f, &s, y, to, first, at, count)
            pads = min(self.run_channels, self.padded - at) - s.vectors * self.lanes  # in vectors of nothing else
            if pads > 0 and not buffered:
                for i in range(s.rows * g.out[2]):
                    memset(to + i // g.out[2] * s.y_row + i % g.out[2] * s.y_col + s.vectors * self.lanes * self.y_item,
                           0, pads * self.y_item)
            if epilogue != NULL and clip == NULL and not buffered:
                for i in range(s.rows):
                    self.epilogue_rows(epilogue, y, to - y + i * s.y_row, self.pixel, g.out[2], at, count)
            task += 1

    cdef void round_strip(self, lk_epilogue *f, const lk_strips *s, char *y, char *to, int64_t first, int64_t at,
                          int64_t count) noexcept nogil:
        """Apply the epilogue to the sums of a strip whose first column is `first`, channels [at, at + count)."""
        cdef int64_t i, pads = min(self.run_channels, self.padded - at) - count
        cdef int64_t *row = <int64_t *>(f.sums + self.sums_bytes)
        for i in range(s.rows * s.cols):
            row[i] = i // s.cols * self.y_stride[2] + (first + i % s.cols) * self.y_stride[3]
        self.epilogue_rows(f, y, to - y, row, s.rows * s.cols, at, count)
        if pads > 0:
            for i in range(s.rows * s.cols):
                memset(to + row[i] + count * self.y_item, 0, pads * self.y_item)
