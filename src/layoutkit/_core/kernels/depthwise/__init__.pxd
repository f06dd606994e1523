from libc.stdint cimport int32_t, int64_t, uint32_t

from ..gemm cimport lk_rounding

cdef extern from "depthwise/depthwise.h" nogil:
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

cdef extern from "depthwise/plane_strips.h" nogil:
    ctypedef struct lk_plane_strips:
        const char *x
        int64_t x_row
        const void *w
        const void *bias
        char *y
        int64_t y_row, rows, top, bottom, x_plane, y_plane
        const uint32_t *x_lanes
        uint32_t y_lanes
        int step, vectors, planes, masked, positive, far
        const void *clip
    ctypedef void (*lk_plane_strips_fn)(const lk_plane_strips *) noexcept nogil

cdef extern from "depthwise/depthwise_dot.h" nogil:
    int LK_READ_PARTS, LK_READ_RUN, LK_READ_PIECES
    ctypedef struct lk_depthwise_dot:
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
        const int64_t *s_size
        int64_t s_row, s_col, columns, first, end, begin, step, apart
        uint32_t flip, lanes
        int quads, kw, rows, packed_rows, cols, vectors, pieces, reading, segments, s_whole, s_bytes
        const lk_rounding *out
    ctypedef void (*lk_depthwise_dot_fn)(const lk_depthwise_dot *) noexcept nogil

cdef extern from "depthwise/strips.h" nogil:
    ctypedef struct lk_strips:
        const char *x
        int64_t x_row, x_col
        const void *w
        const void *bias
        char *y
        int64_t y_row, y_col, rows, top, bottom, vectors
        uint32_t inside, x_lanes, y_lanes
        int cols, step, positive, wide, far
        const void *clip
    ctypedef void (*lk_strips_fn)(const lk_strips *) noexcept nogil
