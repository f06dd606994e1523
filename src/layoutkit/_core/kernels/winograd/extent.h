#ifndef LAYOUTKIT_EXTENT_H
#define LAYOUTKIT_EXTENT_H

#include "kernels.h"

/* Of each of `rows` contiguous rows of `count` floats the largest magnitude is taken. `most` is the largest of these,
 * `least` the smallest that is not 0 (0: there is none), both as the bits of a float: Inf is 0x7f800000, a NaN more. */
typedef struct {
    const float *w;
    int64_t rows, count;
    int32_t least, most;
} lk_extent;
typedef void (*lk_extent_fn)(lk_extent *);

#endif
