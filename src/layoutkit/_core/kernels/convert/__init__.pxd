from libc.stdint cimport int64_t

cdef extern from "convert/convert.h" nogil:
    ctypedef struct lk_convert:
        const char *src
        char *dst
        int64_t n0, n1, s0, s1, d0, d1
        const char *sub
        const char *mul
        const char *inv
        const char *off
        const char *high
        const char *low
        const char *add
        int64_t p0, p1
        double alpha, beta
        int64_t prefetch_bytes
        int src_type, dst_type, divide, sum, stream
    ctypedef void (*lk_convert_fn)(const lk_convert *) noexcept nogil

cdef extern from "convert/pairs.h" nogil:
    ctypedef struct lk_packed:
        const char *src
        char *dst
        int64_t n0, n1, at, s0, s1, d0
        int is_signed
    ctypedef void (*lk_packed_fn)(const lk_packed *) noexcept nogil
