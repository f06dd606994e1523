#ifndef LAYOUTKIT_DEPTHWISE_DOT_H
#define LAYOUTKIT_DEPTHWISE_DOT_H

#include "gemm/gemm.h"
#include "kernels.h"

enum { LK_READ_PARTS, LK_READ_RUN, LK_READ_PIECES }; /* `reading` of lk_depthwise_dot */

/* Depthwise convolution of integers, u8 (or, with `flip`, s8) by s8, for one or two output rows of a tile of columns and
 * a run of as many channels as a vector has bytes:
 *
 *   s[r][j] = bias + sum over quads g, taps b, i < 4 of x[4g + i][begin + step*j + apart*b] * w[g][b][r][i]
 *
 * r < rows, j < cols, in sums of s32 that wrap around. x[u] is the row of the input that is made for this sum, at
 * row[u] + column[..] bytes, where the 16 channels of piece k begin at at[k]. Only bytes[k] of them are read; the sums of
 * the others are anything. Rows that are NULL and columns that are LK_NOWHERE are `zero`, as many bytes as a vector. The
 * bits of `flip` are flipped in every four bytes: so s8 becomes u8. `reading`:
 *
 *   LK_READ_RUN     the pieces are whole and follow one another
 *   LK_READ_PIECES  they are anywhere, maybe of several columns: then there are `segments` shares of as many pieces, one
 *                   after another, and column[i * segments + k] is that of share k
 *   LK_READ_PARTS   the first `pieces` are anywhere in one column, each in the order order[k] if `order` is not NULL;
 *                   with vectors of 16 bytes always
 *
 * First columns [first, end) are gathered to the panel, [quads][columns][4 vectors][lanes][4], aligned to 64 bytes. The
 * panel already has the rest of what a tile reads, of the same rows and channels. Lane l of vector v is channel
 * 16 (l / 4) + 4 v + l % 4, in the panel, in w, which has packed_rows for r, and in the bias.
 * Sums are stored with the channels in their order, vector v of s[r][j] at s + s_at[v] + r * s_row + j * s_col, of the last
 * one of `vectors` the lanes `lanes`, 0: all.
 * With `out`, but not with vectors of 16 bytes, sums are rounded to bytes, s_bytes of them: its `mul` and `off` are in the
 * order of the panel, `least` and `most` in that of channels. `s_whole`: they are stored in one; else piece k goes to
 * s_at[k], s_size[k] bytes of it, of all pieces of a vector. Results may be stored twice. */
typedef struct {
    const char *const *row; /* [4 * quads] */
    const int64_t *column;
    const int64_t *at, *bytes; /* of all pieces of a vector; with LK_READ_PARTS [pieces] */
    const char *order;         /* [pieces][16], or NULL */
    const char *zero;
    char *panel;
    const char *w;    /* [quads][kw][4 vectors][packed_rows][lanes][4] */
    const char *bias; /* [4 vectors][lanes], or NULL */
    char *s;
    const int64_t *s_at, *s_size;
    int64_t s_row, s_col, columns, first, end, begin, step, apart;
    uint32_t flip, lanes;
    int quads, kw, rows, packed_rows, cols, vectors, pieces, reading, segments, s_whole, s_bytes;
    const lk_rounding *out; /* or NULL */
} lk_depthwise_dot;
typedef void (*lk_depthwise_dot_fn)(const lk_depthwise_dot *);

#endif
