#ifndef LAYOUTKIT_DIVIDE_H
#define LAYOUTKIT_DIVIDE_H

#include "kernels.h"

/* y[i] = of x[i] and d[i], i < count, of the row's type:
 *
 *   LK_QUOTIENT    x / d, rounded towards 0; of integers only
 *   LK_REMAINDER   x - d * quotient, exact; it has the sign of x
 *   LK_MODULO      the same plus d where the signs of both differ; of integers only
 *
 * Of integers, what does not fit wraps around, and all are 0 where d is. Remainders of reals are those of fmod.
 * `one_x`, `one_d`: there is a single x, or d, for all i. y may be x or d, where there is not a single one of it. */
enum { LK_QUOTIENT, LK_REMAINDER, LK_MODULO };
typedef struct {
    const char *x, *d;
    char *y;
    int64_t count;
    int what, one_x, one_d;
} lk_divide;
typedef void (*lk_divide_fn)(const lk_divide *);

#endif
