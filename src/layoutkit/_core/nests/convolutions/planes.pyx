"""Convolution of planes of pixels (NCHW) in place: rows of the register tile are output channels, columns are pixels.

    y[o, j] = bias[o] + sum over taps t, channels c of w[o, t, c] * x[c, j + t]

The input is padded, so for each tap a row of output pixels reads a contiguous row of it: a panel of B whose rows are a
plane or a row apart. A task is a tile of output channels of some rows: the input of these stays in L2 for the tasks of
the other channels. It is written row after row. Writing all channels of a few pixels first would be several times
slower, as it touches as many cache lines, each in another plane.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from ..executor import NOTHING, Footprint

from ...kernels.elementwise cimport lk_epilogue
from ...kernels.gemm cimport lk_gemm
from ..executor cimport (
    PREFETCH_FROM_BYTES, PREFETCH_TILES, ChannelRows, Executor, Geometry, Tasks, ceil_div, more, share,
)


cdef enum:
    TASK_BYTES = 256 << 10   # of the input of a task, which stays in L2
    MIN_TASKS = 8            # per thread, if there are enough rows


cdef class Planes(Executor):
    """The padding is part of the input; neighbouring outputs of a row read neighbouring pixels.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, c, d, h); rows are contiguous. A gemm row. Up to a vector past the end of the input may be read.
    ic : int
        Input channels of a group.
    columns : tuple of int
        For each tap along the width the offset, in elements, of the pixel that the first output of a row reads.
    folds : bool
        Folded: taps and channels are one loop, over a list of the rows that they read. For few channels.
    by_channel : bool
        Sums go through channels, and for each channel through the taps; requires `folds`.

    The packed filter is [groups][output channels][taps][input channels] (as summed), the bias [groups][output
    channels].
    """

    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t ic, depth, taps, tiles, vectors, panels, chunks
    cdef bint folds
    cdef bint prefetches             # the output is prefetched for writing
    cdef int64_t *tap                # offset of each tap in the filter, bytes
    cdef int64_t *x_offset           # of what each tap reads, elements; if folded, of each channel of each tap

    def __init__(self, nest, int64_t ic, columns, bint folds, bint by_channel):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef const Geometry *g = &self.g
        cdef int64_t i, a, b, c, t = 0, channels = ic if folds else 1, offset, k
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.ic, self.accumulates, self.folds = ic, True, folds
        self.taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.depth = self.taps * ic
        self.tiles = ceil_div(g.oc, self.mr)
        self.vectors = ceil_div(g.out[2], self.lanes)
        self.panels = ceil_div(self.vectors, self.nr // self.lanes)
        k = max(1, (1 if folds else ic) * g.kernel[0] * g.stride[1] * self.x_stride[3])  # bytes that a row of a task reads
        self.chunks = ceil_div(g.out[1], max(1, TASK_BYTES // k))
        self.total = g.n * g.groups * g.out[0] * self.chunks * self.tiles
        if self.threads > 1 and self.total < MIN_TASKS * self.threads:  # finer, as tasks differ in cost
            k = min(g.out[1], self.chunks * ceil_div(MIN_TASKS * self.threads, max(1, self.total)))
            self.total, self.chunks = self.total // max(1, self.chunks) * k, k
        self.prefetches = self.y_item * g.n * g.groups * g.oc * g.out[0] * g.out[1] * g.out[2] > PREFETCH_FROM_BYTES
        self.tap = <int64_t *>calloc(max(1, self.taps), sizeof(int64_t))
        self.x_offset = <int64_t *>calloc(max(1, self.taps * channels), sizeof(int64_t))
        if self.tap == NULL or self.x_offset == NULL:
            raise MemoryError(f"convolution: tables of {self.taps} taps")
        for a in range(g.kernel[0]):
            for b in range(g.kernel[1]):
                for c in range(g.kernel[2]):
                    self.tap[t] = t * ic * self.w_item
                    offset = (a * g.dilation[0] * self.x_stride[2] + b * g.dilation[1] * self.x_stride[3]) // self.x_item
                    for i in range(channels):
                        k = i * self.taps + t if by_channel else t * channels + i
                        self.x_offset[k] = offset + <int64_t>columns[c] + i * self.x_stride[1] // self.x_item
                    t += 1

    def __dealloc__(self):
        free(self.tap)
        free(self.x_offset)

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        channels = 1 if self.folds else self.ic  # for each of `x_offset`
        offsets = [self.x_item * self.x_offset[i] for i in range(self.taps * self.ic // max(1, channels))] or [0]
        reads = [(0, g.n - 1, self.x_stride[0]), (0, g.groups - 1, self.ic * self.x_stride[1]),
                 (0, channels - 1, self.x_stride[1]), (0, g.out[0] - 1, g.stride[0] * self.x_stride[2]),
                 (0, g.out[1] - 1, g.stride[1] * self.x_stride[3]), (min(offsets), max(offsets), 1)]
        writes = [(0, g.n - 1, self.y_stride[0]), (0, g.groups * g.oc - 1, self.y_stride[1]),
                  (0, g.out[0] - 1, self.y_stride[2]), (0, g.out[1] - 1, self.y_stride[3])]
        filters = g.groups * g.oc
        source = ((reads, self.x_item * self.vectors * self.lanes),) if self.ic else ()
        return Footprint(source, ((writes, self.y_item * g.out[2]),), self.w_item * filters * self.depth,
                         self.sum_item * filters)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef const Geometry *g = &self.g
        cdef int64_t p, rest, high, deep, group, image, chunk, first, t, o, filter_step = self.depth * self.w_item
        cdef const char *from_
        cdef char *to
        cdef ChannelRows rows
        cdef lk_gemm *tile = &rows.tile
        self.channel_rows(&rows, epilogue, y, filter_step, self.y_stride[1])
        tile.tap, tile.taps, tile.kb, tile.kb_last = self.tap, self.taps, self.ic, self.ic
        tile.ldb = self.x_stride[1] // self.x_item
        tile.b_tap = self.x_offset
        if self.folds:
            tile.taps, tile.kb, tile.kb_last = 1, self.depth, self.depth
            tile.b_tap, tile.b_row = NULL, self.x_offset
        if self.prefetches:
            tile.next_c_row = rows.c_row
        while task < end or more(tasks, &task, &end):
            t, rest = task % self.tiles, task // self.tiles
            chunk, rest = rest % self.chunks, rest // self.chunks
            deep, rest = rest % g.out[0], rest // g.out[0]
            group, image = rest % g.groups, rest // g.groups
            o = share(g.oc, self.tiles, t)
            tile.rows = <int>(share(g.oc, self.tiles, t + 1) - o)
            o += group * g.oc
            from_ = (x + image * self.x_stride[0] + group * self.ic * self.x_stride[1]
                     + deep * g.stride[0] * self.x_stride[2])
            tile.a = w + o * filter_step
            if bias != NULL:
                tile.bias_row = bias + o * self.sum_item
            to = y + image * self.y_stride[0] + o * self.y_stride[1] + deep * self.y_stride[2]
            for high in range(share(g.out[1], self.chunks, chunk), share(g.out[1], self.chunks, chunk + 1)):
                for p in range(self.panels):
                    first = share(self.vectors, self.panels, p) * self.lanes
                    tile.cols = <int>(min(share(self.vectors, self.panels, p + 1) * self.lanes, g.out[2]) - first)
                    tile.b = from_ + high * g.stride[1] * self.x_stride[3] + first * self.x_item
                    tile.c = to + high * self.y_stride[3] + first * self.y_item
                    tile.next_c = tile.c + PREFETCH_TILES * self.nr * self.y_item
                    self.channel_tile(&rows, y, o)
            task += 1
