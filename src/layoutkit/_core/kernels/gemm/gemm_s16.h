#ifndef LAYOUTKIT_GEMM_S16_H
#define LAYOUTKIT_GEMM_S16_H

#include "kernels.h"

/* C[i][j] (+)= sum over k of A[i][2k] * B[k][j][0] + A[i][2k + 1] * B[k][j][1], i < rows, j < cols, k < steps.
 *
 * A and B are s16, C is s32; sums wrap around. Row i of A begins at a + i * a_row, row i of C at c + i * c_row, in bytes.
 * Rows of B are ldb pairs apart. `cols` are whole vectors, which follow one another in B and in C. */
typedef struct {
    const char *a;
    int64_t a_row;
    const char *b;
    int64_t ldb;
    char *c;
    int64_t c_row;
    int64_t steps;
    int rows, cols;
    int accumulate;          /* the sums are added to C */
    const char *to_prefetch; /* prefetched into L2 during the computation */
    int64_t to_prefetch_bytes;
} lk_gemm_s16;
typedef void (*lk_gemm_s16_fn)(const lk_gemm_s16 *);

#endif
