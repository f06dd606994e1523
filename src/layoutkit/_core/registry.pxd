from libc.stdint cimport int64_t, uint32_t

cdef extern from "kernels.h" nogil:
    ctypedef struct lk_gemm:
        const char *a
        const int64_t *row
        const int64_t *tap
        const uint32_t *mask
        const float *zero
        int64_t taps, blocks, block_stride, kb, kb_last
        const float *b
        int64_t ldb
        const float *bias_col
        const float *bias_row
        char *c
        const int64_t *c_row
        const int64_t *c_col
        int c_split, accumulate, rows, cols
        const char *ahead
        int64_t ahead_bytes
    ctypedef void (*lk_gemm_fn)(const lk_gemm *) noexcept nogil

    ctypedef struct lk_move:
        const char *src
        char *dst
        int64_t n0, n1, s0, s1, d0, d1, ahead
        int stream
    ctypedef void (*lk_move_fn)(const lk_move *) noexcept nogil

    ctypedef struct lk_convert:
        const char *src
        char *dst
        int64_t n0, n1, s0, d0
        const char *sub
        const char *mul
        const char *inv
        const char *add
        int64_t p0, p1
        double alpha, beta
        int64_t ahead
        int src_type, dst_type, divide, sum, stream
    ctypedef void (*lk_convert_fn)(const lk_convert *) noexcept nogil

    ctypedef double (*lk_peak_fn)(int64_t) noexcept nogil

    enum:
        LK_GEMM, LK_COPY, LK_TRANSPOSE, LK_GATHER, LK_FILL, LK_CONVERT, LK_PEAK, LK_FAMILY_COUNT, LK_ISA_COUNT
        LK_F32, LK_F64, LK_F16, LK_BF16, LK_S32, LK_S8, LK_U8

    ctypedef struct lk_kernel:
        const char *name
        int family, isa, bits, mr, nr
        void (*fn)() noexcept nogil

    const lk_kernel *const *lk_all_kernels()
    const char *lk_isa_name(int isa)
    int lk_isa_supported(int isa)

cdef const lk_kernel *row_named(str name) except NULL
cdef const lk_kernel *best_row(int family, int bits) except NULL
