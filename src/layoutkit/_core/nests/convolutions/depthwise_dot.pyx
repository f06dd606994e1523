"""Depthwise convolution of integers where channels are innermost: the loop nest around depthwise_dot.c.

    y[n, o, p] = requantised(bias[o] + sum over k of x[n, first(o), stride*p + dilation*k - before] * w[o, k])

A task is one or two output rows of a run of channels, as many as a vector has bytes. What it reads of a row of the input
is gathered column by column into a panel that stays in L1. The micro-kernel makes bytes of its sums; or they are the
result, or go to y through a buffer.

The last run may have a half of the pieces of 16 channels, or a quarter. Where the results are bytes, a vector then holds
those of `segments` shares of the row: of two columns, or four, that lie so far apart. The last share ends with the row and
may begin within the one before.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from ..executor import NOTHING, Footprint

from ...kernels cimport LK_NOWHERE
from ...kernels.depthwise cimport LK_READ_PARTS, LK_READ_PIECES, LK_READ_RUN, lk_depthwise_dot, lk_depthwise_dot_fn
from ...kernels.elementwise cimport lk_epilogue
from ...kernels.gemm cimport lk_rounding
from ...ndarray cimport NPY_INT64, NPY_INT8
from ..executor cimport Executor, Geometry, Tasks, aligned, ceil_div, clip_of, elements, more, share

cdef enum:
    PIECE = 16                 # channels that lie together, at least, but for the last ones
    MAX_RUN = 64               # channels of a run
    MAX_PIECES = MAX_RUN // PIECE
    TILE = 8                   # columns of a tile
    PANEL_BYTES = 16 << 10     # of a panel: half of L1

cdef struct Work:
    # State of a thread, through its tasks.
    lk_depthwise_dot d
    lk_epilogue after          # what follows the micro-kernel, on sums in a buffer
    lk_rounding rounding       # how the micro-kernel makes bytes of sums
    const char **row           # those of the input that are read
    const int64_t *columns     # the offsets of a row's columns, of all segments
    int64_t at                 # the first piece of the run
    int64_t channel, count     # the first of the run, and how many with pads
    int64_t outputs, tiles     # of a row, of a segment
    int64_t y_first
    bint rounds_in_registers   # the micro-kernel can make bytes of sums
    bint buffered              # sums go to y through a buffer
    int64_t s_at[MAX_RUN]
    int64_t s_size[MAX_PIECES]
    int64_t x_at[MAX_PIECES]
    int64_t x_bytes[MAX_PIECES]


cdef class DepthwiseDot(Executor):
    """Each output channel reads one input channel.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, d, h, w) of an image and a pixel; a row of depthwise_dot.
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

    The packed filter is [runs][quads][kw][vectors][rows][lanes][4], the bias [runs][vectors][lanes], channels in the order
    of lk_depthwise_dot; a last run that has fewer repeats them.
    """

    cdef int64_t x_stride[4]
    cdef int64_t y_stride[4]
    cdef int64_t channels, padded, y_run, runs, pairs, pieces, run_channels
    cdef int64_t packed_rows, used, quads, step, apart, chunk, columns, run_bytes
    cdef int64_t *column
    cdef int64_t *shares         # of the columns of a row: those of each segment of the last run
    cdef int64_t last_segments   # of the last run
    cdef int64_t *pixel          # offsets of the outputs of two rows, tile by tile
    cdef tuple tables            # whose elements these are:
    cdef const int64_t *x_at
    cdef const int64_t *x_bytes
    cdef const int64_t *y_at
    cdef const char *order
    cdef const int64_t *depth
    cdef const int64_t *height
    cdef bint ordered, bytes     # results are bytes

    def __init__(self, nest, channels, pieces, rows, columns):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef Geometry *g = &self.g
        cdef int64_t i, j, r, at = 0, first, end, listed, total
        for i in range(4):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.channels, self.padded, self.y_run = channels
        x_at, x_bytes, order, y_at = pieces
        self.packed_rows, depth, height = rows
        self.tables = x_at, x_bytes, order, y_at, depth, height
        self.x_at, self.x_bytes = <const int64_t *>elements(x_at, NPY_INT64), <const int64_t *>elements(x_bytes, NPY_INT64)
        self.y_at = <const int64_t *>elements(y_at, NPY_INT64)
        self.depth, self.height = <const int64_t *>elements(depth, NPY_INT64), <const int64_t *>elements(height, NPY_INT64)
        self.ordered = order is not None
        if self.ordered:
            self.order = <const char *>elements(order, NPY_INT8)
        self.bytes = self.y_item == 1
        self.step, self.apart, listed = columns
        self.run_channels = 4 * self.lanes
        self.pieces = self.run_channels // PIECE
        self.runs = ceil_div(self.padded, self.run_channels)
        if not len(x_at) == len(x_bytes) == len(y_at) == self.runs * self.pieces:
            raise ValueError(f"{len(x_at)} pieces of {self.padded} channels")
        self.used = len(depth)
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
        self.last_segments = 1
        i = ceil_div(self.padded - (self.runs - 1) * self.run_channels, PIECE) if self.runs else self.pieces
        if i < self.pieces and self.pieces % i == 0 and not self.ordered:
            self.last_segments = self.pieces // i
        for i in range(total):
            if listed:
                j = i // g.kernel[2] * g.stride[2] + i % g.kernel[2] * g.dilation[2] - g.before[2]
            else:
                j = i * (g.stride[2] // self.step) - g.before[2]
            self.column[i] = j * self.x_stride[3] if 0 <= j < g.size[2] else LK_NOWHERE
        if self.last_segments > 1:
            first = ceil_div(g.out[2], self.last_segments)  # outputs of a segment
            total = (first - 1) * self.step + end if first else 0
            self.shares = <int64_t *>calloc(max(1, total * self.last_segments), sizeof(int64_t))
            if self.shares == NULL:
                raise MemoryError(f"convolution: tables of {total * self.last_segments} columns")
            for r in range(self.last_segments):
                for i in range(total):
                    self.shares[i * self.last_segments + r] = self.column[self.segment(first, r) * self.step + i]
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
        free(self.shares)
        free(self.pixel)

    cdef int64_t segment(self, int64_t outputs, int64_t i) noexcept nogil:
        """The first output of segment i."""
        return min(i * outputs, self.g.out[2] - outputs)

    cdef int64_t sums_bytes(self) noexcept nogil:
        return aligned(self.sum_item * self.packed_rows * TILE * self.run_channels)

    def footprint(self):
        if self.total == 0:
            return NOTHING
        reads, writes = self.pixels_of(self.x_stride[0], self.x_stride + 1, self.y_stride[0], self.y_stride + 1, True)
        source = [([*reads, (1, 1, self.x_at[i])], self.x_bytes[i]) for i in range(self.runs * self.pieces)]
        left = [min(PIECE, self.padded - PIECE * i) for i in range(self.runs * self.pieces)]
        destination = [([*writes, (1, 1, self.y_at[i])], self.y_item * n) for i, n in enumerate(left) if n > 0]
        return Footprint(tuple(source), tuple(destination), self.runs * self.run_bytes,
                         self.sum_item * self.runs * self.run_channels)

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef const Geometry *g = &self.g
        cdef Work s
        cdef int64_t n, run, plane, pair, rest, previous_run = -1
        self.begin(&s, epilogue, workspace)
        while task < end or more(tasks, &task, &end):
            pair, rest = task % self.pairs, task // self.pairs
            plane, rest = rest % g.out[0], rest // g.out[0]
            run, n = rest % self.runs, rest // self.runs
            if run != previous_run:
                previous_run = run
                self.enter_run(&s, w, bias, run)
            s.d.rows = <int>min(self.packed_rows, g.out[1] - self.packed_rows * pair)
            self.find_rows(&s, x + n * self.x_stride[0], plane, pair)
            self.run_tiles(&s, y, y + n * self.y_stride[0] + plane * self.y_stride[1]
                           + self.packed_rows * pair * self.y_stride[2] + s.y_first)
            task += 1

    cdef void begin(self, Work *s, const lk_epilogue *epilogue, char *workspace) noexcept nogil:
        """Set what does not depend on the task: the workspace, the row of zeros, the epilogue."""
        cdef lk_depthwise_dot *d = &s.d
        s.rounds_in_registers = (self.bytes and self.lanes > PIECE // 4 and epilogue.add == NULL and epilogue.scale == 1
                    and (epilogue.steps == 0 or clip_of(epilogue, False, False) != NULL))
        s.after = epilogue[0]  # of integers there is one in any case
        s.after.sums, s.after.sums_row = workspace, self.run_channels * self.sum_item
        workspace += self.sums_bytes()
        d.panel = workspace
        workspace += aligned(self.columns * self.quads * 4 * self.run_channels)
        d.row = s.row = <const char **>workspace
        d.zero = workspace + aligned(4 * self.quads * sizeof(char *))
        memset(<char *>d.zero, epilogue.x_zero, self.run_channels)
        d.flip, d.order, d.bias = self.flip, NULL, NULL
        d.columns, d.step, d.apart = self.columns, self.step, self.apart
        d.quads, d.kw, d.packed_rows = <int>self.quads, <int>self.g.kernel[2], <int>self.packed_rows
        d.s_at, d.s_size = s.s_at, s.s_size

    cdef void enter_run(self, Work *s, const char *w, const char *bias, int64_t run) noexcept nogil:
        """Set the panel, filter, bias and results of a run of channels."""
        cdef lk_depthwise_dot *d = &s.d
        cdef int64_t at = run * self.pieces, channel = run * self.run_channels, i
        cdef int64_t count = min(self.run_channels, self.padded - channel)
        s.at, s.channel, s.count, s.y_first = at, channel, count, 0
        s.columns, s.outputs = self.column, self.g.out[2]
        d.at, d.bytes, d.pieces = self.x_at + at, self.x_bytes + at, <int>ceil_div(count, PIECE)
        if self.ordered:
            d.order = self.order + at * PIECE
        d.reading, d.segments = self.reading(at), 1
        d.vectors = <int>ceil_div(count, self.lanes)
        d.w = w + run * self.run_bytes
        if bias != NULL:
            d.bias = bias + channel * self.sum_item
        d.lanes, d.out = 0, NULL
        d.s_bytes, d.s_whole = <int>count, True
        for i in range(d.pieces):
            d.s_whole &= self.y_at[at + i] == self.y_at[at] + i * PIECE
        if (s.rounds_in_registers and (d.s_whole or count == self.run_channels or not self.ordered)
                and self.rounding_of(&s.rounding, &s.after, channel, max(0, min(count, self.channels - channel)),
                                     d.pieces)):
            d.out, d.s_row, d.s_col = &s.rounding, self.y_stride[2], self.y_stride[3]
            self.place_bytes(s, run)
        elif self.rounding:
            d.s, d.s_col = s.after.sums, s.after.sums_row
            for i in range(d.vectors):
                s.s_at[i] = i * self.lanes * self.sum_item
        else:
            d.s_row, d.s_col = self.y_stride[2], self.y_stride[3]
            d.lanes = (<uint32_t>1 << count % self.lanes) - 1
            for i in range(d.vectors):
                s.s_at[i] = self.y_at[at + i * self.lanes // PIECE] + i * self.lanes % PIECE * self.y_item
        s.buffered = self.rounding and d.out == NULL
        s.tiles = ceil_div(s.outputs, TILE if s.buffered else self.chunk)

    cdef void place_bytes(self, Work *s, int64_t run) noexcept nogil:
        """Set the offsets to which the micro-kernel stores the pieces of a run. A short run fills a vector with those of
        several columns; if its pieces are stored apart, it is filled up with the same ones again."""
        cdef lk_depthwise_dot *d = &s.d
        cdef int64_t i, first
        cdef bint shares = run == self.runs - 1 and self.last_segments > 1
        if not shares and (d.s_whole or d.pieces == self.pieces):
            for i in range(d.pieces):
                s.s_at[i], s.s_size[i] = self.y_at[s.at + i], min(PIECE, s.count - PIECE * i)
            s.y_first = s.s_at[0] if d.s_whole else 0
            return
        if shares:
            d.segments, s.columns = <int>self.last_segments, self.shares
            s.outputs = ceil_div(self.g.out[2], d.segments)
        d.s_whole, d.s_bytes = False, 0
        for i in range(self.pieces):
            first = self.segment(s.outputs, i // d.pieces) if shares else 0
            s.x_at[i], s.x_bytes[i] = self.x_at[s.at + i % d.pieces], self.x_bytes[s.at + i % d.pieces]
            s.s_at[i] = self.y_at[s.at + i % d.pieces] + first * self.y_stride[3]
            s.s_size[i] = min(PIECE, s.count - i % d.pieces * PIECE)
            d.s_bytes += <int>s.s_size[i]
        d.at, d.bytes, d.reading = s.x_at, s.x_bytes, LK_READ_PIECES

    cdef void find_rows(self, Work *s, const char *x, int64_t plane, int64_t pair) noexcept nogil:
        """The rows of the image x that a task reads."""
        cdef const Geometry *g = &self.g
        cdef int64_t u, deep, high
        for u in range(self.used):
            deep = plane * g.stride[0] - g.before[0] + self.depth[u]
            high = self.packed_rows * pair * g.stride[1] - g.before[1] + self.height[u]
            s.row[u] = NULL
            if 0 <= deep < g.size[0] and 0 <= high < g.size[1]:
                s.row[u] = x + deep * self.x_stride[1] + high * self.x_stride[2]
        for u in range(self.used, 4 * self.quads):  # they have no weights: rows as good as any
            s.row[u] = s.row[self.used - 1]

    cdef void run_tiles(self, Work *s, char *y, char *to) noexcept nogil:
        """The tiles of a task, whose first output is at `to`."""
        cdef lk_depthwise_dot *d = &s.d
        cdef int64_t i, first, stop, begin = 0, gathered = 0
        for i in range(s.tiles):
            first, stop = 0, s.outputs
            if s.tiles > 1:
                first, stop = share(s.outputs, s.tiles, i), share(s.outputs, s.tiles, i + 1)
            if i == 0 or stop - begin > self.chunk:  # the panel begins anew
                begin, gathered = first, 0
            d.column = s.columns + begin * self.step * d.segments
            d.cols, d.begin = <int>(stop - first), (first - begin) * self.step
            d.first, d.end = gathered, (stop - 1 - begin) * self.step + (self.g.kernel[2] - 1) * self.apart + 1
            gathered = max(gathered, d.end)
            if s.buffered:
                d.s_row = d.cols * d.s_col
            else:
                d.s = to + first * self.y_stride[3]
            (<lk_depthwise_dot_fn>self.micro_kernel)(d)
            if s.buffered:
                s.after.row, s.after.rows = self.pixel + 2 * first, d.rows * d.cols
                self.requantise(&s.after, y, to - y, s.at, s.channel, s.count)

    cdef bint rounding_of(self, lk_rounding *out, const lk_epilogue *f, int64_t channel, int64_t count,
                          int64_t pieces) noexcept nogil:
        """How the micro-kernel makes bytes of the sums of a run; False: it cannot."""
        cdef int64_t i
        if not self.rounded(out, f, channel, <int>count):
            return False
        self.put_in_order(out.mul, pieces)
        if out.adds:
            self.put_in_order(out.off, pieces)
        for i in range(pieces, self.pieces):
            memcpy(&out.least[i * PIECE], &out.least[i % pieces * PIECE], PIECE)
            memcpy(&out.most[i * PIECE], &out.most[i % pieces * PIECE], PIECE)
        return True

    cdef void put_in_order(self, float *numbers, int64_t pieces) noexcept nogil:
        """Put those of `pieces` pieces, which are repeated, in the order of the panel."""
        cdef float each[MAX_RUN]
        cdef int64_t i, v
        memcpy(each, numbers, pieces * PIECE * sizeof(float))
        for i in range(self.pieces):
            for v in range(4):
                memcpy(&numbers[v * self.lanes + 4 * i], &each[i % pieces * PIECE + 4 * v], 4 * sizeof(float))

    cdef int reading(self, int64_t at) noexcept nogil:
        """How the pieces of a run, from `at` on, are read: LK_READ_.."""
        cdef int64_t i
        if self.ordered:
            return LK_READ_PARTS
        for i in range(self.pieces):
            if self.x_bytes[at + i] != PIECE or self.x_at[at + i] != self.x_at[at] + i * PIECE:
                return LK_READ_PIECES
        return LK_READ_RUN

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
