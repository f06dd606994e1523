"""Depthwise convolution and that of small groups: the loop nest around the micro-kernels of depthwise.c.

    y[n, o, p] = bias[o] + sum over c, k of x[n, first(o) + c, stride*p + dilation*k - before] * w[o, c, k]

A vector holds channels of one pixel (NHWC, nChw16c) or, where fewer channels than lanes are contiguous, those of
`pixels` neighbouring output pixels (nChw8c with 16 lanes: 2).

A task is one or two output rows of a run of channels: the input rows that the next task reads again are in L1 or L2.
Images are cut into bands of rows, one for each thread, which mostly has had these rows in the layer before.
Output columns are cut evenly into tiles once, with masks for those that reach into the padding. For each output row,
rows of taps in the padding are skipped.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from ..executor import NOTHING, Footprint

from ...kernels.depthwise cimport lk_depthwise, lk_depthwise_fn, lk_depthwise_tile
from ...kernels.elementwise cimport lk_epilogue
from ...ndarray cimport NPY_INT32, NPY_INT64, NPY_UINT32
from ..executor cimport Executor, Geometry, Tasks, aligned, ceil_div, clip_of, elements, more, share


cdef enum:
    WAY_BYTES = 4096           # of one way of L1: lines this far apart share a set
    MAX_WAYS = 12              # of L1 that the columns of a tile may occupy
    MAX_COPY_BYTES = 48 << 10  # of a local copy, so that most of it stays in L1
    MIN_COPIED_BYTES = 128     # of each column in a local copy: several vectors


cdef class Depthwise(Executor):
    """Depthwise convolution, and that of small groups: few input channels for each output channel.

    Parameters
    ----------
    nest : LoopNest
        Strides (n, run, d, h, w) of an image, a run of channels, a pixel; a depthwise row.
    channels, padded : int
        Output channels, without and with the pads, which are written as well.
    run, vector_channels : int
        Contiguous output channels, which are those of a task; output channels of a vector.
    pixels : int
        Output pixels in a vector.
    lanes : (y_lanes, x_lanes, full, x_at, order)
        What each vector of channels reads and writes, see lk_depthwise. The last two are None if every output channel
        reads the input channel of the same index. x_at is relative to the first channel of a run or, if `gathered`, of
        all channels.
    gathered : bool
        All channels of a pixel are contiguous.

    The packed filter is [vectors of channels][depth][taps][lanes], the bias [vectors][lanes].
    """

    cdef int64_t x_stride[5]
    cdef int64_t y_stride[5]
    cdef int64_t channels, padded, run_channels, vector_channels, runs, vectors, pixels, depth, taps
    cdef int64_t bands, pairs    # of output rows of an image; of such rows of a band
    cdef int64_t *tap
    cdef int64_t *pixel          # offsets of the outputs of two rows
    cdef int64_t *copy_at        # of each row of the local copy: where it is copied from
    cdef int64_t *copy_tap       # of each row of taps: the row of the copy that output row 0 reads
    cdef int64_t *copy_bytes     # of each vector: bytes of a column that are copied
    cdef int64_t copies, copied_rows, copy_pixel
    cdef lk_depthwise_tile *tiles
    cdef int count               # tiles of a row
    cdef uint32_t *mask
    cdef tuple tables            # whose elements these are:
    cdef const uint32_t *y_lanes
    cdef const uint32_t *x_lanes  # [vector][channel], as x_at
    cdef const uint32_t *full
    cdef const int64_t *x_at
    cdef const int32_t *order
    cdef int64_t all_vectors     # of all channels
    cdef bint permutes, gathered
    cdef int step

    def __init__(self, nest, int64_t channels, int64_t padded, int64_t run, int64_t vector_channels, int64_t pixels, lanes,
                 bint gathered):
        Executor.__init__(self, nest)
        x_strides, y_strides = nest.x_strides, nest.y_strides
        cdef Geometry *g = &self.g
        cdef int64_t i, a, b, at = 0
        for i in range(5):
            self.x_stride[i], self.y_stride[i] = x_strides[i], y_strides[i]
        self.channels, self.padded, self.pixels, self.gathered = channels, padded, pixels, gathered
        y_lanes, x_lanes, full, x_at, order = self.tables = lanes
        self.all_vectors, self.depth = x_lanes.shape
        self.y_lanes = <const uint32_t *>elements(y_lanes, NPY_UINT32)
        self.x_lanes, self.full = <const uint32_t *>elements(x_lanes, NPY_UINT32), <const uint32_t *>elements(full, NPY_UINT32)
        self.permutes = order is not None
        if self.permutes:
            self.x_at, self.order = <const int64_t *>elements(x_at, NPY_INT64), <const int32_t *>elements(order, NPY_INT32)
        self.run_channels, self.vector_channels = run, vector_channels
        self.runs = ceil_div(padded, run)
        self.vectors = ceil_div(run, vector_channels)
        self.bands = max(1, min(ceil_div(g.out[1], 2), self.threads))
        self.pairs = ceil_div(ceil_div(g.out[1], self.bands), 2)
        self.taps = g.kernel[0] * g.kernel[1]
        self.ws_thread = 2 * aligned(sizeof(uint32_t) * self.taps)
        self.total = g.n * self.bands * self.runs * g.out[0] * self.pairs
        self.step = 0
        if pixels * g.stride[2] in (g.dilation[2], 2 * g.dilation[2]):  # the steps that kernels have
            self.step = pixels * g.stride[2] // g.dilation[2]
        self.tap = <int64_t *>calloc(self.taps, sizeof(int64_t))
        self.pixel = <int64_t *>calloc(max(1, 2 * g.out[2]), sizeof(int64_t))
        if self.tap == NULL or self.pixel == NULL:
            raise MemoryError(f"convolution: tables of {self.taps} rows of taps")
        for a in range(g.kernel[0]):
            for b in range(g.kernel[1]):
                self.tap[at] = a * g.dilation[0] * self.x_stride[2] + b * g.dilation[1] * self.x_stride[3]
                at += 1
        for a in range(2):
            for b in range(g.out[2]):
                self.pixel[a * g.out[2] + b] = a * self.y_stride[3] + b * self.y_stride[4]
        self.cut_columns()
        self.plan_copy()

    def __dealloc__(self):
        free(self.copy_at)
        free(self.copy_tap)
        free(self.copy_bytes)
        free(self.tap)
        free(self.pixel)
        free(self.tiles)
        free(self.mask)

    cdef int cut_columns(self) except -1:
        """Cut a row into tiles, and set the lanes that each of their vectors reads and writes."""
        cdef Geometry *g = &self.g
        cdef int64_t columns = ceil_div(g.out[2], self.pixels), first, j, b, wide, masks, t
        cdef int64_t step = self.step or g.kernel[2], unit = self.lanes // self.pixels, lane, pixel, at, last
        cdef bint edges
        cdef lk_depthwise_tile *tile
        cdef uint32_t *x_mask
        cdef uint32_t *y_mask
        self.count = <int>ceil_div(columns, self.nr)
        wide = (self.nr - 1) * step + g.kernel[2]
        masks = wide + self.nr
        self.tiles = <lk_depthwise_tile *>calloc(max(1, self.count), sizeof(lk_depthwise_tile))
        self.mask = <uint32_t *>calloc(max(1, self.count * masks), sizeof(uint32_t))
        if self.tiles == NULL or self.mask == NULL:
            raise MemoryError(f"convolution: tables of {self.count} tiles a row")
        for t in range(self.count):
            tile, x_mask = self.tiles + t, self.mask + t * masks
            y_mask = x_mask + wide
            first = share(columns, self.count, t)
            tile.cols = <int>(share(columns, self.count, t + 1) - first)
            tile.x = (first * self.pixels * g.stride[2] - g.before[2]) * self.x_stride[4]
            tile.y = first * self.pixels * self.y_stride[4]
            tile.x_mask, tile.y_mask, tile.whole = x_mask, y_mask, 1
            last = (tile.cols - 1) * step + g.kernel[2] - 1
            edges = self.pixels == 1 and self.step != 0
            for j in range(tile.cols):
                for lane in range(self.lanes):
                    pixel = (first + j) * self.pixels + lane // unit
                    if pixel < g.out[2]:
                        y_mask[j] |= <uint32_t>1 << lane
                    else:
                        tile.whole = edges = 0
                    for b in range(g.kernel[2]):
                        at = pixel * g.stride[2] - g.before[2] + b * g.dilation[2]
                        if 0 <= at < g.size[2]:
                            x_mask[j * step + b] |= <uint32_t>1 << lane
                        else:
                            tile.whole = 0
                            edges &= j * step + b <= g.kernel[2] // 2 or j * step + b >= last - g.kernel[2] // 2
            tile.edges = edges
        return 0

    cdef int plan_copy(self) except -1:
        """Plan a local copy of the columns of a tile if they share few sets of L1 and several channels read them."""
        cdef Geometry *g = &self.g
        cdef int64_t columns = (self.nr - 1) * self.step + g.kernel[2] if self.step else self.nr * g.kernel[2]
        cdef int64_t a, b, t = 0, apart = WAY_BYTES, i, most, vector = self.x_item * self.lanes
        cdef int64_t x_tap = abs(g.dilation[2] * self.x_stride[4])
        cdef bint shared = g.stride[1] == g.dilation[1]  # both output rows read the same, a row of taps apart
        self.copied_rows = g.kernel[1] + 1 if shared else 2 * g.kernel[1]
        while apart > 64 and x_tap % apart:
            apart //= 2
        if not self.permutes or self.pixels > 1 or self.copied_rows * columns <= MAX_WAYS * WAY_BYTES // apart:
            return 0
        most = self.x_at[self.depth - 1] - self.x_at[0] + vector
        self.copy_pixel = max(MIN_COPIED_BYTES, ceil_div(most, vector) * vector)
        if g.kernel[0] * self.copied_rows * columns * self.copy_pixel > MAX_COPY_BYTES:
            return 0
        self.copies = g.kernel[0] * self.copied_rows
        self.ws_thread += aligned(sizeof(uint32_t) * self.copies) + aligned(self.copies * columns * self.copy_pixel)
        self.copy_at = <int64_t *>calloc(self.copies, sizeof(int64_t))
        self.copy_tap = <int64_t *>calloc(self.taps, sizeof(int64_t))
        self.copy_bytes = <int64_t *>calloc(self.all_vectors, sizeof(int64_t))
        if self.copy_at == NULL or self.copy_tap == NULL or self.copy_bytes == NULL:
            raise MemoryError(f"convolution: tables of {self.copies} rows")
        for i in range(self.all_vectors):  # up to the last byte that the full vectors of its run read
            for a in range(i, min(self.all_vectors, (i // self.vectors + 1) * self.vectors)):
                b = self.x_at[(a + 1) * self.depth - 1] + vector - self.x_at[i * self.depth]
                if not self.full[a] or b > self.copy_pixel or self.x_at[a * self.depth] < self.x_at[i * self.depth]:
                    break
                self.copy_bytes[i] = b
        for a in range(g.kernel[0]):
            for b in range(g.kernel[1]):
                self.copy_tap[t] = a * self.copied_rows + (b if shared else 2 * b)
                for i in range(2):
                    self.copy_at[self.copy_tap[t] + i] = self.tap[t] + i * g.stride[1] * self.x_stride[3]
                t += 1
        return 0

    def footprint(self):
        if self.total == 0:
            return NOTHING
        g = self.g
        if self.pixels > 1 and (self.x_stride[4] != self.x_item * self.vector_channels or self.y_stride[4] != self.y_item * self.vector_channels):
            raise RuntimeError(f"depthwise: {self.pixels} pixels of {self.vector_channels} channels in a vector, that lie "
                               f"{self.x_stride[4]} and {self.y_stride[4]} bytes apart")
        reads, writes = self.pixels_of(self.x_stride[0], self.x_stride + 2, self.y_stride[0], self.y_stride + 2, True)
        read, written = [], []  # the bytes of each run of channels
        for run in range(self.runs):
            vectors = range(run * self.vectors, min((run + 1) * self.vectors, self.all_vectors))
            read.append(max([self.lanes_end(self.vector_begins(v, c), self.x_lanes[v * self.depth + c], self.x_item)
                             for v in vectors for c in range(self.depth)]))
            written.append(max([self.lanes_end(v % self.vectors * self.y_item * self.lanes, self.y_lanes[v],
                                               self.y_item) for v in vectors]))
        source = [([*reads, (run, run, 0 if self.permutes and self.gathered else self.x_stride[1])], read[run])
                  for run in range(self.runs)]
        destination = [([*writes, (run, run, self.y_stride[1])], written[run]) for run in range(self.runs)]
        filters = self.all_vectors * self.lanes
        weights = filters * self.taps * self.depth * g.kernel[2]
        return Footprint(tuple(source), tuple(destination), self.w_item * weights, self.sum_item * filters)

    cdef int64_t vector_begins(self, int64_t vector, int64_t channel):
        """The offset of a vector's input channels, relative to the first one of its run, or of all channels."""
        return self.x_at[vector * self.depth + channel] if self.permutes else vector % self.vectors * self.x_item * self.lanes

    cdef int64_t lanes_end(self, int64_t begin, uint32_t mask, int item):
        """The end of the last channel in `mask`, of any pixel of a vector that begins at `begin`; 0: there is none."""
        cdef int64_t lane, most = 0, lanes = self.vector_channels if self.pixels > 1 else self.lanes
        for lane in range(32):
            if mask >> lane & 1:
                most = max(most, lane % lanes + 1)
        return begin + item * most if most else 0

    cdef void part(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                   char *workspace, Tasks *tasks) noexcept nogil:
        cdef int64_t task = 0, end = 0
        cdef const Geometry *g = &self.g
        cdef lk_depthwise_fn fn = <lk_depthwise_fn>self.micro_kernel
        cdef lk_depthwise d
        cdef uint32_t *inside = <uint32_t *>workspace
        cdef uint32_t *square = <uint32_t *>(workspace + aligned(sizeof(uint32_t) * self.taps))
        cdef uint32_t *copy_inside = <uint32_t *>(workspace + 2 * aligned(sizeof(uint32_t) * self.taps))
        cdef bint joint = g.kernel[1] == 3 and g.stride[1] == g.dilation[1]
        cdef int64_t n, run, plane, pair, row, rest, vector, first, t, band
        cdef int64_t vector_bytes = self.depth * self.taps * g.kernel[2] * self.lanes * self.w_item  # of the filter
        d.x_row, d.y_row = g.stride[1] * self.x_stride[3], self.y_stride[3]
        d.x_col, d.y_col = self.pixels * g.stride[2] * self.x_stride[4], self.pixels * self.y_stride[4]
        d.x_tap, d.x_vector, d.y_vector = g.dilation[2] * self.x_stride[4], self.x_item * self.lanes, self.y_item * self.lanes
        d.square = square if joint else NULL
        d.tap, d.inside, d.taps, d.depth = self.tap, inside, <int>self.taps, <int>self.depth
        d.kw, d.step = <int>g.kernel[2], self.step
        d.tile, d.tiles, d.order, d.bias = self.tiles, self.count, NULL, NULL
        cdef const void *clip = clip_of(epilogue, False, self.padded > self.channels)
        d.clip, d.positive = clip, self.positive
        d.copy, d.copies, d.copy_at, d.copy_tap = NULL, <int>self.copies, self.copy_at, self.copy_tap
        d.copy_inside, d.copy_bytes, d.copy_pixel = copy_inside, NULL, self.copy_pixel
        if self.copies:
            d.copy = <char *>copy_inside + aligned(sizeof(uint32_t) * self.copies)
        while task < end or more(tasks, &task, &end):
            pair, rest = task % self.pairs, task // self.pairs
            plane, rest = rest % g.out[0], rest // g.out[0]
            run, rest = rest % self.runs, rest // self.runs
            band, n = rest % self.bands, rest // self.bands
            row = share(g.out[1], self.bands, band) + 2 * pair
            task += 1
            d.rows = <int>min(2, share(g.out[1], self.bands, band + 1) - row)
            if d.rows <= 0:
                continue  # of a band that has fewer rows than others
            vector = run * self.vectors
            d.vectors = <int>ceil_div(min(self.run_channels, self.padded - run * self.run_channels), self.vector_channels)
            d.x_lanes, d.y_lanes, d.full = self.x_lanes + vector * self.depth, self.y_lanes + vector, self.full + vector
            if self.permutes:
                d.order, d.x_at = self.order + vector * self.depth * self.lanes, self.x_at + vector * self.depth
            if self.copies:
                d.copy_bytes = self.copy_bytes + vector
            d.x = (x + n * self.x_stride[0] + (plane * g.stride[0] - g.before[0]) * self.x_stride[2]
                   + (row * g.stride[1] - g.before[1]) * self.x_stride[3])
            if not (self.permutes and self.gathered):
                d.x += run * self.x_stride[1]
            d.y = (y + n * self.y_stride[0] + run * self.y_stride[1] + plane * self.y_stride[2]
                   + row * self.y_stride[3])
            d.w = w + vector * vector_bytes
            if bias != NULL:
                d.bias = bias + vector * self.lanes * self.sum_item
            self.rows_inside(plane, row, d.rows, inside, square)
            if self.copies:
                memset(copy_inside, 0, sizeof(uint32_t) * self.copies)
                for t in range(self.taps):
                    copy_inside[self.copy_tap[t]] |= inside[t] & 1
                    copy_inside[self.copy_tap[t] + 1] |= inside[t] >> 1
            fn(&d)
            if epilogue != NULL and clip == NULL:
                first = run * self.run_channels
                self.epilogue_rows(epilogue, y, d.y - y, self.pixel, d.rows * g.out[2], first,
                                   min(self.run_channels, self.channels - first))

    cdef inline void rows_inside(self, int64_t plane, int64_t row, int rows, uint32_t *inside,
                                 uint32_t *square) noexcept nogil:
        """Which rows of taps are inside the input, a bit per output row; and which of them begin three rows that are
        inside for both output rows."""
        cdef const Geometry *g = &self.g
        cdef int64_t a, b, r, t = 0, depth, height
        for a in range(g.kernel[0]):
            depth = plane * g.stride[0] - g.before[0] + a * g.dilation[0]
            for b in range(g.kernel[1]):
                inside[t], square[t] = 0, b == 0
                for r in range(rows):
                    height = (row + r) * g.stride[1] - g.before[1] + b * g.dilation[1]
                    if 0 <= depth < g.size[0] and 0 <= height < g.size[1]:
                        inside[t] |= <uint32_t>1 << r
                square[t - b] &= inside[t] == 3
                t += 1
