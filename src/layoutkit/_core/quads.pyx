"""Depthwise convolution of integers where channels are innermost: the loop nest around the micro-kernels of quads.c.

    y[n, o, p] = requantised(bias[o] + sum over k of x[n, first(o), stride*p + dilation*k - before] * w[o, k])

A task is one or two output rows of a run of channels, as many as a vector has bytes. What it reads of a row of the input
is gathered column by column, just before the tile that needs it first, into a panel that stays in L1. The sums of a tile
go to y through a buffer, unless they are the result.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from .executor import NOTHING, Footprint

from .executor cimport Executor, Geometry, aligned, ceil_div, clip_of, share
from .registry cimport LK_NOWHERE, LK_S8, lk_epilogue, lk_quads, lk_quads_fn, types_named

cdef enum:
    PIECE = 16                 # channels that are gathered at a time where they are not a whole vector
    MAX_RUN = 64               # channels of a run
    TILE = 8                   # columns of a tile
    PANEL_BYTES = 16 << 10     # of a panel: half of L1


cdef class Quads(Executor):
    """Each output channel reads one input channel.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, d, h, w) of an image and a pixel; a quads row.
    channels : (count, padded, run)
        Output channels without and with the pads, which are written as well; contiguous channels of the output, of the
        last run what is left.
    pieces : (x_at, x_bytes, order, y_at)
        Of every 16 output channels: where in a pixel of the input what they read begins, and how many bytes of it they
        read, in which order (a vector of bytes each; or None: in theirs); where in a pixel of the output they are.
    rows : (count, depth, height)
        How many output rows are summed at once, and the rows of the input that they read: positions relative to the first
        one's first tap.
    columns : (step, apart, listed)
        Columns of the panel from one output to the next, and from one tap to the next. `listed`: those of each output
        are in it for themselves.

    The packed filter is [runs][quads][kw][vectors][rows][lanes][4], the bias [runs][vectors][lanes].
    """

    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t channels, padded, y_run, runs, pairs, pieces, run_channels
    cdef int64_t packed_rows, used, quads, step, apart, chunk, columns, run_bytes
    cdef int64_t *column
    cdef int64_t *pixel          # offsets of the outputs of two rows, tile by tile
    cdef const int64_t[::1] x_at
    cdef const int64_t[::1] x_bytes
    cdef const int64_t[::1] y_at
    cdef const char[:, ::1] order
    cdef const int64_t[::1] depth
    cdef const int64_t[::1] height
    cdef bint ordered, bytes, signed     # results are bytes, those of s8

    def __init__(self, nest, channels, pieces, rows, columns):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef Geometry *g = &self.g
        cdef int64_t i, j, r, at = 0, first, end, listed, total
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.channels, self.padded, self.y_run = channels
        self.x_at, self.x_bytes, order, self.y_at = pieces
        self.ordered = order is not None
        if self.ordered:
            self.order = order
        self.packed_rows, self.depth, self.height = rows
        self.bytes, self.signed = self.y_item == 1, types_named(nest.types).dst == LK_S8
        self.step, self.apart, listed = columns
        self.run_channels = 4 * self.lanes
        self.pieces = self.run_channels // PIECE
        self.runs = ceil_div(self.padded, self.run_channels)
        if self.x_at.shape[0] != self.runs * self.pieces or self.y_at.shape[0] != self.runs * self.pieces:
            raise ValueError(f"{self.x_at.shape[0]} pieces of {self.padded} channels")
        self.used = self.depth.shape[0]
        self.quads = ceil_div(self.used, 4)
        self.run_bytes = self.run_channels * self.quads * g.kernel[2] * self.packed_rows * 4
        self.pairs = ceil_div(g.out[1], self.packed_rows)
        self.total = g.n * self.runs * g.out[0] * self.pairs
        end = (g.kernel[2] - 1) * self.apart + 1
        i = PANEL_BYTES // max(1, 4 * self.run_channels * self.quads) - end
        self.chunk = min(max(TILE, (i // self.step + 1) // TILE * TILE), ceil_div(g.out[2], TILE) * TILE)
        self.columns = (self.chunk - 1) * self.step + end
        self.ws_thread = (self.sums_bytes() + aligned(self.columns * self.quads * 4 * self.run_channels)
                          + aligned(4 * self.quads * sizeof(char *)) + aligned(self.run_channels))
        total = (g.out[2] - 1) * self.step + end if g.out[2] else 0
        self.column = <int64_t *>calloc(max(1, total), sizeof(int64_t))
        self.pixel = <int64_t *>calloc(max(1, 2 * g.out[2]), sizeof(int64_t))
        if self.column == NULL or self.pixel == NULL:
            raise MemoryError(f"convolution: tables of {total} columns")
        for i in range(total):
            if listed:
                j = i // g.kernel[2] * g.stride[2] + i % g.kernel[2] * g.dilation[2] - g.before[2]
            else:
                j = i * (g.stride[2] // self.step) - g.before[2]
            self.column[i] = j * self.x_stride[3] if 0 <= j < g.size[2] else LK_NOWHERE
        listed = ceil_div(g.out[2], TILE)
        for i in range(listed):
            first, end = share(g.out[2], listed, i), share(g.out[2], listed, i + 1)
            for r in range(2):
                for j in range(first, end):
                    self.pixel[at] = r * self.y_stride[2] + j * self.y_stride[3]
                    at += 1
        self.accumulates = self.rounding

    def __dealloc__(self):
        free(self.column)
        free(self.pixel)

    cdef int64_t sums_bytes(self) noexcept nogil:
        return aligned(self.sum_item * self.packed_rows * TILE * self.run_channels)

    def footprint(self):
        if self.total == 0:
            return NOTHING
        reads, writes = self.pixels_of(self.x_stride[0], self.x_stride + 1, self.y_stride[0], self.y_stride + 1, True)
        source = [([*reads, (1, 1, self.x_at[i])], self.x_bytes[i]) for i in range(self.x_at.shape[0])]
        left = [min(PIECE, self.padded - PIECE * i) for i in range(self.y_at.shape[0])]
        destination = [([*writes, (1, 1, self.y_at[i])], self.y_item * n) for i, n in enumerate(left) if n > 0]
        return Footprint(tuple(source), tuple(destination), self.runs * self.run_bytes,
                         self.sum_item * self.runs * self.run_channels)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil:
        cdef const Geometry *g = &self.g
        cdef lk_quads_fn fn = <lk_quads_fn>self.micro_kernel
        cdef lk_quads d
        cdef lk_epilogue f
        cdef int64_t s_at[MAX_RUN]
        cdef char *sums = workspace
        cdef const char **row
        cdef int64_t n, run, plane, pair, rest, u, i, at, deep, high, gathered, first, stop, channel, count, tiles, begin
        cdef char *to
        # what the micro-kernel does with sums that it has in registers
        cdef bint simple = (self.bytes and self.lanes > PIECE // 4 and epilogue.add == NULL and epilogue.scale == 1
                            and (epilogue.steps == 0 or clip_of(epilogue, NULL, False) != NULL))
        workspace += self.sums_bytes()
        d.panel = workspace
        workspace += aligned(self.columns * self.quads * 4 * self.run_channels)
        row = <const char **>workspace
        d.zero = workspace + aligned(4 * self.quads * sizeof(char *))
        memset(<char *>d.zero, epilogue.x_zero, self.run_channels)  # of integers there is one in any case
        memset(row, 0, 4 * self.quads * sizeof(char *))
        f = epilogue[0]
        f.sums, f.sums_row = sums, self.run_channels * self.sum_item
        d.row, d.flip, d.order, d.bias, d.out_signed = row, self.flip, NULL, NULL, self.signed
        d.columns, d.step, d.apart = self.columns, self.step, self.apart
        d.quads, d.kw, d.packed_rows, d.s_at = <int>self.quads, <int>g.kernel[2], <int>self.packed_rows, s_at
        while task < end:
            pair, rest = task % self.pairs, task // self.pairs
            plane, rest = rest % g.out[0], rest // g.out[0]
            run, n = rest % self.runs, rest // self.runs
            d.rows = <int>min(self.packed_rows, g.out[1] - self.packed_rows * pair)
            for u in range(self.used):
                deep = plane * g.stride[0] - g.before[0] + self.depth[u]
                high = self.packed_rows * pair * g.stride[1] - g.before[1] + self.height[u]
                row[u] = NULL
                if 0 <= deep < g.size[0] and 0 <= high < g.size[1]:
                    row[u] = x + n * self.x_stride[0] + deep * self.x_stride[1] + high * self.x_stride[2]
            to = (y + n * self.y_stride[0] + plane * self.y_stride[1]
                  + self.packed_rows * pair * self.y_stride[2])
            at = run * self.pieces
            channel = run * self.run_channels
            count = min(self.run_channels, self.padded - channel)  # with pads
            d.at, d.bytes, d.pieces = &self.x_at[at], &self.x_bytes[at], <int>ceil_div(count, PIECE)
            if self.ordered:
                d.order = &self.order[at, 0]
            d.whole = self.whole(at)
            d.vectors = <int>ceil_div(count, self.lanes)
            d.w = w + run * self.run_bytes
            if bias != NULL:
                d.bias = bias + channel * self.sum_item
            d.lanes, d.out = 0, NULL
            d.s_whole = True
            for i in range(d.pieces):
                d.s_whole &= self.y_at[at + i] == self.y_at[at] + i * PIECE
            d.s_bytes = <int>count
            if simple and channel + count <= self.channels and (d.s_whole or count == self.run_channels):
                d.out, d.s_row, d.s_col, f.channel = &f, self.y_stride[2], self.y_stride[3], channel
                for i in range(d.pieces):
                    s_at[i] = self.y_at[at + i]
                to += s_at[0] if d.s_whole else 0
            elif self.rounding:
                d.s, d.s_col = sums, f.sums_row
                for i in range(d.vectors):
                    s_at[i] = i * self.lanes * self.sum_item
            else:
                d.s_row, d.s_col = self.y_stride[2], self.y_stride[3]
                d.lanes = (<uint32_t>1 << count % self.lanes) - 1
                for i in range(d.vectors):
                    s_at[i] = (self.y_at[at + i * self.lanes // PIECE] + i * self.lanes % PIECE * self.y_item)
            tiles = ceil_div(g.out[2], TILE if self.rounding and d.out == NULL else self.chunk)
            gathered = begin = 0
            for i in range(tiles):
                first, stop = share(g.out[2], tiles, i), share(g.out[2], tiles, i + 1)
                if i == 0 or stop - begin > self.chunk:  # the panel begins anew
                    begin, gathered = first, 0
                d.column = self.column + begin * self.step
                d.cols, d.begin = <int>(stop - first), (first - begin) * self.step
                d.first, d.end = gathered, (stop - 1 - begin) * self.step + (g.kernel[2] - 1) * self.apart + 1
                gathered = max(gathered, d.end)
                if self.rounding and d.out == NULL:
                    d.s_row = d.cols * d.s_col
                else:
                    d.s = to + first * self.y_stride[3]
                fn(&d)
                if self.rounding and d.out == NULL:
                    f.row, f.rows = self.pixel + 2 * first, d.rows * d.cols
                    self.requantise(&f, y, to - y, at, channel, count)
            task += 1

    cdef int whole(self, int64_t at) noexcept nogil:
        """2: the pieces of a run from `at` on are whole; 1: and they follow one another; 0: neither."""
        cdef int64_t i
        cdef int found = 1
        if self.ordered:
            return 0
        for i in range(self.pieces):
            if self.x_bytes[at + i] != PIECE:
                return 0
            if self.x_at[at + i] != self.x_at[at] + i * PIECE:
                found = 2
        return found

    cdef void requantise(self, lk_epilogue *f, char *y, int64_t offset, int64_t at, int64_t channel,
                         int64_t count) noexcept nogil:
        """Apply the epilogue to the sums of a tile, of `count` channels, pads included, which become 0."""
        cdef int64_t first = 0, stop, valid, i
        cdef char *sums = f.sums
        while first < count:
            stop = min(count, first + self.y_run - (channel + first) % self.y_run)
            valid = min(stop, self.channels - channel) - first
            f.sums = sums + first * self.sum_item
            i = offset + self.y_at[at + first // PIECE]
            if valid > 0:
                self.epilogue_rows(f, y, i, f.row, f.rows, channel + first, valid)
            self.clear(f, y + i, max(0, valid) * self.y_item, (stop - first) * self.y_item)
            first = stop
        f.sums = sums

    cdef void clear(self, const lk_epilogue *f, char *y, int64_t first, int64_t end) noexcept nogil:
        """Make bytes [first, end) of each pixel 0."""
        cdef int64_t i
        if first < end:
            for i in range(f.rows):
                memset(y + f.row[i] + first, 0, end - first)
