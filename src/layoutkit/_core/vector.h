/* Vectors of the instruction set that a source is compiled for, in GCC's vector extensions. */
#ifndef LAYOUTKIT_VECTOR_H
#define LAYOUTKIT_VECTOR_H

#if defined(__AVX512F__)
#define LK_VB 64
#elif defined(__AVX__)
#define LK_VB 32
#else
#define LK_VB 16
#endif
#include <stdint.h>

typedef float real; /* of lanes, and of elements in memory */
enum { LK_ITEM = sizeof(real), LK_LANES = LK_VB / LK_ITEM };

/* Callers' arrays are aligned only to their elements. */
typedef real vf __attribute__((vector_size(LK_VB), aligned(LK_ITEM), may_alias));
typedef real hf __attribute__((vector_size(LK_VB / 2), aligned(LK_ITEM), may_alias));

typedef int32_t vi __attribute__((vector_size(LK_VB), aligned(4), may_alias));

/* Only lanes whose bit in `mask` is set are loaded or stored; the others load as 0. */
#if defined(__AVX512F__)
#include <immintrin.h>
static inline vf load_lanes(const char *p, uint32_t mask) { return (vf)_mm512_maskz_loadu_ps((__mmask16)mask, p); }
static inline void store_lanes(char *p, vf v, uint32_t mask)
{
    _mm512_mask_storeu_ps(p, (__mmask16)mask, (__m512)v);
}
#elif defined(__AVX2__)
#include <immintrin.h>
static inline __m256i lane_signs(uint32_t mask)
{
    return _mm256_sllv_epi32(_mm256_set1_epi32((int)mask), _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
}
static inline vf load_lanes(const char *p, uint32_t mask)
{
    return (vf)_mm256_maskload_ps((const float *)p, lane_signs(mask));
}
static inline void store_lanes(char *p, vf v, uint32_t mask)
{
    _mm256_maskstore_ps((float *)p, lane_signs(mask), (__m256)v);
}
#else
#if defined(__aarch64__)
#include <arm_neon.h>
#endif
static inline vf load_lanes(const char *p, uint32_t mask)
{
    vf v = {};
    for (int i = 0; i < LK_LANES; i++)
        if (mask >> i & 1)
            v[i] = ((const float *)p)[i];
    return v;
}
static inline void store_lanes(char *p, vf v, uint32_t mask)
{
    for (int i = 0; i < LK_LANES; i++)
        if (mask >> i & 1)
            ((float *)p)[i] = v[i];
}
#endif

/* v limited below by lo, above by hi; NaN stays NaN. */
static inline vf at_least(vf v, vf lo)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)lo, (__m512)v);
#elif defined(__AVX2__)
    return (vf)_mm256_max_ps((__m256)lo, (__m256)v);
#else
    const vi under = v < lo;
    return (vf)((under & (vi)lo) | (~under & (vi)v));
#endif
}
static inline vf at_most(vf v, vf hi)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)hi, (__m512)v);
#elif defined(__AVX2__)
    return (vf)_mm256_min_ps((__m256)hi, (__m256)v);
#else
    const vi over = v > hi;
    return (vf)((over & (vi)hi) | (~over & (vi)v));
#endif
}
static inline vf clipped(vf v, vf lo, vf hi) { return at_most(at_least(v, lo), hi); }
static inline vf between(vf v, real lo, real hi) { return clipped(v, lo - (vf){}, hi - (vf){}); }
static inline vf between_limits(vf v, const void *limits)
{
    return between(v, ((const real *)limits)[0], ((const real *)limits)[1]);
}

/* The rounding error of product = a * b: exactly a * b - product, unless that is denormal. */
static inline vf left_of(vf a, vf b, vf product)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmsub_ps((__m512)a, (__m512)b, (__m512)product);
#elif defined(__AVX2__)
    return (vf)_mm256_fmsub_ps((__m256)a, (__m256)b, (__m256)product);
#else /* Dekker: halves of 12 bits, whose products are exact */
    const vf a0 = (vf)((vi)a & ~0xfff), b0 = (vf)((vi)b & ~0xfff), a1 = a - a0, b1 = b - b0;
    return ((a0 * b0 - product) + (a0 * b1 + a1 * b0)) + a1 * b1;
#endif
}

/* v with every -0 made +0. A sum that includes the zeros of the padding and one that skips them differ at most in the
 * sign of a zero (products may underflow to either). */
static inline vf positive_zeros(vf v) { return v + 0.0f; }

/* a * b + c, rounded once if the instruction set has FMA. */
static inline vf fused(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* The first n lanes of v, 0 in the rest. */
static inline vf first_lanes(vf v, int n)
{
    static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vf)((vi)v & (*(const vi *)numbers < n));
}

/* Lane i of the result is lane order[i] of v. */
static inline vf shuffle_lanes(vf v, vi order) { return __builtin_shuffle(v, order); }

/* acc += a * b in the register of acc, in the order written; LK_FMA_AT has b in memory. Without this gcc 12 hoists
 * loads across the unrolled steps of a full register tile, accumulates into the broadcast's register, and spills. */
#if defined(__AVX512F__)
#define LK_PIN(x) __asm__ volatile("" : "+v"(x))
#define LK_FMA(acc, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))
#define LK_FMA_AT(acc, a, at) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(acc) : "v"(a), "m"(*(const vf *)(at)))
#elif defined(__FMA__)
#define LK_PIN(x) __asm__ volatile("" : "+x"(x))
#define LK_FMA(acc, a, b) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b))
#define LK_FMA_AT(acc, a, at) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "m"(*(const vf *)(at)))
#else
#define LK_PIN(x) ((void)0)
#define LK_FMA(acc, a, b) ((acc) = fused(a, b, acc))
#define LK_FMA_AT(acc, a, at) ((acc) = fused(a, *(const vf *)(at), acc))
#endif
#define LK_PIN_ADDRESS(x) __asm__ volatile("" : "+r"(x)) /* forces x to be computed here, in a general register */

#endif
