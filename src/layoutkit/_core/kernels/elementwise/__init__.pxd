from libc.stdint cimport int32_t, int64_t

cdef extern from "elementwise/add.h" nogil:
    ctypedef struct lk_scale:
        float scale
        int32_t zero
    ctypedef struct lk_add:
        const char *a
        const char *b
        char *y
        int64_t a_row, b_row, y_row, rows, count
        const void *clip
        lk_scale of_a, of_b, of_y
    ctypedef void (*lk_add_fn)(const lk_add *) noexcept nogil

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
