"""The gradient of a depthwise filter: the loop nest around the micro-kernels of tap_sums.c.

    dw[c, k] = sum over n, p of dy[n, c, p] * x[n, c, stride*p + dilation*k - before]

A block is some rows of the output of one image and depth. A part is a vector of channels. Pixels all of whose taps lie
inside of the input are summed in one call; those at the edges in calls with fewer taps, row by row and column by column.
The sums are [vectors][taps][lanes].
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from .executor import Footprint

from .executor cimport WeightSums, ceil_div
from .registry cimport lk_kernel, lk_tap_sums, lk_tap_sums_fn, row_named

cdef enum:
    BLOCK_STEPS = 256  # pixels of a block, about
    MAX_TAPS = 64      # that a call may have


MOST_TAPS = MAX_TAPS


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

    def __init__(self, str kernel, geometry, int threads, int64_t slabs, int64_t chunks, x_strides, y_strides,
                 bint whole):
        WeightSums.__init__(self, geometry, threads, slabs, chunks)
        cdef const lk_kernel *row = row_named(kernel)
        self.kernel, self.lanes, self.whole = <lk_tap_sums_fn>row.fn, row.lanes, whole
        self.item = 8 if row.types == b"f64" else 4
        for i in range(5):
            self.x[i], self.y[i] = x_strides[i], y_strides[i]
        g = &self.g
        self.channels, self.taps = g.groups, g.kernel[0] * g.kernel[1] * g.kernel[2]
        if self.taps > MAX_TAPS:
            raise ValueError(f"{self.taps} taps, at most {MAX_TAPS}")
        self.parts = ceil_div(self.channels, self.lanes)
        self.slab_bytes = self.parts * self.taps * self.lanes * self.item
        self.rows = max(1, min(g.out[1], BLOCK_STEPS // g.out[2]))
        self.row_blocks = ceil_div(g.out[1], self.rows)
        self.blocks = g.n * g.out[0] * self.row_blocks

    def footprint(self):
        return Footprint(self.read(self.x, True), self.read(self.y, False), 0, 0)

    cdef tuple read(self, int64_t *s, bint source):
        """One side of the footprint: whole vectors of channels, and the last one."""
        steps = self.pixels(s[0], s + 1, source)
        whole = self.parts if self.whole else self.channels // self.lanes
        rest = self.channels - whole * self.lanes if whole < self.parts else 0
        return ((([*steps, (0, whole - 1, s[4])], self.item * self.lanes if whole else 0),
                 ([*steps, (whole, whole, s[4])], self.item * rest)))

    cdef void part(self, const char *x, const char *y, char *c, char *workspace, int64_t part, int64_t first,
                   int64_t end, bint begins) noexcept nogil:
        cdef int64_t at, depth, image, row, z, d, left = self.channels - part * self.lanes
        cdef lk_tap_sums t
        cdef Range rows, cols
        c += part * self.taps * self.lanes * self.item
        if begins:
            memset(c, 0, self.taps * self.lanes * self.item)
        x, y = x + part * self.x[4], y + part * self.y[4]
        t.x_row, t.x_step = self.g.stride[1] * self.x[2], self.g.stride[2] * self.x[3]
        t.y_row, t.y_step = self.y[2], self.y[3]
        t.lanes = 0 if self.whole or left >= self.lanes else (<uint32_t>1 << left) - 1
        for at in range(first, end):
            row, depth = at % self.row_blocks * self.rows, at // self.row_blocks
            image, depth = depth // self.g.out[0], depth % self.g.out[0]
            for d in range(self.g.kernel[0]):
                z = depth * self.g.stride[0] + d * self.g.dilation[0] - self.g.before[0]
                if z < 0 or z >= self.g.size[0]:
                    continue
                rows.first = row
                while rows.first < min(self.g.out[1], row + self.rows):
                    self.alike(&rows, 1, min(self.g.out[1], row + self.rows))
                    cols.first = 0
                    while cols.first < self.g.out[2]:
                        self.alike(&cols, 2, self.g.out[2])
                        self.sum(&t, &rows, &cols, x + image * self.x[0] + z * self.x[1],
                                 y + image * self.y[0] + depth * self.y[1], c, d)
                        cols.first = cols.end
                    rows.first = rows.end

    cdef inline void alike(self, Range *r, int axis, int64_t stop) noexcept nogil:
        """The outputs from r.first on, before `stop`, that read the same taps inside of the input, and these."""
        cdef int64_t stride = self.g.stride[axis], dilation = self.g.dilation[axis], size = self.g.size[axis]
        cdef int64_t kernel = self.g.kernel[axis]
        cdef int64_t at = r.first * stride - self.g.before[axis], last
        r.tap = min(kernel, ceil_div(-at, dilation)) if at < 0 else 0
        r.stop = min(kernel, ceil_div(size - at, dilation)) if at < size else 0
        r.end = r.first + 1
        if r.tap == 0 and r.stop == kernel:
            last = size - 1 - (kernel - 1) * dilation + self.g.before[axis]
            r.end = min(stop, last // stride + 1)

    cdef void sum(self, lk_tap_sums *t, const Range *rows, const Range *cols, const char *x, const char *y, char *c,
                  int64_t d) noexcept nogil:
        """The outputs of these rows and columns, with the taps of depth d."""
        cdef int64_t tap[MAX_TAPS]
        cdef int64_t to[MAX_TAPS]
        cdef int64_t h, w
        t.taps = 0
        for h in range(rows.tap, rows.stop):
            for w in range(cols.tap, cols.stop):
                tap[t.taps] = h * self.g.dilation[1] * self.x[2] + w * self.g.dilation[2] * self.x[3]
                to[t.taps] = ((d * self.g.kernel[1] + h) * self.g.kernel[2] + w) * self.lanes * self.item
                t.taps += 1
        t.tap, t.sum, t.c = tap, to, c
        t.x = (x + (rows.first * self.g.stride[1] - self.g.before[1]) * self.x[2]
               + (cols.first * self.g.stride[2] - self.g.before[2]) * self.x[3])
        t.y = y + rows.first * self.y[2] + cols.first * self.y[3]
        t.rows, t.steps = rows.end - rows.first, cols.end - cols.first
        self.kernel(t)
