"""Convolution of planes of pixels (NCHW) where they lie: rows of the tile are output channels, columns are pixels.

    y[o, j] = bias[o] + sum over taps t, channels c of w[o, t, c] * x[c, j + t]

The input is padded with zeros, so that what a tap reads of a row of output pixels is a row of floats: a panel of the
tile whose rows lie a plane apart. A task is a row of a tile's columns, all output channels of a group one after the
other: what it reads stays in L1 or L2 meanwhile.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from .executor cimport ChannelRows, Executor, Geometry, ceil_div, share
from .registry cimport lk_finish, lk_gemm


cdef class Planes(Executor):
    """Stride 1 along the width, no padding: the input holds its zeros.

    Parameters
    ----------
    kernel, geometry, threads
        As of PixelRows; 64 bytes may be read behind the input.
    x_strides : (n, c, d, h)
        Byte strides of the input, whose rows lie dense.
    y_strides : (n, c, d, h)
        Those of the output, the same.
    ic : int
        Input channels of a group.

    The packed filter is [groups][output channels][taps][input channels] floats, the bias [groups][output channels].
    """

    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t ic, taps, tiles, vectors, panels
    cdef int64_t *tap                # bytes from tap to tap of the filter
    cdef int64_t *b_tap              # floats from the first tap's pixels

    def __init__(self, str kernel, geometry, int threads, x_strides, y_strides, int64_t ic):
        Executor.__init__(self, kernel, geometry, threads)
        cdef const Geometry *g = &self.g
        cdef int64_t i, a, b, c, t = 0
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.ic, self.accumulates = ic, True
        self.taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.tiles = ceil_div(g.oc, self.mr)
        self.vectors = ceil_div(g.out[2], self.lanes)
        self.panels = ceil_div(self.vectors, self.nr // self.lanes)
        self.total = g.n * g.groups * g.out[0] * g.out[1] * self.panels
        self.tap = <int64_t *>calloc(max(1, self.taps), sizeof(int64_t))
        self.b_tap = <int64_t *>calloc(max(1, self.taps), sizeof(int64_t))
        if self.tap == NULL or self.b_tap == NULL:
            raise MemoryError(f"convolution: tables of {self.taps} taps")
        for a in range(g.kernel[0]):
            for b in range(g.kernel[1]):
                for c in range(g.kernel[2]):
                    self.tap[t] = 4 * t * ic
                    self.b_tap[t] = (a * g.dilation[0] * self.x_stride[2] + b * g.dilation[1] * self.x_stride[3]) // 4
                    self.b_tap[t] += c * g.dilation[2]
                    t += 1

    def __dealloc__(self):
        free(self.tap)
        free(self.b_tap)

    cdef void part(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil:
        cdef const Geometry *g = &self.g
        cdef int64_t p, rest, high, deep, group, image, first, last, t, o
        cdef ChannelRows rows
        cdef lk_gemm *tile = &rows.tile
        self.channel_rows(&rows, finish, y, 4 * self.taps * self.ic, self.y_stride[1])
        tile.tap, tile.b_tap, tile.taps = self.tap, self.b_tap, self.taps
        tile.kb, tile.kb_last, tile.ldb = self.ic, self.ic, self.x_stride[1] // 4
        while task < end:
            p, rest = task % self.panels, task // self.panels
            high, rest = rest % g.out[1], rest // g.out[1]
            deep, rest = rest % g.out[0], rest // g.out[0]
            group, image = rest % g.groups, rest // g.groups
            first = share(self.vectors, self.panels, p) * self.lanes
            last = min(share(self.vectors, self.panels, p + 1) * self.lanes, g.out[2])
            tile.cols = <int>(last - first)
            tile.b = <const float *>(x + image * self.x_stride[0] + group * self.ic * self.x_stride[1]
                                     + deep * g.stride[0] * self.x_stride[2] + high * g.stride[1] * self.x_stride[3]
                                     + 4 * first)
            for t in range(self.tiles):
                o = share(g.oc, self.tiles, t)
                tile.rows = <int>(share(g.oc, self.tiles, t + 1) - o)
                o += group * g.oc
                tile.a = <const char *>(w + o * self.taps * self.ic)
                if bias != NULL:
                    tile.bias_row = bias + o
                tile.c = (y + image * self.y_stride[0] + o * self.y_stride[1] + deep * self.y_stride[2]
                          + high * self.y_stride[3] + 4 * first)
                self.channel_tile(&rows, y, o)
            task += 1
