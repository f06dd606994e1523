from libc.stdint cimport int64_t

cdef extern from "kernels.h" nogil:
    int64_t LK_NOWHERE
    enum:
        LK_GEMM, LK_GEMM_S16, LK_GEMM_GROUPS, LK_DEPTHWISE, LK_STRIPS, LK_PLANE_STRIPS, LK_POOLING, LK_PLANE_POOLING, LK_LRN,
        LK_DEPTHWISE_DOT, LK_OUTER,
        LK_TAP_SUMS, LK_EPILOGUE, LK_ELEMENTWISE, LK_COPY, LK_TRANSPOSE, LK_GATHER, LK_FILL, LK_PANEL, LK_FUSED, LK_JOINED,
        LK_RUNS, LK_SCATTER, LK_WINDOWS, LK_DRAIN, LK_CONVERT, LK_UNPACK, LK_PACK, LK_PEAK, LK_WINOGRAD_IN, LK_WINOGRAD_OUT,
        LK_WINOGRAD_FILTER, LK_WINOGRAD_EXPAND, LK_WINOGRAD_TAPS, LK_POOLING_BACK, LK_EXTENT, LK_MOMENTS,
        LK_SCALE, LK_SOFTMAX, LK_SOFTMAX_BYTES, LK_REDUCE, LK_SLOPE_SUMS, LK_SLOPES, LK_RECURRENT, LK_TAKE, LK_BLEND_ROWS,
        LK_BLEND_PIXELS, LK_WEIGHTS, LK_WEIGH, LK_WIDEN, LK_CAST, LK_FOLD, LK_RANK, LK_SAMPLE, LK_ROUND, LK_DIVIDE, LK_FAMILY_COUNT, LK_ISA_COUNT, LK_F32,
        LK_F64, LK_F16, LK_BF16, LK_S32, LK_S8, LK_U8, LK_TYPE_COUNT
    ctypedef struct lk_tile:
        const char *peak
        double lane_flops
        int k_tile, fills_k, strided_a, alignment
        double tile_cycles, row_cycles, load_cycles, pointer_cycles, step_cycles
        int rows_at_once, components
        void (*split_row)(char *to, const char *from_, int64_t k) noexcept nogil
        void (*split_panel)(char *to, const char *from_, int64_t k) noexcept nogil
    ctypedef struct lk_kernel:
        const char *name
        int family, isa
        const char *types
        int lanes, mr, nr, kr
        const lk_tile *tile
        void (*enter)() noexcept nogil
        void (*leave)() noexcept nogil
        void (*fn)() noexcept nogil
    ctypedef struct lk_types:
        const char *name
        int src, filter, sum, dst
    const lk_types *lk_all_types()
    const char *lk_element_name(int element)
    int lk_element_bytes(int element)
    const lk_kernel *const *lk_all_kernels()
    const char *lk_isa_name(int isa)
    const char *lk_family_name(int family)
    int lk_isa_supported(int isa)
    int lk_isa_emulated(int isa)
    int lk_has_tiles()
