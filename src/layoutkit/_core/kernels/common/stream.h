/* Stores of partial vectors, and streaming stores, which bypass the caches; stream_end makes those visible in order. */
#ifndef LAYOUTKIT_STREAM_H
#define LAYOUTKIT_STREAM_H

#include "kernels.h"
#include "vector.h"

#include <string.h>

/* Streams n = 16, 32 or 64 bytes, at most a vector; p is aligned to n. */
LK_INLINE void stream_part(char *p, const char *v, const int n __attribute__((unused)))
{
#if defined(__AVX512F__)
    if (n == 64) {
        _mm512_stream_si512((void *)p, _mm512_loadu_si512(v));
        return;
    }
#endif
#if defined(__AVX__)
    if (n == 32) {
        _mm256_stream_si256((void *)p, _mm256_loadu_si256((const void *)v));
        return;
    }
#endif
#if defined(__SSE2__)
    _mm_stream_si128((void *)p, _mm_loadu_si128((const void *)v));
#else
    memcpy(p, v, n);
#endif
}

/* Prefetches the line of p, for Cython. */
LK_INLINE void prefetch(const char *p) { __builtin_prefetch(p, 0, 2); }

LK_INLINE void stream_vector(char *p, const char *v) { stream_part(p, v, LK_VB); }

/* Whether parts of vectors are loaded and stored by masks; otherwise they are slow. */
#ifdef __AVX512BW__
enum { MASKED = 1 };
#else
enum { MASKED = 0 };
#endif

/* Copies n <= 16 bytes, by parts that overlap; memory behind them is not touched. */
LK_INLINE void copy_bytes(char *d, const char *s, int n)
{
    if (n >= 8) {
        uint64_t first, last;
        memcpy(&first, s, 8), memcpy(&last, s + n - 8, 8);
        memcpy(d, &first, 8), memcpy(d + n - 8, &last, 8);
    } else if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, s, 4), memcpy(&last, s + n - 4, 4);
        memcpy(d, &first, 4), memcpy(d + n - 4, &last, 4);
    } else if (n >= 2) {
        uint16_t first, last;
        memcpy(&first, s, 2), memcpy(&last, s + n - 2, 2);
        memcpy(d, &first, 2), memcpy(d + n - 2, &last, 2);
    } else if (n) {
        *d = *s;
    }
}

/* The first n <= 16 bytes at p, then zeros. In registers: a vector that is loaded waits for stores of its parts. */
typedef uint64_t lk_two __attribute__((vector_size(16)));
LK_INLINE lk_two load_bytes(const char *p, int n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t low = 0, high = 0;
    if (n >= 8) {
        memcpy(&low, p, 8);
        if (n > 8) {
            memcpy(&high, p + n - 8, 8);
            high >>= 8 * (16 - n);
        }
    } else if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, p, 4), memcpy(&last, p + n - 4, 4);
        low = first | (uint64_t)last << 8 * (n - 4);
    } else if (n) { /* the first, one of the middle, and the last */
        const unsigned char *of = (const unsigned char *)p;
        low = of[0] | (uint64_t)of[n / 2] << 8 * (n / 2) | (uint64_t)of[n - 1] << 8 * (n - 1);
    }
    return (lk_two){low, high};
#else
    lk_two v = {};
    memcpy(&v, p, n);
    return v;
#endif
}

/* Copies n <= LK_VB bytes; memory behind them is not touched. */
LK_INLINE void copy_part(char *d, const char *s, int n)
{
#if defined(__AVX512BW__)
    const __mmask64 m = n == 64 ? ~0ull : (1ull << n) - 1;
    _mm512_mask_storeu_epi8(d, m, _mm512_maskz_loadu_epi8(m, s));
#else
    if (n >= LK_VB) {
        memcpy(d, s, LK_VB);
    } else if (n >= 16) {
        lk_two first, last;
        memcpy(&first, s, 16), memcpy(&last, s + n - 16, 16);
        memcpy(d, &first, 16), memcpy(d + n - 16, &last, 16);
    } else {
        copy_bytes(d, s, n);
    }
#endif
}

/* Copies n <= 64 bytes. */
LK_INLINE void copy_line_part(char *d, const char *s, int n)
{
    for (; n > LK_VB; n -= LK_VB, d += LK_VB, s += LK_VB)
        copy_part(d, s, LK_VB);
    copy_part(d, s, n);
}

/* Streams n bytes: plain stores up to the first aligned vector and for the rest after the last one. */
LK_INLINE void stream_run(char *d, const char *s, int64_t n)
{
    int64_t k = -(intptr_t)d & (LK_VB - 1);
    if (k > n)
        k = n;
    if (k)
        copy_part(d, s, (int)k);
    for (; k + LK_VB <= n; k += LK_VB)
        stream_vector(d + k, s + k);
    if (k < n)
        copy_part(d + k, s + k, (int)(n - k));
}

#if LK_VB > 16
/* Streams a run of vectors to an unaligned destination (at a multiple of 4 bytes): each aligned vector that is stored
 * is shuffled from two consecutive vectors of the run. */
typedef struct {
    char *at;
    vi before, order;
    int begun, phase;
} lk_shifted;

LK_INLINE int can_shift(const char *d) { return (intptr_t)d % 4 == 0 && (intptr_t)d % LK_VB; }

/* Begins another run of the same alignment, n bytes from d on. Prefetches the line in which it ends: a store to a part
 * of an uncached line stalls the stores behind it for a memory latency. */
LK_INLINE void shifted_next(lk_shifted *l, char *d, int64_t n)
{
    l->at = d - l->phase;
    l->begun = 0;
    __builtin_prefetch(d + n, 1);
}

LK_INLINE lk_shifted shifted_begin(char *d, int64_t n)
{
    lk_shifted l = {.phase = (int)((intptr_t)d & (LK_VB - 1))};
    for (int i = 0; i < LK_LANES; i++)
        l.order[i] = LK_LANES - l.phase / 4 + i;
    shifted_next(&l, d, n);
    return l;
}

LK_INLINE void shifted_put(lk_shifted *l, vi v)
{
    if (l->begun) {
        const vi line = __builtin_shuffle(l->before, v, l->order);
        stream_vector(l->at, (const char *)&line);
    } else {
        copy_part(l->at + l->phase, (const char *)&v, LK_VB - l->phase);
        l->begun = 1;
    }
    l->before = v;
    l->at += LK_VB;
}

LK_INLINE void shifted_end(const lk_shifted *l)
{
    const vi last = l->before;
    if (l->begun)
        copy_part(l->at, (const char *)&last + LK_VB - l->phase, l->phase);
}
#endif

/* The vector that begins `phase` bytes before `now`, which follows `before`; `phase` is a multiple of `width`. */
LK_INLINE vi shifted(vi before, vi now, int phase, const int width)
{
#if LK_VB > 16
    static const int numbers[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
#ifdef __AVX512BW__
    if (width == 2) {
        typedef short half __attribute__((vector_size(LK_VB), may_alias));
        half at;
        for (short i = 0; i < 32; i++)
            at[i] = i;
        at += (short)(32 - phase / 2);
        return (vi)_mm512_permutex2var_epi16((__m512i)before, (__m512i)at, (__m512i)now);
    }
#endif
    const vi order = *(const vi *)(numbers + LK_LANES - (phase + 3) / 4);
    const vi low = __builtin_shuffle(before, now, order);
    const int bits = 8 * (-phase & 3);
    if (width >= 4 || !bits)
        return low;
    typedef uint32_t vu __attribute__((vector_size(LK_VB)));
    const vi high = __builtin_shuffle(before, now, order + 1);
    return (vi)((vu)low >> bits | (vu)high << (32 - bits));
#else
    char both[2 * LK_VB] __attribute__((aligned(LK_VB)));
    memcpy(both, &before, LK_VB);
    memcpy(both + LK_VB, &now, LK_VB);
    vi v;
    memcpy(&v, both + LK_VB - phase, LK_VB);
    return v;
#endif
}

LK_INLINE void stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

#endif
