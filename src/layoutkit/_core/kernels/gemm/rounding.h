/* Vectors of sums of s32 become bytes, in the steps of epilogue_s32_u8 and _s8:
 *
 *   bytes = saturated(rounded(sum * mul + off) + zero)      to the nearest, even
 *
 * Four vectors of sums make one of bytes: of one row, or of two. Packs work within 16 bytes; IN_ORDER restores the
 * order of fours. Sums of f32 become numbers of bf16 in one instruction. */
#ifndef LAYOUTKIT_ROUNDING_H
#define LAYOUTKIT_ROUNDING_H

#include "common/vector.h"
#include "gemm.h"

#include <string.h>

#if !LK_INTEGERS
/* Stores the first n of a vector of sums, 0: all, as numbers of 16 bits. */
LK_INLINE void store_narrow(char *c, vf v, const int n)
{
    const __m256i h = (__m256i)_mm512_cvtneps_pbh((__m512)v);
    if (n)
        _mm256_mask_storeu_epi16(c, (__mmask16)((1u << n) - 1), h);
    else
        _mm256_storeu_si256((__m256i *)c, h);
}

/* The first n numbers of 16 bits, 0: a vector. */
LK_INLINE vf load_narrow(const char *c, const int n)
{
    const __m256i h = n ? _mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), c) : _mm256_loadu_si256((const __m256i *)c);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}

#elif LK_VB > 16
typedef int8_t bytes_run __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef float reals __attribute__((vector_size(LK_VB), aligned(4), may_alias));
/* HALVES(v, i, j): half i of v, then half j. */
#if LK_VB == 64
typedef __m512i_u whole;
#define IN_ORDER(v) \
    _mm512_permutexvar_epi32((whole)(vi){0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}, v)
#define WITHIN_16(v, order) _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(order))
#define MIXED(name, a, b) _mm512_##name(a, b)
#define ROUND(v) _mm512_cvtps_epi32((__m512)(v))
#define SAME_16(n) _mm512_set1_epi16(n)
#define HALVES(v, i, j) _mm512_shuffle_i64x2(v, v, (i) * 0xe | (j) * 0xe0 | (1 - (i)) * 4 | (1 - (j)) * 0x40)
#else
typedef __m256i_u whole;
#define IN_ORDER(v) _mm256_permutevar8x32_epi32(v, (whole)(vi){0, 4, 1, 5, 2, 6, 3, 7})
#define WITHIN_16(v, order) _mm256_shuffle_epi8(v, _mm256_broadcastsi128_si256(order))
#define MIXED(name, a, b) _mm256_##name(a, b)
#define ROUND(v) _mm256_cvtps_epi32((__m256)(v))
#define SAME_16(n) _mm256_set1_epi16(n)
#define HALVES(v, i, j) _mm256_permute2x128_si256(v, v, (i) | (j) << 4)
#endif

/* The first n bytes */
LK_INLINE void put_some(char *y, const bytes_run v, const int n)
{
#if LK_VB == 64
    _mm512_mask_storeu_epi8(y, ((__mmask64)1 << n) - 1, (__m512i)v);
#else
    memcpy(y, &v, (size_t)n);
#endif
}

/* Packed bytes in the order of columns: of vectors that follow one another (units 0), or as gemm_groups.h has them. */
LK_INLINE whole in_columns(const whole v, const int units)
{
    const __m128i ones = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i twos = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    return units == 0 ? IN_ORDER(v) : units == 1 ? WITHIN_16(v, ones) : units == 2 ? WITHIN_16(v, twos) : v;
}

/* The bytes of nv vectors of sums, one after another, whose columns begin anew after `period` of them; see lk_rounding
 * in gemm.h, and in_columns. */
LK_INLINE whole bytes_of(const vf *sums, const lk_rounding *out, const whole zero, const whole sign, const int nv,
                         const int period, const int units)
{
    const reals *const mul = (const reals *)out->mul, *const off = (const reals *)out->off;
/* no loops: gcc would keep all sums in memory */
#define EACH(DO) DO(0) DO(1) DO(2) DO(3)
#define TIMES(v) reals x_##v = __builtin_convertvector(sums[nv > v ? v : 0], reals) * mul[nv > v ? v % period : 0];
#define PLUS(v) x_##v = x_##v + off[nv > v ? v % period : 0];
#define WHOLE(v) (nv > v ? ROUND(x_##v) : (whole){})
    EACH(TIMES)
    if (out->adds) {
        EACH(PLUS)
    }
    const whole low = MIXED(packs_epi32, WHOLE(0), WHOLE(1)), high = MIXED(packs_epi32, WHOLE(2), WHOLE(3));
    if (!out->shifts)
        return in_columns(out->sign ? MIXED(packs_epi16, low, high) : MIXED(packus_epi16, low, high), units);
    whole least = *(const whole *)out->least, most = *(const whole *)out->most;
    if (nv > period) {
        least = HALVES(least, 0, 0);
        most = HALVES(most, 0, 0);
    }
    whole y = in_columns(MIXED(packus_epi16, MIXED(adds_epi16, low, zero), MIXED(adds_epi16, high, zero)), units);
    y = MIXED(max_epu8, y, least);
    return MIXED(min_epu8, y, most) ^ sign;
}

/* Stores a row of `cols` bytes, of nv vectors of sums. */
LK_INLINE void store_bytes(char *c, const int64_t *col, const whole y, const lk_rounding *out, const int cols,
                           const int nv)
{
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

/* Makes the bytes of a row and stores them. */
LK_INLINE void put_row(char *c, const int64_t *col, const vf *sums, const lk_rounding *out, const whole zero,
                       const whole sign, const int cols, const int nv)
{
    store_bytes(c, col, bytes_of(sums, out, zero, sign, nv, nv, 0), out, cols, nv);
}

/* Two rows of two vectors each, at little more than the cost of one. */
LK_INLINE void put_two_rows(char *c, char *next, const int64_t *col, const vf *sums, const lk_rounding *out,
                            const whole zero, const whole sign, const int cols)
{
    const whole y = bytes_of(sums, out, zero, sign, 4, 2, 0);
    store_bytes(c, col, y, out, cols, 2);
    store_bytes(next, col, HALVES(y, 1, 0), out, cols, 2);
}
#endif

#endif
