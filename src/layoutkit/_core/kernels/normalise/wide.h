/* Sums in f64 of vectors of f32: 16 of them at a time, for vectors of any length, so that every instruction set adds the same
 * numbers in the same order. The products of two f32 are exact.
 */
#ifndef LAYOUTKIT_WIDE_H
#define LAYOUTKIT_WIDE_H

#include "common/numbers.h"

enum { WIDE = 16, VECTORS = WIDE / LK_LANES, PER_VECTOR = 2, DOUBLES = LK_VB / 8 };

typedef double vd __attribute__((vector_size(LK_VB), aligned(8), may_alias));
typedef int64_t wi __attribute__((vector_size(LK_VB), aligned(8), may_alias));

/* The lower half of the lanes, or the upper one. */
LK_INLINE vd widened(vf v, const int upper)
{
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd(upper ? _mm512_extractf32x8_ps((__m512)v, 1) : _mm512_castps512_ps256((__m512)v));
#elif defined(__AVX2__)
    return (vd)_mm256_cvtps_pd(upper ? _mm256_extractf128_ps((__m256)v, 1) : _mm256_castps256_ps128((__m256)v));
#else
    return (vd){v[2 * upper], v[2 * upper + 1]};
#endif
}

/* The vector of which these are the halves. */
LK_INLINE vf narrowed(vd low, vd high)
{
    vf v;
    for (int i = 0; i < DOUBLES; i++)
        v[i] = (real)low[i], v[i + DOUBLES] = (real)high[i];
    return v;
}

LK_INLINE vd splat_wide(double x) { return x - (vd){}; }

/* a * b + c; of two f32 the product is exact, so it is the same with FMA and without. */
LK_INLINE vd multiplied(vd a, vd b, vd c)
{
#if defined(__AVX512F__)
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

/* The sum of 16 numbers in PER_VECTOR * VECTORS vectors, always in this order. */
LK_INLINE double total(const vd *parts)
{
#if defined(__AVX512F__)
    const __m512d eight = (__m512d)parts[0] + (__m512d)parts[1];
    const __m256d four = _mm512_castpd512_pd256(eight) + _mm512_extractf64x4_pd(eight, 1);
    const __m128d two = _mm256_castpd256_pd128(four) + _mm256_extractf128_pd(four, 1);
    return two[0] + two[1];
#endif
    double lane[WIDE];
#pragma GCC unroll 8
    for (int i = 0; i < PER_VECTOR * VECTORS; i++)
        *(vd *)(lane + i * DOUBLES) = parts[i];
#pragma GCC unroll 4
    for (int half = WIDE / 2; half; half /= 2)
#pragma GCC unroll 8
        for (int i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* The first n numbers at p, and `rest` behind them. */
LK_INLINE vf load_first(const char *p, int n, vf rest)
{
#if defined(__AVX512F__)
    if (!NARROW)
        return (vf)_mm512_mask_loadu_ps((__m512)rest, (__mmask16)((1u << n) - 1), p);
#endif
    static const lane_integer numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vi inside = *(const vi *)numbers < n;
    return (vf)((inside & (vi)load_numbers(p, n, ELEMENT)) | (~inside & (vi)rest));
}

/* Vector k of the 16 numbers from the j-th on, of `count` at p; `rest` in lanes behind the last. */
LK_INLINE vf load_wide(const char *p, int64_t j, int64_t count, const int k, vf rest)
{
    const int64_t left = count - j - k * LK_LANES;
    const char *at = p + (j + k * LK_LANES) * ITEM;
    if (left >= LK_LANES)
        return load_numbers(at, LK_LANES, ELEMENT);
    return left > 0 ? load_first(at, (int)left, rest) : rest;
}

#endif
