"""Tiles of output pixels: which pixels are the rows of a register tile together, and how threads share the tiles.

A tile skips the taps that are padding for all of its rows. So the pixels of small images are sorted by the taps that
they read, and cut into tiles where that costs the least. The order is a snake: along the width of one class of image
rows, then back along that of the next, so that neighbours share taps wherever a tile begins.

A task is a tile and a panel of output channels; tasks are ordered by group, block of tiles, panel, and tile. Threads
share them by cost, so that they end together although tiles skip taps and the last panel may be narrow. If there are
few tasks, tiles get fewer rows where otherwise a thread would have no work.
"""

from libc.float cimport DBL_MAX
from libc.math cimport ceil
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

from itertools import product

from .executor cimport Geometry, ceil_div, geometry_of, row_of_tile, share, share_of


cdef enum:
    MAX_LISTED = 2048      # pixels that are sorted: in larger images few are at the border
    MAX_WORDS = 16         # of the set of taps, each of 64 taps
    MIN_TILES = 4        # in a period of a large batch, so that its last tile wastes little
    FEW_TASKS = 24         # per thread: with more, whole tiles are balanced well enough

cpdef double tile_cycles(cycles, double rows, double vectors, double steps, double run, double lines=1) except -1:
    """Cycles of a register tile of so many rows and vectors of columns: a sum of `steps`, in runs of `run`.

    `cycles` are those that the row states, see `lk_tile` in kernels.h: (tile, row, load, pointer, step, rows at once).

    A step multiplies, and loads an element of each row and each vector of columns, which spans `lines` cache lines.
    A run loads the rows' pointers, in part hidden behind multiplications.
    """
    cdef double tile, row, load, pointer, step, at_once, loads
    tile, row, load, pointer, step, at_once = cycles
    loads = (rows + vectors * lines) * load + rows * pointer / max(1.0, run)
    return tile + row * rows + steps * max(ceil(rows / at_once) * at_once * vectors / 2, loads, step)


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
    most : int
        Tiles of a block, at most.
    threads : int
    """

    def __init__(self, geometry, sizes, cycles, channels, bint leaves_out, int64_t most, int64_t threads):
        cdef int64_t image, height, best_height
        cdef double most_cycles, best = DBL_MAX
        cdef int mr, nr, lanes
        mr, nr, lanes = sizes
        columns, summed, run = channels
        self.g = geometry_of(geometry)
        cdef Geometry *g = &self.g
        self.taps = g.kernel[0] * g.kernel[1] * g.kernel[2]
        self.at_once = cycles.rows_at_once
        self.groups, self.panels, self.threads, self.most = g.groups, ceil_div(columns, nr), threads, max(1, most)
        image = g.out[0] * g.out[1] * g.out[2]
        self.rows = g.n * image
        self.measure(cycles, mr, nr, lanes, columns, summed, run)
        self.period_images, self.period_rows = g.n, self.rows
        if leaves_out and self.rows and self.taps <= 64 * MAX_WORDS and image <= MAX_LISTED and pads(g):
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
        for height in range(mr, 0, -self.at_once):
            self.tile_pixels(height)
            most_cycles = self.longest()
            if most_cycles < 0.99 * best:
                best, best_height = most_cycles, height
            if threads == 1 or self.tiles * self.panels * self.groups >= FEW_TASKS * threads:
                break
        self.tile_pixels(best_height)

    def __dealloc__(self):
        free(self.first)
        free(self.kind)
        free(self.inside)
        free(self.whole)
        free(self.last)

    @property
    def cycles(self):
        """Cycles of the busiest thread."""
        return self.longest()

    cdef int measure(self, cycles, int mr, int nr, int lanes, int64_t columns, double summed, double run) except -1:
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
        self.kind = <int64_t *>calloc(self.period_rows, sizeof(int64_t))
        self.inside = <uint64_t *>calloc(len(self.runs) * self.words, sizeof(uint64_t))
        self.first = <int64_t *>calloc(self.period_rows + 1, sizeof(int64_t))
        self.whole = <double *>calloc(self.period_rows + 1, sizeof(double))
        self.last = <double *>calloc(self.period_rows + 1, sizeof(double))
        if not (self.kind and self.inside and self.first and self.whole and self.last):
            raise MemoryError(f"convolution: tables of {self.period_rows} pixels")
        for i, ((deep, high), wide) in enumerate(self.runs):
            bits = self.inside + i * self.words
            for a, b, c in product(*(range(*each[0]) for each in (deep, high, wide))):
                n = (a * g.kernel[1] + b) * g.kernel[2] + c
                bits[n // 64] |= <uint64_t>1 << (n % 64)
            n = self.period_images * len(deep[1]) * len(high[1]) * len(wide[1])
            for row in range(row, row + n):
                self.kind[row] = i
            row += 1
        return 0

    def pixels(self):
        """The pixels of a period in their order: image, depth, height, width."""
        for (deep, high), wide in self.runs:
            yield from product(range(self.period_images), deep[1], high[1], wide[1])

    cdef void tile_pixels(self, int64_t height) noexcept nogil:
        """Cut the pixels into tiles of at most `height`: even ones, or for sorted pixels those of least cost."""
        cdef int64_t i, j, w, rows, at, tiles = 0
        cdef int taps
        cdef uint64_t *bits
        cdef uint64_t together[MAX_WORDS]
        cdef double cycles
        if not self.listed:
            self.period_tiles = self.tiles = ceil_div(self.rows, height)
            self.period_blocks = max(1, ceil_div(self.tiles, self.most))
            return
        # whole[i]: the least cost of all rows before i; first[i]: where the last of their tiles begins
        self.whole[0] = 0
        for i in range(1, self.period_rows + 1):
            self.whole[i], taps, at = DBL_MAX, 0, -1
            for w in range(self.words):
                together[w] = 0
            for rows in range(1, min(height, i) + 1):
                if self.kind[i - rows] != at:
                    at, taps = self.kind[i - rows], 0
                    bits = self.inside + at * self.words
                    for w in range(self.words):
                        together[w] |= bits[w]
                        taps += popcount(together[w])
                cycles = (self.whole[i - rows] + (self.panels - 1) * (self.start[rows] + taps * self.tap[rows])
                          + self.start_last[rows] + taps * self.tap_last[rows])
                if cycles < self.whole[i]:
                    self.whole[i], self.first[i] = cycles, i - rows
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
        self.period_tiles = tiles
        self.tiles = tiles * (self.rows // self.period_rows)
        self.period_blocks = ceil_div(tiles, self.most)
        self.whole[0] = self.last[0] = 0
        for i in range(tiles):
            rows, taps = self.first[i + 1] - self.first[i], 0
            for w in range(self.words):
                together[0] = 0
                for j in range(self.first[i], self.first[i + 1]):
                    together[0] |= self.inside[self.kind[j] * self.words + w]
                taps += popcount(together[0])
            self.whole[i + 1] = self.whole[i] + self.start[rows] + taps * self.tap[rows]
            self.last[i + 1] = self.last[i] + self.start_last[rows] + taps * self.tap_last[rows]

    cdef int64_t row(self, int64_t tile) noexcept nogil:
        """The first row of a tile, in its period."""
        if self.listed:
            return self.first[tile % self.period_tiles]
        return row_of_tile(self.rows, self.at_once, self.tiles, tile)

    cdef int64_t height(self, int64_t tile) noexcept nogil:
        """The rows of a tile."""
        if not self.listed:
            return self.row(tile + 1) - self.row(tile)
        return self.first[tile % self.period_tiles + 1] - self.first[tile % self.period_tiles]

    cdef int64_t block(self, int64_t block) noexcept nogil:
        """The first tile of a block. No block has tiles of two periods."""
        return (block // self.period_blocks * self.period_tiles
                + share(self.period_tiles, self.period_blocks, block % self.period_blocks))

    cdef void find(self, int64_t task, int64_t *group, int64_t *block, int64_t *panel, int64_t *tile) noexcept nogil:
        """Decode a task."""
        cdef int64_t rest = task % (self.panels * self.tiles), first, count
        group[0] = task // (self.panels * self.tiles)
        first = rest // self.panels  # a tile of the block
        block[0] = (first // self.period_tiles * self.period_blocks
                    + share_of(self.period_tiles, self.period_blocks, first % self.period_tiles))
        first = self.block(block[0])
        count = self.block(block[0] + 1) - first
        rest -= first * self.panels
        panel[0], tile[0] = rest // count, first + rest % count

    cdef double before(self, int64_t task) noexcept nogil:
        """Cycles of all tasks before `task`."""
        cdef int64_t group, block, panel, tile, first, last, of_period
        cdef double whole, narrow, taller
        if not self.listed:  # tiles have one of two heights
            last = ceil_div(self.rows, self.at_once)
            first, taller = self.at_once * (last // self.tiles), last % self.tiles / <double>self.tiles
            whole = self.start[first] + self.taps * self.tap[first]
            narrow = self.start_last[first] + self.taps * self.tap_last[first]
            if taller > 0:
                first += self.at_once
                whole += taller * (self.start[first] + self.taps * self.tap[first] - whole)
                narrow += taller * (self.start_last[first] + self.taps * self.tap_last[first] - narrow)
        if task == self.groups * self.panels * self.tiles:
            if not self.listed:
                return self.groups * self.tiles * ((self.panels - 1) * whole + narrow)
            return self.groups * (self.rows // self.period_rows) * (
                (self.panels - 1) * self.whole[self.period_tiles] + self.last[self.period_tiles])
        self.find(task, &group, &block, &panel, &tile)
        first, last = self.block(block), self.block(block + 1)
        if not self.listed:
            return ((group * self.tiles + first) * ((self.panels - 1) * whole + narrow) + panel * (last - first) * whole
                    + (tile - first) * (whole if panel + 1 < self.panels else narrow))
        of_period = first // self.period_tiles
        first, last, tile = (first - of_period * self.period_tiles, last - of_period * self.period_tiles,
                             tile - of_period * self.period_tiles)
        of_period += group * (self.rows // self.period_rows)
        return (of_period * ((self.panels - 1) * self.whole[self.period_tiles] + self.last[self.period_tiles])
                + (self.panels - 1) * self.whole[first] + self.last[first]
                + panel * (self.whole[last] - self.whole[first])
                + (self.whole[tile] - self.whole[first] if panel + 1 < self.panels
                   else self.last[tile] - self.last[first]))

    cdef int64_t cut(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil:
        """Where a part of tasks [first, end) begins, if all parts are to take equally long."""
        cdef int64_t low = first, high = end, middle
        cdef double from_, goal
        if part == 0 or part == parts:
            return end if part else first
        from_ = self.before(first)
        goal = from_ + (self.before(end) - from_) * part / parts
        while low < high:
            middle = (low + high) // 2
            if self.before(middle) < goal:
                low = middle + 1
            else:
                high = middle
        if low > first and goal - self.before(low - 1) < self.before(low) - goal:
            low -= 1
        return low

    cdef double longest(self) noexcept nogil:
        """Cycles of the busiest thread, as they were shared."""
        cdef int64_t total = self.groups * self.panels * self.tiles, i, at = 0, next_
        cdef double most = 0
        for i in range(self.threads if total else 0):
            next_ = self.cut(0, total, i + 1, self.threads)
            most = max(most, self.before(next_) - self.before(at))
            at = next_
        return most
