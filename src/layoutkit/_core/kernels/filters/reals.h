/* Vectors of reals from and to the elements of images: bytes, words, integers, floats. */
#ifndef LAYOUTKIT_REALS_H
#define LAYOUTKIT_REALS_H

#include "common/numbers.h"
#include "common/vector.h"

#include <string.h>

typedef int32_t ints __attribute__((vector_size(4 * LK_LANES), aligned(4), may_alias));
typedef uint32_t naturals __attribute__((vector_size(4 * LK_LANES), aligned(4), may_alias));
typedef float floats __attribute__((vector_size(4 * LK_LANES), aligned(4), may_alias));
typedef double doubles __attribute__((vector_size(8 * LK_LANES), aligned(8), may_alias));
typedef int8_t s8s __attribute__((vector_size(LK_LANES), aligned(1), may_alias));
typedef uint8_t u8s __attribute__((vector_size(LK_LANES), aligned(1), may_alias));
typedef int16_t s16s __attribute__((vector_size(2 * LK_LANES), aligned(2), may_alias));
typedef uint16_t u16s __attribute__((vector_size(2 * LK_LANES), aligned(2), may_alias));

LK_INLINE int bytes_of(const int element)
{
    return element == LK_U8 || element == LK_S8 || element == LK_BOOL ? 1 : element == LK_U16 || element == LK_S16 ? 2
           : element == LK_F64                                                                              ? 8
                                                                                                            : 4;
}

/* A vector of elements of at most 32 bits, as integers. gcc 12 would take narrow ones one by one. */
LK_INLINE ints load_ints(const char *p, const int e)
{
    if (e == LK_S32 || e == LK_U32)
        return *(const ints *)p;
#if defined(__AVX512F__) && LK_BITS == 32
    if (e == LK_U8 || e == LK_S8) {
        const __m128i v = _mm_loadu_si128((const __m128i *)p);
        return (ints)(e == LK_U8 ? _mm512_cvtepu8_epi32(v) : _mm512_cvtepi8_epi32(v));
    }
    const __m256i v = _mm256_loadu_si256((const __m256i *)p);
    return (ints)(e == LK_U16 ? _mm512_cvtepu16_epi32(v) : _mm512_cvtepi16_epi32(v));
#elif defined(__AVX2__) && (LK_BITS == 32 || defined(__AVX512F__))
    if (e == LK_U8 || e == LK_S8) {
        const __m128i v = _mm_loadl_epi64((const __m128i *)p);
        return (ints)(e == LK_U8 ? _mm256_cvtepu8_epi32(v) : _mm256_cvtepi8_epi32(v));
    }
    const __m128i v = _mm_loadu_si128((const __m128i *)p);
    return (ints)(e == LK_U16 ? _mm256_cvtepu16_epi32(v) : _mm256_cvtepi16_epi32(v));
#elif defined(__AVX2__)
    if (e == LK_U8 || e == LK_S8) {
        int32_t four;
        memcpy(&four, p, 4);
        const __m128i v = _mm_cvtsi32_si128(four);
        return (ints)(e == LK_U8 ? _mm_cvtepu8_epi32(v) : _mm_cvtepi8_epi32(v));
    }
    const __m128i v = _mm_loadl_epi64((const __m128i *)p);
    return (ints)(e == LK_U16 ? _mm_cvtepu16_epi32(v) : _mm_cvtepi16_epi32(v));
#else
    ints v;
    for (int i = 0; i < LK_LANES; i++)
        v[i] = e == LK_U8    ? ((const uint8_t *)p)[i]
               : e == LK_S8  ? ((const int8_t *)p)[i]
               : e == LK_U16 ? ((const uint16_t *)p)[i]
                             : ((const int16_t *)p)[i];
    return v;
#endif
}

/* gcc 12 would make doubles of the halves of a vector. */
LK_INLINE vf from_ints(ints v)
{
#if defined(__AVX512F__) && LK_BITS == 64
    return (vf)_mm512_cvtepi32_pd((__m256i)v);
#else
    return __builtin_convertvector(v, vf);
#endif
}

LK_INLINE vf from_floats(floats v)
{
#if defined(__AVX512F__) && LK_BITS == 64
    return (vf)_mm512_cvtps_pd((__m256)v);
#else
    return __builtin_convertvector(v, vf);
#endif
}

LK_INLINE vf load_elements(const char *p, const int e)
{
    if (e == LK_OWN)
        return *(const vf *)p;
    if (e == LK_F32)
        return from_floats(*(const floats *)p);
    if (e == LK_F64)
        return __builtin_convertvector(*(const doubles *)p, vf);
    if (e == LK_U32)
        return __builtin_convertvector(*(const naturals *)p, vf);
    return from_ints(load_ints(p, e));
}

/* The first n elements; the rest of the vector is 0. */
LK_INLINE vf load_some(const char *p, int n, const int e)
{
    if (n == LK_LANES)
        return load_elements(p, e);
    char all[8 * LK_LANES] = {0};
    memcpy(all, p, (size_t)(n * bytes_of(e)));
    return load_elements(all, e);
}

/* The integers that C makes of reals: without their fraction, INT32_MIN where they do not fit. */
LK_INLINE ints cast_ints(vf v)
{
#if defined(__AVX512F__) && LK_BITS == 32
    return (ints)_mm512_cvttps_epi32((__m512)v);
#elif defined(__AVX512F__)
    return (ints)_mm512_cvttpd_epi32((__m512d)v);
#elif defined(__AVX2__) && LK_BITS == 32
    return (ints)_mm256_cvttps_epi32((__m256)v);
#elif defined(__AVX2__)
    return (ints)_mm256_cvttpd_epi32((__m256d)v);
#else
    ints r;
    for (int i = 0; i < LK_LANES; i++)
        r[i] = v[i] > (real)-2147483649.0 && v[i] < (real)2147483648.0 ? (int32_t)v[i] : INT32_MIN;
    return r;
#endif
}

/* By way of s64, as C does. */
LK_INLINE naturals cast_naturals(vf v)
{
#if defined(__AVX512DQ__) && LK_BITS == 64
    return (naturals)_mm512_cvtepi64_epi32(_mm512_cvttpd_epi64((__m512d)v));
#else
    naturals r;
    for (int i = 0; i < LK_LANES; i++)
        r[i] = v[i] > (real)-9.2e18 && v[i] < (real)9.2e18 ? (uint32_t)(int64_t)v[i] : 0;
    return r;
#endif
}

/* Without their fraction; magnitudes are below 2^31 in f32, 2^63 in f64. */
LK_INLINE vf whole(vf v)
{
#if defined(__AVX512F__)
    return (vf)LK_OP(roundscale)((native)v, 8 | 3);
#elif defined(__AVX2__)
    return (vf)LK_OP(round)((native)v, 8 | 3);
#elif LK_BITS == 32
    return __builtin_convertvector(__builtin_convertvector(v, vi), vf);
#else
    for (int i = 0; i < LK_LANES; i++)
        v[i] = (double)(int64_t)v[i];
    return v;
#endif
}

/* What a cast to elements and back makes of reals; to s64, of those that fit. */
LK_INLINE vf cast_to(vf v, const int e)
{
    if (e == LK_S64)
        return whole(v);
    if (e == LK_U32)
        return __builtin_convertvector(cast_naturals(v), vf);
    ints i = cast_ints(v);
    if (e == LK_U8)
        i &= 255;
    else if (e == LK_U16)
        i &= 65535;
    else if (e == LK_S8)
        i = i << 24 >> 24;
    else if (e == LK_S16)
        i = i << 16 >> 16;
    return from_ints(i);
}

LK_INLINE void store_elements(char *p, vf v, const int e)
{
    if (e == LK_OWN)
        *(vf *)p = v;
    else if (e == LK_F32)
        *(floats *)p = __builtin_convertvector(v, floats);
    else if (e == LK_F64)
        *(doubles *)p = __builtin_convertvector(v, doubles);
    else if (e == LK_U32)
        *(naturals *)p = cast_naturals(v);
    else if (e == LK_S32)
        *(ints *)p = cast_ints(v);
    else {
        const ints i = cast_ints(v);
#if defined(__AVX512F__) && LK_BITS == 32
        if (bytes_of(e) == 1)
            _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((__m512i)i));
        else
            _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)i));
#elif defined(__AVX512VL__) && defined(__AVX512BW__)
        if (bytes_of(e) == 1)
            _mm_storel_epi64((__m128i *)p, _mm256_cvtepi32_epi8((__m256i)i));
        else
            _mm_storeu_si128((__m128i *)p, _mm256_cvtepi32_epi16((__m256i)i));
#else
        if (bytes_of(e) == 1)
            *(u8s *)p = __builtin_convertvector((naturals)i & 255, u8s);
        else
            *(u16s *)p = __builtin_convertvector((naturals)i & 65535, u16s);
#endif
    }
}

LK_INLINE void store_some(char *p, vf v, int n, const int e)
{
    if (n == LK_LANES) {
        store_elements(p, v, e);
        return;
    }
    char all[8 * LK_LANES];
    store_elements(all, v, e);
    memcpy(p, all, (size_t)(n * bytes_of(e)));
}

/* Calls f(e) with a constant in place of an element: of float32, those that it holds exactly. */
#if LK_BITS == 64
#define LK_OF_WIDE_ELEMENT(f) \
    case LK_U32: f(LK_U32); break; \
    case LK_S32: f(LK_S32); break; \
    case LK_F64: f(LK_F64); break;
#else
#define LK_OF_WIDE_ELEMENT(f)
#endif
#define LK_OF_ELEMENT(element, f) \
    switch (element) { \
    case LK_U8: case LK_BOOL: f(LK_U8); break; \
    case LK_S8: f(LK_S8); break; \
    case LK_U16: f(LK_U16); break; \
    case LK_S16: f(LK_S16); break; \
    case LK_F32: f(LK_F32); break; \
    LK_OF_WIDE_ELEMENT(f) \
    }

#endif
