#ifndef LAYOUTKIT_GEMM_GROUPS_H
#define LAYOUTKIT_GEMM_GROUPS_H

#include "gemm.h"

/* C[i][j] = bias[j] + sum over taps t, k of A[t][i][g(j)][k] * B[t][g(j)][k][j], g(j) = j / (4 kb), k < kb, by lk_gemm of
 * gemm.h: u8 (with `flip`, s8) by s8 in units of four, sums of s32 that wrap around. A group has 4 kb input channels and as
 * many columns, kb is 1, 2 or 4; the `cols` input channels of all groups of a tile follow one another in a row of A, and
 * where that is not a whole vector, no more of them are read. There is one block, and all taps are summed at once.
 *
 * A: rows, taps, mask and zero, of `cols` bytes, as there.
 * B: [taps][4 kb][lanes][4]: lane kb*g + k of vector j has the weights of output j of group g for unit k of it.
 * Columns: sums end in four vectors; lane 4q + s of vector m is column 16q + n, where n is 4s + m for kb = 1,
 *    8 (s % 2) + 2m + s / 2 for 2, 4m + s for 4. So `bias_col` is ordered, and `mul` and `off` of `out`; c_col, and `least`
 *    and `most` are as there, of columns.
 * C: with `out`, which vectors of 16 bytes do not take, bytes; else the sums of all nr columns, from c_row[i] on.
 * No other field is looked at. */

#endif
