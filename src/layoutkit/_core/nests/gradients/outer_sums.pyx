"""The gradient of a filter by sums of outer products: the loop nest around the micro-kernels of outer.c.

    dw[o, i, k] = sum over n, p of dy[n, o, p] * x[n, i, stride*p + dilation*k - before]

A block is some rows of the output, or a part of one, about PIXELS pixels. Its dy is packed into panels of `nr`
channels, which stay in L2, or is read in place if its pixels are close together. For every `mr` channels, the part of x
that the block reads is packed with zeros for the padding; it stays in L1, and each tap reads it at another offset.
Along an axis where windows overlap the packed input has every pixel once, along others the taps one after another.
Single taps without padding read x in place. While a block is summed, the next one is prefetched if its pixels are
contiguous.
The sums are tiles, [groups][panels of x][panels of dy][taps][mr][nr].
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from ..executor import Footprint

from ...kernels cimport lk_kernel
from ...kernels.gradients cimport lk_outer, lk_outer_fn
from ..executor cimport Side, WeightSums, aligned, ceil_div, channel_at, share, side_of
from ..packing cimport Moves, move, moves_of

cdef enum:
    PIXELS = 192            # of a block: their products are summed in registers
    MAX_SINGLE_PIXELS = 400  # that are one block: each block reads and writes the sums
    SAME_SETS_BYTES = 4096  # pixels a multiple of this apart share sets of L1
    SKEW_BYTES = 64         # between panels, which would share sets of the cache otherwise
    MAX_IN_PLACE_PANELS = 3  # of channels in a pixel, for dy to be read in place


BLOCK_PIXELS, SINGLE_BLOCK_PIXELS, IN_PLACE_PANELS = PIXELS, MAX_SINGLE_PIXELS, MAX_IN_PLACE_PANELS  # for estimates


cdef struct Block:
    int64_t row, rows, col, cols  # of the output: rows are those of all images and depths


cdef struct Prefetch:
    int64_t x, x_end, y, y_end  # byte offsets: what is left to prefetch of both sides
    int64_t share               # bytes in a call


cdef class OuterSums(WeightSums):
    """Parameters
    ----------
    kernel : str
        Name of an outer row.
    geometry, threads, slabs, chunks
        As of the base.
    x_strides, y_strides : (image, depth, height, width)
        In bytes.
    x_channels, y_channels : (count, block, block_stride, step)
        Channels of a group; they lie in runs of `block`, `step` bytes apart.
    parts : (int, int, int)
        Into how many parts the groups, the panels of x, and those of dy are cut for threads.
    """

    cdef lk_outer_fn kernel
    cdef int lanes
    cdef readonly int64_t mr, nr
    cdef Side x, y
    cdef int64_t parts_g, parts_x, parts_y
    cdef readonly int64_t panels_x, panels_y
    cdef int64_t taps, tile_bytes
    cdef int64_t cols, col_blocks     # of a block at most; blocks of a row
    cdef int64_t rows, all_rows
    cdef bint shared_rows, shared_cols  # windows overlap, and the packed input has every pixel once
    cdef int64_t pixel_bytes          # of a panel of x
    cdef int64_t packed_rows, packed_cols  # of a panel of x
    cdef int64_t x_panel, y_panel     # bytes
    cdef bint x_in_place              # whole panels of x are read in place: no tap is outside
    cdef bint y_in_place              # dy is read in place
    cdef bint x_rows_follow, y_rows_follow  # rows of an image are contiguous, and packed as one
    cdef int64_t x_bytes, y_bytes     # of each side where it is one run of memory that a part reads whole, else 0
    cdef Moves moves

    def __init__(self, str kernel, geometry, int threads, int64_t slabs, int64_t chunks, x_strides, y_strides,
                 x_channels, y_channels, parts):
        WeightSums.__init__(self, kernel, geometry, threads, slabs, chunks)
        cdef const lk_kernel *row = self.kernel_row
        cdef int64_t parts_most
        self.kernel, self.mr, self.nr, self.lanes = <lk_outer_fn>row.fn, row.mr, row.nr, row.lanes
        self.item = 8 if row.types == b"f64" else 4
        self.moves = moves_of(self.item)
        self.x, self.y = side_of(x_strides, x_channels), side_of(y_strides, y_channels)
        self.panels_x, self.panels_y = ceil_div(self.x.channels, self.mr), ceil_div(self.y.channels, self.nr)
        self.parts_g, self.parts_x, self.parts_y = parts
        g = &self.g
        self.taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.tile_bytes = self.mr * self.nr * self.item
        self.slab_bytes = g.groups * self.panels_x * self.panels_y * self.taps * self.tile_bytes
        self.col_blocks = ceil_div(g.out[2], PIXELS)
        self.cols = ceil_div(g.out[2], self.col_blocks)
        self.all_rows = g.n * g.out[0] * g.out[1]
        self.rows = PIXELS // self.cols
        if (g.kernel[1] - 1) * g.dilation[1] + 1 - g.stride[1] > self.rows * g.stride[1]:
            self.rows = ceil_div(PIXELS, self.cols)  # most rows of x would be packed again for the next block
        self.rows = max(1, min(self.all_rows, self.rows))
        if self.all_rows * self.cols <= MAX_SINGLE_PIXELS:
            self.rows = max(1, self.all_rows)
        self.blocks = ceil_div(self.all_rows, self.rows) * self.col_blocks
        self.pixel_bytes = self.mr * self.item
        image_rows = min(self.rows, g.out[1])
        shared = (image_rows - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1
        self.shared_rows = shared < image_rows * g.kernel[1]
        shared = (self.cols - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1
        self.shared_cols = shared < self.cols * g.kernel[2]
        self.packed_cols = shared if self.shared_cols else self.cols * g.kernel[2]
        parts_most = (self.rows - 1) // g.out[1] + 2  # images that a block is of, in part
        if self.shared_rows:
            self.packed_rows = self.rows * g.stride[1] + parts_most * ((g.kernel[1] - 1) * g.dilation[1] + 1)
        else:
            self.packed_rows = self.rows * g.kernel[1]
        self.x_panel = g.kernel[0] * self.packed_rows * self.packed_cols * self.pixel_bytes
        self.y_panel = self.rows * self.cols * self.nr * self.item + SKEW_BYTES
        self.y_in_place = (self.y.step == self.item and self.y.block >= self.y.channels
                           and self.y.channels % self.lanes == 0
                           and abs(self.y.pixel[2]) <= MAX_IN_PLACE_PANELS * self.nr * self.item)
        self.thread_bytes = aligned(2 * self.rows * sizeof(int64_t)) + aligned(self.x_panel)
        if not self.y_in_place:
            self.thread_bytes += aligned(ceil_div(self.panels_y, self.parts_y) * self.y_panel)
        self.parts = self.parts_g * self.parts_x * self.parts_y
        self.x_bytes = self.run_bytes(&self.x, g.size) if self.parts_x == 1 else 0
        self.y_bytes = self.run_bytes(&self.y, g.out) if self.parts_y == 1 else 0
        inside = all([g.before[i] == 0 and (g.out[i] - 1) * g.stride[i] < g.size[i] for i in range(3)])
        apart = g.stride[2] * self.x.pixel[2]
        whole = self.col_blocks == 1
        self.y_rows_follow = whole and self.y.pixel[1] == g.out[2] * self.y.pixel[2]
        self.x_rows_follow = (whole and self.taps == 1 and inside and g.stride[1] == g.stride[2] == 1
                              and g.size[2] == g.out[2] and self.x.pixel[1] == g.size[2] * self.x.pixel[2])
        self.x_in_place = (self.taps == 1 and inside and self.x.step == self.item and self.x.block % self.mr == 0
                           and apart % SAME_SETS_BYTES != 0)

    cdef int64_t run_bytes(self, const Side *s, const int64_t *size) noexcept:
        """The bytes of a side that is contiguous, all channels together; else 0."""
        cdef int64_t step = s.channels * self.item
        cdef int i
        if self.g.groups > 1 or s.step != self.item or s.block < s.channels:
            return 0
        for i in range(2, -1, -1):
            if s.pixel[i] != step and size[i] > 1:
                return 0
            step *= size[i]
        return self.g.n * step if s.image == step or self.g.n == 1 else 0

    def footprint(self):
        return Footprint(self.channels(&self.x, True), self.channels(&self.y, False), 0, 0)

    cdef void part(self, const char *x, const char *y, char *c, char *workspace, int64_t part, int64_t first,
                   int64_t end, bint begins) noexcept nogil:
        cdef int64_t *a_row = <int64_t *>workspace
        cdef int64_t *b_row = a_row + self.rows
        cdef char *a = workspace + aligned(2 * self.rows * sizeof(int64_t))
        cdef char *b = a + aligned(self.x_panel)
        cdef int64_t pg = part // (self.parts_x * self.parts_y)
        cdef int64_t px = part // self.parts_y % self.parts_x, py = part % self.parts_y
        cdef int64_t g0 = share(self.g.groups, self.parts_g, pg), g1 = share(self.g.groups, self.parts_g, pg + 1)
        cdef int64_t m0 = share(self.panels_x, self.parts_x, px), m1 = share(self.panels_x, self.parts_x, px + 1)
        cdef int64_t n0 = share(self.panels_y, self.parts_y, py), n1 = share(self.panels_y, self.parts_y, py + 1)
        cdef int64_t at, group, m, n, left
        cdef bint in_place
        cdef const char *from_
        cdef Block block
        cdef lk_outer t
        cdef Prefetch ahead
        if begins and first == end:
            for group in range(g0, g1):
                for m in range(m0, m1):
                    memset(c + self.tile(group, m, n0), 0, (n1 - n0) * self.taps * self.tile_bytes)
        t.a_row, t.b_row, t.c_row = a_row, b_row, self.nr * self.item
        for at in range(first, end):
            block.row, block.col = at // self.col_blocks * self.rows, at % self.col_blocks * self.cols
            block.rows = min(self.rows, self.all_rows - block.row)
            block.cols = min(self.cols, self.g.out[2] - block.col)
            t.rows, t.steps, t.accumulate = block.rows, block.cols, not begins or at > first
            self.plan_prefetch(&ahead, &t, at + 1 if at + 1 < end else at, (m1 - m0) * (n1 - n0) * self.taps)
            for group in range(g0, g1):  # they share cache lines
                if not self.y_in_place:
                    for n in range(n0, n1):
                        self.pack_y(&block, y, b + (n - n0) * self.y_panel, group, n)
                for m in range(m0, m1):
                    in_place = self.reads_x_in_place(group, m)
                    self.rows_of(&block, &t, in_place, a_row, b_row)
                    from_ = x + channel_at(&self.x, group * self.x.channels + m * self.mr) if in_place else a
                    if not in_place:
                        self.pack_x(&block, x, a, group, m)
                    for n in range(n0, n1):
                        left = self.y.channels - n * self.nr
                        t.vectors = <int>(min(self.nr, left) + self.lanes - 1) // self.lanes
                        t.b = b + (n - n0) * self.y_panel
                        if self.y_in_place:
                            t.b = y + channel_at(&self.y, group * self.y.channels + n * self.nr)
                        t.a = from_
                        self.multiply(&t, &ahead, x, y, c + self.tile(group, m, n))

    cdef inline int64_t tile(self, int64_t group, int64_t m, int64_t n) noexcept nogil:
        """The offset of the sums of a tile, in bytes."""
        return ((group * self.panels_x + m) * self.panels_y + n) * self.taps * self.tile_bytes

    cdef inline bint reads_x_in_place(self, int64_t group, int64_t m) noexcept nogil:
        """Whether a panel of x is read in place."""
        cdef int64_t c = group * self.x.channels + m * self.mr
        return self.x_in_place and (m + 1) * self.mr <= self.x.channels and c % self.x.block + self.mr <= self.x.block

    cdef inline void plan_prefetch(self, Prefetch *f, lk_outer *t, int64_t at, int64_t calls) noexcept nogil:
        """What to prefetch during the calls of a block: of block `at` a share in each, if it is contiguous."""
        cdef int64_t row = at // self.col_blocks * self.rows
        cdef int64_t rows = min(self.rows, self.all_rows - row)
        f.x, f.y = self.x_bytes // self.all_rows * row, self.y_bytes // self.all_rows * row
        f.x_end = f.x + self.x_bytes // self.all_rows * rows
        f.y_end = f.y + self.y_bytes // self.all_rows * rows
        f.share = (f.x_end - f.x + f.y_end - f.y) // max(1, calls) + 1
        t.next_step = ceil_div(f.share, max(1, t.rows * t.steps))

    cdef inline void copy_channels(self, const Side *s, const char *at, int64_t step, char *to, int64_t to_step,
                                   int64_t count, int64_t channel, int64_t stop) noexcept nogil:
        """Copy channels [channel, stop) of `count` pixels, which are `step` bytes apart, to pixels `to_step` apart."""
        cdef int64_t run
        while channel < stop:
            run = min(stop - channel, s.block - channel % s.block)
            move(&self.moves, at + channel_at(s, channel), step, s.step, to, to_step, self.item, count, run)
            channel += run
            to += run * self.item

    cdef void multiply(self, lk_outer *t, Prefetch *f, const char *x, const char *y, char *c) noexcept nogil:
        """All taps of a tile."""
        cdef int64_t d, h, w
        cdef int64_t row = self.packed_cols * self.pixel_bytes
        cdef const char *a = t.a
        for d in range(self.g.kernel[0]):
            for h in range(self.g.kernel[1]):
                for w in range(self.g.kernel[2]):
                    t.a = (a + (d * self.packed_rows + (h * self.g.dilation[1] if self.shared_rows else h)) * row
                           + (w * self.g.dilation[2] if self.shared_cols else w) * self.pixel_bytes)
                    t.c = c
                    t.next = x + f.x if f.x < f.x_end else y + f.y
                    if f.x < f.x_end:
                        f.x += f.share
                    else:
                        f.y = min(f.y_end, f.y + f.share)
                    self.kernel(t)
                    c += self.tile_bytes

    cdef inline int64_t packed_rows_of(self, int64_t rows) noexcept nogil:
        """The rows of x that are packed for `rows` output rows of one image."""
        cdef const int64_t *kernel = self.g.kernel
        if self.shared_rows:
            return (rows - 1) * self.g.stride[1] + (kernel[1] - 1) * self.g.dilation[1] + 1
        return rows * kernel[1]

    cdef void rows_of(self, const Block *block, lk_outer *t, bint x_in_place, int64_t *a_row,
                      int64_t *b_row) noexcept nogil:
        """Where the rows of a block begin on both sides, packed or in place, and how far apart pixels are."""
        cdef int64_t r = 0, slot = 0, rows, i, image, depth, top
        cdef int64_t each = self.g.stride[1] if self.shared_rows else self.g.kernel[1]
        cdef const int64_t *stride = self.g.stride
        cdef bint follow = True
        t.rows, t.steps = block.rows, block.cols
        t.b_step = self.y.pixel[2] if self.y_in_place else self.nr * self.item
        t.a_step = (stride[2] if self.shared_cols else self.g.kernel[2]) * self.pixel_bytes
        if x_in_place:
            t.a_step = stride[2] * self.x.pixel[2]
        while r < block.rows:
            rows = min(block.rows - r, self.g.out[1] - (block.row + r) % self.g.out[1])
            image, top = (block.row + r) // self.g.out[1], (block.row + r) % self.g.out[1]
            image, depth = image // self.g.out[0], image % self.g.out[0]
            for i in range(r, r + rows):
                if x_in_place:
                    a_row[i] = (image * self.x.image + depth * stride[0] * self.x.pixel[0]
                                + (top + i - r) * stride[1] * self.x.pixel[1] + block.col * stride[2] * self.x.pixel[2])
                else:
                    a_row[i] = (slot + (i - r) * each) * self.packed_cols * self.pixel_bytes
                b_row[i] = i * block.cols * t.b_step
                if self.y_in_place:
                    b_row[i] = (image * self.y.image + depth * self.y.pixel[0] + (top + i - r) * self.y.pixel[1]
                                + block.col * t.b_step)
                if i > 0:
                    follow = (follow and a_row[i] == a_row[i - 1] + block.cols * t.a_step
                              and b_row[i] == b_row[i - 1] + block.cols * t.b_step)
            slot += self.packed_rows_of(rows)
            r += rows
        if follow:
            t.rows, t.steps = 1, block.rows * block.cols

    cdef void pack_y(self, const Block *block, const char *y, char *to, int64_t group, int64_t n) noexcept nogil:
        """A panel of dy: [rows][cols][nr]."""
        cdef int64_t step = self.nr * self.item
        cdef int64_t first = n * self.nr, last = min(first + self.nr, self.y.channels), r = 0, row, rows
        if last - first < self.nr:
            memset(to, 0, block.rows * block.cols * step)
        y += block.col * self.y.pixel[2]
        while r < block.rows:
            row = block.row + r
            rows = min(block.rows - r, self.g.out[1] - row % self.g.out[1]) if self.y_rows_follow else 1
            self.copy_channels(&self.y, y + row // self.g.out[1] // self.g.out[0] * self.y.image
                               + row // self.g.out[1] % self.g.out[0] * self.y.pixel[0]
                               + row % self.g.out[1] * self.y.pixel[1],
                               self.y.pixel[2], to + r * block.cols * step, step, rows * block.cols,
                               group * self.y.channels + first, group * self.y.channels + last)
            r += rows

    cdef void pack_x(self, const Block *block, const char *x, char *to, int64_t group, int64_t m) noexcept nogil:
        """Pack the input of a block for `mr` channels: [depth taps][packed rows][packed columns][mr]."""
        cdef const int64_t *kernel = self.g.kernel
        cdef int64_t row_bytes = self.packed_cols * self.pixel_bytes
        cdef int64_t d, r, s, rows, image, depth, top, slot, h
        cdef int64_t c = group * self.x.channels + m * self.mr, last = (group + 1) * self.x.channels
        cdef char *at
        if self.x.channels - m * self.mr < self.mr:
            memset(to, 0, self.x_panel)
        for d in range(kernel[0]):
            at = to + d * self.packed_rows * row_bytes
            r = 0
            while r < block.rows:
                rows = min(block.rows - r, self.g.out[1] - (block.row + r) % self.g.out[1])
                image, top = (block.row + r) // self.g.out[1], (block.row + r) % self.g.out[1]
                depth = image % self.g.out[0] * self.g.stride[0] + d * self.g.dilation[0] - self.g.before[0]
                image //= self.g.out[0]
                if self.x_rows_follow:
                    self.copy_channels(&self.x, x + image * self.x.image + depth * self.x.pixel[0] + top * self.x.pixel[1],
                                       self.x.pixel[2], at, self.pixel_bytes, rows * block.cols, c, min(c + self.mr, last))
                    at += rows * row_bytes
                    r += rows
                    continue
                for s in range(self.packed_rows_of(rows)):
                    if self.shared_rows:
                        h = top * self.g.stride[1] + s - self.g.before[1]
                    else:
                        h = ((top + s // kernel[1]) * self.g.stride[1] + s % kernel[1] * self.g.dilation[1]
                             - self.g.before[1])
                    if 0 <= depth < self.g.size[0] and 0 <= h < self.g.size[1]:
                        self.pack_row(block, x + image * self.x.image + depth * self.x.pixel[0] + h * self.x.pixel[1],
                                      at, group, m)
                    else:
                        memset(at, 0, row_bytes)
                    at += row_bytes
                r += rows

    cdef void pack_row(self, const Block *block, const char *x, char *to, int64_t group, int64_t m) noexcept nogil:
        """A row of the packed input."""
        cdef int64_t w, stride = self.g.stride[2], first, tap
        if self.shared_cols:
            first = block.col * stride - self.g.before[2]
            w = (block.cols - 1) * stride + (self.g.kernel[2] - 1) * self.g.dilation[2] + 1
            self.pack_pixels(x, to, self.pixel_bytes, first, 1, w, group, m)
            return
        for tap in range(self.g.kernel[2]):
            first = block.col * stride + tap * self.g.dilation[2] - self.g.before[2]
            self.pack_pixels(x, to + tap * self.pixel_bytes, self.g.kernel[2] * self.pixel_bytes, first, stride, block.cols, group, m)

    cdef inline void pack_pixels(self, const char *x, char *to, int64_t to_step, int64_t first, int64_t stride,
                                 int64_t count, int64_t group, int64_t m) noexcept nogil:
        """Pack pixels first, first + stride, .. of a row, with zeros for those outside."""
        cdef int64_t size = self.g.size[2]
        cdef int64_t before = min(count, max(0, ceil_div(-first, stride) if first < 0 else 0))
        cdef int64_t inside = max(0, min(count, ceil_div(size - first, stride) if size > first else 0) - before)
        cdef int64_t i, c = group * self.x.channels + m * self.mr
        for i in range(before):
            memset(to + i * to_step, 0, self.pixel_bytes)
        for i in range(before + inside, count):
            memset(to + i * to_step, 0, self.pixel_bytes)
        if inside:
            self.copy_channels(&self.x, x + (first + before * stride) * self.x.pixel[2], stride * self.x.pixel[2],
                               to + before * to_step, to_step, inside, c,
                               min(group * self.x.channels + self.x.channels, c + self.mr))
