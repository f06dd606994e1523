from libc.stdint cimport int64_t

cdef extern from "attention/weights.h" nogil:
    ctypedef struct lk_weights:
        char *s
        int64_t s_row
        const char *mask
        int64_t mask_row, mask_col, rows, count
        double scale
        char *maxima
        char *sums
        char *factors
    ctypedef void (*lk_weights_fn)(const lk_weights *) noexcept nogil
