"""Convolution as a GEMM where pixels are innermost (NCHW): rows of the register tile are output channels.

    C[i][j] = sum A[i][k] B[k][j]    i: output channels; j: output pixels of one image

The pixels are packed into panels, unless the input itself is one (1x1). planes.pyx reads them in place.
A task is some output channels of a chunk of panels, which stays in L2: so it writes a few planes, each of them line by
line. Writing all channels of one panel first would touch as many cache lines, each in another plane.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from ..executor import NOTHING, Footprint

from ...kernels.elementwise cimport lk_epilogue
from ...kernels.gemm cimport lk_gemm
from ..executor cimport (
    PREFETCH_FROM_BYTES, PREFETCH_TILES, ChannelRows, Executor, Geometry, Tasks, aligned, ceil_div, more, share,
)


cdef enum:
    CHUNK_BYTES = 256 << 10  # of panels that stay in L2


cdef inline void copy_apart(char *dst, const char *src, int64_t n, int64_t apart, int64_t item) noexcept nogil:
    """Copy n elements of `item` bytes, which are `apart` bytes from one another in the source."""
    cdef int64_t j
    if apart == item:
        memcpy(dst, src, n * item)
    elif item == 4:
        for j in range(n):
            (<int32_t *>dst)[j] = (<const int32_t *>(src + j * apart))[0]
    elif item == 8:
        for j in range(n):
            (<int64_t *>dst)[j] = (<const int64_t *>(src + j * apart))[0]
    else:
        for j in range(n):
            memcpy(dst + j * item, src + j * apart, item)


cdef class FilterRows(Executor):
    """Rows of the register tile are output channels, columns are output pixels of one image.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, c, d, h, w) of the input and (n, c) of the output, whose pixels are contiguous; a gemm row.
    channels : (input, output)
        Channels of a group.
    in_place : bool
        The input's pixels are the panel (1x1, stride 1, no padding, contiguous): nothing is packed.
    by_channel : bool
        Sums go through channels, and for each channel through the taps.

    The filter is [groups][output channels][taps][input channels] (as summed), the bias [groups][output
    channels].
    """

    cdef int64_t x_stride[5]
    cdef int64_t y_stride[2]
    cdef int64_t ic, oc, depth, pixels, panels, tiles, chunks, panel_bytes
    cdef bint in_place, by_channel
    cdef bint prefetches             # the output is prefetched for writing

    def __init__(self, nest, channels, bint in_place, bint by_channel):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        for i in range(5):
            self.x_stride[i] = x_strides[i]
        self.y_stride[0], self.y_stride[1] = y_strides
        self.ic, self.oc = channels
        self.in_place, self.by_channel, self.accumulates = in_place, by_channel, True
        cdef Geometry *g = &self.g
        self.depth = self.ic * g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.pixels = g.out[0] * g.out[1] * g.out[2]
        self.panels = ceil_div(self.pixels, self.nr)
        self.tiles = ceil_div(self.oc, self.mr)
        self.panel_bytes = self.x_item * self.depth * self.nr
        self.chunks = ceil_div(self.panels, max(1, CHUNK_BYTES // max(1, self.panel_bytes)))
        if self.threads > 1:  # many chunks, as some have a panel more than others
            self.chunks = max(self.chunks, min(self.panels, 8 * self.threads))
        self.total = g.n * g.groups * self.chunks * self.tiles
        self.prefetches = self.y_item * g.n * g.groups * self.oc * self.pixels > PREFETCH_FROM_BYTES
        self.ws_thread = aligned(self.panel_bytes * (1 if in_place else ceil_div(self.panels, max(1, self.chunks))))

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        reads = [(0, g.n - 1, self.x_stride[0]), (0, g.groups * self.ic - 1, self.x_stride[1])]
        writes = [(0, g.n - 1, self.y_stride[0]), (0, g.groups * self.oc - 1, self.y_stride[1])]
        run = self.x_item * self.pixels
        if not self.in_place:
            run = self.x_item
            reads += [(first, last, self.x_stride[i + 2]) for i, (first, last) in enumerate(self.positions(True))]
        filters = g.groups * self.oc
        return Footprint(((reads, run),), ((writes, self.y_item * self.pixels),), self.w_item * filters * self.depth,
                         self.sum_item * filters)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef int64_t filter_step = self.depth * self.w_item
        cdef int64_t t, p, chunk, first, last, image, group, rest, o, at = -1, zero_tap = 0
        cdef const char *src = NULL
        cdef char *dst
        cdef ChannelRows rows
        cdef lk_gemm *tile = &rows.tile
        self.channel_rows(&rows, epilogue, y, filter_step, self.y_stride[1])
        tile.tap, tile.taps, tile.kb, tile.kb_last = &zero_tap, 1, self.depth, self.depth
        if self.prefetches:
            tile.next_c_row = rows.c_row
        while task < end or more(tasks, &task, &end):
            t, rest = task % self.tiles, task // self.tiles
            chunk, rest = rest % self.chunks, rest // self.chunks
            group, image = rest % self.g.groups, rest // self.g.groups
            first, last = share(self.panels, self.chunks, chunk), share(self.panels, self.chunks, chunk + 1)
            if at != task // self.tiles:
                at = task // self.tiles
                src = x + image * self.x_stride[0] + group * self.ic * self.x_stride[1]
                dst = workspace
                for p in range(first, last):
                    if not self.reads_in_place(p):
                        self.gather_panel(src, p * self.nr, min(self.nr, self.pixels - p * self.nr), dst)
                        dst += self.panel_bytes
            o = share(self.oc, self.tiles, t)
            tile.rows = <int>(share(self.oc, self.tiles, t + 1) - o)
            o += group * self.oc
            tile.a = w + o * filter_step
            if bias != NULL:
                tile.bias_row = bias + o * self.sum_item
            dst = workspace
            for p in range(first, last):
                tile.cols = <int>min(self.nr, self.pixels - p * self.nr)
                tile.b, tile.ldb = dst, self.nr
                if self.reads_in_place(p):
                    tile.b, tile.ldb = src + p * self.nr * self.x_item, self.x_stride[1] // self.x_item
                else:
                    dst += self.panel_bytes
                tile.c = y + image * self.y_stride[0] + o * self.y_stride[1] + p * self.nr * self.y_item
                tile.next_c = tile.c + PREFETCH_TILES * self.nr * self.y_item
                self.channel_tile(&rows, y, o)
            task += 1

    cdef inline bint reads_in_place(self, int64_t panel) noexcept nogil:
        """Whether a panel is read in place: whole vectors of its pixels are inside the plane."""
        return self.in_place and (panel + 1) * self.nr <= self.pixels

    cdef void gather_panel(self, const char *x, int64_t first, int64_t cols, char *panel) noexcept nogil:
        """Pack the inputs of output pixels [first, first + cols): nr elements per tap and channel, as they are summed.
        """
        cdef const Geometry *g = &self.g
        cdef int64_t c, a, b, k, p, q, run, lo, hi, apart = g.stride[2] * self.x_stride[4]
        cdef int64_t at[3]
        cdef int64_t o[3]
        cdef const char *src
        cdef int64_t item = self.x_item, row = self.nr * item, step = row if self.by_channel else self.ic * row
        cdef char *dst
        for c in range(self.ic):
            dst = panel + c * (self.depth // self.ic if self.by_channel else 1) * row
            for a in range(g.kernel[0]):
                for b in range(g.kernel[1]):
                    for k in range(g.kernel[2]):
                        p, q = first, 0
                        while q < cols:  # a run of pixels of one output row
                            o[2] = p % g.out[2]
                            o[1] = p // g.out[2] % g.out[1]
                            o[0] = p // g.out[2] // g.out[1]
                            run = min(cols - q, g.out[2] - o[2])
                            at[0] = o[0] * g.stride[0] - g.before[0] + a * g.dilation[0]
                            at[1] = o[1] * g.stride[1] - g.before[1] + b * g.dilation[1]
                            at[2] = o[2] * g.stride[2] - g.before[2] + k * g.dilation[2]
                            if not (0 <= at[0] < g.size[0] and 0 <= at[1] < g.size[1]):
                                memset(dst + q * item, 0, run * item)
                            else:
                                lo = min(run, ceil_div(-at[2], g.stride[2])) if at[2] < 0 else 0
                                hi = run
                                if at[2] + (run - 1) * g.stride[2] >= g.size[2]:
                                    hi = max(lo, ceil_div(g.size[2] - at[2], g.stride[2]))
                                src = (x + c * self.x_stride[1] + at[0] * self.x_stride[2]
                                       + at[1] * self.x_stride[3] + at[2] * self.x_stride[4])
                                memset(dst + q * item, 0, lo * item)
                                copy_apart(dst + (q + lo) * item, src + lo * apart, hi - lo, apart, item)
                                memset(dst + (q + hi) * item, 0, (run - hi) * item)
                            q += run
                            p += run
                        memset(dst + cols * item, 0, row - cols * item)
                        dst += step
