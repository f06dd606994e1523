from libc.stdint cimport int64_t

cdef extern from "take/take.h" nogil:
    ctypedef struct lk_take:
        const char *x
        char *y
        const int64_t *at
        int64_t count, unit, y_step, step, repeat, rows, copies, x_row, y_row
        const void *beside
    ctypedef void (*lk_take_fn)(const lk_take *) noexcept nogil
