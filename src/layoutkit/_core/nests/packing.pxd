"""Copies of short runs, and of matrices between strides, by the kernels that are fastest for them; panels, and the tiles that
read them."""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from ..kernels cimport LK_COPY, LK_GATHER, LK_TRANSPOSE
from ..kernels.gemm cimport lk_gemm
from ..kernels.moves cimport lk_move, lk_move_fn
from ..runtime.registry cimport best_row

cdef extern from *:
    """
    /* n bytes; short runs by two moves that overlap, without a call. */
    static inline void copy_run(char *to, const char *from, size_t n)
    {
    #define ENDS(size) (memcpy(to, from, size), memcpy(to + n - size, from + n - size, size))
        if (n > 64)
            memcpy(to, from, n);
        else if (n >= 32)
            ENDS(32);
        else if (n >= 16)
            ENDS(16);
        else if (n >= 8)
            ENDS(8);
        else if (n >= 4)
            ENDS(4);
        else if (n >= 2)
            ENDS(2);
        else if (n)
            *to = *from;
    #undef ENDS
    }

    /* Flips bits of n bytes, a multiple of 4. */
    static inline void flip_run(char *at, size_t n, uint32_t bits)
    {
        for (size_t i = 0; i < n; i += 4) {
            uint32_t x;
            memcpy(&x, at + i, 4);
            x ^= bits;
            memcpy(at + i, &x, 4);
        }
    }
    """
    void copy_run(char *to, const char *from_, size_t n) noexcept nogil
    void flip_run(char *at, size_t n, uint32_t bits) noexcept nogil


cdef struct Moves:
    lk_move_fn copy, transpose, gather
    int item  # bytes of an element


cdef inline Moves moves_of(int item) except *:
    cdef Moves moves
    width = f"x{8 * item}"
    moves.item = item
    moves.copy = <lk_move_fn>best_row(LK_COPY, "x8").fn
    moves.transpose = <lk_move_fn>best_row(LK_TRANSPOSE, width).fn
    moves.gather = <lk_move_fn>best_row(LK_GATHER, width).fn
    return moves


cdef inline void move(const Moves *moves, const char *src, int64_t s_row, int64_t s_col, char *dst, int64_t d_row,
                      int64_t d_col, int64_t rows, int64_t cols) noexcept nogil:
    """Copy rows x cols elements between byte strides."""
    cdef lk_move m
    cdef int64_t item = moves.item
    if rows <= 0 or cols <= 0:
        return
    memset(&m, 0, sizeof(lk_move))
    m.src, m.dst = src, dst
    m.n0, m.n1, m.s0, m.s1, m.d0, m.d1 = rows, cols, s_row, s_col, d_row, d_col
    if (s_col == item or cols == 1) and (d_col == item or cols == 1):
        m.n1, m.s1, m.d1 = cols * item, 1, 1
        moves.copy(&m)
    elif s_row == item and d_col == item:
        moves.transpose(&m)
    elif s_col == item and d_row == item:
        m.n0, m.n1, m.s0, m.s1, m.d0, m.d1 = cols, rows, s_col, s_row, d_col, d_row
        moves.transpose(&m)
    else:
        moves.gather(&m)


cdef inline void pack_panels(const Moves *moves, const char *src, int64_t s_row, int64_t s_col, char *dst,
                             int64_t panel_bytes, int64_t nr, int64_t lanes, int64_t k, int64_t cols) noexcept nogil:
    """Pack a matrix k x cols as panels [k][nr], with zeros up to whole vectors of columns."""
    cdef int64_t item = moves.item
    while cols > 0:
        if min(nr, cols) % lanes:
            memset(dst, 0, k * nr * item)
        move(moves, src, s_row, s_col, dst, nr * item, item, k, min(nr, cols))
        src += nr * s_col
        dst += panel_bytes
        cols -= nr


cdef enum:
    PRODUCT_CHUNK = 192  # products whose sum is added to the total of a product of matrices


cdef inline void begin_tile(lk_gemm *tile, const int64_t *zero_tap, int64_t *c_col, int64_t vectors,
                            int64_t vector_bytes) noexcept nogil:
    """Set the fields that are the same in all tiles of a product of matrices."""
    cdef int64_t j
    memset(tile, 0, sizeof(lk_gemm))
    tile.tap, tile.taps, tile.blocks, tile.chunk, tile.period = zero_tap, 1, 1, PRODUCT_CHUNK, <int64_t>1 << 62
    tile.c_col = c_col
    for j in range(vectors):
        c_col[j] = j * vector_bytes
