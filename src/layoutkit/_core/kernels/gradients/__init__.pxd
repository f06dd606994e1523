from libc.stdint cimport int64_t, uint32_t

cdef extern from "gradients/outer.h" nogil:
    ctypedef struct lk_outer:
        const char *a
        const char *b
        const char *next
        char *c
        const int64_t *a_row
        const int64_t *b_row
        int64_t a_step, b_step, c_row, next_step, rows, steps
        int vectors, accumulate
    ctypedef void (*lk_outer_fn)(const lk_outer *) noexcept nogil

cdef extern from "gradients/tap_sums.h" nogil:
    ctypedef struct lk_tap_sums:
        const char *x
        const char *y
        char *c
        const int64_t *tap
        const int64_t *sum
        int64_t x_row, x_step, y_row, y_step, rows, steps
        int taps
        uint32_t lanes
    ctypedef void (*lk_tap_sums_fn)(const lk_tap_sums *) noexcept nogil
