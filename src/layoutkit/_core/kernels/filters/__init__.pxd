from libc.stdint cimport int32_t, int64_t

cdef extern from "filters/filters.h" nogil:
    enum:
        LK_WEIGH_EACH, LK_WEIGH_SUMS, LK_WEIGH_DIFFERENCES, LK_WEIGH_PLAIN, LK_WEIGH_BAND, LK_WEIGH_BAND_SUMS,
        LK_WEIGH_BAND_DIFFERENCES, LK_WEIGH_HALVES, LK_WEIGH_SECTIONS, LK_WEIGH_BAND_EACH,
        LK_BAND_ROWS, LK_END_NONE, LK_END_MEAN, LK_END_WHOLE, LK_END_CAST, LK_FOLD_LEAST, LK_FOLD_LARGEST,
        LK_RANK_NETWORK, LK_RANK_COLUMNS, LK_RANK_SLIDE
    ctypedef struct lk_combine:
        const char *const *x
        char *y
        int64_t taps, count
        const void *weight
        int kind, element, end, to
        double size
        const int32_t *network
        int64_t steps, rank
        void *scratch
        int64_t rows, y_row
        const int32_t *fixed
        int fraction, doubt
        int64_t unit
        const char *ahead
        int64_t ahead_row
        int stream
    ctypedef void (*lk_combine_fn)(const lk_combine *) noexcept nogil
    ctypedef struct lk_cast_row:
        const char *x
        char *y
        int64_t count
        int element
    ctypedef void (*lk_cast_fn)(const lk_cast_row *) noexcept nogil
    ctypedef struct lk_round_row:
        const char *x
        char *y
        int64_t count
        int element
        double doubt, slope
        int32_t *doubtful
        int64_t *found
    ctypedef void (*lk_round_fn)(const lk_round_row *) noexcept nogil

cdef extern from "filters/sample.h" nogil:
    enum:
        LK_SAMPLE_MARGIN, LK_SAMPLE_RANK
    ctypedef struct lk_sample:
        const void *x
        const int64_t *const *offset
        const double *const *at
        const double *line
        int64_t number
        const int64_t *size
        void *y
        int own
        int64_t count
        int rank, order, mode
        double constant
        int rounds
        double least, most
    ctypedef void (*lk_sample_fn)(const lk_sample *) noexcept nogil
