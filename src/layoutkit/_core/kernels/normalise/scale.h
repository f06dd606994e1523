#ifndef LAYOUTKIT_SCALE_H
#define LAYOUTKIT_SCALE_H

#include "kernels.h"

/* The second half of a normalisation, of `rows` rows of `count` elements, x_row and y_row bytes apart:
 *
 *   y[i][j] = ((x[i][j] - mean) * factor + shift) * scale + bias
 *
 * mean, factor and shift are those of row i, scale and bias of column j; or (`by_column`) the other way round. `scale`
 * NULL: there are neither; `bias` NULL: 0. x and y may be the same memory.
 *
 * Where `scale` is NULL and `add` is not, add[i][j] is added, its rows add_row bytes apart; where `scale` is NULL and `limit` is
 * not 0, a ReLU follows: results below 0 become 0, those above `limit` become that. add and y may be the same memory. */
typedef struct {
    const char *x, *add;
    char *y;
    int64_t x_row, add_row, y_row, rows, count;
    const float *mean, *factor, *shift, *scale, *bias;
    int by_column;
    float limit;
} lk_scaling;
typedef void (*lk_scaling_fn)(const lk_scaling *);

#endif
