#ifndef LAYOUTKIT_SLOPES_H
#define LAYOUTKIT_SLOPES_H

#include "kernels.h"

/* The gradient of a normalisation by channel, from that of its results, `dy`. With e = x[i][j] - mean and
 *
 *   d = dy[i][j]        or 0, if `limit` is not 0 and r = e * factor + shift is <= 0 or >= limit: where a ReLU was flat
 *
 * the first half, slope_sums, gives for each of `rows` rows of `count` elements, or (`by_column`) for each column,
 *
 *   sums[i] = sum of d        products[i] = sum of d * e
 *
 * and the second half, slopes,
 *
 *   dx[i][j] = d * factor + e * slope + offset
 *
 * The numbers of floats are those of row i, or of column j. Sums are of f64. `limit` may be infinite, which nothing reaches.
 * dx and dy may be the same memory.
 *
 * `y`, of slope_sums where `limit` is not 0: the results of the ReLU, which followed a sum with something else; r is
 * y[i][j], and d is written, its rows d_row bytes apart. NULL otherwise. d and dy may be the same memory. */
typedef struct {
    const char *x, *dy, *y;
    char *dx, *d;
    int64_t x_row, dy_row, y_row, dx_row, d_row, rows, count;
    const float *mean, *factor, *shift, *slope, *offset;
    double *sums, *products;
    int by_column;
    float limit;
} lk_slopes;
typedef void (*lk_slopes_fn)(const lk_slopes *);

#endif
