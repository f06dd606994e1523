#ifndef LAYOUTKIT_SOFTMAX_H
#define LAYOUTKIT_SOFTMAX_H

#include "kernels.h"

/* Softmax of each of `rows` rows of `count` elements, x_row and y_row bytes apart, or (`by_column`) of each column:
 *
 *   y[i][j] = e^(x[i][j] - max) / sum        max = the largest x[i][k], sum = sum of e^(x[i][k] - max), over all k
 *
 * `logarithm`: y[i][j] = x[i][j] - max - ln(sum). A row (or column) with NaN or +Inf, or of -Inf alone, becomes NaN. Sums
 * are of f64, in short rows of pairs added in f32; the error is that of rounding x - max, and 3.5 ulp. x and y may be the
 * same memory. */
typedef struct {
    const char *x;
    char *y;
    int64_t x_row, y_row, rows, count;
    int by_column, logarithm;
} lk_softmax;
typedef void (*lk_softmax_fn)(const lk_softmax *);

#endif
