"""Rows of the input in a buffer, padded, where the pixels that a register tile reads lie equally far apart."""

from libc.stdint cimport int64_t, uint32_t

from ..executor cimport Geometry
from ..packing cimport Moves


cdef class StagedRows:
    cdef Geometry g
    cdef Moves moves
    cdef bint folded                # the taps of a row are channels of a pixel
    cdef bint sparse                # one pixel is staged for each output
    cdef int64_t x_stride[4]
    cdef int64_t blocks, block_stride, run, run_last  # the channels of a pixel of the input
    cdef int64_t channel_bytes      # of a staged pixel
    cdef int64_t pixel_bytes        # the same, filled up to whole units
    cdef int64_t pitch              # from a staged pixel to the next
    cdef int64_t step               # staged pixels from an output to the next
    cdef int64_t width              # positions of a row of outputs
    cdef int64_t left, right        # the staged pixels [left, right) of a row are those of the input
    cdef int64_t row_bytes
    cdef int64_t zeros_behind       # bytes of zeros after the last row
    cdef int64_t columns            # taps of a row of the kernel
    cdef int64_t taps
    cdef int64_t sorts              # of rows of the input, by their remainder
    cdef int64_t sort_rows          # staged rows of each
    cdef int64_t *sort              # of the taps along the height
    cdef int64_t *remainder         # of each sort
    cdef int64_t *low               # of each sort: the rows [low, high] that the first outputs read
    cdef int64_t *high
    cdef int64_t reach              # the largest of those
    cdef bint reads_on              # beyond the last positions others of their distance may be read, up to a whole tile
    cdef int64_t plane_bytes        # of the rows of an image, or of a plane of it
    cdef int64_t bytes              # of the buffer
    cdef int64_t *tap               # offsets of the taps

    cdef void lay_out(self, int64_t positions) noexcept nogil
    cdef void fill(self, const char *x, int64_t first, int64_t last, char *buffer, int zero, uint32_t flip) noexcept nogil
    cdef void fill_row(self, const char *x, char *to, int zero) noexcept nogil
    cdef void fill_pixels(self, const char *x, int64_t x_step, char *to, int64_t count) noexcept nogil
    cdef void offsets(self, int64_t first, int64_t last, const int64_t *y_stride, int64_t *x_row,
                      int64_t *y_row) noexcept nogil
