"""Depthwise k x k of planes of pixels (NCHW) in place: the loop nest around the micro-kernels of plane_strips.c.

A task is a plane, or some of its rows if there are too few planes for the threads. It is processed strip by strip, each
from its first row to its last. Planes whose rows are one vector are processed two at a time.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free

from ..executor import NOTHING, Footprint

from ...kernels.depthwise cimport lk_plane_strips, lk_plane_strips_fn
from ...kernels.elementwise cimport lk_epilogue
from ..executor cimport Executor, Geometry, Tasks, ceil_div, clip_of, more, share


cdef class PlaneStrips(Executor):
    """Each output channel reads its own input channel.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, c, h); rows are contiguous. A plane_strips row. Kernel (1, k, k) of that row, stride (s, s), s 1 or 2,
        dilation 1.
    channels, chunks : int
        All channels, and the number of parts into which the rows are cut.

    The packed filter is [channels][k][k], the bias [channels].
    """

    cdef int64_t x_stride[3]
    cdef int64_t y_stride[3]
    cdef int64_t channels, chunks, vectors, strips, taps
    cdef int64_t loads           # of a vector of an input row
    cdef uint32_t *x_lanes       # [vectors of a row][loads]
    cdef int64_t *row            # offsets of the output rows
    cdef bint far

    def __init__(self, nest, int64_t channels, int64_t chunks):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef const Geometry *g = &self.g
        cdef int64_t i, v, lane, column, first, last, k = g.kernel[2]
        cdef int64_t step = max(g.stride[1], g.stride[2])  # that of a single output is 1
        for i in range(3):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.channels, self.chunks, self.taps = channels, chunks, k * k
        self.vectors = ceil_div(g.out[2], self.lanes)
        self.strips = ceil_div(self.vectors, self.nr // self.lanes)
        self.total = g.n * channels * chunks
        self.far = self.is_far(channels)
        self.loads = ceil_div(k, step) * step
        self.x_lanes = <uint32_t *>calloc(max(1, self.vectors * self.loads), sizeof(uint32_t))
        self.row = <int64_t *>calloc(max(1, g.out[1]), sizeof(int64_t))
        if self.x_lanes == NULL or self.row == NULL:
            raise MemoryError(f"convolution: tables of {self.vectors} vectors and {g.out[1]} rows")
        first, last = self.positions(True)[2]
        for v in range(self.vectors):
            for i in range(self.loads):
                column = step * v * self.lanes + (i // step * step + i % step * self.lanes) - g.before[2]
                for lane in range(self.lanes):
                    if first <= column + lane <= last:
                        self.x_lanes[v * self.loads + i] |= <uint32_t>1 << lane
        for i in range(g.out[1]):
            self.row[i] = i * self.y_stride[2]

    def __dealloc__(self):
        free(self.x_lanes)
        free(self.row)

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        _, rows, (first, last) = self.positions(True)
        reads = [(0, g.n - 1, self.x_stride[0]), (0, self.channels - 1, self.x_stride[1]), (*rows, self.x_stride[2]),
                 (first, first, self.x_item)]
        writes = [(0, g.n - 1, self.y_stride[0]), (0, self.channels - 1, self.y_stride[1]),
                  (0, g.out[1] - 1, self.y_stride[2])]
        return Footprint(((reads, self.x_item * (last - first + 1)),), ((writes, self.y_item * g.out[2]),),
                         self.taps * self.w_item * self.channels, self.sum_item * self.channels)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef const Geometry *g = &self.g
        cdef lk_plane_strips_fn fn = <lk_plane_strips_fn>self.micro_kernel
        cdef lk_plane_strips s
        cdef lk_epilogue f
        cdef int64_t n, c, chunk, rest, i, j, first, row
        cdef int64_t step = max(g.stride[1], g.stride[2])  # that of a single output is 1
        cdef bint pairs = self.chunks == 1 and self.vectors == 1
        cdef uint32_t every = (<uint32_t>1 << self.lanes) - 1
        cdef const char *from_
        cdef char *to
        cdef const void *clip = clip_of(epilogue, False, False)
        cdef bint joined = self.y_stride[2] == g.out[2] * self.y_item  # rows of a plane, to one row
        s.x_row, s.y_row, s.clip, s.bias, s.positive = self.x_stride[2], self.y_stride[2], clip, NULL, self.positive
        s.x_plane, s.y_plane, s.step, s.far = self.x_stride[1], self.y_stride[1], <int>step, self.far
        while task < end or more(tasks, &task, &end):
            chunk, rest = task % self.chunks, task // self.chunks
            c, n = rest % self.channels, rest // self.channels
            s.planes = 2 if pairs and c + 1 < self.channels and task + 1 < end else 1
            row = share(g.out[1], self.chunks, chunk)
            s.rows = share(g.out[1], self.chunks, chunk + 1) - row
            s.top = g.before[1] - step * row
            s.bottom = s.top + g.size[1]
            from_ = (x + n * self.x_stride[0] + c * self.x_stride[1] + (step * row - g.before[1]) * self.x_stride[2]
                     - g.before[2] * self.x_item)
            to = y + n * self.y_stride[0] + c * self.y_stride[1] + row * self.y_stride[2]
            s.w = w + c * self.taps * self.w_item
            if bias != NULL:
                s.bias = bias + c * self.sum_item
            for i in range(self.strips):
                first = share(self.vectors, self.strips, i)
                s.vectors = <int>(share(self.vectors, self.strips, i + 1) - first)
                s.x, s.y = from_ + step * first * self.lanes * self.x_item, to + first * self.lanes * self.y_item
                s.x_lanes = self.x_lanes + first * self.loads
                s.y_lanes = every
                if i + 1 == self.strips:
                    s.y_lanes = every >> (self.vectors * self.lanes - g.out[2])
                s.masked = 0
                for j in range(s.vectors * self.loads):
                    s.masked |= s.x_lanes[j] != every
                fn(&s)
            if epilogue != NULL and clip == NULL:
                for i in range(s.planes):
                    f = epilogue[0]
                    f.channel_row = f.channel_col = 0
                    self.epilogue_rows(&f, y, to - y + i * s.y_plane, self.row, 1 if joined else s.rows, c + i,
                                       g.out[2] * (s.rows if joined else 1))
            task += s.planes
