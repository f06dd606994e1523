from libc.stdint cimport int64_t

cdef extern from "normalise/moments.h" nogil:
    ctypedef struct lk_moments:
        const char *x
        int64_t x_row, rows, count
        int by_column, about_zero
        double *mean
        double *squares
    ctypedef void (*lk_moments_fn)(const lk_moments *) noexcept nogil

cdef extern from "normalise/scale.h" nogil:
    ctypedef struct lk_scaling:
        const char *x
        const char *add
        char *y
        int64_t x_row, add_row, y_row, rows, count
        const float *mean
        const float *factor
        const float *shift
        const float *scale
        const float *bias
        int by_column
        float limit
    ctypedef void (*lk_scaling_fn)(const lk_scaling *) noexcept nogil

cdef extern from "normalise/softmax.h" nogil:
    ctypedef struct lk_softmax:
        const char *x
        char *y
        int64_t x_row, y_row, rows, count
        int by_column, logarithm
    ctypedef void (*lk_softmax_fn)(const lk_softmax *) noexcept nogil

cdef extern from "normalise/softmax_bytes.h" nogil:
    enum:
        LK_HIGH_ROW
    ctypedef struct lk_softmax_bytes:
        const char *x
        char *y
        int64_t x_row, y_row, rows, count
        const float *high
        const float *low
        float y_scale
        int zero, x_signed, y_signed
    ctypedef void (*lk_softmax_bytes_fn)(const lk_softmax_bytes *) noexcept nogil

cdef extern from "normalise/reduce.h" nogil:
    enum:
        LK_FOLD_SUM, LK_FOLD_ABSOLUTE, LK_FOLD_SQUARES, LK_FOLD_PRODUCT, LK_FOLD_MAX, LK_FOLD_MIN, LK_FOLD_POWERS
    ctypedef struct lk_reduce:
        const char *x
        int64_t x_row, rows, count
        int by_column, fold
        double *into
        const double *maxima
    ctypedef void (*lk_reduce_fn)(const lk_reduce *) noexcept nogil

cdef extern from "normalise/slopes.h" nogil:
    ctypedef struct lk_slopes:
        const char *x
        const char *dy
        const char *y
        char *dx
        char *d
        int64_t x_row, dy_row, y_row, dx_row, d_row, rows, count
        const float *mean
        const float *factor
        const float *shift
        const float *slope
        const float *offset
        double *sums
        double *products
        int by_column
        float limit
    ctypedef void (*lk_slopes_fn)(const lk_slopes *) noexcept nogil
