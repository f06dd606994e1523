from libc.stdint cimport int64_t

cdef extern from "lrn/lrn.h" nogil:
    ctypedef struct lk_lrn:
        const char *x
        int64_t x_pixel
        char *y
        int64_t y_pixel, pixels, count, below, above
        void *squares
        double bias, scale
    ctypedef void (*lk_lrn_fn)(const lk_lrn *) noexcept nogil
