#ifndef LAYOUTKIT_MOMENTS_H
#define LAYOUTKIT_MOMENTS_H

#include "kernels.h"

/* The mean and the sum of the squared distances from it, of each of `rows` rows of `count` elements, x_row bytes apart,
 * or (`by_column`) of each column:
 *
 *   mean[i] = (1 / count) sum of x[i][j]         squares[i] = sum of (x[i][j] - mean[i])^2
 *
 * `about_zero`: mean[i] = 0, whatever the elements. Sums are of f64 and of distances from the first element, so squares
 * are within about count 2^-52 of their size whatever the mean. */
typedef struct {
    const char *x;
    int64_t x_row, rows, count;
    int by_column, about_zero;
    double *mean, *squares;
} lk_moments;
typedef void (*lk_moments_fn)(const lk_moments *);

#endif
