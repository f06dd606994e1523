from libc.stdint cimport int32_t, int64_t

cdef extern from "blend/blend.h" nogil:
    ctypedef struct lk_blend_rows:
        const char *const *x
        char *y
        const void *weight
        int64_t taps, count
    ctypedef void (*lk_blend_rows_fn)(const lk_blend_rows *) noexcept nogil
    ctypedef struct lk_blend_pixels:
        const char *x
        char *y
        const int32_t *at
        const void *weight
        int64_t taps, count, unit, y_step, rows, x_row, y_row
    ctypedef void (*lk_blend_pixels_fn)(const lk_blend_pixels *) noexcept nogil
