"""Tiles of output pixels: which pixels are the rows of a register tile together, and how threads share the tiles.

A tile skips the taps that are padding for all of its rows. So the pixels of small images are sorted by the taps that
they read, and cut into tiles where that costs the least. The order is a snake: along the width of one class of image
rows, then back along that of the next, so that neighbours share taps wherever a tile begins.

A task is a tile and a panel of output channels; tasks are ordered by block of tiles, group, panel, and tile, since narrow
groups share cache lines. Threads share them by cost, so that they end together although tiles skip taps and the last
panel may be narrow. If there are few tasks, tiles get fewer rows where otherwise a thread would have no work.

Threads share pixels, by blocks of their own, rather than panels if that is asked for: what one of them writes it then
reads itself in the next layer, and it takes long to write a line of cache that another core holds.
"""

from libc.float cimport DBL_MAX
from libc.math cimport ceil
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from itertools import product

from ..executor cimport Geometry, ceil_div, geometry_of, share, share_of


cdef enum:
    MAX_LISTED = 4096      # pixels that are sorted: in larger images few are at the border
    MAX_WORDS = 16         # of the set of taps, each of 64 taps
    MIN_TILES = 4          # in a period of a large batch, so that its last tile wastes little
    OWN_TILES = 2          # of a thread that has pixels of its own: it reads the whole filter for them
    FEW_TASKS = 24         # per thread: with more, whole tiles are balanced well enough


cdef extern from *:
    """
    #define popcount(x) __builtin_popcountll(x)
    """
    int popcount(uint64_t x) noexcept nogil


cdef inline void taps_inside(const Geometry *g, int axis, int64_t at, int64_t *lo, int64_t *hi) noexcept nogil:
    """The taps [lo, hi) along `axis` with which output position `at` reads inside the input."""
    cdef int64_t first = at * g.stride[axis] - g.before[axis], d = g.dilation[axis]
    if first >= 0 and first + (g.kernel[axis] - 1) * d < g.size[axis]:  # most: no divisions
        lo[0], hi[0] = 0, g.kernel[axis]
        return
    lo[0] = 0 if first >= 0 else min(g.kernel[axis], ceil_div(-first, d))
    hi[0] = min(g.kernel[axis], ceil_div(g.size[axis] - first, d)) if first < g.size[axis] else 0
    if hi[0] < lo[0]:
        hi[0] = lo[0]


cdef bint pads(const Geometry *g) noexcept nogil:
    """Whether any output reads padding."""
    cdef int64_t lo, hi
    cdef int axis
    for axis in range(3):
        taps_inside(g, axis, 0, &lo, &hi)
        if lo > 0 or hi < g.kernel[axis]:
            return True
        taps_inside(g, axis, g.out[axis] - 1, &lo, &hi)
        if lo > 0 or hi < g.kernel[axis]:
            return True
    return False


cpdef double tile_cycles(cycles, double rows, double vectors, double steps, double run, double lines=1) except -1:
    """Cycles of a register tile of `rows` rows and `vectors` vectors of columns: a sum of `steps`, in runs of `run`.

    `cycles` are those of the row, see `lk_tile` in kernels.h: (tile, row, load, pointer, step, rows at once).

    A step multiplies, and loads an element of each row and each vector of columns, which spans `lines` cache lines.
    A run loads the rows' pointers, in part hidden behind multiplications.
    """
    cdef double tile, row, load, pointer, step, rows_at_once, loads
    tile, row, load, pointer, step, rows_at_once = cycles
    loads = (rows + vectors * lines) * load + rows * pointer / max(1.0, run)
    return tile + row * rows + steps * max(ceil(rows / rows_at_once) * rows_at_once * vectors / 2, loads, step)


cdef class PixelTiles:
    """The tiles of a convolution's pixels.

    Parameters
    ----------
    geometry
        See `executor`.
    sizes : (mr, nr, lanes)
        Of the micro-kernel.
    cycles : TileCycles
        Of the micro-kernel.
    channels : (columns, summed, run)
        Of a group: output channels that are written, input channels, how many of those are contiguous.
    leaves_out : bool
        Taps that are padding for all rows of a tile are left out.
    max_block_tiles : int
    threads : int
    by_pixels : bool
        There are blocks for every thread, if there are tiles enough.
    """

    def __init__(self, geometry, sizes, cycles, channels, bint leaves_out, int64_t max_block_tiles,
                 int64_t threads, bint by_pixels=False):
        cdef int64_t image, height, best_height, end
        cdef double most_cycles, best = DBL_MAX
        cdef int mr, nr, lanes
        mr, nr, lanes = sizes
        columns, summed, run = channels
        self.g = geometry_of(geometry)
        cdef Geometry *g = &self.g
        self.taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.rows_at_once = cycles.rows_at_once
        self.groups, self.panels, self.threads = g.groups, ceil_div(columns, nr), threads
        self.max_block_tiles, self.by_pixels = max(1, max_block_tiles), by_pixels
        image = g.out[0] * g.out[1] * g.out[2]
        self.rows = g.n * image
        self.set_cycles(cycles, mr, nr, lanes, columns, summed, run)
        self.period_images, self.period_rows = g.n, self.rows
        self.padded = pads(g)
        self.inside[0] = ceil_div(max(0, g.before[2]), g.stride[2])
        end = g.size[2] + g.before[2] - (g.kernel[2] - 1) * g.dilation[2]  # of positions of the first tap
        self.inside[1] = max(self.inside[0], min(g.out[2], ceil_div(max(0, end), g.stride[2])))
        if leaves_out and self.rows and self.taps <= 64 * MAX_WORDS and image <= MAX_LISTED and self.padded:
            self.period_images = min(g.n, MAX_LISTED // image)
            while g.n % self.period_images:
                self.period_images -= 1
            self.period_rows = self.period_images * image
            self.listed = self.period_images == g.n or self.period_rows >= MIN_TILES * mr
        if self.listed:
            self.list_pixels()
        else:
            self.period_images, self.period_rows = g.n, self.rows
        best_height = mr
        for height in range(mr, 0, -self.rows_at_once):
            self.cut_tiles(height)
            most_cycles = self.busiest()
            if most_cycles < 0.99 * best:
                best, best_height = most_cycles, height
            if threads == 1 or self.tiles * self.panels * self.groups >= FEW_TASKS * threads:
                break
        self.cut_tiles(best_height)
        self.keep_shares()

    def __dealloc__(self):
        free(self.begin)
        free(self.first)
        free(self.row_set)
        free(self.tap_sets)
        free(self.cycles_before)
        free(self.cycles_before_last)

    cdef int keep_shares(self) except -1:
        """Find where the share of each thread begins: a region asks more often than searching is worth."""
        cdef int64_t total = self.groups * self.panels * self.tiles, i
        cdef int64_t *begin = <int64_t *>calloc(self.threads + 1, sizeof(int64_t))
        if begin == NULL:
            raise MemoryError(f"convolution: the shares of {self.threads} threads")
        for i in range(self.threads + 1):
            begin[i] = self.share_begin(0, total, i, self.threads)
        self.begin = begin
        return 0

    @property
    def cycles(self):
        """Cycles of the busiest thread."""
        return self.busiest()

    def of_threads(self):
        """For each thread, the set of tiles of which it begins with some panels."""
        cdef int64_t task, group, block, panel, tile
        shares = []
        for i in range(self.threads):
            of_thread = set()
            for task in range(self.begin[i], self.begin[i + 1]):
                self.decode(task, &group, &block, &panel, &tile)
                of_thread.add(tile)
            shares.append(of_thread)
        return shares

    cdef int set_cycles(self, cycles, int mr, int nr, int lanes, int64_t columns, double summed, double run) except -1:
        """The cycles of a tile by its rows: fixed ones, and those of each tap."""
        cdef int i
        cdef int64_t last = ceil_div(max(1, columns - (self.panels - 1) * nr), lanes)
        for i in range(1, mr + 1):
            self.start[i], self.start_last[i] = (tile_cycles(cycles, i, nr // lanes, 0, 1),
                                                tile_cycles(cycles, i, last, 0, 1))
            self.tap[i] = tile_cycles(cycles, i, nr // lanes, summed, run) - self.start[i]
            self.tap_last[i] = tile_cycles(cycles, i, last, summed, run) - self.start_last[i]
        return 0

    cdef int list_pixels(self) except -1:
        """Find the sets of taps that are inside the input, and the order of the pixels."""
        cdef const Geometry *g = &self.g
        cdef int64_t i, lo, hi, n, row = 0, a, b, c
        cdef uint64_t *bits
        axes = []
        for axis in range(3):
            by_reach = {}
            for i in range(g.out[axis]):
                taps_inside(g, axis, i, &lo, &hi)
                by_reach.setdefault((lo, hi), []).append(i)
            axes.append(list(by_reach.items()))
        self.runs = [(high, wide) for i, high in enumerate(product(axes[0], axes[1]))
                     for wide in (axes[2] if i % 2 == 0 else reversed(axes[2]))]
        self.words = ceil_div(self.taps, 64)
        self.row_set = <int64_t *>calloc(self.period_rows, sizeof(int64_t))
        self.tap_sets = <uint64_t *>calloc(len(self.runs) * self.words, sizeof(uint64_t))
        self.first = <int64_t *>calloc(self.period_rows + 1, sizeof(int64_t))
        self.cycles_before = <double *>calloc(self.period_rows + 1, sizeof(double))
        self.cycles_before_last = <double *>calloc(self.period_rows + 1, sizeof(double))
        if not (self.row_set and self.tap_sets and self.first and self.cycles_before and self.cycles_before_last):
            raise MemoryError(f"convolution: tables of {self.period_rows} pixels")
        for i, ((deep, high), wide) in enumerate(self.runs):
            bits = self.tap_sets + i * self.words
            for a, b, c in product(*(range(*each[0]) for each in (deep, high, wide))):
                n = (a * g.kernel[1] + b) * g.kernel[2] + c
                bits[n // 64] |= <uint64_t>1 << (n % 64)
            n = self.period_images * len(deep[1]) * len(high[1]) * len(wide[1])
            for row in range(row, row + n):
                self.row_set[row] = i
            row += 1
        return 0

    def pixels(self):
        """The pixels of a period in their order: image, depth, height, width."""
        for (deep, high), wide in self.runs:
            yield from product(range(self.period_images), deep[1], high[1], wide[1])

    cdef void cut_tiles(self, int64_t height) noexcept nogil:
        """Cut the pixels into tiles of at most `height` rows: even ones, or listed pixels those of least cost."""
        if self.listed:
            self.cut_listed(height)
            self.sum_cycles()
        else:
            self.period_tiles = self.tiles = ceil_div(self.rows, height)
            if self.owns_tiles():
                self.period_tiles = self.tiles = ceil_div(self.tiles, self.threads) * self.threads
            self.cut_evenly()
        self.period_blocks = max(1, ceil_div(self.period_tiles, self.max_block_tiles))
        if self.owns_tiles():
            self.period_blocks = min(ceil_div(self.period_blocks, self.threads) * self.threads, self.period_tiles)

    cdef bint owns_tiles(self) noexcept nogil:
        """Whether threads have tiles of their own."""
        return self.by_pixels and self.period_tiles >= OWN_TILES * self.threads and self.period_rows == self.rows

    cdef void cut_evenly(self) noexcept nogil:
        """Set the cycles of tiles that are not listed."""
        cdef int64_t units = ceil_div(self.rows, self.rows_at_once), tiles = max(1, self.tiles)
        cdef int64_t rows = units // tiles * self.rows_at_once  # of most tiles, others have more
        cdef double taller = units % tiles / <double>tiles
        self.units, self.units_over = units // tiles, units % tiles
        self.whole = self.start[rows] + self.taps * self.tap[rows]
        self.narrow = self.start_last[rows] + self.taps * self.tap_last[rows]
        if taller > 0:
            rows += self.rows_at_once
            self.whole += taller * (self.start[rows] + self.taps * self.tap[rows] - self.whole)
            self.narrow += taller * (self.start_last[rows] + self.taps * self.tap_last[rows] - self.narrow)

    cdef void cut_listed(self, int64_t height) noexcept nogil:
        """Cut a period into tiles by dynamic programming. Meanwhile cycles_before[i] is the least cost of the rows before i,
        and first[i] where the last of their tiles begins."""
        cdef int64_t i, j, w, rows, tap_set, tiles = 0
        cdef int taps
        cdef uint64_t *bits
        cdef uint64_t together[MAX_WORDS]
        cdef double cycles
        self.cycles_before[0] = 0
        for i in range(1, self.period_rows + 1):
            self.cycles_before[i], taps, tap_set = DBL_MAX, 0, -1
            for w in range(self.words):
                together[w] = 0
            for rows in range(1, min(height, i) + 1):
                if self.row_set[i - rows] != tap_set:
                    tap_set, taps = self.row_set[i - rows], 0
                    bits = self.tap_sets + tap_set * self.words
                    for w in range(self.words):
                        together[w] |= bits[w]
                        taps += popcount(together[w])
                cycles = (self.cycles_before[i - rows]
                          + (self.panels - 1) * (self.start[rows] + taps * self.tap[rows])
                          + self.start_last[rows] + taps * self.tap_last[rows])
                if cycles < self.cycles_before[i]:
                    self.cycles_before[i], self.first[i] = cycles, i - rows
        i = self.period_rows
        while i:  # from the last tile to the first: the ends take the place of the beginnings
            tiles += 1
            j, self.first[i] = self.first[i], -1
            i = j
        j = 0
        for i in range(1, self.period_rows + 1):
            if self.first[i] < 0:
                j += 1
                self.first[j] = i
        self.first[0] = 0
        self.period_tiles, self.tiles = tiles, tiles * (self.rows // self.period_rows)

    cdef void sum_cycles(self) noexcept nogil:
        """Set the cycles before each tile of a period."""
        cdef int64_t i, j, w, rows
        cdef int taps
        cdef uint64_t together
        self.cycles_before[0] = self.cycles_before_last[0] = 0
        for i in range(self.period_tiles):
            rows, taps = self.first[i + 1] - self.first[i], 0
            for w in range(self.words):
                together = 0
                for j in range(self.first[i], self.first[i + 1]):
                    together |= self.tap_sets[self.row_set[j] * self.words + w]
                taps += popcount(together)
            self.cycles_before[i + 1] = self.cycles_before[i] + self.start[rows] + taps * self.tap[rows]
            self.cycles_before_last[i + 1] = (self.cycles_before_last[i] + self.start_last[rows]
                                              + taps * self.tap_last[rows])

    cdef int64_t row(self, int64_t tile) noexcept nogil:
        """The first row of a tile, in its period."""
        if self.listed:
            return self.first[tile % self.period_tiles]
        return min(self.rows, self.rows_at_once * (self.units * tile + self.units_over * tile // max(1, self.tiles)))

    cdef int64_t end(self, int64_t tile) noexcept nogil:
        """The row after the last one of a tile, in its period."""
        return self.first[tile % self.period_tiles + 1] if self.listed else self.row(tile + 1)

    cdef int64_t block(self, int64_t block) noexcept nogil:
        """The first tile of a block. No block has tiles of two periods."""
        return (block // self.period_blocks * self.period_tiles
                + share(self.period_tiles, self.period_blocks, block % self.period_blocks))

    cdef void decode(self, int64_t task, int64_t *group, int64_t *block, int64_t *panel, int64_t *tile) noexcept nogil:
        """Decode a task."""
        cdef int64_t each = self.groups * self.panels, first = task // each, count, rest  # first: a tile of the block
        block[0] = (first // self.period_tiles * self.period_blocks
                    + share_of(self.period_tiles, self.period_blocks, first % self.period_tiles))
        first = self.block(block[0])
        count = self.block(block[0] + 1) - first
        rest = task - first * each
        group[0], rest = rest // (self.panels * count), rest % (self.panels * count)
        panel[0], tile[0] = rest // count, first + rest % count

    cdef double task_cycles(self, int64_t task) noexcept nogil:
        """The cycles of all tasks before `task`."""
        cdef int64_t group, block, panel, tile, first, last, of_period
        if task == self.groups * self.panels * self.tiles:
            if not self.listed:
                return self.groups * self.tiles * ((self.panels - 1) * self.whole + self.narrow)
            return self.groups * (self.rows // self.period_rows) * self.cycles_between(0, self.period_tiles)
        self.decode(task, &group, &block, &panel, &tile)
        first, last = self.block(block), self.block(block + 1)
        if not self.listed:
            return ((self.groups * first + group * (last - first)) * ((self.panels - 1) * self.whole + self.narrow)
                    + panel * (last - first) * self.whole
                    + (tile - first) * (self.whole if panel + 1 < self.panels else self.narrow))
        of_period = first // self.period_tiles
        first, last, tile = (first - of_period * self.period_tiles, last - of_period * self.period_tiles,
                             tile - of_period * self.period_tiles)
        of_period *= self.groups
        return (of_period * self.cycles_between(0, self.period_tiles) + self.groups * self.cycles_between(0, first)
                + group * self.cycles_between(first, last) + panel * (self.cycles_before[last] - self.cycles_before[first])
                + (self.cycles_before[tile] - self.cycles_before[first] if panel + 1 < self.panels
                   else self.cycles_before_last[tile] - self.cycles_before_last[first]))

    cdef double cycles_between(self, int64_t first, int64_t last) noexcept nogil:
        """The cycles of listed tiles [first, last) of a period, of all panels of a group."""
        return ((self.panels - 1) * (self.cycles_before[last] - self.cycles_before[first])
                + self.cycles_before_last[last] - self.cycles_before_last[first])

    cdef int64_t share_begin(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil:
        """Where a part of tasks [first, end) begins, if all parts are to take equally long."""
        cdef int64_t low = first, high = end, middle
        cdef double from_, goal
        if part == 0 or part == parts:
            return end if part else first
        if self.begin != NULL and parts == self.threads and first == 0 and end == self.begin[parts]:
            return self.begin[part]
        from_ = self.task_cycles(first)
        goal = from_ + (self.task_cycles(end) - from_) * part / parts
        while low < high:
            middle = (low + high) // 2
            if self.task_cycles(middle) < goal:
                low = middle + 1
            else:
                high = middle
        if low > first and goal - self.task_cycles(low - 1) < self.task_cycles(low) - goal:
            low -= 1
        return low

    cdef double busiest(self) noexcept nogil:
        """Cycles of the busiest thread, as they were shared."""
        cdef int64_t total = self.groups * self.panels * self.tiles, i, at = 0, next_
        cdef double most = 0
        for i in range(self.threads if total else 0):
            next_ = self.share_begin(0, total, i + 1, self.threads)
            most = max(most, self.task_cycles(next_) - self.task_cycles(at))
            at = next_
        return most

    cdef void period_offsets(self, const int64_t *x_stride, const int64_t *y_stride, int64_t *x_row, int64_t *y_row,
                             uint32_t *mask):
        """As `offsets`, of a period of listed pixels, from its first image on; masks are 0 before."""
        cdef const Geometry *g = &self.g
        cdef int64_t i, t = 0, tap, axis
        cdef const uint64_t *bits
        for i, (image, *pixel) in enumerate(self.pixels()):
            x_row[i], y_row[i] = image * x_stride[0], image * y_stride[0]
            for axis in range(3):
                x_row[i] += (pixel[axis] * g.stride[axis] - g.before[axis]) * x_stride[axis + 1]
                y_row[i] += pixel[axis] * y_stride[axis + 1]
            if i == self.first[t + 1]:
                t += 1
            bits = self.tap_sets + self.row_set[i] * self.words
            for tap in range(self.taps):
                if bits[tap // 64] >> (tap % 64) & 1:
                    mask[t * self.taps + tap] |= <uint32_t>1 << (i - self.first[t])

    cdef void offsets(self, int64_t first, int64_t last, const int64_t *x_stride, const int64_t *y_stride, int64_t *x_row,
                      int64_t *y_row, uint32_t *mask) noexcept nogil:
        """The offsets at which each pixel of tiles [first, last) reads (its first tap) and writes; with padding, the masks
        [tiles][taps] of the rows for which a tap is inside. Pixels are in the order of memory."""
        cdef const Geometry *g = &self.g
        cdef int64_t row = self.row(first), end, run, i, axis, rest = row, x_at = 0, y_at = 0
        cdef int64_t x_step = g.stride[2] * x_stride[3], y_step = y_stride[3]
        cdef int64_t pixel[4]
        cdef int64_t lo, hi
        cdef uint64_t bit, all_taps  # wider than a mask: a run may fill a tile of 32 rows
        cdef bint begins = True, inside = True  # a row of the image; its taps along depth and height
        for axis in range(2, -1, -1):
            pixel[axis + 1], rest = rest % g.out[axis], rest // g.out[axis]
        pixel[0] = rest
        while first < last:
            first = first + 1 if self.padded else last  # without masks all tiles are done at once
            end, bit, all_taps = self.row(first), 1, 0
            if self.padded:
                memset(mask, 0, sizeof(uint32_t) * self.taps)
            while row < end:
                if begins:
                    x_at, y_at = pixel[0] * x_stride[0], pixel[0] * y_stride[0]
                    for axis in range(3):
                        x_at += (pixel[axis + 1] * g.stride[axis] - g.before[axis]) * x_stride[axis + 1]
                        y_at += pixel[axis + 1] * y_stride[axis + 1]
                    inside = True
                    for axis in range(2):
                        taps_inside(g, axis, pixel[axis + 1], &lo, &hi)
                        inside &= hi - lo == g.kernel[axis]
                if not self.padded:
                    run = min(end - row, g.out[2] - pixel[3])
                else:
                    run = 1
                    if inside and self.inside[0] <= pixel[3] < self.inside[1]:
                        run = min(end - row, self.inside[1] - pixel[3])
                        all_taps |= ((<uint64_t>1 << run) - 1) * bit
                    else:
                        self.mark_taps(pixel, <uint32_t>bit, mask)
                    bit <<= run
                for i in range(run):
                    x_row[i], y_row[i] = x_at + i * x_step, y_at + i * y_step
                x_row, y_row, x_at, y_at = x_row + run, y_row + run, x_at + run * x_step, y_at + run * y_step
                row += run
                pixel[3] += run
                begins = pixel[3] == g.out[2]
                for axis in range(2, -1, -1):  # the odometer, with carries
                    if pixel[axis + 1] < g.out[axis]:
                        break
                    pixel[axis + 1] = 0
                    pixel[axis] += 1
            if all_taps:
                for i in range(self.taps):
                    mask[i] |= <uint32_t>all_taps
            mask += self.taps

    cdef void mark_taps(self, const int64_t *pixel, uint32_t bit, uint32_t *mask) noexcept nogil:
        """Set a bit in the masks of the taps with which a pixel reads inside the input."""
        cdef const Geometry *g = &self.g
        cdef int64_t lo[3]
        cdef int64_t hi[3]
        cdef int64_t a, b, c
        for a in range(3):
            taps_inside(g, <int>a, pixel[a + 1], &lo[a], &hi[a])
        for a in range(lo[0], hi[0]):
            for b in range(lo[1], hi[1]):
                for c in range(lo[2], hi[2]):
                    mask[(a * g.kernel[1] + b) * g.kernel[2] + c] |= bit
