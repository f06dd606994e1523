"""Convolution of planes of pixels (NCHW) where they lie: rows of the tile are output channels, columns are pixels.

    y[o, j] = bias[o] + sum over taps t, channels c of w[o, t, c] * x[c, j + t]

The input is padded with zeros, so that what a tap reads of a row of output pixels is a row of floats: a panel of the
tile whose rows lie a plane apart. A task is a row of a tile's columns, all output channels of a group one after the
other: what it reads stays in L1 or L2 meanwhile.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from .conv cimport Executor, Geometry, ceil_div, clips, share
from .registry cimport lk_finish, lk_gemm

cdef enum:
    MAX_COLS = 64
    MAX_ROWS = 32


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
        cdef int64_t row[MAX_ROWS]
        cdef int64_t c_row[MAX_ROWS]
        cdef int64_t c_col[MAX_COLS]
        cdef int64_t p, rest, high, deep, group, image, first, last, t, o
        cdef lk_finish by_row
        cdef lk_gemm tile
        cdef float limits[2]
        cdef bint clip = clips(finish, y, limits, False)
        tile.clip = limits if clip else NULL
        if finish != NULL:
            by_row = finish[0]
            by_row.slope_row, by_row.slope_col = finish.slope_col, 0
            if finish.add == y:
                by_row.add = NULL
        for t in range(self.nr // self.lanes):
            c_col[t] = 4 * t * self.lanes
        for t in range(self.mr):
            row[t], c_row[t] = 4 * t * self.taps * self.ic, t * self.y_stride[1]
        tile.row, tile.c_row, tile.c_col, tile.tap, tile.b_tap = row, c_row, c_col, self.tap, self.b_tap
        tile.mask, tile.zero, tile.bias_row, tile.bias_col = NULL, NULL, NULL, NULL
        tile.taps, tile.blocks, tile.block_stride, tile.kb, tile.kb_last = self.taps, 1, 0, self.ic, self.ic
        tile.c_split, tile.ahead, tile.ahead_bytes, tile.ldb = 0, NULL, 0, self.x_stride[1] // 4
        tile.accumulate = finish != NULL and finish.add == y
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
                self.tile(&tile)
                if finish != NULL and not clip:
                    self.finish_rows(&by_row, y, tile.c - y, c_row, tile.rows, o, tile.cols)
            task += 1
