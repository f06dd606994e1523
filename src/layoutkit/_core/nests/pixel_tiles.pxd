"""Tiles of output pixels, and the tasks that they make."""

from libc.stdint cimport int64_t, uint64_t

from .executor cimport Geometry, ceil_div


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


cdef inline bint pads(const Geometry *g) noexcept nogil:
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


cpdef double tile_cycles(cycles, double rows, double vectors, double steps, double run, double lines=*) except -1


cdef class PixelTiles:
    cdef Geometry g
    cdef readonly bint listed        # pixels of a period are in the order of `pixels`; else all as they come
    cdef readonly int64_t tiles      # of all pixels
    cdef int64_t rows, taps, groups, panels, threads
    cdef int64_t period_images, period_rows, period_tiles, period_blocks
    cdef int64_t most                # tiles of a block
    cdef int64_t at_once             # rows that an instruction multiplies: tiles that are not listed are whole such
    cdef int64_t *first              # the first row of each tile of a period, and their end
    cdef int64_t *kind               # of each row of a period: which of the sets of taps it reads inside the input
    cdef int64_t words
    cdef uint64_t *inside            # the sets: `words` of bits each
    cdef list runs
    cdef double start[33]            # cycles of a tile by its rows: of a panel, of the last one
    cdef double tap[33]
    cdef double start_last[33]
    cdef double tap_last[33]
    cdef double *whole               # cycles before each tile of a period: of a panel, of the last one
    cdef double *last

    cdef int64_t row(self, int64_t tile) noexcept nogil
    cdef int64_t height(self, int64_t tile) noexcept nogil
    cdef int64_t block(self, int64_t block) noexcept nogil
    cdef void find(self, int64_t task, int64_t *group, int64_t *block, int64_t *panel, int64_t *tile) noexcept nogil
    cdef double before(self, int64_t task) noexcept nogil
    cdef int64_t cut(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil
    cdef int list_pixels(self) except -1
    cdef int measure(self, cycles, int mr, int nr, int lanes, int64_t columns, double summed, double run) except -1
    cdef void tile_pixels(self, int64_t height) noexcept nogil
    cdef double longest(self) noexcept nogil
