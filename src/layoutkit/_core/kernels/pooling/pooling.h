#ifndef LAYOUTKIT_POOLING_H
#define LAYOUTKIT_POOLING_H

#include "kernels.h"

/* A row of `cols` outputs of pooling, of `count` contiguous channels each:
 *
 *   y[j][c] = max, or factor * scale[j] * sum, over q < depths, r < rows, t < taps of
 *             x[q][r][j*step + t*dilation - before][c]
 *
 * x[q][r][i][c] is the element at x + q*x_depth + r*x_row + i*x_col + c*item (bytes); the dilation of rows is in x_row.
 * Columns i outside of [0, size) are left out. A window without elements is -Inf, or 0; NaN stays NaN.
 * Bytes q of x are the numbers q - x_zero; y is rounded(ratio * number) + y_zero, saturated. */
typedef struct {
    const char *x;
    int64_t x_depth, x_row, x_col;
    char *y;
    int64_t y_col, depths, rows, cols, taps, step, dilation, before, size, count;
    const void *scale; /* [cols]; NULL: the largest */
    double factor;
    float ratio;
    int x_zero, y_zero;
} lk_pooling;
typedef void (*lk_pooling_fn)(const lk_pooling *);

/* The gradient of such a row: y is that of the outputs, which is read, and dx is added to, strided as x is. Of means x is
 * not read. */
typedef struct {
    lk_pooling window;
    char *dx;
    int64_t dx_depth, dx_row, dx_col;
} lk_pooling_back;
typedef void (*lk_pooling_back_fn)(const lk_pooling_back *);

#endif
