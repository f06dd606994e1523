#ifndef LAYOUTKIT_WEIGHTS_H
#define LAYOUTKIT_WEIGHTS_H

#include "kernels.h"

/* Softmax of scores that come in blocks: those of the next `count` keys become weights, and what is known of their row is
 * brought up to date. For each row i < rows:
 *
 *   x[j] = scale * s[i][j] + mask[i][j]               j < count
 *   top = the largest of most[i] and all x[j]; NaN is passed over
 *   s[i][j] = e^(x[j] - top)                          0 where that is no normal number, and at a top of -Inf
 *   factor[i] = e^(most[i] - top), the same way
 *   sum[i] = factor[i] * sum[i] + all s[i][j]
 *   most[i] = top
 *
 * Rows of scores begin s_row bytes apart and have whole vectors, whatever they hold behind `count`. Elements of the mask
 * are mask_row and mask_col bytes apart; mask_col is that of an element, or 0. */
typedef struct {
    char *s;
    int64_t s_row;
    const char *mask; /* or NULL */
    int64_t mask_row, mask_col, rows, count;
    double scale;
    char *most, *sum, *factor;
} lk_weights;
typedef void (*lk_weights_fn)(const lk_weights *);

#endif
