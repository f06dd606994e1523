from libc.stdint cimport int64_t

cdef extern from "divide/divide.h" nogil:
    enum:
        LK_QUOTIENT, LK_REMAINDER, LK_MODULO
    ctypedef struct lk_divide:
        const char *x
        const char *d
        char *y
        int64_t count
        int what, one_x, one_d
    ctypedef void (*lk_divide_fn)(const lk_divide *) noexcept nogil
