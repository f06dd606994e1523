from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "winograd/winograd.h" nogil:
    ctypedef struct lk_winograd_in:
        const char *src
        int64_t row, col
        int row0, row1, col0, col1
        int64_t channels, block, block_stride
        void *v
        int64_t v_stride
        const void *k
        uint8_t pad, flip
    ctypedef void (*lk_winograd_in_fn)(const lk_winograd_in *) noexcept nogil
    ctypedef struct lk_winograd_out:
        const void *m
        int64_t m_stride
        char *dst
        int64_t row, col
        int rows, cols
        int64_t channels, block, block_stride
        const void *bias
        const void *k
    ctypedef void (*lk_winograd_out_fn)(const lk_winograd_out *) noexcept nogil
    ctypedef struct lk_winograd_filter:
        const void *w
        int64_t w_stride
        int count, width, nh, nw, rh, rw
        const double *gh
        const double *gw
        void *u
        int64_t u_stride
    ctypedef void (*lk_winograd_filter_fn)(const lk_winograd_filter *) noexcept nogil
    ctypedef struct lk_winograd_expand:
        const void *w
        int64_t channels, width
        int n, rows
        const void *k
        void *u
        int64_t u_stride
    ctypedef void (*lk_winograd_expand_fn)(const lk_winograd_expand *) noexcept nogil
    ctypedef struct lk_winograd_taps:
        const char *u
        int64_t u_stride
        char *dst
        int64_t dst_stride, count
        int nh, accumulate
        const void *k
    ctypedef void (*lk_winograd_taps_fn)(const lk_winograd_taps *) noexcept nogil

cdef extern from "winograd/extent.h" nogil:
    ctypedef struct lk_extent:
        const float *w
        int64_t rows, count
        int32_t least, most
    ctypedef void (*lk_extent_fn)(lk_extent *) noexcept nogil
