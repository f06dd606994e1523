"""Rows of the input in a buffer, padded, where the pixels that a register tile reads lie equally far apart.

A tile unit loads the rows of a tile from one address and one distance. In the input itself pixels are that far apart within
a row of outputs, where none of them is in the padding. So the rows that a block of outputs reads are copied, each followed
by the padding between it and the next: then the distance stays the same from an output to the next beyond the end of a
row of outputs, at the cost of some positions there that are no output (`width` counts them). Where the stride along the height
is not 1, rows of the input are sorted by their remainder, so that those which a tap reads follow one another.

Of a kernel that is 1 wide only the pixels that are read are copied. `folded`, the taps of a row are the channels of a pixel:
one is copied for each output, and there are only the taps along the height.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from ...kernels cimport LK_NOWHERE
from ..executor cimport aligned, ceil_div, geometry_of
from ..packing cimport copy_run, flip_run, move, moves_of

cdef enum:
    LINE = 64           # of the cache: staged pixels do not cross one, or begin on one
    MAX_TILE_ROWS = 32  # that are read, if the tile has less


cdef inline int64_t lines_of(int64_t n, int64_t length) noexcept nogil:
    """The most lines of `length` elements in which n contiguous ones lie."""
    return min(n, (n - 2) // length + 2) if n > 1 else n


cpdef int64_t pitch_of(int64_t pixel_bytes):
    """Bytes from a staged pixel to the next."""
    cdef int64_t pitch = LINE // 4
    if pixel_bytes > LINE:
        return aligned(pixel_bytes)
    while pitch < pixel_bytes:
        pitch *= 2
    return pitch


cdef class StagedRows:
    """The staged rows of a convolution, of kernels and outputs that are 1 deep or lie in planes of their own.

    Parameters
    ----------
    geometry
        See `executor`; the kernel's depth is 1, without padding there.
    x_strides : (n, d, h, w)
        Bytes from an image, plane, row and pixel of the input to the next.
    channels : (blocks, block_stride, run, run_last)
        Those of a pixel: `blocks` runs of `run` bytes, the last of `run_last`.
    unit_bytes : int
        Channels are filled up to whole units with zeros.
    width : int
        Positions of a row of outputs.
    folded : bool
    """

    def __init__(self, geometry, x_strides, channels, int64_t unit_bytes, int64_t width, bint folded):
        cdef Geometry *g = &self.g
        cdef int64_t i, j, row, end
        self.g = geometry_of(geometry)
        self.moves = moves_of(1)
        for i in range(4):
            self.x_stride[i] = x_strides[i]
        self.blocks, self.block_stride, self.run, self.run_last = channels
        self.width, self.folded, self.sparse = width, folded, folded or g.kernel[2] == 1
        row = (self.blocks - 1) * self.run + self.run_last
        self.channel_bytes = row * g.kernel[2] if folded else row
        self.pixel_bytes = ceil_div(self.channel_bytes, unit_bytes) * unit_bytes
        self.pitch = pitch_of(self.pixel_bytes)
        self.step = 1 if self.sparse else g.stride[2]
        self.row_bytes = width * self.step * self.pitch
        self.reads_on = width * g.out[1] > 1  # else each has a plane of its own, and they lie as far apart as these
        self.columns = 1 if folded else g.kernel[2]
        self.taps = g.kernel[1] * self.columns
        end = (g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1
        self.zeros_behind = 0 if self.sparse else max(0, end - width * self.step) * self.pitch
        self.left = max(0, g.before[2])
        if not self.sparse:  # the padding may be wider than the row
            self.left = min(self.left, width * self.step)
        self.right = max(self.left, min(width * self.step, min(end, g.size[2] + g.before[2])))
        self.sort = <int64_t *>calloc(4 * max(1, g.kernel[1]), sizeof(int64_t))
        self.tap = <int64_t *>calloc(max(1, self.taps), sizeof(int64_t))
        if self.sort == NULL or self.tap == NULL:
            raise MemoryError(f"convolution: tables of {self.taps} taps")
        self.remainder, self.low, self.high = (self.sort + g.kernel[1], self.sort + 2 * g.kernel[1],
                                               self.sort + 3 * g.kernel[1])
        for i in range(g.kernel[1]):
            row = i * g.dilation[1]
            for j in range(self.sorts):
                if self.remainder[j] == row % g.stride[1]:
                    break
            else:
                j = self.sorts
                self.sorts += 1
                self.remainder[j], self.low[j] = row % g.stride[1], row // g.stride[1]
            self.sort[i], self.high[j] = j, row // g.stride[1]
            self.reach = max(self.reach, self.high[j])

    cdef void lay_out(self, int64_t positions) noexcept nogil:
        """Set what depends on the number of positions of a block, at most: the size of the buffer, and where taps are in it."""
        cdef const Geometry *g = &self.g
        cdef int64_t i, j, row, total
        if not self.width or not g.n * g.out[0] * g.out[1]:
            return
        total = min(g.n * g.out[0] * g.out[1], lines_of(positions, self.width))
        self.sort_rows = min(g.out[1], total) + self.reach
        self.plane_bytes = aligned(self.sorts * self.sort_rows * self.row_bytes + self.zeros_behind)
        self.bytes = (min(g.n * g.out[0], lines_of(total, g.out[1])) * self.plane_bytes
                      + aligned((MAX_TILE_ROWS * self.step + g.kernel[2] * g.dilation[2]) * self.pitch))
        for i in range(g.kernel[1]):
            for j in range(self.columns):
                row = self.sort[i] * self.sort_rows + i * g.dilation[1] // g.stride[1]
                self.tap[i * self.columns + j] = row * self.row_bytes + j * g.dilation[2] * self.pitch

    def source(self, int64_t groups, int64_t group_stride):
        """What is read, as the source of a `Footprint`."""
        cdef Geometry *g = &self.g
        steps = [(0, g.n - 1, self.x_stride[0]), (0, groups - 1, group_stride)]
        for i in range(3):
            first, last = -g.before[i], (g.out[i] - 1) * g.stride[i] - g.before[i] + (g.kernel[i] - 1) * g.dilation[i]
            steps.append((max(first, 0), min(last, g.size[i] - 1), self.x_stride[1 + i]))
        parts = [([*steps, (self.blocks - 1, self.blocks - 1, self.block_stride)], self.run_last)]
        if self.blocks > 1:
            parts.append(([*steps, (0, self.blocks - 2, self.block_stride)], self.run))
        return parts

    def __dealloc__(self):
        free(self.sort)
        free(self.tap)

    cdef void fill(self, const char *x, int64_t first, int64_t last, char *buffer, int zero, uint32_t flip) noexcept nogil:
        """Copy what positions [first, last) read of x, the channels of a group; `zero` is the byte of the padding, and the bits
        of `flip` are flipped in each unit."""
        cdef const Geometry *g = &self.g
        cdef int64_t line = first // self.width, end = (last - 1) // self.width + 1, rows, plane, i, j, at
        cdef const char *src
        cdef char *dst
        while line < end:
            plane, rows = line // g.out[1], min(end - line, g.out[1] - line % g.out[1])
            src = (x + plane // g.out[0] * self.x_stride[0]
                   + (plane % g.out[0] * g.stride[0] - g.before[0]) * self.x_stride[1])
            for i in range(self.sorts):
                dst = buffer + (i * self.sort_rows + self.low[i]) * self.row_bytes
                for j in range(self.low[i], rows + self.high[i]):
                    at = (line % g.out[1] + j) * g.stride[1] + self.remainder[i] - g.before[1]
                    if at < 0 or at >= g.size[1]:
                        memset(dst, zero ^ (flip & 0xff), self.row_bytes)
                    else:
                        self.fill_row(src + at * self.x_stride[2], dst, zero)
                        if flip:
                            flip_run(dst, self.row_bytes, flip)
                    dst += self.row_bytes
                memset(dst, zero ^ (flip & 0xff), self.zeros_behind)
            line += rows
            buffer += self.plane_bytes

    cdef void fill_row(self, const char *x, char *to, int zero) noexcept nogil:
        """Copy a row of the input, with its padding."""
        cdef const Geometry *g = &self.g
        cdef int64_t pixel = self.x_stride[3], count = self.right - self.left, i, first, last, rest
        if not self.sparse:
            memset(to, zero, self.left * self.pitch)
            to += self.left * self.pitch
            self.fill_pixels(x + (self.left - g.before[2]) * pixel, pixel, to, count)
            memset(to + count * self.pitch, zero, self.row_bytes - self.right * self.pitch)
            return
        # outputs [first, last) read no padding
        first = min(self.width, ceil_div(self.left, g.stride[2]))
        rest = g.size[2] + g.before[2] - (g.kernel[2] - 1) * g.dilation[2]
        last = max(first, min(self.width, ceil_div(max(0, rest), g.stride[2])))
        if first < last:
            self.fill_pixels(x + (first * g.stride[2] - g.before[2]) * pixel, g.stride[2] * pixel, to + first * self.pitch,
                             last - first)
        for i in range(self.width):
            if first <= i < last:
                continue
            memset(to + i * self.pitch, zero, self.channel_bytes)
            memset(to + i * self.pitch + self.channel_bytes, 0, self.pixel_bytes - self.channel_bytes)
            rest = i * g.stride[2] - g.before[2]  # the column of its first tap
            if self.folded and -g.kernel[2] < rest < g.size[2]:
                count = max(0, -rest)  # taps in the padding
                memcpy(to + i * self.pitch + count * pixel, x + (rest + count) * pixel,
                       (min(g.kernel[2], g.size[2] - rest) - count) * pixel)

    cdef void fill_pixels(self, const char *x, int64_t x_step, char *to, int64_t count) noexcept nogil:
        """Copy pixels that are x_step bytes apart."""
        cdef int64_t q, at = 0, run, rest = self.pixel_bytes - self.channel_bytes
        if self.blocks == 1 and x_step == self.pitch == self.channel_bytes:
            memcpy(to, x, count * self.pitch)
            return
        if rest:  # in one piece, as each pixel has a few bytes
            memset(to, 0, count * self.pitch)
        for q in range(self.blocks):
            run = self.channel_bytes if self.folded else self.run if q + 1 < self.blocks else self.run_last
            move(&self.moves, x + q * self.block_stride, x_step, 1, to + at, self.pitch, 1, count, run)
            at += run

    cdef void offsets(self, int64_t first, int64_t last, const int64_t *y_stride, int64_t *x_row,
                      int64_t *y_row) noexcept nogil:
        """Where positions [first, last) read, in the buffer, and what they write: LK_NOWHERE if they are no output."""
        cdef const Geometry *g = &self.g
        cdef int64_t at = first, line, begin = first // self.width, plane, i, x_at, y_at
        while at < last:
            line, i = at // self.width, at % self.width
            plane = line // g.out[1]
            x_at = (plane - begin // g.out[1]) * self.plane_bytes
            x_at += (line - max(begin, plane * g.out[1])) * self.row_bytes
            y_at = plane // g.out[0] * y_stride[0] + plane % g.out[0] * y_stride[1] + line % g.out[1] * y_stride[2]
            while i < self.width and at < last:
                x_row[0] = x_at + i * self.step * self.pitch
                y_row[0] = y_at + i * y_stride[3] if i < g.out[2] else LK_NOWHERE
                x_row, y_row, i, at = x_row + 1, y_row + 1, i + 1, at + 1
