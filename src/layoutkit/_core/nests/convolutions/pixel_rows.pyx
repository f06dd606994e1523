"""Convolution as an implicit GEMM where channels are innermost: rows of the register tile are output pixels.

    C[i][j] = sum A[i][k] B[k][j]    i: pixels, read in place through row pointers; j: output channels

For layouts whose channels are contiguous, all of them (NHWC) or in blocks (nChw16c). The taps of a border pixel that
are in the padding are masked: the micro-kernel reads zeros in their place, and leaves out the taps that are padding for
all rows of a tile. Of integers, whose padding is the zero point, the bias of such a tile has what those taps add. Which
pixels are a tile, pixel_tiles.pyx says.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from math import gcd

import numpy as np

from ..executor import NOTHING, Footprint

from ...kernels cimport LK_GEMM, LK_GEMM_GROUPS, LK_NOWHERE, lk_kernel
from ...kernels.elementwise cimport lk_epilogue
from ...kernels.gemm cimport lk_gemm, lk_rounding
from ...ndarray cimport NPY_INT64, PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport row_named
from ..executor cimport (
    MAX_COLS, MAX_ROWS, PREFETCH_FROM_BYTES, PREFETCH_TILES, Executor, Geometry, Tasks, aligned, ceil_div, clip_of, elements, more,
)
from ..packing cimport copy_run, flip_run
from .pixel_tiles cimport PixelTiles
from .staged_rows cimport StagedRows

import_array()

cdef enum:
    MAX_LISTED_STEPS = 2560   # of a sum: a longer list would leave too little of L1
    MAX_PENDING_BYTES = 8192  # of sums that wait in L1 for the epilogue: a call for each tile would take as long as its work


cdef inline int64_t apart(int64_t n) noexcept nogil:
    """Bytes from a row of n bytes to the next, so that rows of a tile are not all in the same sets of the first cache."""
    return n + 64 if n and n % 1024 == 0 else n


cdef struct Work:
    # State of a thread, through its tasks.
    lk_gemm tile
    lk_rounding rounding            # how the micro-kernel makes bytes of sums
    lk_epilogue after               # what follows the micro-kernel
    const lk_epilogue *epilogue     # NULL: nothing follows
    const void *clip                # of the epilogue, where the micro-kernel does it
    char *y
    char *sums                      # of a tile, where they are rounded
    char *matrix                    # of im2col, or staged rows
    int64_t *x_row                  # of the block, see `PixelTiles.offsets`
    int64_t *y_row
    uint32_t *mask
    int64_t x_from, y_from          # added to those offsets
    int64_t group, block, panel
    int64_t first, last             # tiles of the block
    int64_t zero_tap
    bint rounds_in_registers        # the micro-kernel makes bytes of sums
    bint buffered                   # sums are rounded on their way from a buffer
    bint adds_left_out              # what is left out is not 0
    uint32_t *of_padding            # of the panel: what each tap in the padding adds to the sums, which wrap around
    const uint32_t *bias            # of the panel, or NULL
    uint32_t bias_and_padding[MAX_COLS]
    int64_t padding_col[MAX_COLS]
    int64_t sums_row[MAX_ROWS]
    int64_t c_col[MAX_COLS]


cdef class PixelRows(Executor):
    """Rows of the register tile are output pixels, columns are output channels.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, d, h, w) of an image and a pixel; a gemm row.
    x_channels : (blocks, block_stride, kb, kb_last, group_stride)
        The input channels of a group: `blocks` runs of `kb` elements, the last of `kb_last`. Unless they are gathered,
        these are whole units of the kernel's `k_step`.
    y_channels : (count, block, block_stride)
        Output channels of a group, pads included, in blocks; `block` 0: one contiguous run.
    gather : bool
        Explicit im2col: a block of pixels is first copied to rows of a matrix, all taps of each. Always where the kernel
        multiplies the components of numbers: rows are then split.
    tiles : PixelTiles
        Of blocks whose input stays in L2.
    panel_bytes : int
        Largest filter panel, in bytes, whose sums are not split by taps.
    staged : StagedRows, optional
        What blocks of pixels read is staged so; `tiles` are then of its positions.
    order : ndarray of int64, (nr,), optional
        Of a row of gemm_groups: the columns of a panel in the order of its sums. The groups are then the kernel's: `nest`
        has one of all channels, as many of the input as of the output, and x_channels are those of a kernel's group.

    The packed filter is [groups][panels][taps][channels][nr], of units [groups][panels][taps][units][nr][kr], where
    zeros fill a tap up to a multiple of `k_step`, of components what `split_panels` makes; the bias [groups][panels][nr].
    Those of gemm_groups are in the order that gemm_groups.h tells.
    """

    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t blocks, block_stride, kb, kb_last, x_group
    cdef int64_t cols, y_block, y_block_stride
    cdef bint gather, split
    cdef bint bytes                 # results are bytes
    cdef bint narrow                # results are such numbers as the micro-kernel multiplies, and can store
    cdef bint adds_narrow           # and add a residual of them
    cdef bint prefetches            # the output is prefetched for writing
    cdef bint leaves_out            # taps in the padding of integers
    cdef int64_t taps, depth        # depth: units summed per output
    cdef int64_t unit_bytes, panel_bytes
    cdef int64_t line               # numbers of a row of the matrix that are split into components; 0: none are
    cdef int64_t matrix_row         # bytes from a row of the matrix of im2col to the next
    cdef uint32_t matrix_flip       # bits of its units that are flipped when it is made, as `flip` of lk_gemm
    cdef int64_t tap_block          # taps whose filter panel stays in L2; sums go through taps block by block
    cdef int64_t rows, panels
    cdef PixelTiles tiles
    cdef StagedRows staged          # or None
    cdef bint stages
    cdef ndarray orders             # `order` or None, whose elements are
    cdef const int64_t *order       # NULL: columns are in order
    cdef int64_t x_panel            # bytes from what a panel reads to what the next one does
    cdef int64_t x_run              # contiguous bytes of a row that are read, at most
    cdef int64_t block_rows, block_tiles       # the largest size of a block of rows
    cdef int64_t *tap               # offsets
    cdef int64_t *step              # of every step, or NULL
    cdef int64_t *x_row             # of a period, see `PixelTiles.offsets`, where pixels are listed
    cdef int64_t *y_row
    cdef uint32_t *mask
    cdef void *zero

    def __init__(self, nest, x_channels, y_channels, bint gather, PixelTiles tiles, int64_t panel_bytes,
                 StagedRows staged=None, ndarray order=None):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef Geometry *g = &self.g
        cdef int64_t t = 0, a, b, c
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.blocks, self.block_stride, self.kb, self.kb_last, self.x_group = x_channels
        self.cols, self.y_block, self.y_block_stride = y_channels
        if self.y_block and not self.rounding:
            if self.y_block % self.lanes and self.y_block % (self.lanes // 2):
                raise ValueError(f"output blocks of {self.y_block} channels with vectors of {self.lanes}")
            self.split = self.y_block % self.lanes != 0
        self.gather, self.staged, self.stages = gather, staged, staged is not None
        self.bytes = self.rounding and self.y_item == 1
        self.narrow = self.rounding and self.kr == 2 and self.y_block % self.lanes == 0
        self.adds_narrow = self.narrow and self.kernel_row.tile.rows_at_once == 1
        self.orders, self.x_panel, self.x_run = order, 0, max(self.kb, self.kb_last) * self.x_item
        if (order is not None) != (self.kernel_row.family == LK_GEMM_GROUPS):
            raise ValueError(f"{nest.kernel}: {'an' if order is not None else 'no'} order of columns")
        if order is not None:
            if len(<object>order) != self.nr or g.groups > 1 or self.cols != g.oc or gather or self.stages or not self.rounding:
                raise ValueError(f"{nest.kernel}: {len(<object>order)} columns of {self.nr}, {self.cols} of {g.oc} channels")
            self.order = <const int64_t *>elements(order, NPY_INT64)
            self.x_panel = self.x_run = self.nr * self.x_item
        self.taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
        if not gather and not self.stages and (self.kb % self.k_step or self.kb_last % self.k_step):
            raise ValueError(f"runs of {self.kb} and {self.kb_last} channels, expected multiples of {self.k_step}")
        self.unit_bytes, self.line = self.kr * self.x_item, 0
        a = (self.blocks - 1) * self.kb + self.kb_last
        self.depth = self.taps * ceil_div(a, self.k_step) * (self.k_step // self.kr)
        if self.kernel_row.tile.components:
            if not gather or self.x_item != sizeof(float):
                raise ValueError(f"{nest.kernel}: rows of {self.x_item} bytes a number, {'' if gather else 'not '}gathered")
            self.w_item = 2 * self.kernel_row.tile.components
            self.unit_bytes, self.line = self.kr * self.w_item, self.taps * a
            self.depth = ceil_div(self.line, self.k_step) * (self.k_step // self.kr)
        self.panel_bytes = self.depth * self.nr * self.kr * self.w_item
        self.matrix_row, self.matrix_flip = apart(self.unit_bytes * self.depth), 0
        if self.kernel_row.tile.rows_at_once > 1:  # rows that cross cache lines, or are flipped, would be copied again
            self.matrix_row, self.matrix_flip = aligned(self.matrix_row), self.flip
        self.tap_block = self.taps
        a = self.depth // self.taps * self.nr * self.kr * self.w_item  # bytes of a tap's panel
        # the output keeps the sums over some taps: as they are, in whole vectors
        if self.taps * a > panel_bytes and not gather and not self.rounding and not self.y_block % self.lanes:
            b = max(1, panel_bytes // max(1, a))
            self.tap_block = ceil_div(self.taps, ceil_div(self.taps, b))
            a = self.depth // self.taps
            if self.taps * a > self.chunk:  # whole periods
                b = self.period // gcd(self.period, a)
                self.tap_block = min(self.taps, ceil_div(self.tap_block, b) * b)
        # not with pads, which are written as 0, nor with tap blocks, whose partial sums are kept where the residual is
        self.accumulates = not self.split and self.cols == g.oc and self.tap_block >= self.taps or self.rounding
        self.rows = g.n * g.out[0] * g.out[1] * g.out[2]
        self.panels = ceil_div(self.cols, self.nr)
        # not where pixels are less than a line apart, which the hardware foresees
        self.prefetches = (self.y_item * self.rows * g.groups * self.cols > PREFETCH_FROM_BYTES
                           and abs(self.y_stride[3]) >= 64)
        self.tiles = tiles
        self.leaves_out = (self.integers and tiles.padded and not gather and not self.stages
                           and self.kernel_row.family == LK_GEMM and self.kernel_row.tile.rows_at_once == 1)
        self.total = g.groups * self.panels * tiles.tiles
        self.block_tiles = ceil_div(tiles.period_tiles, tiles.period_blocks)
        self.block_rows = self.block_tiles * self.mr
        self.ws_thread = (2 * aligned(sizeof(int64_t) * self.block_rows)
                          + aligned(sizeof(uint32_t) * self.block_tiles * self.taps))
        if self.rounding:
            self.ws_thread += aligned(self.sum_item * self.mr * self.nr)
        if self.integers:
            self.ws_thread += aligned(self.x_run + self.kr)
        if self.leaves_out:
            self.ws_thread += aligned(self.taps * self.nr * sizeof(uint32_t))
        if gather:
            self.ws_thread += aligned(self.matrix_row * self.block_rows) + aligned(self.line * self.x_item)
        elif self.stages:
            if staged.taps != self.taps or staged.pixel_bytes * self.taps != self.depth * self.unit_bytes:
                raise ValueError(f"{staged.taps} staged taps of {staged.pixel_bytes} bytes, expected {self.taps}, together "
                                 f"{self.depth * self.unit_bytes}")
            staged.lay_out(self.block_rows)
            self.ws_thread += staged.bytes
        self.tap = <int64_t *>calloc(max(1, self.taps), sizeof(int64_t))
        self.zero = calloc(max(1, self.kb, self.kb_last), self.x_item)
        if self.tap == NULL or self.zero == NULL:
            raise MemoryError(f"convolution: tables of {self.taps} taps and {self.kb} channels")
        for a in range(g.kernel[0]):
            for b in range(g.kernel[1]):
                for c in range(g.kernel[2]):
                    self.tap[t] = (a * g.dilation[0] * self.x_stride[1] + b * g.dilation[1] * self.x_stride[2]
                                   + c * g.dilation[2] * self.x_stride[3])
                    t += 1
        if self.stages:
            memcpy(self.tap, staged.tap, sizeof(int64_t) * self.taps)
        if (self.taps > 1 and self.kr < 4 and self.depth <= MAX_LISTED_STEPS and self.blocks == 1 and not gather
                and not self.stages and self.kernel_row.tile.rows_at_once == 1):
            self.list_steps()
        if tiles.listed:
            self.x_row = <int64_t *>calloc(tiles.period_rows, sizeof(int64_t))
            self.y_row = <int64_t *>calloc(tiles.period_rows, sizeof(int64_t))
            self.mask = <uint32_t *>calloc(tiles.period_tiles * self.taps, sizeof(uint32_t))
            if self.x_row == NULL or self.y_row == NULL or self.mask == NULL:
                raise MemoryError(f"convolution: tables of {tiles.period_rows} pixels")
            tiles.period_offsets(self.x_stride, self.y_stride, self.x_row, self.y_row, self.mask)

    cdef int list_steps(self) except -1:
        """List the byte offset of every step of a sum, tap by tap."""
        cdef int64_t t, k, run = self.depth // self.taps
        self.step = <int64_t *>calloc(max(1, self.depth), sizeof(int64_t))
        if self.step == NULL:
            raise MemoryError(f"convolution: tables of {self.depth} steps")
        for t in range(self.taps):
            for k in range(run):
                self.step[t * run + k] = self.tap[t] + k * self.unit_bytes
        return 0

    def __dealloc__(self):
        free(self.step)
        free(self.tap)
        free(self.x_row)
        free(self.y_row)
        free(self.mask)
        free(self.zero)

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        reads, writes = self.pixels_of(self.x_stride[0], self.x_stride + 1, self.y_stride[0], self.y_stride + 1,
                                       self.tiles.padded)
        reads.append((0, g.groups - 1, self.x_group))
        source = [([*reads, (self.blocks - 1, self.blocks - 1, self.block_stride)], self.x_item * self.kb_last)]
        if self.blocks > 1:
            source.append(([*reads, (0, self.blocks - 2, self.block_stride)], self.x_item * self.kb))
        if self.stages:
            source = self.staged.source(g.groups, self.x_group)
        elif self.x_panel:
            source = [(reads, self.x_item * g.oc)]
        columns, run = g.groups * self.cols, self.y_item * g.groups * self.cols
        if self.y_block:
            writes.append((0, columns // self.y_block - 1, self.y_block_stride))
            run = self.y_item * self.y_block
        filters = g.groups * self.panels * self.nr
        weights = filters * self.depth * self.kr
        return Footprint(tuple(source), ((writes, run),), self.w_item * weights, self.sum_item * filters)

    cdef int64_t share_begin(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil:
        return self.tiles.share_begin(first, end, part, parts)

    cdef inline int64_t column(self, int64_t j) noexcept nogil:
        """Byte offset of output channel j of a pixel."""
        if self.y_block == 0:
            return j * self.y_item
        return j // self.y_block * self.y_block_stride + j % self.y_block * self.y_item

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef Work s
        cdef int64_t group, block, t, stop
        cdef int x_zero = epilogue.x_zero if self.integers else 0
        self.begin(&s, epilogue, y, workspace)
        s.group = s.block = -1
        while task < end or more(tasks, &task, &end):
            self.tiles.decode(task, &group, &block, &s.panel, &t)
            if s.block != block or ((self.gather or self.stages) and s.group != group):
                self.enter_block(&s, x + group * self.x_group, block, x_zero)
            s.group = group
            s.tile.a = s.matrix if self.gather or self.stages else x + group * self.x_group + s.panel * self.x_panel + s.x_from
            self.enter_panel(&s, w, bias)
            stop = min(s.last, t + end - task)
            self.run_tiles(&s, t, stop)
            task += stop - t

    cdef void begin(self, Work *s, const lk_epilogue *epilogue, char *y, char *workspace) noexcept nogil:
        """Set what does not depend on the task: the workspace, and the fields of the tile that no task changes."""
        cdef lk_gemm *tile = &s.tile
        cdef bint adds = epilogue != NULL and epilogue.add != NULL and self.accumulates and not self.rounding
        cdef bint stores_all, adds_narrow = self.adds_narrow and epilogue != NULL and epilogue.add != NULL
        cdef int64_t residual_offset = epilogue.add - y if epilogue != NULL and epilogue.add != NULL else 0
        cdef char *zeros
        cdef int j
        s.y = y
        s.x_row = <int64_t *>workspace
        s.y_row = <int64_t *>(workspace + aligned(sizeof(int64_t) * self.block_rows))
        s.mask = <uint32_t *>(workspace + 2 * aligned(sizeof(int64_t) * self.block_rows))
        s.sums = <char *>s.mask + aligned(sizeof(uint32_t) * self.block_tiles * self.taps)
        zeros = s.sums + (aligned(self.sum_item * self.mr * self.nr) if self.rounding else 0)
        s.matrix = zeros + (aligned(self.x_run + self.kr) if self.integers else 0)
        s.of_padding, s.bias = <uint32_t *>s.matrix, NULL  # what leaves taps out has no matrix
        s.adds_left_out = self.leaves_out and (epilogue.x_zero ^ self.flip) & 0xff
        s.x_from = s.y_from = s.zero_tap = 0
        # Some staged positions are no output and have no place in y; sparse rows have none of these. Tile units skip them,
        # and so does what rounds sums from the buffer; other micro-kernels would store them.
        stores_all = self.stages and not self.staged.sparse and self.kernel_row.tile.rows_at_once == 1
        s.rounds_in_registers = (self.bytes and self.integers and self.lanes > 4 and self.y_block % self.lanes == 0
                    and not stores_all and epilogue.add == NULL and epilogue.scale == 1
                    and (epilogue.steps == 0 or clip_of(epilogue, False, False) != NULL))
        s.clip = clip_of(epilogue, adds or adds_narrow, self.cols > self.g.oc and (not self.rounding or self.narrow))
        if self.rounding and epilogue != NULL and ((epilogue.add != NULL and not adds_narrow) or self.integers):
            s.clip = NULL
        if epilogue != NULL:
            s.after = epilogue[0]
            if adds:
                s.after.add = NULL
        tile.tap, tile.step, tile.zero, tile.flip = self.tap, self.step, self.zero, self.flip
        if self.integers:  # the padding holds the zero point, which is in the epilogue
            memset(zeros, epilogue.x_zero, self.x_run + self.kr)
            tile.zero = zeros
            if not self.rounding:
                epilogue = NULL
        s.epilogue = NULL if adds and epilogue != NULL and epilogue.steps == 0 else epilogue
        tile.blocks, tile.block_stride = self.blocks, self.block_stride
        tile.kb, tile.kb_last = self.kb // self.kr, self.kb_last // self.kr
        tile.chunk, tile.period = self.chunk, self.period
        if self.rounding:
            if epilogue == NULL or s.clip != NULL:
                s.after.add, s.after.steps = NULL, 0
            s.after.sums, s.after.sums_row = s.sums, self.nr * self.sum_item
            for j in range(self.mr):
                s.sums_row[j] = j * s.after.sums_row
        tile.reads_on = self.stages and self.staged.reads_on
        if self.gather:
            tile.flip ^= self.matrix_flip
            tile.tap, tile.blocks, tile.kb, tile.kb_last = &s.zero_tap, 1, self.depth, self.depth
        elif self.stages:
            tile.flip = 0
            tile.blocks, tile.kb, tile.kb_last = 1, self.depth // self.taps, self.depth // self.taps
        tile.leaves_out = self.leaves_out
        tile.ldb, tile.b_tap, tile.b_row, tile.bias_row, tile.bias_col = self.nr, NULL, NULL, NULL, NULL
        tile.c_split, tile.c_col, tile.positive = self.split, s.c_col, self.positive
        tile.accumulate, tile.out = adds, NULL
        tile.residual = adds_narrow and (epilogue.steps == 0 or s.clip != NULL)
        tile.narrow = self.narrow and (epilogue == NULL or s.clip != NULL or tile.residual)
        tile.residual_offset = residual_offset if tile.residual or not self.rounding else 0
        if tile.residual:
            s.epilogue = NULL  # the micro-kernel does all of it

    cdef void enter_block(self, Work *s, const char *x, int64_t block, int x_zero) noexcept nogil:
        """Set the offsets of a block of pixels; for im2col, make its matrix from x, the input of a group, or stage it."""
        cdef int64_t row, i
        s.block, s.first, s.last = block, self.tiles.block(block), self.tiles.block(block + 1)
        if self.stages:
            row, i = self.tiles.row(s.first), self.tiles.row(s.last)
            self.staged.fill(x, row, i, s.matrix, x_zero, self.flip)
            self.staged.offsets(row, i, self.y_stride, s.x_row, s.y_row)
            return
        if self.tiles.listed:
            row, i = self.tiles.row(s.first), s.first // self.tiles.period_tiles
            s.x_row, s.y_row = self.x_row + row, self.y_row + row
            s.mask = self.mask + (s.first - i * self.tiles.period_tiles) * self.taps
            s.x_from = i * self.tiles.period_images * self.x_stride[0]
            s.y_from = i * self.tiles.period_images * self.y_stride[0]
        else:
            self.tiles.offsets(s.first, s.last, self.x_stride, self.y_stride, s.x_row, s.y_row, s.mask)
        if self.line:
            self.split_rows(x, s.first, s.last, s.x_row, s.mask, s.matrix)
        elif self.gather:
            self.gather_rows(x, s.first, s.last, s.x_row, s.mask, s.matrix, x_zero)

    cdef void enter_panel(self, Work *s, const char *w, const char *bias) noexcept nogil:
        """Set the filter and bias of a panel, and where its columns are written."""
        cdef lk_gemm *tile = &s.tile
        cdef int64_t panel = s.group * self.panels + s.panel, column = s.panel * self.nr
        cdef int64_t per_vector = 2 if self.split else 1
        cdef int j
        tile.b = w + panel * self.panel_bytes
        tile.bias_col = bias + panel * self.nr * self.sum_item if bias != NULL else NULL
        s.bias = <const uint32_t *>tile.bias_col
        tile.cols = <int>min(self.nr, self.cols - column)
        tile.pads = <int>min(tile.cols, max(0, column + tile.cols - self.g.oc))
        tile.c = tile.next_c = s.y + s.y_from
        if s.rounds_in_registers:
            tile.out = NULL
            if self.rounded(&s.rounding, s.epilogue, s.group * self.g.oc + column, tile.cols - tile.pads):
                tile.out = &s.rounding
                self.order_columns(&s.rounding)
        s.buffered = self.rounding and tile.out == NULL and not tile.narrow
        if self.rounding and not tile.narrow:
            tile.pads = 0
        if s.buffered:
            tile.c = s.sums
            for j in range(ceil_div(tile.cols, self.lanes)):
                s.c_col[j] = j * self.lanes * self.sum_item
        else:
            for j in range(ceil_div(tile.cols, self.lanes) * per_vector):
                s.c_col[j] = self.column(s.group * self.cols + column + j * self.lanes // per_vector)
                if j > 0 and tile.out != NULL:
                    s.rounding.apart |= s.c_col[j] != s.c_col[j - 1] + self.lanes
        if s.adds_left_out:
            self.sum_padding(s)

    cdef void sum_padding(self, Work *s) noexcept nogil:
        """What each tap adds to the sums of the panel in the padding, of taps that a tile of the block leaves out."""
        cdef lk_gemm tile = s.tile
        cdef int64_t tap, i, zero = 0, tap_bytes = self.tap_bytes()
        cdef int j
        tile.taps, tile.rows, tile.block_stride, tile.a = 1, 1, 0, <const char *>tile.zero
        tile.cols = <int>(ceil_div(tile.cols, self.lanes) * self.lanes)
        tile.tap = tile.row = tile.c_row = &zero
        tile.mask, tile.out, tile.clip, tile.bias_col, tile.next_c_row = NULL, NULL, NULL, NULL, NULL
        tile.to_prefetch_bytes = tile.pads = tile.resume = tile.accumulate = tile.c_split = 0
        for j in range(self.nr // self.lanes):
            s.padding_col[j] = j * self.lanes * self.sum_item
        tile.c_col = s.padding_col
        for tap in range(self.taps):
            for i in range(s.first, s.last):
                if s.mask[(i - s.first) * self.taps + tap] == 0:
                    tile.b, tile.c = s.tile.b + tap * tap_bytes, <char *>(s.of_padding + tap * self.nr)
                    self.micro_kernel(&tile)
                    break

    cdef void add_padding(self, Work *s, const uint32_t *mask) noexcept nogil:
        """Set the bias of a tile, with what the taps that it leaves out would add."""
        cdef int64_t tap
        cdef int j
        s.tile.bias_col = s.bias
        for tap in range(self.taps):
            if mask[tap]:
                continue
            if s.tile.bias_col != <const void *>s.bias_and_padding:
                memset(s.bias_and_padding, 0, sizeof(s.bias_and_padding))
                if s.bias != NULL:
                    memcpy(s.bias_and_padding, s.bias, self.nr * sizeof(uint32_t))
                s.tile.bias_col = s.bias_and_padding
            for j in range(s.tile.cols):
                s.bias_and_padding[j] += s.of_padding[tap * self.nr + j]

    cdef void order_columns(self, lk_rounding *out) noexcept nogil:
        """Bring what belongs to columns into the order of the kernel's sums."""
        cdef lk_rounding in_order
        cdef int64_t i
        if self.order == NULL:
            return
        in_order = out[0]
        for i in range(self.nr):
            out.mul[i], out.off[i] = in_order.mul[self.order[i]], in_order.off[self.order[i]]

    cdef inline int64_t tap_bytes(self) noexcept nogil:
        """Bytes of a tap of a filter panel."""
        return self.depth // self.taps * self.nr * self.kr * self.w_item

    cdef void run_tiles(self, Work *s, int64_t t, int64_t stop) noexcept nogil:
        """Tiles [t, stop) of a block and panel, by blocks of taps."""
        cdef lk_gemm *tile = &s.tile
        cdef int64_t taps = 1 if self.gather else self.taps, tap = 0, i, b_bytes, row, row0 = self.tiles.row(s.first)
        cdef int64_t pending, max_pending = MAX_PENDING_BYTES // (self.nr * self.sum_item)  # rows; first without its epilogue
        cdef int64_t run_bytes = self.kb * self.x_item, tap_bytes = self.tap_bytes()
        cdef int64_t rows_end = self.tiles.end(stop - 1)
        cdef bint masked = self.tiles.padded and not self.gather, last, follows
        # contiguous pixels that are read once: the first panel prefetches those of the next tile instead of the filter
        cdef bint next_rows = (self.taps == 1 and self.blocks == 1 and not self.gather and not self.tiles.padded
                               and self.x_stride[3] * self.g.stride[2] == run_bytes and s.panel == 0 and s.block > 0)
        while tap < taps:
            tile.taps, tile.resume = min(self.tap_block, taps - tap), tap > 0
            last = tap + tile.taps == taps
            tile.clip = s.clip if last else NULL
            follows = s.epilogue != NULL and s.clip == NULL and not s.buffered and tile.out == NULL and last
            if not self.gather:
                tile.tap = self.tap + tap
                tile.step = self.step + tap * (self.depth // self.taps) if self.step != NULL else NULL
            row = pending = self.tiles.row(t)
            b_bytes = self.panel_bytes if self.gather else tile.taps * tap_bytes
            # a part of the next panel by each tile of the block, also where other shares have the rest of its tiles; not by
            # a single tile, which reads the filter as fast as memory gives it
            tile.to_prefetch_bytes = 0
            if s.last - s.first > 1:
                tile.to_prefetch_bytes = ceil_div(b_bytes, (s.last - s.first) * 64) * 64
            tile.to_prefetch = tile.b + b_bytes + (t - s.first) * tile.to_prefetch_bytes
            if next_rows:
                i = (self.tiles.end(t) - row) * run_bytes
                tile.to_prefetch_bytes, tile.to_prefetch = i, tile.a + s.x_row[row - row0] + i
            for i in range(t, stop):
                tile.rows = <int>(self.tiles.end(i) - row)
                tile.row, tile.c_row = s.x_row + (row - row0), s.y_row + (row - row0)
                tile.mask = s.mask + (i - s.first) * self.taps + tap if masked else NULL
                if s.adds_left_out and tap == 0:
                    self.add_padding(s, tile.mask)
                tile.next_c_row = NULL
                if s.buffered:
                    tile.c_row = s.sums_row
                elif self.prefetches and row + (PREFETCH_TILES + 1) * self.mr <= rows_end:
                    tile.next_c_row = tile.c_row + PREFETCH_TILES * self.mr
                self.micro_kernel(tile)
                if s.buffered:
                    self.round_tile(&s.after, tile, s.y, s.y_from, s.y_row + (row - row0), s.group, s.panel * self.nr)
                row += tile.rows
                if follows and (row - pending >= max_pending or i + 1 == stop):
                    self.epilogue_tiles(&s.after, tile, s.y_row + (pending - row0), row - pending, s.y, s.group,
                                        s.panel * self.nr)
                    pending = row
                tile.to_prefetch += tile.to_prefetch_bytes
            tile.b += b_bytes
            tap += tile.taps

    cdef void epilogue_tiles(self, const lk_epilogue *epilogue, const lk_gemm *tile, const int64_t *y_row, int64_t rows,
                             char *y, int64_t group, int64_t first) noexcept nogil:
        """Apply the epilogue to output channels [first, first + cols) of tiles, without the pads."""
        cdef int64_t j = first, end = min(first + tile.cols, self.g.oc), run
        while j < end:
            run = end - j if self.y_block == 0 else min(end - j, self.y_block - j % self.y_block)
            self.each_run(epilogue, y, tile.c - y + self.column(group * self.cols + j), y_row, rows, group * self.g.oc + j, run)
            j += run

    cdef void each_run(self, const lk_epilogue *epilogue, char *y, int64_t offset, const int64_t *row, int64_t rows,
                       int64_t channel, int64_t count) noexcept nogil:
        """`epilogue_rows` of the rows that are outputs, runs of them where some are not."""
        cdef lk_epilogue part
        cdef int64_t first = 0, last = 0
        if not self.stages:
            self.epilogue_rows(epilogue, y, offset, row, rows, channel, count)
            return
        part = epilogue[0]
        while last < rows:
            first = last
            while first < rows and row[first] == LK_NOWHERE:
                first += 1
            last = first
            while last < rows and row[last] != LK_NOWHERE:
                last += 1
            if epilogue.sums != NULL:
                part.sums = epilogue.sums + first * epilogue.sums_row
            if first < last:
                self.epilogue_rows(&part, y, offset, row + first, last - first, channel, count)

    cdef void round_tile(self, lk_epilogue *epilogue, const lk_gemm *tile, char *y, int64_t y_from,
                         const int64_t *y_row, int64_t group, int64_t first) noexcept nogil:
        """Apply the epilogue to the sums of a tile, of output channels [first, first + cols), and round them to the
        output, whose pads become 0."""
        cdef char *sums = epilogue.sums
        cdef int64_t j = first, end = first + tile.cols, stop, run, i
        while j < end:
            stop = min(end, self.g.oc) if j < self.g.oc else end
            run = stop - j if self.y_block == 0 else min(stop - j, self.y_block - j % self.y_block)
            if j < self.g.oc:
                self.each_run(epilogue, y, y_from + self.column(group * self.cols + j), y_row, tile.rows,
                              group * self.g.oc + j, run)
            else:
                for i in range(tile.rows):
                    if y_row[i] != LK_NOWHERE:
                        memset(y + y_from + y_row[i] + self.column(group * self.cols + j), 0, run * self.y_item)
            epilogue.sums += run * self.sum_item
            j += run
        epilogue.sums = sums

    cdef void gather_rows(self, const char *x, int64_t first, int64_t last, int64_t *x_row,
                          const uint32_t *mask, char *matrix, int x_zero) noexcept nogil:
        """Copy the taps of the pixels of tiles [first, last) to rows of `matrix`, and point x_row there."""
        cdef int64_t row = self.tiles.row(first), row0 = row, t, tap, q, run, end, at
        cdef const char *src
        cdef char *dst
        cdef int64_t tap_bytes = self.depth // self.taps * self.unit_bytes
        cdef int64_t rest = tap_bytes - ((self.blocks - 1) * self.kb + self.kb_last) * self.x_item
        cdef int bit
        for t in range(first, last):
            end, bit = self.tiles.row(t + 1), 0
            while row < end:
                at = (row - row0) * self.matrix_row
                dst = matrix + at
                for tap in range(self.taps):
                    if self.tiles.padded and not mask[tap] >> bit & 1:
                        memset(dst, x_zero, tap_bytes)
                        dst += tap_bytes
                        continue
                    src = x + x_row[row - row0] + self.tap[tap]
                    for q in range(self.blocks):
                        run = (self.kb if q + 1 < self.blocks else self.kb_last) * self.x_item
                        copy_run(dst, src + q * self.block_stride, run)
                        dst += run
                    if rest:  # of the last unit
                        memset(dst, 0, rest)
                        dst += rest
                if self.matrix_flip:
                    flip_run(matrix + at, self.unit_bytes * self.depth, self.matrix_flip)
                x_row[row - row0] = at
                row += 1
                bit += 1
            mask += self.taps

    cdef void split_rows(self, const char *x, int64_t first, int64_t last, int64_t *x_row, const uint32_t *mask,
                         char *matrix) noexcept nogil:
        """The same where numbers are split into components: of the taps of a pixel, one after another."""
        cdef int64_t row = self.tiles.row(first), row0 = row, t, tap, q, run, end, bit
        cdef int64_t tap_bytes = self.line // self.taps * self.x_item
        cdef char *line = matrix + aligned(self.matrix_row * self.block_rows)
        cdef char *dst
        cdef const char *src
        for t in range(first, last):
            end, bit = self.tiles.row(t + 1), 0
            while row < end:
                src = x + x_row[row - row0]
                if self.taps > 1 or self.blocks > 1 or self.tiles.padded:
                    dst = line
                    for tap in range(self.taps):
                        if self.tiles.padded and not mask[tap] >> bit & 1:
                            memset(dst, 0, tap_bytes)
                            dst += tap_bytes
                            continue
                        for q in range(self.blocks):
                            run = (self.kb if q + 1 < self.blocks else self.kb_last) * self.x_item
                            copy_run(dst, src + self.tap[tap] + q * self.block_stride, run)
                            dst += run
                    src = line
                self.kernel_row.tile.split_row(matrix + (row - row0) * self.matrix_row, src, self.line)
                x_row[row - row0] = (row - row0) * self.matrix_row
                row += 1
                bit += 1
            mask += self.taps


def split_panels(str kernel, ndarray panels not None, ndarray out not None):
    """Split the numbers of filter panels into the components that a kernel multiplies.

    Parameters
    ----------
    kernel : str
        A row whose tile has `components`.
    panels : ndarray of float32, (panels, K, nr)
    out : ndarray of uint16, (panels, K tiles, components, k_tile // kr, nr, kr)
    """
    cdef const lk_kernel *row = row_named(kernel)
    cdef const char *src = <const char *>PyArray_DATA(panels)
    cdef char *dst = <char *>PyArray_DATA(out)
    cdef int64_t i, count, k, panel_bytes, out_bytes
    given = (<object>panels).dtype, (<object>panels).shape, (<object>out).dtype, (<object>out).shape
    if not row.tile.components:
        raise ValueError(f"{kernel} multiplies no components")
    count, k = len(given[1]) and given[1][0], len(given[1]) > 1 and given[1][1]
    wanted = count, ceil_div(k, row.tile.k_tile), row.tile.components, row.tile.k_tile // row.kr, row.nr, row.kr
    if given != (np.float32, (count, k, row.nr), np.uint16, wanted):
        raise ValueError(f"{kernel}: panels of {given[0]} {given[1]}, out of {given[2]} {given[3]}")
    if not (<object>panels).flags.c_contiguous or not (<object>out).flags.c_contiguous:
        raise ValueError(f"{kernel}: panels are not contiguous")
    panel_bytes, out_bytes = k * row.nr * sizeof(float), (<object>out).nbytes // max(1, count)
    for i in range(count):
        row.tile.split_panel(dst + i * out_bytes, src + i * panel_bytes, k)
