"""Convolution by the shared register tile: the loop nests around it, blocking, packing and threads.

    y[n, o, p] = bias[o] + sum over c, k of x[n, c, stride*p + dilation*k - before] * w[o, c, k]

Two ways to lay the tile  C[i][j] = sum A[i][k] B[k][j]  over it:

PixelRows    i = output pixels, read where they lie through row pointers; j = output channels.
             For layouts whose channels are innermost, whole (NHWC) or in blocks (nChw16c).
FilterRows   i = output channels; j = output pixels of one image, packed into panels unless they already
             lie as one (1x1). For layouts whose pixels are innermost (NCHW). Planes (planes.pyx) reads them where
             they lie.

Spatial axes are always three, depth height width; one that a problem does not have has size 1.
All strides are in bytes. Work is one flat range of tiles that the threads share evenly, in one parallel
region; a tile is always computed whole and by one thread, so results do not depend on their number.
"""

from cython.parallel cimport parallel
cimport openmp
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from numpy cimport PyArray_DATA, import_array, ndarray

from numpy import empty, uint8
from numpy import ndarray as new_array

from .registry cimport (
    LK_CLIP, LK_FINISH, LK_GELU, LK_GELU_TANH, LK_HARDSWISH, LK_NOTHING, LK_PRELU, LK_SILU, lk_finish, lk_finish_fn, lk_gemm,
    lk_gemm_fn, lk_kernel, best_row, row_named,
)
from .reorder cimport Program

import_array()

cdef enum:
    MAX_COLS = 64    # columns of the widest tile
    MAX_ROWS = 32    # rows of the tallest: a mask has a bit for each


cdef Geometry geometry_of(g) except *:
    cdef Geometry c
    c.n, c.groups, c.oc = g.n, g.groups, g.oc
    for i in range(3):
        c.size[i], c.out[i], c.kernel[i] = g.size[i], g.out[i], g.kernel[i]
        c.stride[i], c.dilation[i], c.before[i] = g.stride[i], g.dilation[i], g.before[i]
    return c


cdef inline void taps_inside(const Geometry *g, int axis, int64_t at, int64_t *lo, int64_t *hi) noexcept nogil:
    """The taps [lo, hi) along `axis` that output position `at` reads inside the input."""
    cdef int64_t first = at * g.stride[axis] - g.before[axis], d = g.dilation[axis]
    if first >= 0 and first + (g.kernel[axis] - 1) * d < g.size[axis]:  # most: no divisions
        lo[0], hi[0] = 0, g.kernel[axis]
        return
    lo[0] = 0 if first >= 0 else min(g.kernel[axis], ceil_div(-first, d))
    hi[0] = min(g.kernel[axis], ceil_div(g.size[axis] - first, d)) if first < g.size[axis] else 0
    if hi[0] < lo[0]:
        hi[0] = lo[0]


cdef class Executor:
    """What both ways share: the tile, the geometry, a workspace per thread."""

    def __init__(self, str kernel, geometry, int threads):
        cdef const lk_kernel *row = row_named(kernel)
        self.tile, self.mr, self.nr = <lk_gemm_fn>row.fn, row.mr, row.nr
        self.finish = <lk_finish_fn>row_named("finish_f32_" + kernel.rsplit("_f32_")[1]).fn
        self.lanes = {"portable": 4, "avx2": 8}.get(kernel.rsplit("_f32_")[1], 16)
        self.g = geometry_of(geometry)
        self.threads = threads

    cdef void run(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                  char *workspace) noexcept nogil:
        cdef int tid = 0, n = 1
        if self.total == 0:
            return
        if self.threads == 1:
            self.part(x, w, bias, finish, y, workspace, 0, self.total)
        else:
            with parallel(num_threads=self.threads):
                tid = openmp.omp_get_thread_num()
                n = openmp.omp_get_num_threads()
                self.part(x, w, bias, finish, y, workspace + tid * self.ws_thread,
                          self.total * tid // n, self.total * (tid + 1) // n)

    cdef void part(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil:
        pass


    cdef void finish_rows(self, const lk_finish *finish, char *y, int64_t offset, const int64_t *row, int64_t rows,
                          int64_t channel, int64_t count) noexcept nogil:
        """What follows the sums, on rows of `count` outputs at y + offset that begin with `channel`."""
        cdef lk_finish f = finish[0]
        f.y, f.row, f.rows, f.count = y + offset, row, rows, count
        if f.add != NULL:
            f.add += offset
        if f.slope_col or f.slope_row:
            f.slope += channel
        self.finish(&f)


cdef class PixelRows(Executor):
    """Rows of the tile are output pixels, columns are output channels.

    Parameters
    ----------
    kernel : str
        Name of a gemm row.
    geometry
        n, groups, size, out, kernel, stride, dilation, before.
    x_strides, y_strides : (n, d, h, w)
        Byte strides of an image and a pixel.
    x_channels : (blocks, block_stride, kb, kb_last, group_stride)
        The input channels of a group: `blocks` runs of `kb` floats, the last of `kb_last`.
    y_channels : (count, block, block_stride)
        Output channels of a group, pads included, in blocks; `block` 0: one run.
    gather : bool
        Copy the taps of a block of pixels into rows of a matrix first (im2col).
    row_block : int
        Bytes of input that a block of rows may span: it should stay in L2.
    panel_bytes : int
        Bytes of a filter panel past which the sum is split by taps.

    The packed filter is [groups][panels][taps][channels][nr] floats, the bias [groups][panels][nr].
    """

    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t blocks, block_stride, kb, kb_last, x_group
    cdef int64_t cols, y_block, y_block_stride
    cdef bint gather, padded, split
    cdef int64_t taps, depth        # depth: elements summed per output
    cdef int64_t tap_block           # taps whose filter panel stays in L2; C is summed over blocks of them
    cdef int64_t rows, tiles, row_blocks, panels
    cdef int64_t block_rows, block_tiles       # the most that a block of rows has
    cdef int64_t *tap
    cdef float *zero

    def __init__(self, str kernel, geometry, int threads, x_strides, x_channels, y_strides, y_channels,
                 bint gather, int64_t row_block,
                 int64_t panel_bytes):
        Executor.__init__(self, kernel, geometry, threads)
        cdef Geometry *g = &self.g
        cdef int64_t t = 0, a, b, c, lo, hi
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.blocks, self.block_stride, self.kb, self.kb_last, self.x_group = x_channels
        self.cols, self.y_block, self.y_block_stride = y_channels
        if self.y_block:
            if self.y_block % self.lanes and self.y_block % (self.lanes // 2):
                raise ValueError(f"output blocks of {self.y_block} channels with vectors of {self.lanes}")
            self.split = self.y_block % self.lanes != 0
        self.accumulates = not self.split and self.cols == g.oc  # pads are written, whatever they held
        self.gather = gather
        self.taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.depth = self.taps * ((self.blocks - 1) * self.kb + self.kb_last)
        self.tap_block = self.taps
        if self.depth * self.nr * 4 > panel_bytes and not gather and not self.y_block % self.lanes:
            b = max(1, panel_bytes // max(1, self.depth // self.taps * self.nr * 4))
            self.tap_block = ceil_div(self.taps, ceil_div(self.taps, b))
        self.rows = g.n * g.out[0] * g.out[1] * g.out[2]
        self.panels = ceil_div(self.cols, self.nr)
        self.tiles = ceil_div(self.rows, self.mr)
        self.total = g.groups * self.panels * self.tiles
        a = max(1, row_block // max(1, 4 * self.mr * (self.depth if gather else self.depth // self.taps)))
        self.row_blocks = max(1, ceil_div(self.tiles, a))
        self.block_tiles = ceil_div(self.tiles, self.row_blocks) + 1
        self.block_rows = self.block_tiles * self.mr
        self.padded = False
        for i in range(3):
            for a in (0, g.out[i] - 1):
                taps_inside(g, i, a, &lo, &hi)
                self.padded |= lo > 0 or hi < g.kernel[i]
        self.ws_thread = 2 * aligned(8 * self.block_rows) + aligned(4 * self.block_tiles * self.taps)
        if gather:
            self.ws_thread += aligned(4 * self.block_rows * self.depth)
        self.tap = <int64_t *>calloc(max(1, self.taps), sizeof(int64_t))
        self.zero = <float *>calloc(max(1, self.kb, self.kb_last), sizeof(float))
        if self.tap == NULL or self.zero == NULL:
            raise MemoryError(f"convolution: tables of {self.taps} taps and {self.kb} channels")
        for a in range(g.kernel[0]):
            for b in range(g.kernel[1]):
                for c in range(g.kernel[2]):
                    self.tap[t] = (a * g.dilation[0] * self.x_stride[1] + b * g.dilation[1] * self.x_stride[2]
                                   + c * g.dilation[2] * self.x_stride[3])
                    t += 1

    def __dealloc__(self):
        free(self.tap)
        free(self.zero)

    cdef inline int64_t column(self, int64_t j) noexcept nogil:
        """Byte offset of output channel j of a pixel."""
        if self.y_block == 0:
            return 4 * j
        return j // self.y_block * self.y_block_stride + j % self.y_block * 4

    cdef void part(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil:
        cdef int64_t *x_row = <int64_t *>workspace
        cdef int64_t *y_row = <int64_t *>(workspace + aligned(8 * self.block_rows))
        cdef uint32_t *mask = <uint32_t *>(workspace + 2 * aligned(8 * self.block_rows))
        cdef float *matrix = <float *>(<char *>mask + aligned(4 * self.block_tiles * self.taps))
        cdef int64_t c_col[MAX_COLS]
        cdef int64_t group, block, panel, t, first, last, row0, row, rest, per_group, at = -1, zero_tap = 0
        cdef int64_t per_vector = 2 if self.split else 1
        cdef int j
        cdef lk_gemm tile
        cdef int64_t tall = self.rows // self.tiles, extra = self.rows % self.tiles
        cdef int64_t taps = 1 if self.gather else self.taps, tap, stop, i, ahead
        cdef bint masked = self.padded and not self.gather
        cdef bint onto = finish != NULL and finish.add == y
        # pixels that follow one another, each read once: the next tile's are worth fetching, the first panel meets them
        cdef bint next_rows = (self.taps == 1 and self.blocks == 1 and not self.gather and not self.padded
                               and self.x_stride[3] * self.g.stride[2] == 4 * self.kb)
        cdef lk_finish f
        cdef float limits[2]
        cdef bint clip = clips(finish, y, limits, self.cols > self.g.oc)
        if finish != NULL:
            f = finish[0]
            if onto:
                f.add = NULL
        per_group = self.panels * self.tiles
        tile.tap, tile.zero = self.tap, self.zero
        tile.blocks, tile.block_stride = self.blocks, self.block_stride
        tile.kb, tile.kb_last = self.kb, self.kb_last
        if self.gather:
            tile.tap, tile.blocks, tile.kb, tile.kb_last = &zero_tap, 1, self.depth, self.depth
        tile.ldb, tile.b_tap, tile.bias_row, tile.bias_col = self.nr, NULL, NULL, NULL
        tile.c_split, tile.c_col = self.split, c_col
        while task < end:
            group, rest = task // per_group, task % per_group
            block = rest // self.panels * self.row_blocks // self.tiles
            while self.tiles * (block + 1) // self.row_blocks * self.panels <= rest:
                block += 1
            first, last = self.tiles * block // self.row_blocks, self.tiles * (block + 1) // self.row_blocks
            rest -= first * self.panels
            panel, t = rest // (last - first), first + rest % (last - first)
            row0 = share(self.rows, self.tiles, first)
            if at != group * self.row_blocks + block:
                at = group * self.row_blocks + block
                self.tables(first, last, x_row, y_row, mask)
                if self.gather:
                    self.gather_rows(x + group * self.x_group, first, last, x_row, mask, matrix)
            tile.a = <const char *>matrix if self.gather else x + group * self.x_group
            tile.b = w + (group * self.panels + panel) * self.depth * self.nr
            if bias != NULL:
                tile.bias_col = bias + (group * self.panels + panel) * self.nr
            tile.cols = <int>min(self.nr, self.cols - panel * self.nr)
            tile.c = y
            for j in range(ceil_div(tile.cols, self.lanes) * per_vector):
                c_col[j] = self.column(group * self.cols + panel * self.nr + j * self.lanes // per_vector)
            stop = min(last, t + end - task)
            tap = 0
            while tap < taps:
                tile.taps, tile.accumulate = min(self.tap_block, taps - tap), onto or tap > 0
                tile.clip = limits if clip and tap + tile.taps == taps else NULL
                if not self.gather:
                    tile.tap = self.tap + tap
                row = share(self.rows, self.tiles, t)
                ahead = tile.taps * (self.depth // self.taps) * self.nr
                tile.ahead_bytes = 4 * ahead // (stop - t) // 64 * 64
                tile.ahead = <const char *>(tile.b + ahead)
                if next_rows and panel == 0 and block > 0:
                    tile.ahead_bytes = tall * 4 * self.kb
                    tile.ahead = tile.a + x_row[row - row0] + (tall + (t < extra)) * 4 * self.kb
                for i in range(t, stop):
                    tile.rows = <int>(tall + (i < extra))
                    tile.row, tile.c_row = x_row + (row - row0), y_row + (row - row0)
                    tile.mask = mask + (i - first) * self.taps + tap if masked else NULL
                    self.tile(&tile)
                    if finish != NULL and not clip and tap + tile.taps == taps:
                        self.finish_tile(&f, &tile, group, panel * self.nr)
                    row += tile.rows
                    tile.ahead += tile.ahead_bytes
                tile.b += tile.taps * (self.depth // self.taps) * self.nr
                tap += tile.taps
                tile.bias_col = NULL  # the first block of taps has added it
            task += stop - t

    cdef void finish_tile(self, const lk_finish *finish, const lk_gemm *tile, int64_t group,
                          int64_t first) noexcept nogil:
        """What follows the sums, on output channels [first, first + cols) of a tile but not on pads."""
        cdef int64_t j = first, end = min(first + tile.cols, self.g.oc), run
        while j < end:
            run = end - j if self.y_block == 0 else min(end - j, self.y_block - j % self.y_block)
            self.finish_rows(finish, tile.c, self.column(group * self.cols + j), tile.c_row, tile.rows,
                             group * self.g.oc + j, run)
            j += run

    cdef void tables(self, int64_t first, int64_t last, int64_t *x_row, int64_t *y_row,
                     uint32_t *mask) noexcept nogil:
        """Where each output pixel of tiles [first, last) reads and writes, and which taps lie inside."""
        cdef const Geometry *g = &self.g
        cdef int64_t row = share(self.rows, self.tiles, first), end, t, i = 0, a, b, c, rest
        cdef int64_t p[4]
        cdef int64_t lo[3]
        cdef int64_t hi[3]
        cdef uint32_t bit, whole
        cdef int64_t x_at = 0, y_at = 0, x_step = g.stride[2] * self.x_stride[3]
        cdef bint inside, turned = True
        cdef int axis
        rest = row
        for axis in range(2, -1, -1):
            p[axis + 1] = rest % g.out[axis]
            rest //= g.out[axis]
        p[0] = rest
        for t in range(first, last):
            end = share(self.rows, self.tiles, t + 1)
            bit, whole = 1, 0
            if self.padded:
                memset(mask, 0, 4 * self.taps)
            while row < end:
                if turned:
                    x_at, y_at = p[0] * self.x_stride[0], p[0] * self.y_stride[0]
                    for axis in range(3):
                        x_at += (p[axis + 1] * g.stride[axis] - g.before[axis]) * self.x_stride[axis + 1]
                        y_at += p[axis + 1] * self.y_stride[axis + 1]
                if not self.padded:  # the rest of the tile, or of this row of pixels
                    rest = min(end - row, g.out[2] - p[3])
                    for a in range(rest):
                        x_row[i + a], y_row[i + a] = x_at + a * x_step, y_at + a * self.y_stride[3]
                    x_at += rest * x_step
                    y_at += rest * self.y_stride[3]
                else:
                    rest = 1
                    x_row[i], y_row[i] = x_at, y_at
                    x_at += x_step
                    y_at += self.y_stride[3]
                    if turned:
                        taps_inside(g, 0, p[1], &lo[0], &hi[0])
                        taps_inside(g, 1, p[2], &lo[1], &hi[1])
                    taps_inside(g, 2, p[3], &lo[2], &hi[2])
                    inside = True
                    for axis in range(3):
                        inside &= hi[axis] - lo[axis] == g.kernel[axis]
                    if inside:
                        whole |= bit
                    else:
                        for a in range(lo[0], hi[0]):
                            for b in range(lo[1], hi[1]):
                                for c in range(lo[2], hi[2]):
                                    mask[(a * g.kernel[1] + b) * g.kernel[2] + c] |= bit
                    bit <<= 1
                i += rest
                row += rest
                p[3] += rest
                turned = p[3] == g.out[2]
                if turned:
                    p[3] = 0
                    p[2] += 1
                    if p[2] == g.out[1]:
                        p[2] = 0
                        p[1] += 1
                        if p[1] == g.out[0]:
                            p[1] = 0
                            p[0] += 1
            if whole:
                for a in range(self.taps):
                    mask[a] |= whole
            mask += self.taps

    cdef void gather_rows(self, const char *x, int64_t first, int64_t last, int64_t *x_row,
                          const uint32_t *mask, float *matrix) noexcept nogil:
        """Copy what the pixels of tiles [first, last) read into rows of `matrix`; x_row then points there."""
        cdef int64_t row0 = share(self.rows, self.tiles, first), row = row0, t, tap, q, run, end, at
        cdef const char *src
        cdef float *dst = matrix
        cdef int bit
        for t in range(first, last):
            end, bit = share(self.rows, self.tiles, t + 1), 0
            while row < end:
                at = <char *>dst - <char *>matrix
                for tap in range(self.taps):
                    if self.padded and not mask[tap] >> bit & 1:
                        memset(dst, 0, 4 * (self.depth // self.taps))
                        dst += self.depth // self.taps
                        continue
                    src = x + x_row[row - row0] + self.tap[tap]
                    for q in range(self.blocks):
                        run = self.kb if q + 1 < self.blocks else self.kb_last
                        memcpy(dst, src + q * self.block_stride, 4 * run)
                        dst += run
                x_row[row - row0] = at
                row += 1
                bit += 1
            mask += self.taps


cdef class FilterRows(Executor):
    """Rows of the tile are output channels, columns are output pixels of one image.

    Parameters
    ----------
    kernel, geometry, threads
        As of PixelRows.
    x_strides : (n, c, d, h, w)
        Byte strides of the input.
    y_strides : (n, c)
        Byte strides of the output, whose pixels lie dense.
    channels : (input, output)
        Channels of a group.
    in_place : bool
        The input's pixels are the panel (1x1, stride 1, no padding, dense): nothing is gathered.

    The filter is [groups][output channels][input channels][taps] floats, the bias [groups][output channels].
    """

    cdef int64_t x_stride[5]
    cdef int64_t y_stride[2]
    cdef int64_t ic, oc, depth, pixels, panels, tiles
    cdef bint in_place
    cdef float zero

    def __init__(self, str kernel, geometry, int threads, x_strides, y_strides, channels, bint in_place):
        Executor.__init__(self, kernel, geometry, threads)
        for i in range(5):
            self.x_stride[i] = x_strides[i]
        self.y_stride[0], self.y_stride[1] = y_strides
        self.ic, self.oc = channels
        self.in_place, self.accumulates = in_place, True
        cdef Geometry *g = &self.g
        self.depth = self.ic * g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.pixels = g.out[0] * g.out[1] * g.out[2]
        self.panels = ceil_div(self.pixels, self.nr)
        self.tiles = ceil_div(self.oc, self.mr)
        self.total = g.n * g.groups * self.panels * self.tiles
        self.ws_thread = aligned(4 * self.depth * self.nr)

    cdef void part(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil:
        cdef float *panel = <float *>workspace
        cdef int64_t row[MAX_ROWS]
        cdef int64_t c_row[MAX_ROWS]
        cdef int64_t c_col[MAX_COLS]
        cdef int64_t t, p, image, group, rest, o, at = -1, zero_tap = 0
        cdef lk_finish by_row
        cdef const char *src
        cdef int i
        cdef lk_gemm tile
        cdef float limits[2]
        cdef bint clip = clips(finish, y, limits, False)
        tile.clip = limits if clip else NULL
        if finish != NULL:
            by_row = finish[0]
            by_row.slope_row, by_row.slope_col = finish.slope_col, 0
            if finish.add == y:
                by_row.add = NULL
        for i in range(self.nr // self.lanes):
            c_col[i] = 4 * i * self.lanes
        for i in range(self.mr):
            row[i], c_row[i] = 4 * i * self.depth, i * self.y_stride[1]
        tile.row, tile.c_row, tile.c_col, tile.tap = row, c_row, c_col, &zero_tap
        tile.mask, tile.zero, tile.b_tap, tile.bias_row, tile.bias_col = NULL, NULL, NULL, NULL, NULL
        tile.taps, tile.blocks, tile.block_stride, tile.kb, tile.kb_last = 1, 1, 0, self.depth, self.depth
        tile.c_split, tile.ahead, tile.ahead_bytes = 0, NULL, 0
        tile.accumulate = finish != NULL and finish.add == y
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
            self.tile(&tile)
            if finish != NULL and not clip:
                self.finish_rows(&by_row, y, tile.c - y, c_row, tile.rows, o, tile.cols)
            task += 1

    cdef void gather_panel(self, const char *x, int64_t first, int64_t cols, float *panel) noexcept nogil:
        """What output pixels [first, first + cols) read, a row of nr floats for every (channel, tap)."""
        cdef const Geometry *g = &self.g
        cdef int64_t c, a, b, k, left, p, q, run, lo, hi, j
        cdef int64_t at[3]
        cdef int64_t o[3]
        cdef const char *src
        cdef float *dst = panel
        for c in range(self.ic):
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
                        dst += self.nr


FINISHES = {
    "clip": LK_CLIP, "prelu": LK_PRELU, "silu": LK_SILU, "gelu": LK_GELU, "gelu_tanh": LK_GELU_TANH,
    "hardswish": LK_HARDSWISH, None: LK_NOTHING,
}


cdef class Finish:
    """What follows the sums: a function of FINISHES, `lo` and `hi` of a clip, slopes (1 or one a channel) of a prelu."""

    cdef lk_finish f
    cdef ndarray slope

    def __init__(self, name=None, float lo=0, float hi=0, ndarray slope=None):
        self.f.what, self.f.lo, self.f.hi, self.slope = FINISHES[name], lo, hi, slope
        self.f.add = NULL
        self.f.slope, self.f.slope_row, self.f.slope_col = NULL, 0, 0
        if slope is not None:
            self.f.slope, self.f.slope_col = <const float *>PyArray_DATA(slope), slope.size > 1


cdef span_of(y):
    """Bytes of what an array spans before its first element, and in all."""
    steps = [(n - 1) * s for n, s in zip(y.shape, y.strides)]
    first = -sum([s for s in steps if s < 0])
    return first, first + sum([s for s in steps if s > 0]) + y.itemsize


cdef ndarray like(y, char *room):
    """A copy of `y` with the same strides, in `room`."""
    first, size = span_of(y)
    copied = new_array(y.shape, y.dtype, <unsigned char[:size]><unsigned char *>room, first, y.strides)
    copied[...] = y
    return copied


def finish_pixels(Finish finish not None, ndarray y, ndarray add=None):
    """y = finish(y + add) on pixels (count, channels), both contiguous; `add` may be None."""
    cdef lk_finish f = finish.f
    cdef lk_finish_fn fn = <lk_finish_fn>best_row(LK_FINISH, 32).fn
    cdef int64_t i, start = 0, row = 4 * y.shape[1]
    cdef char *at = <char *>PyArray_DATA(y)
    f.add = NULL if add is None else <const char *>PyArray_DATA(add)
    f.row, f.rows, f.count = &start, 1, y.shape[1]
    for i in range(y.shape[0]):
        f.y = at + i * row
        fn(&f)
        if f.add != NULL:
            f.add += row


cdef class Route:
    """Everything between the caller's arrays: reorder if need be, convolve, reorder if need be.

    Parameters
    ----------
    before, after : Program or None
        Reorders from the caller's input and to the caller's output.
    residual : Program or None
        Reorder from the layout of the caller's output to that of the one before `after`.
    x_bytes, y_bytes : int
        What the reordered input and output take of the workspace.
    pads : (n, planes, rows, row), optional
        The reordered input is n images padded with zeros: (before, inside, after) planes, rows and bytes of a row.
    """

    def __init__(self, Program before, Executor executor, Program after, Program residual, int64_t x_bytes,
                 int64_t y_bytes, pads=None):
        self.images = self.start = 0
        if pads is not None:
            self.images = pads[0]
            for i in range(3):
                for j in range(3):
                    self.pads[i][j] = pads[1 + i][j]
            rows, pitch = sum(pads[2]), sum(pads[3])
            self.start = pitch * (rows * pads[1][0] + pads[2][0]) + pads[3][0]
        self.before, self.executor, self.after, self.residual = before, executor, after, residual
        self.x_bytes, self.y_bytes = aligned(x_bytes), aligned(y_bytes)
        self.workspace = self.x_bytes + self.y_bytes + executor.ws_thread * executor.threads
        self.scratch = []

    def needs(self, ndarray y, add=None):
        """Bytes of workspace for a call that writes `y`, with `add` or without."""
        cdef int64_t copied = 0
        if add is not None and self.residual is not None:
            copied = self.y_bytes
        elif add is not None and not self.executor.accumulates and PyArray_DATA(<ndarray?>add) == PyArray_DATA(y):
            copied = aligned(span_of(y)[1])
        return self.workspace + copied + 64

    def __call__(self, ndarray x, ndarray w, bias, ndarray y, Finish finish=None, ndarray add=None,
                 ndarray workspace=None):
        """Convolve `x` into `y` with a filter and bias packed for this route; y = finish(convolution + add).

        `add` has the strides of `y`, and may be `y`. With a `workspace` of at least needs(y, add) bytes nothing is
        allocated.
        """
        cdef ndarray scratch = workspace
        cdef const char *px = <const char *>PyArray_DATA(x)
        cdef const float *pw = <const float *>PyArray_DATA(w)
        cdef const float *pb = NULL
        cdef char *py = <char *>PyArray_DATA(y)
        cdef char *at
        cdef lk_finish f
        cdef const lk_finish *pf = NULL
        cdef char *reordered = NULL
        cdef ndarray other, copied
        cdef bint onto = False
        f.add = NULL
        if finish is not None:
            f = finish.f
            pf = &f
            if add is not None:
                f.add = <const char *>PyArray_DATA(add)
                onto = f.add == py and self.residual is None and not self.executor.accumulates
        if bias is not None:
            pb = <const float *>PyArray_DATA(<ndarray?>bias)
        if workspace is None:
            try:
                scratch = self.scratch.pop()
            except IndexError:
                scratch = empty(self.workspace + 64, uint8)
        at = <char *>aligned(<int64_t>PyArray_DATA(scratch))
        if onto or (f.add != NULL and self.residual is not None):  # a copy of the residual
            if workspace is None:
                other = empty(self.needs(y, add) - self.workspace, uint8)
                reordered = <char *>aligned(<int64_t>PyArray_DATA(other))
            else:
                reordered = at + self.workspace
            if onto:
                copied = like(y, reordered)
                f.add = <const char *>PyArray_DATA(copied)
                reordered = NULL
        at = <char *>aligned(<int64_t>PyArray_DATA(scratch))
        with nogil:
            if reordered != NULL:
                self.residual.run(f.add, reordered, self.executor.threads)
                f.add = reordered
            self.run(px, pw, pb, pf, py, at)
        if workspace is None:
            self.scratch.append(scratch)

    cdef void run(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                  char *at) noexcept nogil:
        cdef char *work = at + self.x_bytes + self.y_bytes
        cdef char *inner = y
        cdef int threads = self.executor.threads
        if self.before is not None:
            self.before.run(x, at + self.start, threads)
            x = at
            if self.images:
                self.zeros(at)
        if self.after is not None:
            inner = at + self.x_bytes
        self.executor.run(x, w, bias, finish, inner, work)
        if self.after is not None:
            self.after.run(inner, y, threads)

    cdef void zeros(self, char *at) noexcept nogil:
        """Write what lies around the reordered input."""
        cdef int64_t *planes = self.pads[0]
        cdef int64_t *rows = self.pads[1]
        cdef int64_t *row = self.pads[2]
        cdef int64_t pitch = row[0] + row[1] + row[2], image, d, h
        for image in range(self.images):
            for d in range(planes[0] + planes[1] + planes[2]):
                for h in range(rows[0] + rows[1] + rows[2]):
                    if planes[0] <= d < planes[0] + planes[1] and rows[0] <= h < rows[0] + rows[1]:
                        memset(at, 0, row[0])
                        memset(at + row[0] + row[1], 0, row[2])
                    else:
                        memset(at, 0, pitch)
                    at += pitch
