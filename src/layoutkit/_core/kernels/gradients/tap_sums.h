#ifndef LAYOUTKIT_TAP_SUMS_H
#define LAYOUTKIT_TAP_SUMS_H

#include "kernels.h"

/* Sums of products, for the gradient of a depthwise filter; a lane is a channel:
 *
 *   C[t][j] += sum over rows r, k < steps of X[r][k][t][j] * Y[r][k][j]      t < taps
 *
 * X[r][k][t] is a vector at x + r*x_row + k*x_step + tap[t], Y[r][k] one at y + r*y_row + k*y_step, C[t] a whole one at
 * c + sum[t] (bytes). `lanes`: of X and Y only these are read; 0: all. */
typedef struct {
    const char *x, *y;
    char *c;
    const int64_t *tap, *sum;
    int64_t x_row, x_step, y_row, y_step, rows, steps;
    int taps;
    uint32_t lanes;
} lk_tap_sums;
typedef void (*lk_tap_sums_fn)(const lk_tap_sums *);

#endif
