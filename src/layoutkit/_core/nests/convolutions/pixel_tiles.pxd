"""Tiles of output pixels, and the tasks that they make."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from ..executor cimport Geometry

cpdef double tile_cycles(cycles, double rows, double vectors, double steps, double run, double lines=*) except -1


cdef class PixelTiles:
    cdef Geometry g
    cdef readonly bint listed        # pixels of a period are in the order of `pixels`; else all in the order of memory
    cdef readonly bint padded        # some output reads padding
    cdef readonly int64_t tiles      # of all pixels
    cdef int64_t rows, taps, groups, panels, threads
    cdef int64_t period_images, period_rows, period_tiles, period_blocks
    cdef int64_t max_block_tiles
    cdef bint by_pixels              # threads have blocks of their own
    cdef int64_t rows_at_once        # rows that an instruction multiplies: tiles that are not listed have multiples of it
    cdef int64_t units, units_over   # of as many rows: of every tile that is not listed, and those that are left for all
    cdef double whole, narrow        # cycles of a tile that is not listed, on average: of a panel, of the last one
    cdef int64_t *begin              # the first task of each thread, and the end of the last
    cdef int64_t inside[2]           # along the width, the outputs [first, last) that read no padding
    cdef int64_t *first              # the first row of each tile of a period, and their end
    cdef int64_t *row_set            # of each row of a period: which of the sets of taps it reads inside the input
    cdef int64_t words               # of a set, 64 taps each
    cdef uint64_t *tap_sets
    cdef list runs                   # of pixels with the same set: positions along (depth, height), width
    cdef double start[33]            # cycles of a tile by its rows, fixed ones and those of each tap:
    cdef double tap[33]              # of a panel,
    cdef double start_last[33]
    cdef double tap_last[33]         # of the last one
    cdef double *cycles_before       # each tile of a period: of a panel,
    cdef double *cycles_before_last  # of the last one

    cdef int64_t row(self, int64_t tile) noexcept nogil
    cdef int64_t end(self, int64_t tile) noexcept nogil
    cdef int64_t block(self, int64_t block) noexcept nogil
    cdef void decode(self, int64_t task, int64_t *group, int64_t *block, int64_t *panel, int64_t *tile) noexcept nogil
    cdef double cycles_between(self, int64_t first, int64_t last) noexcept nogil
    cdef double task_cycles(self, int64_t task) noexcept nogil
    cdef int64_t share_begin(self, int64_t first, int64_t end, int64_t part, int64_t parts) noexcept nogil
    cdef int list_pixels(self) except -1
    cdef int set_cycles(self, cycles, int mr, int nr, int lanes, int64_t columns, double summed, double run) except -1
    cdef void cut_tiles(self, int64_t height) noexcept nogil
    cdef int keep_shares(self) except -1
    cdef bint owns_tiles(self) noexcept nogil
    cdef void cut_evenly(self) noexcept nogil
    cdef void cut_listed(self, int64_t height) noexcept nogil
    cdef void sum_cycles(self) noexcept nogil
    cdef double busiest(self) noexcept nogil
    cdef void period_offsets(self, const int64_t *x_stride, const int64_t *y_stride, int64_t *x_row, int64_t *y_row,
                             uint32_t *mask)
    cdef void offsets(self, int64_t first, int64_t last, const int64_t *x_stride, const int64_t *y_stride, int64_t *x_row,
                      int64_t *y_row, uint32_t *mask) noexcept nogil
    cdef void mark_taps(self, const int64_t *pixel, uint32_t bit, uint32_t *mask) noexcept nogil
