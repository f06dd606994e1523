from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "kernels.h" nogil:
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
        int c_split, accumulate, resume, positive, rows, cols, narrow, pads
        uint32_t flip
        const void *clip
        const char *to_prefetch
        int64_t to_prefetch_bytes
        const char *next_c
        const int64_t *next_c_row
        int64_t beside
        const lk_rounding *out
    ctypedef void (*lk_gemm_fn)(const lk_gemm *) noexcept nogil

    ctypedef struct lk_depthwise_tile:
        int64_t x, y
        const uint32_t *x_mask
        const uint32_t *y_mask
        int cols, whole, edges
    ctypedef struct lk_depthwise:
        const char *x
        int64_t x_row, x_col, x_tap, x_vector
        const int64_t *tap
        const uint32_t *inside
        const uint32_t *square
        const void *clip
        const void *w
        const void *bias
        char *y
        int64_t y_row, y_col, y_vector
        const lk_depthwise_tile *tile
        const int32_t *order
        const int64_t *x_at
        const uint32_t *x_lanes
        const uint32_t *y_lanes
        const uint32_t *full
        char *copy
        const int64_t *copy_at
        const int64_t *copy_tap
        const int64_t *copy_bytes
        const uint32_t *copy_inside
        int64_t copy_pixel
        int rows, tiles, vectors, taps, depth, kw, step, positive, copies
    ctypedef void (*lk_depthwise_fn)(const lk_depthwise *) noexcept nogil

    ctypedef struct lk_strips:
        const char *x
        int64_t x_row, x_col
        const void *w
        const void *bias
        char *y
        int64_t y_row, y_col, rows, top, bottom, vectors
        uint32_t inside, x_lanes, y_lanes
        int cols, step, positive, wide
        const void *clip
    ctypedef void (*lk_strips_fn)(const lk_strips *) noexcept nogil

    ctypedef struct lk_plane_strips:
        const char *x
        int64_t x_row
        const void *w
        const void *bias
        char *y
        int64_t y_row, rows, top, bottom, x_plane, y_plane
        const uint32_t *x_lanes
        uint32_t y_lanes
        int vectors, planes, masked, positive
        const void *clip
    ctypedef void (*lk_plane_strips_fn)(const lk_plane_strips *) noexcept nogil

    ctypedef struct lk_pooling:
        const char *x
        int64_t x_depth, x_row, x_col
        char *y
        int64_t y_col, depths, rows, cols, taps, step, dilation, before, size, count
        const void *scale
        double factor
    ctypedef void (*lk_pooling_fn)(const lk_pooling *) noexcept nogil

    ctypedef struct lk_pooling_back:
        lk_pooling window
        char *dx
        int64_t dx_depth, dx_row, dx_col
    ctypedef void (*lk_pooling_back_fn)(const lk_pooling_back *) noexcept nogil

    ctypedef struct lk_lrn:
        const char *x
        int64_t x_pixel
        char *y
        int64_t y_pixel, pixels, count, below, above
        void *squares
        double bias, scale
    ctypedef void (*lk_lrn_fn)(const lk_lrn *) noexcept nogil

    ctypedef struct lk_scale:
        float scale
        int zero
    ctypedef struct lk_add:
        const char *a
        const char *b
        char *y
        int64_t a_row, b_row, y_row, rows, count
        const void *clip
        lk_scale of_a, of_b, of_y
    ctypedef void (*lk_add_fn)(const lk_add *) noexcept nogil

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

    enum:
        LK_STEP_CLIP, LK_STEP_SUM, LK_STEP_COUNT, LK_MAX_STEPS, LK_NUMBER, LK_PER_CHANNEL, LK_TENSOR
    ctypedef struct lk_step:
        int step, kind
        const char *numbers
        const char *operand
    ctypedef struct lk_epilogue:
        char *y
        const char *add
        char *sums
        int64_t sums_row
        const float *mul
        const float *off
        float scale
        int zero, x_zero
        const int64_t *row
        int64_t offset, rows, count, channel
        int channel_row, channel_col
        int steps, keeps_zero
        const lk_step *step
    ctypedef void (*lk_epilogue_fn)(const lk_epilogue *) noexcept nogil

    ctypedef struct lk_quads:
        const char **row
        const int64_t *column
        const int64_t *at
        const int64_t *bytes
        const char *order
        const char *zero
        char *panel
        const char *w
        const char *bias
        char *s
        const int64_t *s_at
        int64_t s_row, s_col, columns, first, end, begin, step, apart
        uint32_t flip, lanes
        int quads, kw, rows, packed_rows, cols, vectors, pieces, whole, segments, s_whole, s_bytes
        const lk_rounding *out
    ctypedef void (*lk_quads_fn)(const lk_quads *) noexcept nogil

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
        LK_MAX_DIGITS, LK_MAX_LOOPS, LK_PANEL_IN_BYTES, LK_PANEL_OUT_BYTES, LK_PANEL_BYTES, LK_SLAB_BYTES, LK_TAILS_BYTES, LK_MIN_DRAINED_BYTES
    ctypedef struct lk_nest:
        lk_move_fn fn
        lk_move tile
        int64_t src, dst, tasks
        int width, loops
        int64_t n[32]
        int64_t s[32]
        int64_t d[32]
    ctypedef struct lk_drain:
        const char *src
        char *dst
        char *tails
        const int64_t *from_ "from"
        const int64_t *to
        int64_t runs, bytes
        int continues, goes_on
    ctypedef void (*lk_drain_fn)(const lk_drain *) noexcept nogil
    ctypedef void (*lk_panel_fn)(const lk_nest *, const char *, char *, int64_t, int64_t, char *) noexcept nogil

    enum:
        LK_MAX_FUSED
        LK_MAX_FUSED_PANEL
        LK_MAX_JOINED_ROWS
        LK_MAX_JOINED_RUN_BYTES
        LK_MAX_FUSED_TABLE
    int64_t LK_NOWHERE
    ctypedef struct lk_fused_loop:
        int digits
        int64_t count
        int64_t n[16]
        int64_t step[16]
        const int64_t *table
    ctypedef struct lk_windows:
        int64_t vectors
        const int64_t *ends
        const int64_t *at
        const uint64_t *takes
        const char *orders
        const int8_t *kinds
        const char *firsts
    ctypedef struct lk_fused:
        lk_fused_loop columns, rows
        const int64_t *sizes
        int64_t period, panel, unit
        const char *pad
        lk_windows windows
    ctypedef void (*lk_fused_fn)(const lk_nest *, const lk_fused *, const char *, char *, int64_t, int64_t,
                                 char *) noexcept nogil

    ctypedef struct lk_winograd_in:
        const char *src
        int64_t row, col
        int row0, row1, col0, col1
        int64_t channels, block, block_stride
        void *v
        int64_t v_stride
        const void *k
        uint8_t pad, flip
    ctypedef void (*lk_winograd_in_fn)(const lk_winograd_in *) noexcept nogil

    ctypedef struct lk_winograd_out:
        const void *m
        int64_t m_stride
        char *dst
        int64_t row, col
        int rows, cols
        int64_t channels, block, block_stride
        const void *bias
        const void *k
    ctypedef void (*lk_winograd_out_fn)(const lk_winograd_out *) noexcept nogil

    ctypedef struct lk_winograd_filter:
        const void *w
        int64_t w_stride
        int count, width, nh, nw, rh, rw
        const double *gh
        const double *gw
        void *u
        int64_t u_stride
    ctypedef void (*lk_winograd_filter_fn)(const lk_winograd_filter *) noexcept nogil

    ctypedef struct lk_winograd_taps:
        const char *u
        int64_t u_stride
        char *dst
        int64_t dst_stride, count
        int nh, accumulate
        const void *k
    ctypedef void (*lk_winograd_taps_fn)(const lk_winograd_taps *) noexcept nogil

    ctypedef struct lk_extent:
        const float *w
        int64_t rows, count
        int32_t least, most
    ctypedef void (*lk_extent_fn)(lk_extent *) noexcept nogil

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

    ctypedef struct lk_packed:
        const char *src
        char *dst
        int64_t n0, n1, at, s0, s1, d0
        int is_signed
    ctypedef void (*lk_packed_fn)(const lk_packed *) noexcept nogil

    ctypedef double (*lk_peak_fn)(int64_t) noexcept nogil

    enum:
        LK_GEMM, LK_DEPTHWISE, LK_STRIPS, LK_PLANE_STRIPS, LK_POOLING, LK_LRN, LK_ADD, LK_QUADS, LK_OUTER, LK_TAP_SUMS, LK_EPILOGUE, LK_COPY, LK_TRANSPOSE, LK_GATHER, LK_FILL, LK_PANEL, LK_FUSED, LK_JOINED, LK_RUNS, LK_WINDOWS, LK_DRAIN, LK_CONVERT,
        LK_UNPACK, LK_PACK, LK_PEAK, LK_WINOGRAD_IN, LK_WINOGRAD_OUT, LK_WINOGRAD_FILTER, LK_WINOGRAD_TAPS, LK_POOLING_BACK, LK_EXTENT, LK_FAMILY_COUNT, LK_ISA_COUNT
        LK_F32, LK_F64, LK_F16, LK_BF16, LK_S32, LK_S8, LK_U8, LK_TYPE_COUNT

    ctypedef struct lk_kernel:
        const char *name
        int family, isa
        const char *types
        int lanes, mr, nr, unit
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
    const char *lk_step_name(int step)
    double lk_step_ulps(int step)
    int lk_isa_supported(int isa)

cdef const lk_kernel *row_named(str name) except NULL
cdef const lk_kernel *best_row(int family, str types) except NULL
cdef const lk_kernel *row_of(int family, str types, int isa) except NULL
cdef const lk_types *types_named(str name) except NULL
cdef int element_bytes(int element) noexcept
cdef str element_name(int element)
