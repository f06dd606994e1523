#ifndef LAYOUTKIT_SOFTMAX_H
#define LAYOUTKIT_SOFTMAX_H

#include "kernels.h"

/* Softmax of each of `rows` rows of `count` elements, x_row and y_row bytes apart, or (`down`) of each column:
 *
 *   y[i][j] = e^(x[i][j] - most) / sum        most = the largest x[i][k], sum = sum of e^(x[i][k] - most), over all k
 *
 * `logarithm`: y[i][j] = x[i][j] - most - ln(sum). NaN or +Inf makes all of its row (or column) NaN, and so do
 * -Inf alone. The sums are of f64; what is left are the rounding of x - most, and 3 ulp. x and y may be the same memory. */
typedef struct {
    const char *x;
    char *y;
    int64_t x_row, y_row, rows, count;
    int down, logarithm;
} lk_softmax;
typedef void (*lk_softmax_fn)(const lk_softmax *);

#endif
