#ifndef LAYOUTKIT_PLANE_POOLING_H
#define LAYOUTKIT_PLANE_POOLING_H

#include "kernels.h"

/* Rows of outputs of pooling over planes of f32 whose pixels are contiguous along the width; `depths` planes together:
 *
 *   y[i][j] = max, or factor * row_scale[i] * scale[j] * sum, over q < depths, r < row_taps, t < taps of
 *             x[q][i*row_step + r*row_dilation - row_before][j*step + t*dilation - before]
 *
 * x[q][h][w] is the element at x + q*x_depth + h*x_row + w*4 (bytes). Rows outside of [0, row_size) and columns outside of
 * [0, size) are left out. A window without elements is -Inf, or 0; NaN stays NaN.
 * scratch: LK_PLANE_BYTES for each of the rows of x that windows of the `rows` outputs span, at a multiple of that. */
typedef struct {
    const char *x;
    int64_t x_depth, x_row;
    char *y;
    int64_t y_row, depths, rows, cols;
    int64_t row_taps, row_step, row_dilation, row_before, row_size;
    int64_t taps, step, dilation, before, size;
    const float *row_scale, *scale; /* [rows], [cols]; NULL: the largest */
    float factor;
    char *scratch;
} lk_plane_pooling;
enum { LK_PLANE_BYTES = 64 };
typedef void (*lk_plane_pooling_fn)(const lk_plane_pooling *);

#endif
