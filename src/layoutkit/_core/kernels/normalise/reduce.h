#ifndef LAYOUTKIT_REDUCE_H
#define LAYOUTKIT_REDUCE_H

#include "kernels.h"

/* Folds `rows` rows of `count` elements, x_row bytes apart, each row to one number, or (`down`) each column:
 *
 *   into[i] = fold(into[i], x[i][0], x[i][1], ..)        in f64
 *
 * by sums of x, of |x|, of x^2, or of e^(x - most[i]); by products; by the largest or the least, NaN if there is one. */
enum {
    LK_FOLD_SUM,
    LK_FOLD_ABSOLUTE,
    LK_FOLD_SQUARES,
    LK_FOLD_PRODUCT,
    LK_FOLD_MOST,
    LK_FOLD_LEAST,
    LK_FOLD_POWERS,
    LK_FOLD_COUNT,
};
typedef struct {
    const char *x;
    int64_t x_row, rows, count;
    int down, fold;
    double *into;
    const double *most; /* of LK_FOLD_POWERS, numbers of f32; else NULL */
} lk_reduce;
typedef void (*lk_reduce_fn)(const lk_reduce *);

#endif
