#ifndef LAYOUTKIT_REDUCE_H
#define LAYOUTKIT_REDUCE_H

#include "kernels.h"

/* Reduces `rows` rows of `count` elements, x_row bytes apart, each row to one number, or (`by_column`) each column:
 *
 *   into[i] = fold(into[i], x[i][0], x[i][1], ..)        in f64
 *
 * by sums of x, of |x|, of x^2, or of e^(x - maxima[i]); by products; by the maximum or minimum, NaN if there is one. */
enum {
    LK_FOLD_SUM,
    LK_FOLD_ABSOLUTE,
    LK_FOLD_SQUARES,
    LK_FOLD_PRODUCT,
    LK_FOLD_MAX,
    LK_FOLD_MIN,
    LK_FOLD_POWERS,
    LK_FOLD_COUNT,
};
typedef struct {
    const char *x;
    int64_t x_row, rows, count;
    int by_column, fold;
    double *into;
    const double *maxima; /* of LK_FOLD_POWERS, numbers of f32; else NULL */
} lk_reduce;
typedef void (*lk_reduce_fn)(const lk_reduce *);

#endif
