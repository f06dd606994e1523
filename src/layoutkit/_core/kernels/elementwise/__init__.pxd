from libc.stdint cimport int32_t, int64_t, uint8_t

cdef extern from "elementwise/epilogue.h" nogil:
    enum:
        LK_STEP_CLIP, LK_STEP_SUM, LK_STEP_MUL, LK_STEP_COUNT, LK_MAX_STEPS, LK_NUMBER, LK_PER_CHANNEL, LK_TENSOR
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
    const char *lk_step_name(int step)
    double lk_step_ulps(int step)

cdef extern from "elementwise/elementwise.h" nogil:
    enum:
        LK_PIECE_BYTES
    ctypedef struct lk_matrix:
        char *at
        int64_t row, col
        int element, zero
        float scale
    ctypedef struct lk_elementwise:
        lk_matrix x, y
        int steps
        const lk_step *step
        const lk_matrix *operand
        int64_t rows, count
        char *scratch
        const uint8_t *table
    ctypedef void (*lk_elementwise_fn)(const lk_elementwise *) noexcept nogil
