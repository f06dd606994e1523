"""Winograd convolution: the loop nest around the transforms of winograd.c and the micro-kernels of gemm.c.

    y = AT [ sum over channels (and taps along depth) of (BT x B) * (G w G^T) ] A + bias

The output is cut into tiles of mh x mw, each computed from nh x nw = (mh + 2) x (mw + 2) inputs (1 x m tiles: from
1 x (m + 2); 3 x 3 tiles of stride 2: from 7 x 7). Where whole tiles do not fit, the last tiles of an axis have one output
less. Only that output needs the last product of the axis, of the point at infinity (with stride 2, the last two), so short
tiles skip it. Tiles are ordered by kind, so that all tiles that have a product are adjacent.

With dilation d, every d-th output along an axis is a convolution of its own, without dilation: tiles are those of the d
phases of an axis, and their pixels are d apart. All phases have the tiles of the longest one.

A task is a group of tiles times a block of output channels. The tiles are transformed into V, which is kept while the
following tasks belong to the same group. Each of the nh * nw products is a matrix product V [tiles, channels]
U [channels, outputs] into M, by a micro-kernel of gemm.c, or of gemm_s16.c for integers. M, in the type of the sums, is
transformed into the output, or, if that is narrower, into a buffer of one tile, to which the epilogue is applied before
it is rounded. V and M stay in or near L2. U, the filter, was transformed when it was packed and is read once per group.
Groups have equal shares of all products.

Sums of integers that might be out of the range of one transform are cut into parts of channels that are not: M of each part
is transformed, and the results are added, modulo 2^32.

U is packed, or, where it would be large and there are few tiles, expanded from the filter itself while it is multiplied:
of a panel and some channels at a time, which stay in L2. So a quarter is read from memory.

Depth, if there is any, is convolved directly: there is a V for each tap along it, and products sum over these taps. Other
kernels and strides are cut into pieces of 3 x 3 taps (1 x 3), filled up with zeros, that are summed in the same way, see
winograd_pieces.py: each has a V of its own, of other inputs.
Threads take equal shares of the tasks. A group that is shared by several threads is transformed by each of them.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memset

from math import lcm

from ..executor import NOTHING, Footprint

from ...kernels cimport LK_GEMM_S16, lk_kernel
from ...kernels.elementwise cimport lk_epilogue
from ...kernels.gemm cimport lk_gemm, lk_gemm_s16, lk_gemm_s16_fn
from ...kernels.winograd cimport (
    lk_winograd_expand, lk_winograd_expand_fn, lk_winograd_in, lk_winograd_in_fn, lk_winograd_out, lk_winograd_out_fn,
)
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport row_named
from ..executor cimport MAX_ROWS, Executor, Geometry, Tasks, aligned, ceil_div, elements, more, share

import_array()

cdef enum:
    MAX_VECTORS = 16        # of a row of the register tile
    MAX_RUN_STEPS = 128     # summed in registers before they are added to M: rounding errors grow with it
    MAX_TILE_PIXELS = 64    # of the output in a tile
    SKEW_BYTES = 64         # between rows and between products, which would share sets of the cache otherwise
    FAR_BYTES = 16 << 20    # a larger filter has left the caches when it is read again
    MAX_EXPANDED_STEPS = 64 # the same where the filter is expanded: its products stay in L2
    KINDS = 4               # of tiles: low, whole, narrow, low and narrow
    STRIDED = 3             # outputs along an axis of the tiles of stride 2
    MAX_PRODUCTS = 64       # of a tile
    MAX_PIECES = 16         # of a filter along an axis

RUN, EXPANDED_RUN = MAX_RUN_STEPS, MAX_EXPANDED_STEPS  # roundings are counted with them


cdef struct Work:
    int64_t first, last            # tiles
    int64_t panel, stop, channels  # panels of output channels, and the channels in them
    const char *x                  # the group's first channel
    char *y                        # the first of the output channels


cdef struct Products:
    lk_gemm g
    int64_t row[MAX_ROWS]
    int64_t c_row[MAX_ROWS]
    int64_t c_col[MAX_VECTORS]
    int64_t no_tap
    int64_t begin  # the step that M begins with


cdef struct TilePosition:
    int64_t n, d, i, j    # of its first output
    int rows, cols        # outputs that are stored, maybe none


cdef inline bint low(int64_t kind) noexcept nogil:
    """Whether tiles of a kind lack the last output along the height."""
    return kind == 0 or kind == 3


cdef inline bint narrow(int64_t kind) noexcept nogil:
    """Whether tiles of a kind lack the last output along the width."""
    return kind >= 2


cdef inline int64_t pixels(int64_t length, int64_t step) noexcept nogil:
    """Of a length, how many there are `step` apart from its begin on."""
    return ceil_div(max(0, length), step)


cdef class Winograd(Executor):
    """F(mh x mw, 3 x 3) over groups of tiles.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, d, h, w) of an image and a pixel; a gemm row. Of 1 x m tiles the kernel is (any, 1, any).
    transforms : (str, str)
        Names of the winograd_in and winograd_out rows.
    table : ndarray
        The constants of the transforms, of the type of the sums, see winograd.h.
    x_channels : (count, block, block_stride, group_stride)
        Channels of a group, pads included, in runs of `block` elements.
    y_channels : (count, block, block_stride)
        Output channels of a group, pads included, in runs of `block` elements.
    pieces : (Axis, Axis)
        Of the filter, along height and width.
    high, wide : (int, int)
        Tiles of m outputs along height and width of a phase, and tiles of m - 1 that follow them.
    groups, blocks : int
        The number of groups into which tiles are cut, and of blocks into which output channels are.
    expand : (str, ndarray), optional
        The name of the winograd_expand row and its table, where the filter is expanded.
    part : int
        The most channels whose products are summed before they are transformed; 0: all. Results must be rounded.

    The packed filter is [groups][factors][panels][depth taps * pieces][units of channels][nr][kr], or, where it is
    expanded, [groups][panels][depth taps * pieces][channels][taps of a piece][nr]; the bias [groups][panels * nr]. A
    factor is that of one product, but for 3 x 3 tiles of stride 2, where the three products of odd inputs have one, the
    middle tap: 5 x 5 factors of 7 x 7 products.
    """

    cdef lk_gemm_s16_fn gemm_s16    # of integers
    cdef lk_winograd_in_fn transform_in
    cdef lk_winograd_out_fn transform_out
    cdef lk_winograd_expand_fn expand  # NULL: the filter is packed expanded
    cdef ndarray table
    cdef const void *k              # its numbers
    cdef ndarray expanding
    cdef int64_t numbers            # that the filter has for a channel: factors, or taps
    cdef int64_t factors
    cdef int products_by_factor[MAX_PRODUCTS]
    cdef int first_of_factor[MAX_PRODUCTS + 1]      # and of the next one, among these
    cdef int64_t u_product          # elements from product to product of the expanded filter
    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t steps              # of a sum over channels
    cdef int64_t x_channels, x_block, x_block_stride, x_group
    cdef int64_t cols, y_block, y_block_stride
    cdef int mh, mw, nh, nw
    cdef int stride                 # along height and width; as many products only the last output of a tile takes
    cdef int64_t products
    cdef int64_t pieces[2]          # of 3 taps, along height and width
    cdef int64_t offset[2][MAX_PIECES]              # pixels to that of a piece from the first input of an output
    cdef int64_t in_step[2], scale[2]               # pixels between inputs of a tile, and between those of outputs
    cdef int64_t taps               # along the depth, times pieces
    cdef int64_t step[2]            # pixels from output to output of a tile, along height and width
    cdef int64_t phases[2]
    cdef int64_t high[2]            # tiles of a phase along height: whole ones, short ones
    cdef int64_t wide[2]            # along width
    cdef int64_t first[KINDS + 1]   # tile of each kind
    cdef int64_t work[KINDS + 1]    # products of all tiles before it
    cdef int64_t groups, blocks, panels
    cdef int64_t spans, span                        # spans of panels that end where a run of output channels does
    cdef int64_t run                                # steps summed at a time
    cdef int v_item                                 # bytes of an element of V
    cdef int64_t v_row, v_product, v_tap            # elements from tile to tile, product to product, tap to tap
    cdef int64_t m_row, m_product
    cdef int64_t buffer_bytes       # of the sums of a tile, before they are rounded
    cdef bint in_parts              # sums are those of parts of the channels, each of a run of steps
    cdef int64_t part_bytes         # of the sums of a tile over the parts before; those of all tiles follow the buffer

    def __init__(self, nest, transforms, ndarray table, int64_t ic, x_channels, y_channels, pieces, high, wide,
                 int64_t groups, int64_t blocks, expand=None, int64_t part=0):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef const lk_kernel *in_row = row_named(transforms[0])
        cdef const lk_kernel *out_row = row_named(transforms[1])
        cdef int64_t tiles, steps
        self.gemm_s16 = <lk_gemm_s16_fn>self.micro_kernel if self.kernel_row.family == LK_GEMM_S16 else NULL
        self.transform_in, self.transform_out = <lk_winograd_in_fn>in_row.fn, <lk_winograd_out_fn>out_row.fn
        self.mh, self.mw = in_row.mr, in_row.nr
        self.stride = 2 if self.mw == STRIDED else 1
        self.nh = self.stride * (self.mh - 1) + 3 if self.mh > 1 else 1
        self.nw = self.stride * (self.mw - 1) + 3
        self.table, self.k = table, PyArray_DATA(table)
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.steps = ceil_div(ic, self.kr)
        self.x_channels, self.x_block, self.x_block_stride, self.x_group = x_channels
        self.cols, self.y_block, self.y_block_stride = y_channels
        steps = max(1, self.steps)
        i = MAX_RUN_STEPS if expand is None else MAX_EXPANDED_STEPS
        self.in_parts = part > 0
        if self.in_parts:
            i = min(i, part // self.kr)
        self.run = ceil_div(ceil_div(steps, ceil_div(steps, i)), 4) * 4
        self.products, self.taps = self.nh * self.nw, self.g.kernel[0]
        for i in range(2):
            _, offsets, self.in_step[i], self.scale[i] = pieces[i]
            if len(offsets) > MAX_PIECES:
                raise ValueError(f"winograd: a filter of {len(offsets)} pieces, expected at most {MAX_PIECES}")
            for j, offset in enumerate(offsets):
                self.offset[i][j] = offset
            self.pieces[i] = len(offsets)
            self.taps *= self.pieces[i]
        self.list_factors()
        self.expand, self.numbers = NULL, self.factors
        self.high, self.wide = high, wide
        for i in range(2):
            self.step[i] = self.g.dilation[i + 1] if self.g.kernel[i + 1] > 1 else 1
            self.phases[i] = min(self.step[i], self.g.out[i + 1])
        self.first[0] = self.work[0] = 0
        for i in range(KINDS):
            tiles = (self.g.n * self.g.out[0] * self.phases[0] * self.high[low(i)]
                     * self.phases[1] * self.wide[narrow(i)])
            self.first[i + 1] = self.first[i] + tiles
            self.work[i + 1] = self.work[i] + tiles * self.products_of(i)
        self.panels = ceil_div(self.cols, self.nr)
        self.span = lcm(self.nr, self.y_block) // self.nr if self.y_block < self.cols else 1
        self.spans = ceil_div(self.panels, self.span)
        self.groups, self.blocks = groups, min(blocks, max(1, self.spans))
        self.total = self.g.groups * self.groups * self.blocks
        if self.first[KINDS] == 0 or self.panels == 0:
            self.total = 0
        tiles = self.most_tiles()
        self.v_item = self.sum_item // self.kr
        i = self.lanes * self.kr
        self.v_row = ceil_div(self.x_channels, i) * i + SKEW_BYTES // self.v_item
        self.v_product = tiles * self.v_row + SKEW_BYTES // self.v_item
        self.v_tap = self.products * self.v_product
        self.m_row = ceil_div(self.spans, self.blocks) * self.span * self.nr + SKEW_BYTES // self.sum_item
        self.m_product = tiles * self.m_row + SKEW_BYTES // self.sum_item
        self.buffer_bytes = aligned(self.sum_item * self.mh * self.mw * self.m_row) if self.rounding else 0
        self.ws_thread = (aligned(self.v_item * self.taps * self.v_tap)
                          + aligned(self.sum_item * self.products * self.m_product) + self.buffer_bytes)
        self.part_bytes = 0
        if self.in_parts:
            if not self.rounding or expand is not None:
                raise ValueError("winograd: sums in parts are of results that are rounded, by a packed filter")
            self.part_bytes = self.buffer_bytes
            self.ws_thread += tiles * self.part_bytes
        if expand is not None:
            self.expand, self.expanding = <lk_winograd_expand_fn>row_named(expand[0]).fn, expand[1]
            self.numbers = 9 if self.nh > 1 else 3
            self.u_product = self.run * self.nr + SKEW_BYTES // self.sum_item
            self.ws_thread += aligned(self.sum_item * self.products * self.u_product)
        self.accumulates = self.rounding

    cdef void list_factors(self):
        """Which products each factor of the filter belongs to."""
        same = [0, 1, 2, 3, 3, 4, 3] if self.stride == 2 else range(MAX_PRODUCTS)
        of_products = [(same[i], same[j]) for i in range(self.nh) for j in range(self.nw)]
        at = 0
        self.factors = 0
        for factor in sorted(set(of_products)):
            self.first_of_factor[self.factors] = at
            for t, of_product in enumerate(of_products):
                if of_product == factor:
                    self.products_by_factor[at], at = t, at + 1
            self.factors += 1
        self.first_of_factor[self.factors] = at

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        reads, writes = self.pixels_of(self.x_stride[0], self.x_stride + 1, self.y_stride[0], self.y_stride + 1, True)
        reads.append((0, g.groups - 1, self.x_group))
        read, columns, written = self.x_channels, g.groups * self.cols, g.groups * self.cols
        if self.x_block < self.x_channels:
            reads.append((0, ceil_div(self.x_channels, self.x_block) - 1, self.x_block_stride))
            read = self.x_block
        if self.y_block < columns:
            writes.append((0, ceil_div(columns, self.y_block) - 1, self.y_block_stride))
            written = self.y_block
        filters = g.groups * self.panels * self.nr
        return Footprint(((reads, self.x_item * read),), ((writes, self.y_item * written),),
                         self.sum_item * filters * self.numbers * self.taps * self.steps,
                         self.sum_item * filters)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef char *v = workspace
        cdef char *m = workspace + aligned(self.v_item * self.taps * self.v_tap)
        cdef char *expanded = m + aligned(self.sum_item * self.products * self.m_product) + self.buffer_bytes
        cdef int64_t group_bytes = self.numbers * self.panels * self.panel_bytes()
        cdef Work t
        cdef int64_t block, group, rest, at = -1
        cdef int x_zero = epilogue.x_zero if self.integers else 0
        if self.integers and not self.rounding:
            epilogue = NULL  # it only had x_zero
        while task < end or more(tasks, &task, &end):
            block, rest = task % self.blocks, task // self.blocks
            group = rest // self.groups
            t.first, t.last = self.start(rest % self.groups), self.start(rest % self.groups + 1)
            t.panel = share(self.spans, self.blocks, block) * self.span
            t.stop = min(self.panels, share(self.spans, self.blocks, block + 1) * self.span)
            t.channels = min(t.stop * self.nr, self.cols) - t.panel * self.nr
            t.x = x + group * self.x_group
            t.y = y + self.column(group * self.cols + t.panel * self.nr)
            if at != rest:
                at = rest
                self.inputs(&t, v, x_zero)
            if self.in_parts:
                self.sum_parts(&t, w + group * group_bytes, v, m,
                               after(bias, (group * self.panels + t.panel) * self.nr * self.sum_item))
                self.epilogue_of_parts(&t, m, epilogue, y, group)
                task += 1
                continue
            if self.expand == NULL:
                self.multiply(&t, w + group * group_bytes, v, m, 0, self.taps * self.steps)
            else:
                self.multiply_expanded(&t, w + group * group_bytes, v, m, expanded)
            self.outputs(&t, m, after(bias, (group * self.panels + t.panel) * self.nr * self.sum_item), epilogue, y,
                         group)
            task += 1

    cdef inline int64_t column(self, int64_t j) noexcept nogil:
        """Byte offset of output channel j of a pixel; j is the first of a run."""
        return j // self.y_block * self.y_block_stride + j % self.y_block * self.y_item

    cdef inline int64_t panel_bytes(self) noexcept nogil:
        """Bytes of a panel of the filter, of one of its `numbers`."""
        return self.taps * self.steps * self.nr * self.sum_item

    cdef inline int64_t products_of(self, int64_t kind) noexcept nogil:
        """Products of a tile of a kind."""
        return (max(1, self.nh - self.stride * low(kind))  # 1 x m tiles are never low
                * (self.nw - self.stride * narrow(kind)))

    cdef inline int64_t start(self, int64_t group) noexcept nogil:
        """The first tile of a group."""
        cdef int64_t work = share(self.work[KINDS], self.groups, group)
        cdef int kind = 0
        while kind + 1 < KINDS and work > self.work[kind + 1]:
            kind += 1
        return self.first[kind] + ceil_div(work - self.work[kind], self.products_of(kind))

    cdef int64_t most_tiles(self):
        """The most tiles of a group: as many as fit into a group's share of products, and one more, of the cheapest
        kinds."""
        cdef int64_t left = ceil_div(self.work[KINDS], self.groups) - 1, count, tiles = 1
        for kind in (3, 2, 0, 1):
            count = min(self.first[kind + 1] - self.first[kind], left // self.products_of(kind))
            tiles, left = tiles + count, left - count * self.products_of(kind)
        return tiles

    cdef inline TilePosition position(self, int64_t tile) noexcept nogil:
        """The first output of a tile."""
        cdef TilePosition p
        cdef int kind = 0
        cdef int64_t high, wide
        while tile >= self.first[kind + 1]:
            kind += 1
        tile -= self.first[kind]
        high, wide = self.high[low(kind)], self.wide[narrow(kind)]
        p.j, tile = tile % wide * (self.mw - narrow(kind)) + narrow(kind) * self.wide[0] * self.mw, tile // wide
        p.j, tile = tile % self.phases[1] + p.j * self.step[1], tile // self.phases[1]
        p.i, tile = tile % high * (self.mh - low(kind)) + low(kind) * self.high[0] * self.mh, tile // high
        p.i, tile = tile % self.phases[0] + p.i * self.step[0], tile // self.phases[0]
        p.d, p.n = tile % self.g.out[0], tile // self.g.out[0]
        p.rows = <int>min(self.mh - low(kind), pixels(self.g.out[1] - p.i, self.step[0]))
        p.cols = <int>min(self.mw - narrow(kind), pixels(self.g.out[2] - p.j, self.step[1]))
        return p

    cdef void inputs(self, const Work *work, char *v, int outside) noexcept nogil:
        """Transform the input of the tiles into V; `outside`: the value of the padding of integers."""
        cdef const Geometry *g = &self.g
        cdef lk_winograd_in t
        cdef TilePosition p
        cdef int64_t tile, tap, depth, i, j
        t.row, t.col = self.in_step[0] * self.x_stride[2], self.in_step[1] * self.x_stride[3]
        t.channels, t.block, t.block_stride = self.x_channels, self.x_block, self.x_block_stride
        t.v_stride, t.k, t.pad, t.flip = self.v_product, self.k, <uint8_t>outside, <uint8_t>self.flip
        for tile in range(work.first, work.last):
            p = self.position(tile)
            for tap in range(self.taps):
                depth, j = tap // self.pieces[1], tap % self.pieces[1]
                depth, i = depth // self.pieces[0], depth % self.pieces[0]
                depth = p.d * g.stride[0] - g.before[0] + depth * g.dilation[0]
                i = p.i * self.scale[0] - g.before[1] + self.offset[0][i]
                j = p.j * self.scale[1] - g.before[2] + self.offset[1][j]
                t.row0 = <int>min(self.nh, pixels(-i, self.in_step[0]))
                t.row1 = <int>min(self.nh, pixels(g.size[1] - i, self.in_step[0])) if 0 <= depth < g.size[0] else 0
                t.col0 = <int>min(self.nw, pixels(-j, self.in_step[1]))
                t.col1 = <int>min(self.nw, pixels(g.size[2] - j, self.in_step[1]))
                t.src = (work.x + p.n * self.x_stride[0] + depth * self.x_stride[1]
                         + i * self.x_stride[2] + j * self.x_stride[3])
                t.v = v + (tap * self.v_tap + (tile - work.first) * self.v_row) * self.v_item
                self.transform_in(&t)

    cdef void multiply(self, const Work *work, const char *u, const char *v, char *m, int64_t begin,
                       int64_t end) noexcept nogil:
        """M = V U, factor by factor of U, product by product that has it, for the tiles that have the product; each summed
        over runs of channels of one tap, of steps [begin, end).

        If a single register tile holds all rows, prefetching the next panel costs more than it saves, as the hardware
        prefetcher follows the filter; unless the filter comes from memory.
        """
        cdef Products r
        cdef lk_gemm *g = &r.g
        cdef const char *panel
        cdef int64_t f, i, p, k, first, tiles, calls
        cdef int64_t panel_bytes = self.panel_bytes(), step_bytes = self.nr * self.sum_item, runs = 1
        cdef bint far = self.factors * self.panels * panel_bytes > FAR_BYTES
        self.begin(&r)
        r.begin = begin
        if not self.in_parts:
            runs = max(1, self.taps * ceil_div(self.steps, self.run))
        u += begin * step_bytes
        for f in range(self.factors):
            calls = 0
            for i in range(self.first_of_factor[f], self.first_of_factor[f + 1]):
                calls += max(0, ceil_div(self.tiles_of(work, self.products_by_factor[i], &first), self.mr))
            if calls == 0:
                continue
            g.to_prefetch_bytes = (end - begin) * step_bytes // (calls * runs) // 64 * 64 if calls > 1 or far else 0
            for p in range(work.panel, work.stop):
                panel = u + (f * self.panels + p) * panel_bytes
                g.to_prefetch = panel + panel_bytes
                if p + 1 == work.stop:
                    g.to_prefetch = u + ((f + 1) * self.panels + work.panel) * panel_bytes
                    if f + 1 == self.factors:
                        g.to_prefetch_bytes = 0
                for i in range(self.first_of_factor[f], self.first_of_factor[f + 1]):
                    tiles = self.tiles_of(work, self.products_by_factor[i], &first)
                    if tiles <= 0:
                        continue
                    g.b = panel
                    k = begin
                    while True:
                        self.product(&r, work, v, m, self.products_by_factor[i], p, k, first, tiles)
                        g.b += g.kb * step_bytes  # as many bytes as units have
                        k += g.kb
                        if k >= end:
                            break

    cdef void multiply_expanded(self, const Work *work, const char *w, const char *v, char *m,
                                char *u) noexcept nogil:
        """As `multiply`, of a filter that is expanded: of a panel and a run of channels, for all products."""
        cdef Products r
        cdef lk_winograd_expand e
        cdef int64_t t, p, k, first, tiles, calls, channel_bytes = self.numbers * self.nr * self.sum_item
        cdef int64_t depth = self.taps * self.steps
        self.begin(&r)
        e.n, e.rows, e.width, e.k = self.nw, 3 if self.nh > 1 else 1, self.nr, PyArray_DATA(self.expanding)
        e.u, e.u_stride = u, self.u_product
        calls = self.products * ceil_div(work.last - work.first, self.mr)
        for p in range(work.panel, work.stop):
            k = 0
            while k < depth:
                e.w = w + (p * depth + k) * channel_bytes
                e.channels = min(self.run, self.steps - k % self.steps)
                self.expand(&e)
                r.g.to_prefetch = <const char *>e.w + e.channels * channel_bytes
                r.g.to_prefetch_bytes = e.channels * channel_bytes // calls // 64 * 64 + 64
                if p + 1 == work.stop and k + e.channels >= depth:
                    r.g.to_prefetch_bytes = 0
                for t in range(self.products):
                    tiles = self.tiles_of(work, t, &first)
                    if tiles > 0:
                        r.g.b = u + t * self.u_product * self.sum_item
                        self.product(&r, work, v, m, t, p, k, first, tiles)
                k += e.channels

    cdef void begin(self, Products *r) noexcept nogil:
        """What all products have in common."""
        cdef int64_t i
        memset(r, 0, sizeof(Products))
        r.g.chunk, r.g.period = self.chunk, self.period
        for i in range(self.mr):
            r.row[i], r.c_row[i] = i * self.v_row * self.v_item, i * self.m_row * self.sum_item
        for i in range(self.nr // self.lanes):
            r.c_col[i] = i * self.lanes * self.sum_item
        r.g.row, r.g.c_row, r.g.c_col, r.g.tap = r.row, r.c_row, r.c_col, &r.no_tap
        r.g.taps, r.g.blocks, r.g.ldb = 1, 1, self.nr

    cdef inline int64_t tiles_of(self, const Work *work, int64_t t, int64_t *first) noexcept nogil:
        """How many tiles have product t, from `first` on."""
        cdef bint bottom = t // self.nw >= self.nh - self.stride, right = t % self.nw >= self.nw - self.stride
        first[0] = max(work.first, self.first[bottom])
        return min(work.last, self.first[2 if right else KINDS - bottom]) - first[0]

    cdef inline void product(self, Products *r, const Work *work, const char *v, char *m, int64_t t, int64_t p,
                             int64_t k, int64_t first, int64_t tiles) noexcept nogil:
        """Add to M, or begin with, a run of channels from k on of product t and panel p; g.b points at them."""
        cdef lk_gemm *g = &r.g
        cdef int64_t i, at, high = ceil_div(tiles, self.mr), steps = max(1, self.steps)
        first -= work.first
        g.cols = <int>(ceil_div(min(self.nr, self.cols - p * self.nr), self.lanes) * self.lanes)
        g.pads = 0
        if self.cols > self.g.oc:
            g.pads = <int>min(g.cols, max(0, p * self.nr + g.cols - self.g.oc))
        g.kb = g.kb_last = min(self.run, self.steps - k % steps)
        g.accumulate = k > r.begin
        for i in range(high):
            at = first + share(tiles, high, i)
            g.rows = <int>(first + share(tiles, high, i + 1) - at)
            g.a = v + self.v_item * (k // steps * self.v_tap + t * self.v_product + at * self.v_row
                                     + k % steps * self.kr)
            g.c = m + self.sum_item * (t * self.m_product + at * self.m_row + (p - work.panel) * self.nr)
            self.tile(g)
            g.to_prefetch += g.to_prefetch_bytes

    cdef inline void tile(self, const lk_gemm *g) noexcept nogil:
        """Compute a register tile of M, whose rows are equidistant."""
        cdef lk_gemm_s16 s
        if self.gemm_s16 == NULL:
            self.micro_kernel(g)
            return
        s.a, s.a_row, s.b, s.ldb = g.a, self.v_row * self.v_item, g.b, g.ldb
        s.c, s.c_row, s.steps = g.c, self.m_row * self.sum_item, g.kb
        s.rows, s.cols, s.accumulate = g.rows, g.cols, g.accumulate
        s.to_prefetch, s.to_prefetch_bytes = g.to_prefetch, g.to_prefetch_bytes
        self.gemm_s16(&s)

    cdef void outputs(self, const Work *work, const char *m, const char *bias, const lk_epilogue *epilogue, char *y,
                      int64_t group) noexcept nogil:
        """Transform M into the output of the tiles, and apply the epilogue to it."""
        cdef lk_winograd_out t
        cdef lk_epilogue f
        cdef TilePosition p
        cdef int64_t tile
        cdef char *buffer = <char *>m + aligned(self.sum_item * self.products * self.m_product)
        t.m_stride, t.k = self.m_product, self.k
        t.row, t.col = self.step[0] * self.y_stride[2], self.step[1] * self.y_stride[3]
        t.channels, t.block, t.block_stride, t.bias = work.channels, self.y_block, self.y_block_stride, bias
        if epilogue != NULL:
            f = epilogue[0]
        if self.rounding:
            t.block, t.col = work.channels, work.channels * self.sum_item
            f.sums_row = t.col
            if epilogue == NULL:
                f.add, f.steps = NULL, 0
        for tile in range(work.first, work.last):
            p = self.position(tile)
            if p.rows <= 0 or p.cols <= 0:
                continue
            t.rows, t.cols = p.rows, p.cols
            t.dst = (work.y + p.n * self.y_stride[0] + p.d * self.y_stride[1] + p.i * self.y_stride[2]
                     + p.j * self.y_stride[3])
            t.m = m + (tile - work.first) * self.m_row * self.sum_item
            if self.rounding:
                t.dst, t.row, f.sums = buffer, p.cols * t.col, buffer
            self.transform_out(&t)
            if self.rounding or epilogue != NULL:
                self.epilogue_tile(work, &p, &f, y, group)

    cdef void sum_parts(self, const Work *work, const char *u, const char *v, char *m,
                        const char *bias) noexcept nogil:
        """Add up the outputs of the tiles over parts of the channels, without the epilogue."""
        cdef lk_winograd_out t
        cdef TilePosition p
        cdef int64_t tile, i, k = 0, run, depth = self.taps * self.steps
        cdef char *buffer = m + aligned(self.sum_item * self.products * self.m_product)
        cdef char *sums
        cdef uint32_t *total
        cdef const uint32_t *part = <const uint32_t *>buffer
        t.m_stride, t.k, t.channels, t.block, t.bias = self.m_product, self.k, work.channels, work.channels, bias
        t.block_stride, t.col = 0, work.channels * self.sum_item
        while k < depth:
            run = min(self.run, self.steps - k % self.steps)
            self.multiply(work, u, v, m, k, k + run)
            for tile in range(work.first, work.last):
                p = self.position(tile)
                sums = buffer + self.buffer_bytes + (tile - work.first) * self.part_bytes
                t.rows, t.cols, t.row = p.rows, p.cols, p.cols * t.col
                t.m, t.dst = m + (tile - work.first) * self.m_row * self.sum_item, sums if k == 0 else buffer
                self.transform_out(&t)
                if k:
                    total = <uint32_t *>sums
                    for i in range(p.rows * p.cols * work.channels):
                        total[i] += part[i]
            t.bias = NULL
            k += run

    cdef void epilogue_of_parts(self, const Work *work, char *m, const lk_epilogue *epilogue, char *y,
                                int64_t group) noexcept nogil:
        """Round the sums of `sum_parts` into the output."""
        cdef lk_epilogue f = epilogue[0]
        cdef TilePosition p
        cdef int64_t tile
        cdef char *sums = m + aligned(self.sum_item * self.products * self.m_product) + self.buffer_bytes
        f.sums_row = work.channels * self.sum_item
        for tile in range(work.first, work.last):
            p = self.position(tile)
            f.sums = sums + (tile - work.first) * self.part_bytes
            self.epilogue_tile(work, &p, &f, y, group)

    cdef void epilogue_tile(self, const Work *work, const TilePosition *p, lk_epilogue *f, char *y,
                            int64_t group) noexcept nogil:
        """Apply the epilogue to the outputs of a tile, without the pads, which become 0 where sums are rounded."""
        cdef int64_t row[MAX_TILE_PIXELS]
        cdef int64_t i, j, at, run, count = 0, first = work.panel * self.nr, end = first + work.channels
        for i in range(p.rows):
            for j in range(p.cols):
                row[count] = (p.n * self.y_stride[0] + p.d * self.y_stride[1]
                              + (p.i + i * self.step[0]) * self.y_stride[2]
                              + (p.j + j * self.step[1]) * self.y_stride[3])
                count += 1
        while first < end:
            run = (min(end, self.g.oc) if first < self.g.oc else end) - first
            run, at = min(run, self.y_block - first % self.y_block), self.column(group * self.cols + first)
            if first < self.g.oc:
                self.epilogue_rows(f, y, at, row, count, group * self.g.oc + first, run)
            elif self.rounding:
                for i in range(count):
                    memset(y + row[i] + at, 0, run * self.y_item)
            if self.rounding:
                f.sums += run * self.sum_item
            first += run


cdef inline const char *after(const char *bias, int64_t at) noexcept nogil:
    return NULL if bias == NULL else bias + at
