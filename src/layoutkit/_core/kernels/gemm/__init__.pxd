from libc.stdint cimport int64_t, uint32_t, uint8_t

cdef extern from "gemm/gemm.h" nogil:
    ctypedef struct lk_rounding:
        float mul[64]
        float off[64]
        uint8_t least[64]
        uint8_t most[64]
        int zero, sign, apart, adds, shifts
    ctypedef struct lk_gemm:
        const char *a
        const int64_t *row
        const int64_t *tap
        const int64_t *step
        const uint32_t *mask
        const void *zero
        int64_t taps, blocks, block_stride, kb, kb_last, chunk, period
        const char *b
        int64_t ldb
        const int64_t *b_tap
        const int64_t *b_row
        const void *bias_col
        const void *bias_row
        char *c
        const int64_t *c_row
        const int64_t *c_col
        int c_split, accumulate, resume, positive, rows, cols, reads_on, narrow, residual, pads
        uint32_t flip
        int leaves_out
        const void *clip
        const char *to_prefetch
        int64_t to_prefetch_bytes
        const char *next_c
        const int64_t *next_c_row
        int64_t residual_offset
        const lk_rounding *out
    ctypedef void (*lk_gemm_fn)(const lk_gemm *) noexcept nogil

cdef extern from "gemm/gemm_s16.h" nogil:
    ctypedef struct lk_gemm_s16:
        const char *a
        int64_t a_row
        const char *b
        int64_t ldb
        char *c
        int64_t c_row, steps
        int rows, cols, accumulate
        const char *to_prefetch
        int64_t to_prefetch_bytes
    ctypedef void (*lk_gemm_s16_fn)(const lk_gemm_s16 *) noexcept nogil
