from libc.stdint cimport int64_t

cdef extern from "pooling/pooling.h" nogil:
    ctypedef struct lk_pooling:
        const char *x
        int64_t x_depth, x_row, x_col
        char *y
        int64_t y_col, depths, rows, cols, taps, step, dilation, before, size, count
        const void *scale
        double factor
        float ratio
        int x_zero, y_zero
    ctypedef void (*lk_pooling_fn)(const lk_pooling *) noexcept nogil
    ctypedef struct lk_pooling_back:
        lk_pooling window
        char *dx
        int64_t dx_depth, dx_row, dx_col
    ctypedef void (*lk_pooling_back_fn)(const lk_pooling_back *) noexcept nogil

cdef extern from "pooling/plane_pooling.h" nogil:
    enum:
        LK_PLANE_BYTES
    ctypedef struct lk_plane_pooling:
        const char *x
        int64_t x_depth, x_row
        char *y
        int64_t y_row, depths, rows, cols
        int64_t row_taps, row_step, row_dilation, row_before, row_size
        int64_t taps, step, dilation, before, size
        const float *row_scale
        const float *scale
        float factor
        char *scratch
    ctypedef void (*lk_plane_pooling_fn)(const lk_plane_pooling *) noexcept nogil
