/* Vectors of the instruction set and of the real type that a source is compiled for, in GCC's vector extensions. */
#ifndef LAYOUTKIT_VECTOR_H
#define LAYOUTKIT_VECTOR_H

#include "intrinsics.h"
#include "kernels.h"

#include <stdint.h>

#if defined(__AVX512F__)
#define LK_VB 64
#elif defined(__AVX__)
#define LK_VB 32
#else
#define LK_VB 16
#endif

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define LOG2(n) (31 - __builtin_clz(n))

/* The type of lanes, and of elements in memory: LK_BITS=64 is double. Where LK_KR is not 1, an element in memory is that
 * many numbers of LK_NARROW, in the bits of a lane, which with LK_INTEGERS is s32. LK_TYPED(x) has the name of the numbers,
 * LK_ROWS(family) is the array of rows of a source that is compiled for several. */
#ifndef LK_BITS
#define LK_BITS 32
#endif
#ifndef LK_INTEGERS
#define LK_INTEGERS 0
#endif
#if LK_INTEGERS
typedef int32_t real;
typedef int32_t lane_integer;
#define LK_SUFFIX epi32
#define LK_LEAST INT32_MIN
#define LK_MOST INT32_MAX
#elif LK_BITS == 64
typedef double real;
typedef int64_t lane_integer;
#define LK_SUFFIX pd
#else
typedef float real;
typedef int32_t lane_integer;
#define LK_SUFFIX ps
#endif
#ifndef LK_LEAST
#define LK_LEAST ((real)-INFINITY)
#define LK_MOST ((real)INFINITY)
#endif
#define LK_REAL LK_PASTE(f, LK_BITS)
#ifdef LK_NARROW
#define LK_KIND LK_NARROW
#else
#define LK_KIND LK_REAL
#endif
#define LK_TYPED(x) LK_PASTE(LK_PASTE(x, _), LK_KIND)
#define LK_ROWS(family) LK_NAME(LK_TYPED(lk_rows_##family))
enum { LK_ITEM = sizeof(real), LK_LANES = LK_VB / LK_ITEM };

/* Callers' arrays are aligned only to their elements. */
typedef real vf __attribute__((vector_size(LK_VB), aligned(LK_ITEM), may_alias));
typedef real hf __attribute__((vector_size(LK_VB / 2), aligned(LK_ITEM), may_alias));

typedef lane_integer vi __attribute__((vector_size(LK_VB), aligned(LK_ITEM), may_alias));

/* Intrinsics of the real type and their vectors: LK_OP(max) is _mm512_max_ps, .. */
#if defined(__AVX512F__)
#define LK_OP(name) LK_PASTE(LK_PASTE(_mm512_, name), LK_PASTE(_, LK_SUFFIX))
#if LK_INTEGERS
typedef __m512i native;
#elif LK_BITS == 64
typedef __m512d native;
#else
typedef __m512 native;
#endif
#elif defined(__AVX2__)
#define LK_OP(name) LK_PASTE(LK_PASTE(_mm256_, name), LK_PASTE(_, LK_SUFFIX))
#if LK_INTEGERS
typedef __m256i native;
#elif LK_BITS == 64
typedef __m256d native;
#else
typedef __m256 native;
#endif
#endif

/* Only lanes whose bit in `mask`, which has no others, is set are loaded or stored; the others load as 0. store_first stores
 * the first n, which may be none, but not all. */
#if defined(__AVX512F__)
static inline vf load_lanes(const char *p, uint32_t mask) { return (vf)LK_OP(maskz_loadu)(mask, p); }
static inline void store_lanes(char *p, vf v, uint32_t mask) { LK_OP(mask_storeu)(p, mask, (native)v); }
static inline void store_first(char *p, vf v, const int n) { store_lanes(p, v, (1u << n) - 1); }
#elif defined(__AVX2__)
static inline __m256i lane_signs(uint32_t mask)
{
#if LK_BITS == 64
    return _mm256_sllv_epi64(_mm256_set1_epi64x(mask), _mm256_setr_epi64x(63, 62, 61, 60));
#else
    return _mm256_sllv_epi32(_mm256_set1_epi32((int)mask), _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
#endif
}
static inline vf load_lanes(const char *p, uint32_t mask)
{
    return (vf)LK_OP(maskload)((const real *)p, lane_signs(mask));
}
/* In parts: Zen 4 takes 12 cycles for a store by a mask. */
static inline void store_first(char *p, vf v, const int n)
{
    const int bytes = n * LK_ITEM;
    __m128i part = _mm256_castsi256_si128((__m256i)v);
    if (bytes & 16) {
        _mm_storeu_si128((void *)p, part);
        part = _mm256_extracti128_si256((__m256i)v, 1);
        p += 16;
    }
    if (bytes & 8) {
        _mm_storel_epi64((void *)p, part);
        part = _mm_unpackhi_epi64(part, part);
        p += 8;
    }
    if (bytes & 4)
        _mm_storeu_si32(p, part);
}
static inline void store_lanes(char *p, vf v, uint32_t mask)
{
    if (mask == (1u << LK_LANES) - 1)
        *(vf *)p = v;
    else if (!(mask & (mask + 1)))
        store_first(p, v, __builtin_popcount(mask));
    else
        LK_OP(maskstore)((real *)p, lane_signs(mask), (native)v);
}
#else
static inline vf load_lanes(const char *p, uint32_t mask)
{
    vf v = {};
    for (int i = 0; i < LK_LANES; i++)
        if (mask >> i & 1)
            v[i] = ((const real *)p)[i];
    return v;
}
static inline void store_lanes(char *p, vf v, uint32_t mask)
{
    for (int i = 0; i < LK_LANES; i++)
        if (mask >> i & 1)
            ((real *)p)[i] = v[i];
}
static inline void store_first(char *p, vf v, const int n)
{
    for (int i = 0; i < LK_LANES - 1; i++)
        if (i < n)
            ((real *)p)[i] = v[i];
}
#endif

/* v limited below by lo, above by hi; NaN stays NaN. */
static inline vf at_least(vf v, vf lo)
{
#if defined(__AVX2__)
    return (vf)LK_OP(max)((native)lo, (native)v);
#else
    const vi under = v < lo;
    return (vf)((under & (vi)lo) | (~under & (vi)v));
#endif
}
static inline vf at_most(vf v, vf hi)
{
#if defined(__AVX2__)
    return (vf)LK_OP(min)((native)hi, (native)v);
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

/* v with every -0 made +0. A sum that includes the zeros of the padding and one that skips them differ at most in the
 * sign of a zero (products may underflow to either). */
static inline vf positive_zeros(vf v) { return v + (real)0; }

#if !LK_INTEGERS
/* The rounding error of product = a * b: exactly a * b - product, unless that is denormal; of doubles without FMA the
 * last bit of it may be wrong. */
static inline vf left_of(vf a, vf b, vf product)
{
#if defined(__AVX2__)
    return (vf)LK_OP(fmsub)((native)a, (native)b, (native)product);
#else /* Dekker: halves whose products are exact */
    const lane_integer low = LK_BITS == 64 ? (lane_integer)0x7ffffff : 0xfff;
    const vf a0 = (vf)((vi)a & ~low), b0 = (vf)((vi)b & ~low), a1 = a - a0, b1 = b - b0;
    return ((a0 * b0 - product) + (a0 * b1 + a1 * b0)) + a1 * b1;
#endif
}

/* a * b + c, rounded once if the instruction set has FMA. */
static inline vf fused(vf a, vf b, vf c)
{
#if defined(__FMA__)
    return (vf)LK_OP(fmadd)((native)a, (native)b, (native)c);
#elif defined(__aarch64__) && LK_BITS == 64
    return (vf)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#elif defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

#elif LK_KR == 2
/* For sums that wrap around. */
typedef uint32_t vu __attribute__((vector_size(LK_VB), aligned(LK_ITEM), may_alias));

/* c plus, lane by lane, the products of two s16. */
static inline vf fused(vf a, vf b, vf c)
{
#if LK_VB == 64
    return (vf)((vu)c + (vu)_mm512_madd_epi16((native)a, (native)b));
#else
    return (vf)((vu)c + (vu)_mm256_madd_epi16((native)a, (native)b));
#endif
}

#else
/* c plus, lane by lane, the products of four u8 of a and s8 of b. Halves of s16, whose sums of two cannot overflow: those
 * of u8 and s8 at once (vpmaddubsw) would saturate. */
static inline vf fused(vf a, vf b, vf c)
{
#if defined(__AVX2__)
    typedef int16_t halves __attribute__((vector_size(LK_VB)));
    const vf even = (vf)((halves)b << 8 >> 8), odd = (vf)((halves)b >> 8);
#if LK_VB == 64
    c += (vf)_mm512_madd_epi16((native)(a & 0xff00ff), (native)even);
    return c + (vf)_mm512_madd_epi16((native)(a >> 8 & 0xff00ff), (native)odd);
#else
    c += (vf)_mm256_madd_epi16((native)(a & 0xff00ff), (native)even);
    return c + (vf)_mm256_madd_epi16((native)(a >> 8 & 0xff00ff), (native)odd);
#endif
#else
    c += (a & 255) * (b << 24 >> 24) + (a >> 8 & 255) * (b << 16 >> 24);
    return c + ((a >> 16 & 255) * (b << 8 >> 24) + (a >> 24 & 255) * (b >> 24));
#endif
}
#endif

/* The first n lanes of v, 0 in the rest. */
static inline vf first_lanes(vf v, int n)
{
    static const lane_integer numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vf)((vi)v & (*(const vi *)numbers < n));
}

/* Lane i of the result is lane order[i] of v. */
static inline vf shuffle_lanes(vf v, vi order) { return __builtin_shuffle(v, order); }

/* The order of the lanes of a vector, from 32 bits each. */
static inline vi lane_order(const int32_t *order)
{
#if LK_BITS == 64
    typedef int32_t narrow __attribute__((vector_size(LK_VB / 2), aligned(4), may_alias));
    return __builtin_convertvector(*(const narrow *)order, vi);
#else
    return *(const vi *)order;
#endif
}

/* acc += a * b, of units the sum of their products, in the register of acc, in the order written; LK_FMA_AT has b in
 * memory. Without this gcc 12 hoists loads across the unrolled steps of a full register tile, accumulates into the
 * broadcast's register, and spills. */
#if LK_KR == 2 && LK_INTEGERS
#define LK_FMA_NAME "vpdpwssd"
#elif LK_KR == 4 && LK_VB == 64
#define LK_FMA_NAME "vpdpbusd"
#elif LK_KR == 4
#define LK_FMA_NAME "%{vex%} vpdpbusd"
#elif LK_KR == 2
#define LK_FMA_NAME "vdpbf16ps"
#else
#define LK_FMA_NAME "vfmadd231" LK_STR(LK_SUFFIX)
#endif
#if LK_INTEGERS && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
#define LK_PIN(x) ((void)0)
#define LK_FMA(acc, a, b) ((acc) = fused(a, b, acc))
#define LK_FMA_AT(acc, a, at) ((acc) = fused(a, *(const vf *)(at), acc))
#elif defined(__AVX512F__)
#define LK_PIN(x) __asm__ volatile("" : "+v"(x))
#define LK_FMA(acc, a, b) __asm__ volatile(LK_FMA_NAME " %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b))
#define LK_FMA_AT(acc, a, at) __asm__ volatile(LK_FMA_NAME " %2, %1, %0" : "+v"(acc) : "v"(a), "m"(*(const vf *)(at)))
#elif defined(__FMA__)
#define LK_PIN(x) __asm__ volatile("" : "+x"(x))
#define LK_FMA(acc, a, b) __asm__ volatile(LK_FMA_NAME " %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b))
#define LK_FMA_AT(acc, a, at) __asm__ volatile(LK_FMA_NAME " %2, %1, %0" : "+x"(acc) : "x"(a), "m"(*(const vf *)(at)))
#else
#define LK_PIN(x) ((void)0)
#define LK_FMA(acc, a, b) ((acc) = fused(a, b, acc))
#define LK_FMA_AT(acc, a, at) ((acc) = fused(a, *(const vf *)(at), acc))
#endif
#define LK_PIN_ADDRESS(x) __asm__ volatile("" : "+r"(x)) /* forces x to be computed here, in a general register */

#endif
