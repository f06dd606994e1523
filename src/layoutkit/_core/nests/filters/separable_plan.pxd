"""What a filter of one axis after another is made of: windows, strips, segments, and what a thread needs."""

from libc.stdint cimport int64_t

from ...kernels.filters cimport lk_cast_fn, lk_combine, lk_combine_fn
from ..operation cimport Operation

cdef enum:
    MAX_LOOPS = 32


cdef struct Window:
    int64_t n                # of the axis
    int64_t span             # places of a window
    int64_t before           # of them, those before the element
    int64_t x, y             # byte strides
    const int64_t *place     # of each row that is combined
    const int64_t *source    # by position from the first place of the first window on: the element, -1: the constant
    lk_combine combine
    bint exists
    bint running             # whether windows of lines or points are made of shorter ones


cdef class SeparablePlan(Operation):
    cdef lk_combine_fn combine
    cdef lk_cast_fn widen, cast
    cdef Window planes, lines, points
    cdef int x_element, element, y_element
    cdef int64_t x_item, item, y_item, count, unit, strip, strips, segment, segments, loops, total
    cdef int64_t size[MAX_LOOPS]
    cdef int64_t x_stride[MAX_LOOPS]
    cdef int64_t y_stride[MAX_LOOPS]
    cdef int64_t group, groups, bands            # of planes at a time; of lines
    cdef bint band                               # whether a kernel makes so many lines at a time
    cdef bint folds, reals
    cdef int64_t piece, piece_bytes, buffers_at  # places of points that are combined at a time; two buffers of theirs
    cdef bint rings                              # rows of lines lie in a ring: results of planes, or copies
    cdef int64_t ring_row, ring_bytes, line_at, line_bytes, out_bytes, table_bytes, thread_bytes
    cdef const char *x_constant
    cdef const char *constant
    cdef int64_t chunks
    cdef int threads
    cdef bint streams
    cdef int set_window(self, Window *w, windows, int element) except -1
    cdef bint in_bands(self, const lk_combine *c) noexcept nogil
    cdef int divide(self, int threads, list windows, constant, str between, int64_t cache) except -1
