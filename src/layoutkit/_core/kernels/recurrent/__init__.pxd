from libc.stdint cimport int64_t

cdef extern from "recurrent/recurrent.h" nogil:
    enum:
        LK_LSTM, LK_GRU, LK_GRU_GATES, LK_GRU_HIDDEN, LK_RNN_TANH, LK_RNN_RELU, LK_CELL_COUNT
    ctypedef struct lk_recurrent:
        int cell, rows
        int64_t hidden
        const char *x
        int64_t x_row, x_gate
        const char *h
        int64_t h_row
        const char *r
        const char *bias
        const char *before
        int64_t before_row
        char *state
        int64_t state_row
        char *y
        int64_t y_row
    ctypedef void (*lk_recurrent_fn)(const lk_recurrent *) noexcept nogil
