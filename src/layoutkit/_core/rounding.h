/* Vectors of sums of s32 become bytes, in the steps of epilogue_s32_u8 and _s8:
 *
 *   bytes = saturated(rounded(sum * mul + off) + zero)      to the nearest, even
 *
 * Four vectors of sums make one of bytes. Packs keep within 16 bytes; IN_ORDER puts fours where they belong. */
#ifndef LAYOUTKIT_ROUNDING_H
#define LAYOUTKIT_ROUNDING_H

#include "kernels.h"
#include "vector.h"

#include <string.h>

#if LK_VB > 16
typedef int8_t bytes_run __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef float reals __attribute__((vector_size(LK_VB), aligned(4), may_alias));
#if LK_VB == 64
typedef __m512i_u whole;
#define IN_ORDER(v) \
    _mm512_permutexvar_epi32((whole)(vi){0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}, v)
#define MIXED(name, a, b) _mm512_##name(a, b)
#define ROUND(v) _mm512_cvtps_epi32((__m512)(v))
#define SAME_16(n) _mm512_set1_epi16(n)
#else
typedef __m256i_u whole;
#define IN_ORDER(v) _mm256_permutevar8x32_epi32(v, (whole)(vi){0, 4, 1, 5, 2, 6, 3, 7})
#define MIXED(name, a, b) _mm256_##name(a, b)
#define ROUND(v) _mm256_cvtps_epi32((__m256)(v))
#define SAME_16(n) _mm256_set1_epi16(n)
#endif

/* The bytes of four vectors of integers, in order, with `zero` added to each as s16. */
LK_INLINE whole saturated(whole a, whole b, whole c, whole d, const whole zero)
{
    const whole low = MIXED(adds_epi16, MIXED(packs_epi32, a, b), zero);
    const whole high = MIXED(adds_epi16, MIXED(packs_epi32, c, d), zero);
    return IN_ORDER(MIXED(packus_epi16, low, high));
}

/* The first n bytes */
LK_INLINE void put_some(char *y, const bytes_run v, const int n)
{
#if LK_VB == 64
    _mm512_mask_storeu_epi8(y, ((__mmask64)1 << n) - 1, (__m512i)v);
#else
    memcpy(y, &v, (size_t)n);
#endif
}

/* Stores a row of `cols` bytes, made of nv vectors of sums; see lk_rounding in kernels.h. */
LK_INLINE void put_row(char *c, const int64_t *col, const vf *sums, const lk_rounding *out, const whole zero,
                       const whole sign, const int cols, const int nv)
{
    const reals *const mul = (const reals *)out->mul, *const off = (const reals *)out->off;
/* no loops: gcc would keep all sums in memory */
#define EACH(DO) DO(0) DO(1) DO(2) DO(3)
#define TIMES(v) reals x_##v = __builtin_convertvector(sums[nv > v ? v : 0], reals) * mul[nv > v ? v : 0];
#define PLUS(v) x_##v = x_##v + off[nv > v ? v : 0];
#define WHOLE(v) (nv > v ? ROUND(x_##v) : (whole){})
    EACH(TIMES)
    if (out->adds) {
        EACH(PLUS)
    }
    const whole low = MIXED(packs_epi32, WHOLE(0), WHOLE(1)), high = MIXED(packs_epi32, WHOLE(2), WHOLE(3));
    whole y;
    if (out->shifts) {
        y = IN_ORDER(MIXED(packus_epi16, MIXED(adds_epi16, low, zero), MIXED(adds_epi16, high, zero)));
        y = MIXED(max_epu8, y, *(const whole *)out->least);
        y = MIXED(min_epu8, y, *(const whole *)out->most) ^ sign;
    } else
        y = IN_ORDER(out->sign ? MIXED(packs_epi16, low, high) : MIXED(packus_epi16, low, high));
    const char *const from = (const char *)&y;
    if (out->apart) {
        memcpy(c + col[0], from, LK_LANES);
        if (nv > 1)
            memcpy(c + col[1], from + LK_LANES, LK_LANES);
        if (nv > 2)
            memcpy(c + col[2], from + 2 * LK_LANES, LK_LANES);
        if (nv > 3)
            memcpy(c + col[3], from + 3 * LK_LANES, LK_LANES);
    } else if (cols == nv * LK_LANES && nv != 3) /* a store of one instruction */
        memcpy(c + col[0], from, nv * LK_LANES);
    else
        put_some(c + col[0], (bytes_run)y, cols);
}
#endif

#endif
