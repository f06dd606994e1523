#ifndef LAYOUTKIT_WEIGHTS_H
#define LAYOUTKIT_WEIGHTS_H

#include "kernels.h"

/* Online softmax: the scores of the next `count` keys become weights, and the maximum of each row and the sum of its weights
 * are updated. For each row i < rows:
 *
 *   x[j] = scale * s[i][j] + mask[i][j]               j < count
 *   max = the largest of maxima[i] and all x[j]; NaN is ignored
 *   s[i][j] = e^(x[j] - max)                          0 where that is no normal number, and at a maximum of -Inf
 *   factors[i] = e^(maxima[i] - max), the same way
 *   sums[i] = factors[i] * sums[i] + all s[i][j]
 *   maxima[i] = max
 *
 * Rows of scores are s_row bytes apart and have room for whole vectors. Elements of the mask are mask_row and mask_col
 * bytes apart; mask_col is the width of an element, or 0. */
typedef struct {
    char *s;
    int64_t s_row;
    const char *mask; /* or NULL */
    int64_t mask_row, mask_col, rows, count;
    double scale;
    char *maxima, *sums, *factors;
} lk_weights;
typedef void (*lk_weights_fn)(const lk_weights *);

#endif
