"""The gradient of a depthwise filter: the loop nest around the micro-kernels of tap_sums.c.

    dw[c, k] = sum over n, p of dy[n, c, p] * x[n, c, stride*p + dilation*k - before]

A block is some rows of the output of one image and depth. A part is some vectors of channels, which share cache lines.
For a vector of channels, the part of x that a block reads is copied with zeros for the padding if the copy fits into
L1; then it is summed in one call. Otherwise x is read in place: pixels with all taps inside the input in one call,
those at the edges in calls with fewer taps, row by row and column by column. The sums are [vectors][taps][lanes].
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from ..executor import Footprint

from ...kernels cimport lk_kernel
from ...kernels.gradients cimport lk_tap_sums, lk_tap_sums_fn
from ..executor cimport WeightSums, aligned, ceil_div, share

cdef enum:
    BLOCK_PIXELS = 256  # roughly
    MAX_COPIED_BYTES = 24 << 10  # of x, for a block
    MAX_PART_VECTORS = 8
    MIN_TASKS = 4      # per thread, if vectors share a part

cpdef enum:
    MAX_TAPS = 64      # of a call


cdef struct Range:
    int64_t first, end  # outputs
    int64_t tap, stop   # the taps that they read inside of the input


cdef class TapSums(WeightSums):
    """Parameters
    ----------
    kernel : str
        Name of a tap_sums row.
    geometry, threads, slabs, chunks
        As of the base; as many groups as channels.
    x_strides, y_strides : (image, depth, height, width, vector of channels)
        In bytes.
    whole : bool
        Vectors of channels are whole in memory.
    """

    cdef lk_tap_sums_fn kernel
    cdef int64_t lanes, channels, taps
    cdef int64_t x[5]
    cdef int64_t y[5]
    cdef int64_t rows, row_blocks
    cdef bint whole
    cdef int64_t vectors, part_vectors
    cdef bint copies
    cdef int64_t window[2]  # rows and columns of x that a block reads

    def __init__(self, str kernel, geometry, int threads, int64_t slabs, int64_t chunks, x_strides, y_strides,
                 bint whole):
        WeightSums.__init__(self, kernel, geometry, threads, slabs, chunks)
        cdef const lk_kernel *row = self.kernel_row
        self.kernel, self.lanes, self.whole = <lk_tap_sums_fn>row.fn, row.lanes, whole
        self.item = 8 if row.types == b"f64" else 4
        for i in range(5):
            self.x[i], self.y[i] = x_strides[i], y_strides[i]
        g = &self.g
        self.channels, self.taps = g.groups, g.kernel[0] * g.kernel[1] * g.kernel[2]
        if self.taps > MAX_TAPS:
            raise ValueError(f"{self.taps} taps, at most {MAX_TAPS}")
        self.vectors = ceil_div(self.channels, self.lanes)
        self.part_vectors = max(1, min(<int64_t>MAX_PART_VECTORS, self.vectors * slabs // (MIN_TASKS * threads)))
        if threads == 1:
            self.part_vectors = MAX_PART_VECTORS
        self.parts = ceil_div(self.vectors, self.part_vectors)
        self.slab_bytes = self.vectors * self.taps * self.lanes * self.item
        self.rows = max(1, min(g.out[1], BLOCK_PIXELS // g.out[2]))
        self.window[0] = (self.rows - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1
        self.window[1] = (g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1
        copied = self.window[0] * self.window[1] * self.lanes * self.item
        self.copies = copied <= MAX_COPIED_BYTES
        self.thread_bytes = aligned(copied) if self.copies else 0
        self.row_blocks = ceil_div(g.out[1], self.rows)
        self.blocks = g.n * g.out[0] * self.row_blocks

    def footprint(self):
        return Footprint(self.read(self.x, True), self.read(self.y, False), 0, 0)

    cdef tuple read(self, int64_t *s, bint source):
        """One side of the footprint: whole vectors of channels, and the last one."""
        steps = self.pixels(s[0], s + 1, source)
        whole = self.vectors if self.whole else self.channels // self.lanes
        rest = self.channels - whole * self.lanes if whole < self.vectors else 0
        return ((([*steps, (0, whole - 1, s[4])], self.item * self.lanes if whole else 0),
                 ([*steps, (whole, whole, s[4])], self.item * rest)))

    cdef void part(self, const char *x, const char *y, char *c, char *workspace, int64_t part, int64_t first,
                   int64_t end, bint begins) noexcept nogil:
        cdef int64_t first_vector = part * self.part_vectors, at, vector, bytes = self.taps * self.lanes * self.item
        cdef int64_t last_vector = min(self.vectors, first_vector + self.part_vectors)
        cdef lk_tap_sums t
        if begins:
            memset(c + first_vector * bytes, 0, (last_vector - first_vector) * bytes)
        for at in range(first, end):
            for vector in range(first_vector, last_vector):
                self.block(&t, x + vector * self.x[4], y + vector * self.y[4], c + vector * bytes, workspace, at,
                           self.channels - vector * self.lanes)

    cdef void block(self, lk_tap_sums *t, const char *x, const char *y, char *c, char *workspace, int64_t at,
                    int64_t left) noexcept nogil:
        """Add a block to the sums of a vector of channels; `left` channels remain, this vector included."""
        cdef int64_t row = at % self.row_blocks * self.rows, depth = at // self.row_blocks, image, z, d
        cdef int64_t stop = min(self.g.out[1], row + self.rows)
        cdef Range rows, cols
        image, depth = depth // self.g.out[0], depth % self.g.out[0]
        y += image * self.y[0] + depth * self.y[1]
        t.lanes = 0 if self.whole or left >= self.lanes else (<uint32_t>1 << left) - 1
        t.y_row, t.y_step = self.y[2], self.y[3]
        for d in range(self.g.kernel[0]):
            z = depth * self.g.stride[0] + d * self.g.dilation[0] - self.g.before[0]
            if z < 0 or z >= self.g.size[0]:
                continue
            if self.copies:
                self.copy(x + image * self.x[0] + z * self.x[1], workspace, row, stop - row,
                          min(left, self.lanes) * self.item if t.lanes else self.lanes * self.item)
                rows.first, rows.end, rows.tap, rows.stop = row, stop, 0, self.g.kernel[1]
                cols.first, cols.end, cols.tap, cols.stop = 0, self.g.out[2], 0, self.g.kernel[2]
                self.sum(t, &rows, &cols, workspace, self.window[1] * self.lanes * self.item, self.lanes * self.item, y, c, d)
                continue
            rows.first = row
            while rows.first < stop:
                self.same_taps(&rows, 1, stop)
                cols.first = 0
                while cols.first < self.g.out[2]:
                    self.same_taps(&cols, 2, self.g.out[2])
                    self.sum(t, &rows, &cols, x + image * self.x[0] + z * self.x[1]
                             + (rows.first * self.g.stride[1] - self.g.before[1]) * self.x[2]
                             + (cols.first * self.g.stride[2] - self.g.before[2]) * self.x[3],
                             self.x[2], self.x[3], y, c, d)
                    cols.first = cols.end
                rows.first = rows.end

    cdef void copy(self, const char *x, char *to, int64_t row, int64_t rows, int64_t bytes) noexcept nogil:
        """Copy the part of a plane of x that `rows` rows of outputs from `row` on read, `bytes` of each pixel, with
        zeros outside."""
        cdef int64_t vector = self.lanes * self.item, row_bytes = self.window[1] * vector, r, h, w
        cdef int64_t before = min(self.window[1], self.g.before[2]), top = row * self.g.stride[1] - self.g.before[1]
        cdef int64_t inside = max(0, min(self.window[1], self.g.size[2] + self.g.before[2]) - before)
        cdef int64_t first = before - self.g.before[2]  # of x
        cdef int64_t count = (rows - 1) * self.g.stride[1] + (self.g.kernel[1] - 1) * self.g.dilation[1] + 1
        cdef const char *from_
        cdef char *at
        for r in range(count):
            h, at = top + r, to + r * row_bytes
            if h < 0 or h >= self.g.size[1]:
                memset(at, 0, row_bytes)
                continue
            memset(at, 0, before * vector)
            memset(at + (before + inside) * vector, 0, (self.window[1] - before - inside) * vector)
            from_, at = x + h * self.x[2] + first * self.x[3], at + before * vector
            if bytes == 64:  # a constant size compiles to a load and a store
                for w in range(inside):
                    memcpy(at + w * vector, from_ + w * self.x[3], 64)
            elif bytes == 32:
                for w in range(inside):
                    memcpy(at + w * vector, from_ + w * self.x[3], 32)
            else:
                for w in range(inside):
                    memcpy(at + w * vector, from_ + w * self.x[3], bytes)

    cdef inline void same_taps(self, Range *r, int axis, int64_t stop) noexcept nogil:
        """The outputs from r.first on, before `stop`, that have the same taps inside the input, and these taps."""
        cdef int64_t stride = self.g.stride[axis], dilation = self.g.dilation[axis], size = self.g.size[axis]
        cdef int64_t kernel = self.g.kernel[axis]
        cdef int64_t at = r.first * stride - self.g.before[axis], last
        r.tap = min(kernel, ceil_div(-at, dilation)) if at < 0 else 0
        r.stop = min(kernel, ceil_div(size - at, dilation)) if at < size else 0
        r.end = r.first + 1
        if r.tap == 0 and r.stop == kernel:
            last = size - 1 - (kernel - 1) * dilation + self.g.before[axis]
            r.end = min(stop, last // stride + 1)

    cdef void sum(self, lk_tap_sums *t, const Range *rows, const Range *cols, const char *x, int64_t x_row, int64_t x_col,
                  const char *y, char *c, int64_t d) noexcept nogil:
        """Sum over the outputs of these rows and columns, with the taps of depth d; `x`: the input of the first output
        at tap 0."""
        cdef int64_t tap[MAX_TAPS]
        cdef int64_t to[MAX_TAPS]
        cdef int64_t h, w
        t.taps = 0
        for h in range(rows.tap, rows.stop):
            for w in range(cols.tap, cols.stop):
                tap[t.taps] = h * self.g.dilation[1] * x_row + w * self.g.dilation[2] * x_col
                to[t.taps] = ((d * self.g.kernel[1] + h) * self.g.kernel[2] + w) * self.lanes * self.item
                t.taps += 1
        t.tap, t.sum, t.c, t.x = tap, to, c, x
        t.x_row, t.x_step = self.g.stride[1] * x_row, self.g.stride[2] * x_col
        t.y = y + rows.first * self.y[2] + cols.first * self.y[3]
        t.rows, t.steps = rows.end - rows.first, cols.end - cols.first
        self.kernel(t)
