"""What every convolution's loop nest is made of: the geometry, shares of work, the executor they all extend."""

from libc.stdint cimport int64_t

from .registry cimport LK_CLIP, lk_finish, lk_finish_fn, lk_gemm, lk_gemm_fn

cdef enum:
    MAX_COLS = 64    # columns of the widest tile
    MAX_ROWS = 32    # rows of the tallest: a mask has a bit for each
    # An output of more bytes than this is not in L2, or will not be: lines of it are fetched before they are written,
    # so many tiles before.
    FETCHED = 512 << 10
    NEXT_TILES = 4


cdef struct Geometry:
    int64_t n, groups, oc  # oc: output channels of a group
    int64_t size[3]        # of the input
    int64_t out[3]
    int64_t kernel[3]
    int64_t stride[3]
    int64_t dilation[3]
    int64_t before[3]      # padding


cdef inline int64_t ceil_div(int64_t a, int64_t b) noexcept nogil:
    return (a + b - 1) // b


cdef inline int64_t share(int64_t total, int64_t parts, int64_t i) noexcept nogil:
    """Where the i-th of `parts` even shares of `total` starts."""
    return total // parts * i + min(i, total % parts)


cdef inline int64_t aligned(int64_t n) noexcept nogil:
    return (n + 63) // 64 * 64


cdef inline bint clips(const lk_finish *finish, const char *y, float *limits, bint pads) noexcept nogil:
    """Whether all that follows the sums is a clip that a kernel can do before it stores; its limits."""
    if finish == NULL or finish.what != LK_CLIP or (finish.add != NULL and finish.add != y):
        return False
    limits[0], limits[1] = finish.lo, finish.hi
    return not pads or finish.lo <= 0 <= finish.hi  # pads stay 0


cdef struct ChannelRows:
    lk_gemm tile
    lk_finish finish
    float limits[2]
    bint finishes           # something follows that the tile does not do itself
    int64_t row[MAX_ROWS]
    int64_t c_row[MAX_ROWS]
    int64_t c_col[MAX_COLS]


cdef class Executor:
    cdef lk_gemm_fn tile
    cdef lk_finish_fn finish
    cdef Geometry g
    cdef int mr, nr, lanes
    cdef int64_t total              # tiles in all
    cdef int64_t ws_thread          # bytes of workspace per thread
    cdef readonly int threads
    cdef bint accumulates           # can add to what the output holds
    cdef public bint positive       # zeros that come out are

    cdef void run(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                  char *workspace, int64_t chunk, int64_t chunks) noexcept nogil
    cdef void part(self, const char *x, const float *w, const float *bias, const lk_finish *finish, char *y,
                   char *workspace, int64_t task, int64_t end) noexcept nogil
    cdef list positions(self, bint leaves_out)
    cdef tuple pixels_of(self, int64_t x_image, const int64_t *x_pixel, int64_t y_image, const int64_t *y_pixel,
                         bint leaves_out)
    cdef void finish_rows(self, const lk_finish *finish, char *y, int64_t offset, const int64_t *row, int64_t rows,
                          int64_t channel, int64_t count) noexcept nogil
    cdef void channel_rows(self, ChannelRows *r, const lk_finish *finish, const char *y, int64_t filter_step,
                           int64_t channel_step) noexcept nogil
    cdef void channel_tile(self, ChannelRows *r, const char *y, int64_t channel) noexcept nogil
