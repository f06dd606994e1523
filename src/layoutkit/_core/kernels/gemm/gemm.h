#ifndef LAYOUTKIT_GEMM_H
#define LAYOUTKIT_GEMM_H

#include "kernels.h"

/* How sums of s32 become bytes, by columns of a panel; products and sums are below 2^31:
 *
 *   y[j] = sign ^ (saturated_u8(rounded(sum[j] * mul[j] + off[j]) + zero), limited to least[j] .. most[j])
 *
 * Results of s8 are those of u8 with a zero point 128 higher and another first bit (sign: 128). If not `adds`, off is 0;
 * if not `shifts`, the zero point is 0 and nothing is limited. `apart`: each vector of
 * sums goes where c_col says, 8 or 16 whole bytes; else a row's bytes follow one another from the first place on. */
enum { LK_MAX_COLUMNS = 64 };
typedef struct {
    float mul[LK_MAX_COLUMNS], off[LK_MAX_COLUMNS];
    uint8_t least[LK_MAX_COLUMNS], most[LK_MAX_COLUMNS];
    int zero, sign, apart, adds, shifts;
} __attribute__((aligned(64))) lk_rounding;

/* C[i][j] = (residual[i][j] +) sum over taps t, blocks q, k of A[t][q][i][k] * B[t][q][k][j], i < rows, j < cols.
 *
 * Units: where the row's `kr` is not 1, each A[..][k] and B[..][k][j] is that many narrow elements, multiplied in pairs
 * and summed in one step: a unit has the bytes of a sum, and C, bias and clip are of the type of sums. In units of four A
 * is u8, B is s8, and sums are s32 that wrap around; the bits of `flip` are flipped in each unit of A first: so s8 becomes
 * u8. Their padding, whose value is in `zero`, is multiplied: only if `leaves_out`, which rows of tile units and of groups
 * do not know, are taps left out whose rows are all padding. b_row is only for units of one.
 *
 * Components: where the row's tile has `components`, A and B are what its split_row and split_panel made of numbers of f32,
 * in one block and one tap, with zeros up to whole K tiles; a unit is a pair of numbers. Rows of A lie equally far apart
 * and begin on cache lines; memory after them is read, as far as 16 rows reach, or 32.
 *
 * A: elements are read one by one and broadcast, so A may have any strides. Row i begins at
 *      a + row[i] + tap[t] + q * block_stride          (bytes)
 *    Where bit i of mask[t] is clear, that row is padding at that tap: `zero`, kb zeros, is read instead.
 *    A block has kb elements, the last one kb_last.
 * B: packed or strided. Rows (t, q, k) follow one another, ldb elements apart; with b_tap only those of one tap do.
 *    With b_row, which allows one tap and one block, row k is at b + b_row[k]. Whole vectors are read.
 * Sums: each begins with its bias, or 0; integers may have both. It goes through taps, blocks and k in this order, one FMA
 *    after another. After each `chunk` steps, and at the end of a `period`, where chunks begin anew, the sum of the chunk is
 *    added to a total, and the next one begins at 0: rounding errors grow as the root of a chunk. If `positive`, a result
 *    of -0 becomes +0; on tile units, which sum products from 0, always.
 * C: vector v of row i is at c + c_row[i] + c_col[v]. With c_split each vector is stored as two halves, at c_col[2v]
 *    and c_col[2v + 1]. C is stored once, in whole vectors, except that only the first cols % lanes elements of the
 *    last vector are stored if that is not 0 (half a vector if c_split). c_split and accumulate exclude each other.
 *    With `out`, which only rows of units of four of vectors of more than 16 bytes take, and without c_split, accumulate,
 *    resume, clip and pads, bytes take the place of sums. With `narrow`, which only rows of units of two take, and without
 *    c_split, accumulate and resume, sums are rounded to numbers like those of A: vectors of C have half the bytes. Such
 *    rows, but for those of tile units, take a `residual` with it.
 *    Rows of tile units may have LK_NOWHERE in c_row: those rows of C are not stored.
 */
typedef struct {
    const char *a;
    const int64_t *row;
    const int64_t *tap;
    const int64_t *step;  /* with one block: bytes to every step, tap[t] + k units, in order; or NULL */
    const uint32_t *mask; /* NULL: every row reads every tap */
    const void *zero;
    int64_t taps, blocks, block_stride, kb, kb_last;
    int64_t chunk, period; /* in steps of k, positive */
    const char *b;
    int64_t ldb;
    const int64_t *b_tap; /* of elements: rows of tap t begin at b + b_tap[t]; NULL: of all taps, they follow on */
    const int64_t *b_row; /* of elements; or NULL */
    const void *bias_col; /* one value per column, whole vectors are read; or NULL */
    const void *bias_row; /* one value per row; or NULL */
    char *c;
    const int64_t *c_row, *c_col;
    int c_split;
    int accumulate; /* what is residual_offset bytes from C is added to the result, bias included */
    int resume;     /* C holds the total of earlier taps, of whole periods; no bias, accumulate or c_split */
    int positive;
    int rows, cols;
    int reads_on; /* memory after the rows of A may be read, at their distance, as far as whole tiles of a tile unit reach */
    uint32_t flip;
    int leaves_out;
    int narrow;
    int residual;   /* with narrow: the same of numbers like those of C, before clip and pads */
    int pads;          /* so many of the last columns are stored as 0, whatever their sums; what is added is 0 there */
    const void *clip; /* two limits: at last C is clipped to them, NaN stays NaN; or NULL */
    const char *to_prefetch; /* prefetched into L2 during the computation: usually the part of the filter used next */
    int64_t to_prefetch_bytes;
    const char *next_c;        /* rows of C written soon, prefetched for writing: next_c + next_c_row[i] + c_col[v] */
    const int64_t *next_c_row; /* `rows` of them; NULL: none */
    int64_t residual_offset;   /* bytes from C to the residual, prefetched for reading unless that is C itself */
    const lk_rounding *out;    /* bytes are stored, at c_row and c_col, not sums; or NULL */
} lk_gemm;
typedef void (*lk_gemm_fn)(const lk_gemm *);

#endif
