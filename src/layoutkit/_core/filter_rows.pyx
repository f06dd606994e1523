"""Convolution as a GEMM where pixels are innermost (NCHW): rows of the register tile are output channels.

    C[i][j] = sum A[i][k] B[k][j]    i: output channels; j: output pixels of one image

The pixels are packed into panels, unless they are one already (1x1). planes.pyx reads them in place.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from .executor import NOTHING, Footprint

from .executor cimport ChannelRows, Executor, Geometry, aligned, ceil_div, share
from .registry cimport lk_epilogue, lk_gemm


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

    The filter is [groups][output channels][taps][input channels] floats (as summed), the bias [groups][output
    channels].
    """

    cdef int64_t x_stride[5]
    cdef int64_t y_stride[2]
    cdef int64_t ic, oc, depth, pixels, panels, tiles
    cdef bint in_place, by_channel
    cdef float zero

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
        self.total = g.n * g.groups * self.panels * self.tiles
        self.ws_thread = aligned(4 * self.depth * self.nr)

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        reads = [(0, g.n - 1, self.x_stride[0]), (0, g.groups * self.ic - 1, self.x_stride[1])]
        writes = [(0, g.n - 1, self.y_stride[0]), (0, g.groups * self.oc - 1, self.y_stride[1])]
        run = 4 * self.pixels
        if not self.in_place:
            run = 4
            reads += [(first, last, self.x_stride[i + 2]) for i, (first, last) in enumerate(self.positions(True))]
        filters = 4 * g.groups * self.oc
        return Footprint(((reads, run),), ((writes, 4 * self.pixels),), filters * self.depth, filters)

    cdef void part(self, const char *x, const float *w, const float *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil:
        cdef float *panel = <float *>workspace
        cdef int64_t t, p, image, group, rest, o, at = -1, zero_tap = 0
        cdef const char *src
        cdef ChannelRows rows
        cdef lk_gemm *tile = &rows.tile
        self.channel_rows(&rows, epilogue, y, 4 * self.depth, self.y_stride[1])
        tile.tap, tile.taps, tile.kb, tile.kb_last = &zero_tap, 1, self.depth, self.depth
        while task < end:
            t, rest = task % self.tiles, task // self.tiles
            p, rest = rest % self.panels, rest // self.panels
            group, image = rest % self.g.groups, rest // self.g.groups
            tile.cols = <int>min(self.nr, self.pixels - p * self.nr)
            if at != task // self.tiles:
                at = task // self.tiles
                src = x + image * self.x_stride[0] + group * self.ic * self.x_stride[1]
                if self.in_place and tile.cols == self.nr:
                    tile.b, tile.ldb = <const float *>(src + 4 * p * self.nr), self.x_stride[1] // 4
                else:
                    self.gather_panel(src, p * self.nr, tile.cols, panel)
                    tile.b, tile.ldb = panel, self.nr
            o = share(self.oc, self.tiles, t)
            tile.rows = <int>(share(self.oc, self.tiles, t + 1) - o)
            o += group * self.oc
            tile.a = <const char *>(w + o * self.depth)
            if bias != NULL:
                tile.bias_row = bias + o
            tile.c = y + image * self.y_stride[0] + o * self.y_stride[1] + 4 * p * self.nr
            self.channel_tile(&rows, y, o)
            task += 1

    cdef void gather_panel(self, const char *x, int64_t first, int64_t cols, float *panel) noexcept nogil:
        """Pack what output pixels [first, first + cols) read: nr floats per tap and channel, in order of summation."""
        cdef const Geometry *g = &self.g
        cdef int64_t c, a, b, k, left, p, q, run, lo, hi, j
        cdef int64_t at[3]
        cdef int64_t o[3]
        cdef const char *src
        cdef int64_t step = self.nr if self.by_channel else self.ic * self.nr
        cdef float *dst
        for c in range(self.ic):
            dst = panel + c * (self.depth // self.ic if self.by_channel else 1) * self.nr
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
                                memset(dst + q, 0, 4 * run)
                            else:
                                lo = min(run, ceil_div(-at[2], g.stride[2])) if at[2] < 0 else 0
                                hi = run
                                if at[2] + (run - 1) * g.stride[2] >= g.size[2]:
                                    hi = max(lo, ceil_div(g.size[2] - at[2], g.stride[2]))
                                src = (x + c * self.x_stride[1] + at[0] * self.x_stride[2]
                                       + at[1] * self.x_stride[3] + at[2] * self.x_stride[4])
                                memset(dst + q, 0, 4 * lo)
                                if g.stride[2] == 1 and self.x_stride[4] == 4:
                                    memcpy(dst + q + lo, src + 4 * lo, 4 * (hi - lo))
                                else:
                                    for j in range(lo, hi):
                                        dst[q + j] = (<const float *>(src + j * g.stride[2] * self.x_stride[4]))[0]
                                memset(dst + q + hi, 0, 4 * (run - hi))
                            q += run
                            p += run
                        memset(dst + cols, 0, 4 * (self.nr - cols))
                        dst += step
