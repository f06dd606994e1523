#ifndef LAYOUTKIT_ADD_H
#define LAYOUTKIT_ADD_H

#include "kernels.h"

/* Sums of two tensors, or with b NULL one alone, rows of `count` elements that lie a_row, b_row and y_row bytes apart:
 *
 *   y[i][j] = clip(a[i][j] + b[i][j])      between two limits, NaN stays NaN; `clip` NULL: as it is
 *
 * Elements are all of the row's type. Integers q stand for (q - zero) * scale; only they have scales. */
typedef struct {
    float scale;
    int32_t zero;
} lk_scale;
typedef struct {
    const char *a, *b;
    char *y;
    int64_t a_row, b_row, y_row, rows, count;
    const void *clip;
    lk_scale of_a, of_b, of_y;
} lk_add;
typedef void (*lk_add_fn)(const lk_add *);

#endif
