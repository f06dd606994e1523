/* Elements of two vectors, every second one. */
#ifndef LAYOUTKIT_EVERY_SECOND_H
#define LAYOUTKIT_EVERY_SECOND_H

#include "vector.h"

static const int32_t lk_seconds_32[16] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
static const int64_t lk_seconds_64[8] = {0, 2, 4, 6, 8, 10, 12, 14};

/* Elements 0, 2, .. or 1, 3, .. of two vectors. */
LK_INLINE vf every_second(vf a, vf b, const int odd)
{
    return __builtin_shuffle(a, b, *(const vi *)(LK_BITS == 64 ? (const void *)lk_seconds_64 : lk_seconds_32) + odd);
}

#endif
