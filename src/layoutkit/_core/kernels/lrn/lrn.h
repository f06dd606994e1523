#ifndef LAYOUTKIT_LRN_H
#define LAYOUTKIT_LRN_H

#include "kernels.h"

/* Local response normalisation of `pixels` with `count` contiguous channels each, x_pixel and y_pixel bytes apart:
 *
 *   y[i][c] = x[i][c] / (bias + scale * sum over k of x[i][k]^2)^(3/4)      c - below <= k <= c + above, 0 <= k < count
 */
typedef struct {
    const char *x;
    int64_t x_pixel;
    char *y;
    int64_t y_pixel, pixels, count, below, above;
    void *squares; /* zeros: below + whole vectors of channels + above, and a vector more */
    double bias, scale;
} lk_lrn;
typedef void (*lk_lrn_fn)(const lk_lrn *);

#endif
