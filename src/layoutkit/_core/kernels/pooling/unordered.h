/* Whether lanes of vectors are NaN, which a maximum by one instruction loses. */
#ifndef LAYOUTKIT_UNORDERED_H
#define LAYOUTKIT_UNORDERED_H

#include "common/vector.h"

/* The lanes of which one of both is NaN. */
#if defined(__AVX512F__)
typedef uint32_t lanes;
#define NO_LANES 0
#if LK_BITS == 64
LK_INLINE lanes unordered(vf a, vf b) { return _mm512_cmp_pd_mask((native)a, (native)b, _CMP_UNORD_Q); }
#else
LK_INLINE lanes unordered(vf a, vf b) { return _mm512_cmp_ps_mask((native)a, (native)b, _CMP_UNORD_Q); }
#endif
LK_INLINE int any(lanes bad) { return bad != 0; }
#else
typedef vi lanes;
#define NO_LANES ((vi){})
#if defined(__AVX2__)
LK_INLINE lanes unordered(vf a, vf b) { return (vi)LK_OP(cmp)((native)a, (native)b, _CMP_UNORD_Q); }
#else
LK_INLINE lanes unordered(vf a, vf b) { return (a != a) | (b != b); }
#endif
LK_INLINE int any(lanes bad)
{
    lane_integer all = 0;
    for (int i = 0; i < LK_LANES; i++)
        all |= bad[i];
    return all != 0;
}
#endif

#endif
