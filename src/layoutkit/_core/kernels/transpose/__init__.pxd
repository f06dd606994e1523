from libc.stdint cimport int64_t, int8_t, uint64_t

from ..moves cimport lk_move, lk_move_fn

cdef extern from "transpose/transpose.h" nogil:
    enum:
        LK_MAX_LOOPS, LK_PANEL_IN_BYTES, LK_PANEL_OUT_BYTES, LK_PANEL_BYTES, LK_SLAB_BYTES, LK_TAILS_BYTES
    ctypedef struct lk_nest:
        lk_move_fn fn
        lk_move tile
        int64_t src, dst, tasks
        int width, loops
        int64_t n[32]
        int64_t s[32]
        int64_t d[32]
    ctypedef void (*lk_panel_fn)(const lk_nest *, const char *, char *, int64_t, int64_t, char *) noexcept nogil
    enum:
        LK_MAX_FUSED, LK_MAX_FUSED_PANEL, LK_MAX_JOINED_ROWS, LK_MAX_JOINED_RUN_BYTES, LK_MAX_FUSED_TABLE
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
        const uint64_t *masks
        const char *orders
        const int8_t *lane_registers
        const char *pad_vectors
    enum:
        LK_MAX_STRINGS
    ctypedef struct lk_strings:
        int64_t run, count, parts
        int64_t string_step[16]
        int64_t part_step[16]
        const int64_t *next "next"
        const int64_t *before
    ctypedef struct lk_fused:
        lk_fused_loop columns, rows
        const int64_t *sizes
        int64_t period, panel, unit
        const char *pad
        lk_windows windows
        lk_strings strings
    ctypedef void (*lk_fused_fn)(const lk_nest *, const lk_fused *, const char *, char *, int64_t, int64_t,
                                 char *) noexcept nogil
