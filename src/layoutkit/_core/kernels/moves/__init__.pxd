from libc.stdint cimport int64_t

cdef extern from "moves/drain.h" nogil:
    enum:
        LK_MIN_DRAINED_BYTES
    ctypedef struct lk_drain:
        const char *src
        char *dst
        char *tails
        const int64_t *from_ "from"
        const int64_t *to
        int64_t runs, bytes
        int continues, goes_on
    ctypedef void (*lk_drain_fn)(const lk_drain *) noexcept nogil

cdef extern from "moves/move.h" nogil:
    ctypedef struct lk_move:
        const char *src
        char *dst
        int64_t n0, n1, s0, s1, d0, d1
        int64_t in0, out_d0, in1, out_s1
        int64_t valid
        const char *pad
        int64_t prefetch_bytes
        int stream
    ctypedef void (*lk_move_fn)(const lk_move *) noexcept nogil
    enum:
        LK_MAX_DIGITS
