/* Means of pairs of elements of one, two or four rows of small integers: LK_WEIGH_HALVES of filters.h. Sums of all are in lanes
 * of two elements, of which half a vector of results is made.
 * Edges: the last half vector overlaps the one before; fewer results are made one by one. */
#ifndef LAYOUTKIT_HALVES_H
#define LAYOUTKIT_HALVES_H

#include "common/stream.h"
#include "filters.h"
#include "reals.h"

typedef int16_t pair_words __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef uint16_t pair_naturals __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef int32_t pair_longs __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef uint32_t pair_ulongs __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef int8_t half_bytes __attribute__((vector_size(LK_VB / 2), aligned(1), may_alias));
typedef int16_t half_words __attribute__((vector_size(LK_VB / 2), aligned(1), may_alias));

/* Stores the lower halves of lanes. */
LK_INLINE void store_lower(char *y, pair_words v, const int bytes)
{
#if defined(__AVX512BW__)
    _mm256_storeu_si256((__m256i *)y, bytes == 1 ? _mm512_cvtepi16_epi8((__m512i)v) : _mm512_cvtepi32_epi16((__m512i)v));
#elif defined(__AVX2__)
    const __m256i lower = bytes == 1 ? _mm256_packus_epi16((__m256i)(v & 255), (__m256i)v)
                                     : _mm256_packus_epi32((__m256i)((pair_longs)v & 0xffff), (__m256i)v);
    _mm_storeu_si128((__m128i *)y, _mm256_castsi256_si128(_mm256_permute4x64_epi64(lower, 0x08)));
#else
    if (bytes == 1)
        *(half_bytes *)y = __builtin_convertvector(v, half_bytes);
    else
        *(half_words *)y = __builtin_convertvector((pair_longs)v, half_words);
#endif
}

/* Results from element i on. */
LK_INLINE void halve_vector(const lk_combine *p, int64_t i, const int taps, const int e)
{
    const int shift = taps == 1 ? 1 : taps == 2 ? 2 : 3, bytes = bytes_of(e);
    pair_words sum = {};
#pragma GCC unroll 4
    for (int t = 0; t < taps; t++) {
        const char *const x = p->x[t] + 2 * i * bytes;
        if (p->ahead_row)
            prefetch(x + p->ahead_row);
        if (bytes == 1) {
            const pair_words v = *(const pair_words *)x;
            if (e == LK_U8)
                sum += (v & 255) + (pair_words)((pair_naturals)v >> 8);
            else
                sum += ((pair_words)((pair_naturals)v << 8) >> 8) + (v >> 8);
        } else {
            const pair_longs v = *(const pair_longs *)x;
            if (e == LK_U16)
                sum = (pair_words)((pair_longs)sum + (v & 0xffff) + (pair_longs)((pair_ulongs)v >> 16));
            else
                sum = (pair_words)((pair_longs)sum + ((pair_longs)((pair_ulongs)v << 16) >> 16) + (v >> 16));
        }
    }
    if (bytes == 1) /* a half of the divisor is added, less one where the sum is negative */
        sum = (sum + (int16_t)taps + (sum >> 15)) >> shift;
    else
        sum = (pair_words)(((pair_longs)sum + taps + ((pair_longs)sum >> 31)) >> shift);
    store_lower(p->y + i * bytes, sum, bytes);
}

LK_INLINE int32_t element_of(const char *x, int64_t i, const int e)
{
    return e == LK_U8 ? ((const uint8_t *)x)[i] : e == LK_S8 ? ((const int8_t *)x)[i]
           : e == LK_U16                                   ? ((const uint16_t *)x)[i]
                                                           : ((const int16_t *)x)[i];
}

static __attribute__((noinline)) void halve_few(const lk_combine *p, const int e)
{
    for (int64_t i = 0; i < p->count; i++) {
        int32_t sum = 0;
        for (int64_t t = 0; t < p->taps; t++)
            sum += element_of(p->x[t], 2 * i, e) + element_of(p->x[t], 2 * i + 1, e);
        sum = (sum + (int32_t)p->taps - (sum < 0)) >> (p->taps == 1 ? 1 : p->taps == 2 ? 2 : 3);
        if (bytes_of(e) == 1)
            p->y[i] = (char)sum;
        else
            ((int16_t *)p->y)[i] = (int16_t)sum;
    }
}

LK_INLINE void halve_rows(const lk_combine *p, const int e)
{
    const int64_t lanes = LK_VB / 2 / bytes_of(e);
    if (p->count < lanes) {
        halve_few(p, e);
        return;
    }
#define HALVE(taps) \
    for (int64_t i = 0; i < p->count; i += lanes) \
        halve_vector(p, MIN(i, p->count - lanes), taps, e);
    if (p->taps == 1)
        HALVE(1)
    else if (p->taps == 2)
        HALVE(2)
    else
        HALVE(4)
#undef HALVE
}

#endif
