/* Vectors of reals from and to numbers in memory, of f32 also narrow ones: widened exactly, rounded to nearest even. NaN
 * stays NaN, as an integer it is 0. LK_OWN is the element of the reals themselves. */
#ifndef LAYOUTKIT_NUMBERS_H
#define LAYOUTKIT_NUMBERS_H

#include "kernels.h"
#include "vector.h"

#include <string.h>

/* n reals, at most a vector; the rest of it is 0. */
LK_INLINE vf load_reals(const char *p, int n) { return n == LK_LANES ? *(const vf *)p : load_lanes(p, (1u << n) - 1); }
LK_INLINE void store_reals(char *p, vf v, int n)
{
    if (n == LK_LANES)
        *(vf *)p = v;
    else
        store_first(p, v, n);
}

#if LK_BITS == 64
#define LK_OWN LK_F64
LK_INLINE vf load_numbers(const char *p, int n, const int element) { return (void)element, load_reals(p, n); }
LK_INLINE void store_numbers(char *p, vf v, int n, const int element) { (void)element, store_reals(p, v, n); }
#else
#define LK_OWN LK_F32

typedef uint16_t narrow_16 __attribute__((vector_size(LK_VB / 2), aligned(2), may_alias));
typedef uint32_t bits_32 __attribute__((vector_size(LK_VB), aligned(4), may_alias));

LK_INLINE bits_32 select_32(bits_32 mask, bits_32 yes, bits_32 no) { return (mask & yes) | (~mask & no); }

#if defined(__AVX512BW__)
typedef uint16_t words __attribute__((vector_size(LK_VB)));

/* The words take the place of the upper halves, in one step. */
LK_INLINE vf from_bf16(narrow_16 h)
{
    const words to = {0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
    return (vf)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, (__m512i)to, _mm512_castsi256_si512((__m256i)h));
}
#else
LK_INLINE vf from_bf16(narrow_16 h) { return (vf)(__builtin_convertvector(h, bits_32) << 16); }
#endif

LK_INLINE narrow_16 to_bf16(vf x)
{
#if defined(__AVX512BF16__) /* its instruction takes denormal numbers for zeros */
    if (__builtin_expect(!_mm512_fpclass_ps_mask((__m512)x, 0x20), 1))
        return (narrow_16)_mm512_cvtneps_pbh((__m512)x);
#endif
#if defined(__AVX512BW__)
    const words from = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
    const __m512i u = (__m512i)x;
    const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    __m512i r = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
    r = _mm512_mask_add_epi32(r, odd, r, _mm512_set1_epi32(1));
    r = _mm512_mask_or_epi32(r, nan, u, _mm512_set1_epi32(0x400000));
    return (narrow_16)_mm512_castsi512_si256(_mm512_permutexvar_epi16((__m512i)from, r));
#else
    const bits_32 u = (bits_32)x, rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    const bits_32 nan = (bits_32)((u & 0x7fffffff) > 0x7f800000);
    return __builtin_convertvector(select_32(nan, u >> 16 | 0x40, rounded), narrow_16);
#endif
}

#if defined(__AVX512F__)
LK_INLINE vf from_f16(narrow_16 h) { return (vf)_mm512_cvtph_ps((__m256i)h); }
LK_INLINE narrow_16 to_f16(vf x) { return (narrow_16)_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT); }
#elif defined(__F16C__)
LK_INLINE vf from_f16(narrow_16 h) { return (vf)_mm256_cvtph_ps((__m128i)h); }
LK_INLINE narrow_16 to_f16(vf x) { return (narrow_16)_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT); }
#else
/* A half shifted to the place of a float has an exponent 112 too small; a product corrects that, denormals included. */
LK_INLINE vf from_f16(narrow_16 h)
{
    const bits_32 u = __builtin_convertvector(h, bits_32), magnitude = (u & 0x7fff) << 13;
    const bits_32 number = (bits_32)((vf)magnitude * 0x1p112f), special = magnitude | 0x7f800000;
    return (vf)(select_32((bits_32)(magnitude >= 0x0f800000), special, number) | (u & 0x8000) << 16);
}

/* A denormal result: an addition rounds at its last bit. */
LK_INLINE narrow_16 to_f16(vf x)
{
    const bits_32 u = (bits_32)x, magnitude = u & 0x7fffffff;
    const bits_32 small = (bits_32)((vf)magnitude + 0.5f) - 0x3f000000;
    const bits_32 normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    bits_32 h = select_32((bits_32)(magnitude < 0x38800000), small, normal);
    h = select_32((bits_32)(magnitude >= 0x477ff000), (bits_32){} + 0x7c00, h);
    h = select_32((bits_32)(magnitude > 0x7f800000), (bits_32){} + 0x7e00, h);
    return __builtin_convertvector(h | (u >> 16 & 0x8000), narrow_16);
}
#endif

typedef uint8_t narrow_u8 __attribute__((vector_size(LK_LANES), aligned(1), may_alias));
typedef int8_t narrow_s8 __attribute__((vector_size(LK_LANES), aligned(1), may_alias));

/* Bytes as the integers that they are; gcc 12 would take them one by one. */
LK_INLINE vi from_bytes(narrow_u8 q, const int element)
{
#if defined(__AVX512F__)
    return (vi)(element == LK_U8 ? _mm512_cvtepu8_epi32((__m128i)q) : _mm512_cvtepi8_epi32((__m128i)q));
#elif defined(__AVX2__)
    const __m128i bytes = _mm_cvtsi64_si128((int64_t)q);
    return (vi)(element == LK_U8 ? _mm256_cvtepu8_epi32(bytes) : _mm256_cvtepi8_epi32(bytes));
#else
    return element == LK_U8 ? __builtin_convertvector(q, vi) : __builtin_convertvector((narrow_s8)q, vi);
#endif
}

/* x rounded to integers (NaN to 0), plus `zero`, saturated to u8 or s8. */
LK_INLINE narrow_u8 to_bytes(vf x, int zero, const int element)
{
#if defined(__AVX512F__)
    const __mmask16 number = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_ORD_Q);
    __m512i q = _mm512_cvtps_epi32(_mm512_maskz_min_ps(number, (__m512)x, _mm512_set1_ps(0x1p30f)));
    q = _mm512_add_epi32(_mm512_max_epi32(q, _mm512_set1_epi32(-(1 << 30))), _mm512_set1_epi32(zero));
    if (element == LK_S8)
        return (narrow_u8)_mm512_cvtsepi32_epi8(q);
    return (narrow_u8)_mm512_cvtusepi32_epi8(_mm512_max_epi32(q, _mm512_setzero_si512()));
#else
    const float lo = element == LK_U8 ? 0 : -128, hi = element == LK_U8 ? 255 : 127;
    x = (vf)((bits_32)(x == x) & (bits_32)x);
    x = (between(x, -0x1p20f, 0x1p20f) + 0x1.8p23f) - 0x1.8p23f;
    return __builtin_convertvector(__builtin_convertvector(between(x + (float)zero, lo, hi), vi), narrow_u8);
#endif
}

/* The first n of these, fewer than a vector has; the rest is 0. */
#if defined(__AVX512BW__) && defined(__AVX512VL__)
LK_INLINE narrow_16 load_some_16(const char *p, int n) { return (narrow_16)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p); }
LK_INLINE void store_some_16(char *p, narrow_16 h, int n) { _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)h); }
LK_INLINE narrow_u8 load_some_u8(const char *p, int n) { return (narrow_u8)_mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), p); }
LK_INLINE void store_some_u8(char *p, narrow_u8 q, int n) { _mm_mask_storeu_epi8(p, (__mmask16)((1u << n) - 1), (__m128i)q); }
#else
LK_INLINE narrow_16 load_some_16(const char *p, int n)
{
    narrow_16 h = {};
    memcpy(&h, p, 2 * (size_t)n);
    return h;
}
LK_INLINE void store_some_16(char *p, narrow_16 h, int n) { memcpy(p, &h, 2 * (size_t)n); }
LK_INLINE narrow_u8 load_some_u8(const char *p, int n)
{
    narrow_u8 q = {};
    memcpy(&q, p, (size_t)n);
    return q;
}
LK_INLINE void store_some_u8(char *p, narrow_u8 q, int n) { memcpy(p, &q, (size_t)n); }
#endif

/* The first n numbers of `element` at p, which may be LK_F32 or LK_S32; the rest of the vector is 0. */
LK_INLINE vf load_numbers(const char *p, int n, const int element)
{
    if (element == LK_F32)
        return load_reals(p, n);
    if (element == LK_S32)
        return __builtin_convertvector((vi)load_reals(p, n), vf);
    if (element == LK_U8 || element == LK_S8) {
        const narrow_u8 q = n == LK_LANES ? *(const narrow_u8 *)p : load_some_u8(p, n);
        return __builtin_convertvector(from_bytes(q, element), vf);
    }
    const narrow_16 h = n == LK_LANES ? *(const narrow_16 *)p : load_some_16(p, n);
    return element == LK_BF16 ? from_bf16(h) : from_f16(h);
}

LK_INLINE void store_numbers(char *p, vf v, int n, const int element)
{
    if (element == LK_F32) {
        store_reals(p, v, n);
        return;
    }
    const narrow_16 h = element == LK_BF16 ? to_bf16(v) : to_f16(v);
    if (n == LK_LANES)
        *(narrow_16 *)p = h;
    else
        store_some_16(p, h, n);
}

LK_INLINE void store_bytes(char *p, narrow_u8 q, int n)
{
    if (n == LK_LANES)
        *(narrow_u8 *)p = q;
    else
        store_some_u8(p, q, n);
}
#endif

/* The elements of tensors of a family that also has rows for narrow ones, which are widened and rounded. */
#if defined(LK_NARROW) && LK_KR == 1
#define ELEMENT LK_PASTE(LK_ELEMENT_, LK_NARROW)
enum { LK_ELEMENT_bf16 = LK_BF16, LK_ELEMENT_f16 = LK_F16, LK_ELEMENT_u8 = LK_U8, LK_ELEMENT_s8 = LK_S8 };
enum { NARROW = 1, ITEM = (int)ELEMENT == LK_U8 || (int)ELEMENT == LK_S8 ? 1 : 2 };
#else
#define ELEMENT LK_OWN
enum { NARROW = 0, ITEM = sizeof(real) };
#endif

#endif
