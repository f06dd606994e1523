"""The gradient of a filter by Winograd's F(3x3, 4x4): the loop nest around winograd.c and the micro-kernels of outer.c.

    dw = GT [ sum over tiles of (A dy AT) * (BT x B) ] G      of each pair of channels

which is the transpose of F(4x4, 3x3), with the same tiles of 4 x 4 outputs and 6 x 6 inputs, or 1 x 4 and 1 x 6. Both
transforms are winograd_in: A is BT of other points read backwards, since

    (A g)[+-p] = (g0 + p^2 g2) +- p (g1 + p^2 g3)      (A g)[first] = g0      (A g)[last] = g3

are its result for (0, g3, g2, g1, g0, 0) with the table of `gradient_table`. Outputs beyond the edges are zeros.

A block is TILES tiles, a part some channels of x times some of dy. The tiles of a block are transformed into V and Z,
[products][tiles][channels], and the sums of their outer products are added to U, [products] of register tiles. All
three stay in L2. After its last block a part adds GT U G to the sums, which are laid out as those of `OuterSums`:
[groups][panels of x][panels of dy][taps][mr][nr].
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from math import lcm

from ..executor import Footprint

from ...kernels cimport LK_WINOGRAD_TAPS, lk_kernel
from ...kernels.gradients cimport lk_outer, lk_outer_fn
from ...kernels.winograd cimport lk_winograd_in, lk_winograd_in_fn, lk_winograd_taps, lk_winograd_taps_fn
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport best_row, row_named
from ..executor cimport Side, WeightSums, aligned, ceil_div, channel_at, share, side_of

import_array()

cdef enum:
    TILES = 64       # of a block
    SKEW_BYTES = 64  # between tiles and between products, which would share sets of the cache otherwise


BLOCK_TILES = TILES  # for estimates


cdef struct Operand:  # x or dy
    Side side
    int64_t unit, units    # channels that a part has a multiple of; how many units there are
    int64_t parts          # into which they are cut
    int64_t row, product   # of the transformed tiles: bytes from tile to tile, from product to product
    int64_t panel          # channels of a panel
    int64_t panels         # of all channels
    const void *table


cdef struct Range:
    int64_t first, channels  # of a part, without pads behind the last one
    int64_t panel, panels


cdef class WinogradSums(WeightSums):
    """Parameters
    ----------
    kernels : (str, str)
        Names of an outer row and of the winograd_in row of such tiles, both of float.
    geometry, threads, slabs, chunks
        As of the base; of kernels 1 x 3 x 3, or 1 x 1 x 3, stride and dilation 1.
    x_strides, y_strides, x_channels, y_channels
        As of `OuterSums`.
    parts : (int, int)
        Into how many parts the channels of x and of dy are cut.
    tables : (ndarray, ndarray, ndarray)
        Of float: of the transforms of x and dy, see winograd.h; of each product, what GT multiplies it by, and powers.
    """

    cdef lk_outer_fn kernel
    cdef lk_winograd_in_fn transform
    cdef lk_winograd_taps_fn taps_of
    cdef readonly int64_t mr, nr
    cdef int lanes
    cdef Operand x, y
    cdef tuple tables
    cdef const void *scales
    cdef int64_t mh, nh, products, taps, tile_bytes
    cdef int64_t high, wide, all_tiles     # tiles of an image, and of all
    cdef int64_t u_product                 # bytes

    def __init__(self, kernels, geometry, int threads, int64_t slabs, int64_t chunks, x_strides, y_strides,
                 x_channels, y_channels, parts, tables):
        WeightSums.__init__(self, kernels[0], geometry, threads, slabs, chunks)
        cdef const lk_kernel *row = self.kernel_row
        self.kernel, self.mr, self.nr, self.lanes = <lk_outer_fn>row.fn, row.mr, row.nr, row.lanes
        row = row_named(kernels[1])
        self.transform, self.mh = <lk_winograd_in_fn>row.fn, row.mr
        self.taps_of = <lk_winograd_taps_fn>best_row(LK_WINOGRAD_TAPS, "f32").fn
        self.item = 4
        g = &self.g
        self.nh = 6 if self.mh > 1 else 1
        self.products, self.taps = 6 * self.nh, 9 if self.mh > 1 else 3
        self.tables = tables
        self.x.table, self.y.table = PyArray_DATA(<ndarray>tables[0]), PyArray_DATA(<ndarray>tables[1])
        self.scales = PyArray_DATA(<ndarray>tables[2])
        self.x.side, self.y.side = side_of(x_strides, x_channels), side_of(y_strides, y_channels)
        self.x.panel, self.y.panel, (self.x.parts, self.y.parts) = self.mr, self.nr, parts
        self.cut_parts(&self.x)
        self.cut_parts(&self.y)
        self.tile_bytes = self.mr * self.nr * self.item
        self.slab_bytes = g.groups * self.x.panels * self.y.panels * self.taps * self.tile_bytes
        self.high, self.wide = ceil_div(g.out[1], self.mh), ceil_div(g.out[2], 4)
        self.all_tiles = g.n * g.out[0] * self.high * self.wide
        self.blocks = ceil_div(self.all_tiles, TILES)
        self.u_product = self.max_part_channels(&self.x) // self.mr * (self.max_part_channels(&self.y) // self.nr) * self.tile_bytes
        self.thread_bytes = (aligned(self.products * self.u_product) + aligned(self.products * self.x.product)
                             + aligned(self.products * self.y.product))
        self.parts = g.groups * self.x.parts * self.y.parts

    cdef void cut_parts(self, Operand *s) noexcept:
        """Parts begin where panels, vectors and blocks of the layout do."""
        cdef int64_t padded
        s.unit = lcm(s.panel, self.lanes)
        if s.side.block < s.side.channels:
            s.unit = lcm(s.unit, s.side.block)
        s.panels, s.units = ceil_div(s.side.channels, s.panel), ceil_div(s.side.channels, s.unit)
        s.parts = min(s.parts, s.units)
        padded = self.max_part_channels(s)
        s.row = padded * self.item + SKEW_BYTES
        s.product = TILES * s.row + SKEW_BYTES

    cdef int64_t max_part_channels(self, const Operand *s) noexcept:
        """The channels of the largest part."""
        return ceil_div(s.units, s.parts) * s.unit

    cdef inline Range range_of(self, const Operand *s, int64_t part) noexcept nogil:
        cdef Range r
        cdef int64_t end = min(s.side.channels, share(s.units, s.parts, part + 1) * s.unit)
        r.first = share(s.units, s.parts, part) * s.unit
        r.channels, r.panel = end - r.first, r.first // s.panel
        r.panels = ceil_div(r.channels, s.panel)
        return r

    def footprint(self):
        return Footprint(self.channels(&self.x.side, True), self.channels(&self.y.side, False), 0, 0)

    cdef void part(self, const char *x, const char *y, char *c, char *workspace, int64_t part, int64_t first,
                   int64_t end, bint begins) noexcept nogil:
        cdef char *u = workspace
        cdef char *v = u + aligned(self.products * self.u_product)
        cdef char *z = v + aligned(self.products * self.x.product)
        cdef int64_t group = part // (self.x.parts * self.y.parts), at
        cdef Range m = self.range_of(&self.x, part // self.y.parts % self.x.parts)
        cdef Range n = self.range_of(&self.y, part % self.y.parts)
        self.clear(&self.x, &m, v)
        self.clear(&self.y, &n, z)
        x += channel_at(&self.x.side, group * self.x.side.channels + m.first)
        y += channel_at(&self.y.side, group * self.y.side.channels + n.first)
        for at in range(first, end):
            self.inputs(x, v, m.channels, at, True)
            self.inputs(y, z, n.channels, at, False)
            self.multiply(u, v, z, m.panels, n.panels, min(<int64_t>TILES, self.all_tiles - at * TILES), at > first)
        if begins or first < end:
            self.transform_sums(u, c, group, &m, &n, first < end, not begins)

    cdef void clear(self, const Operand *s, const Range *r, char *to) noexcept nogil:
        """Fill the last panel with zeros beyond the channels."""
        cdef int64_t i, rest = r.panels * s.panel - r.channels
        if rest:
            for i in range(self.products * TILES):
                memset(to + i // TILES * s.product + i % TILES * s.row + r.channels * self.item, 0, rest * self.item)

    cdef void inputs(self, const char *from_, char *to, int64_t channels, int64_t block, bint source) noexcept nogil:
        """Transform the tiles of a block: of x, the `source`, or of dy."""
        cdef const Operand *s = &self.x if source else &self.y
        cdef lk_winograd_in t
        cdef int64_t tile, i, j, at, depth, image, rows, cols
        cdef const char *first
        memset(&t, 0, sizeof(t))
        t.channels, t.v_stride, t.k = channels, s.product // self.item, s.table
        t.block, t.block_stride = (channels if s.side.block >= s.side.channels else s.side.block), s.side.block_stride
        t.row, t.col = s.side.pixel[1], s.side.pixel[2]
        if t.block < channels:
            t.channels = ceil_div(channels, t.block) * t.block
        elif s.side.block < s.side.channels:
            t.block = t.channels = max(channels, s.side.block)
        if not source:
            t.row, t.col = -t.row, -t.col
        for tile in range(block * TILES, min(self.all_tiles, (block + 1) * TILES)):
            at, j = tile // self.wide, tile % self.wide * 4
            at, i = at // self.high, at % self.high * self.mh
            image, depth = at // self.g.out[0], at % self.g.out[0]
            if source:
                depth, i, j = depth - self.g.before[0], i - self.g.before[1], j - self.g.before[2]
                t.row0, t.row1 = <int>min(self.nh, max(0, -i)), <int>max(0, min(self.nh, self.g.size[1] - i))
                t.col0, t.col1 = <int>min(<int64_t>6, max(0, -j)), <int>max(0, min(<int64_t>6, self.g.size[2] - j))
                if depth < 0 or depth >= self.g.size[0]:
                    t.row1 = 0
                first = from_
            else:
                rows, cols = min(self.mh, self.g.out[1] - i), min(<int64_t>4, self.g.out[2] - j)
                t.row0, t.row1 = (<int>(5 - rows) if self.mh > 1 else 0), (5 if self.mh > 1 else 1)
                t.col0, t.col1 = <int>(5 - cols), 5
                first = from_ - 4 * t.col - (4 * t.row if self.mh > 1 else 0)
            t.src = first + image * s.side.image + depth * s.side.pixel[0] + i * s.side.pixel[1] + j * s.side.pixel[2]
            t.v = to + (tile - block * TILES) * s.row
            self.transform(&t)

    cdef void multiply(self, char *u, const char *v, const char *z, int64_t panels_x, int64_t panels_y, int64_t tiles,
                       bint accumulate) noexcept nogil:
        """U += VT Z, product by product."""
        cdef lk_outer t
        cdef int64_t p, m, n, nothing = 0
        memset(&t, 0, sizeof(t))
        t.a_row = t.b_row = &nothing
        t.a_step, t.b_step, t.c_row = self.x.row, self.y.row, self.nr * self.item
        t.rows, t.steps, t.vectors, t.accumulate = 1, tiles, <int>(self.nr // self.lanes), accumulate
        t.next_step = ceil_div(self.tile_bytes, tiles)
        for p in range(self.products):
            t.c = u + p * self.u_product
            for m in range(panels_x):
                t.a = v + p * self.x.product + m * self.mr * self.item
                for n in range(panels_y):
                    t.b = z + p * self.y.product + n * self.nr * self.item
                    t.next = t.c + self.tile_bytes
                    self.kernel(&t)
                    t.c += self.tile_bytes

    cdef void transform_sums(self, const char *u, char *c, int64_t group, const Range *x, const Range *y, bint has_u,
                     bint accumulate) noexcept nogil:
        """Add GT U G to the sums of a part, or write it; without `has_u` U is 0."""
        cdef lk_winograd_taps t
        cdef int64_t m, n
        t.u_stride, t.k, t.nh, t.count = self.u_product, self.scales, <int>self.nh, self.mr * self.nr
        t.dst_stride, t.accumulate = self.tile_bytes, accumulate
        for m in range(x.panels):
            for n in range(y.panels):
                t.dst = c + (((group * self.x.panels + x.panel + m) * self.y.panels + y.panel + n) * self.taps
                             * self.tile_bytes)
                if has_u:
                    t.u = u + (m * y.panels + n) * self.tile_bytes
                    self.taps_of(&t)
                else:
                    memset(t.dst, 0, self.taps * self.tile_bytes)
