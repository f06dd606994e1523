/* Stores that bypass the caches. */
#ifndef LAYOUTKIT_STREAM_H
#define LAYOUTKIT_STREAM_H

#include "kernels.h"
#include "vector.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* Stores n = 16, 32 or 64 bytes past the caches; p aligned to n, n at most a vector. */
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

LK_INLINE void stream_vector(char *p, const char *v) { stream_part(p, v, LK_VB); }

/* n bytes: a head up to the first aligned vector, streamed vectors, the rest. */
LK_INLINE void stream_run(char *d, const char *s, int64_t n)
{
    int64_t k = -(intptr_t)d & (LK_VB - 1);
    if (k > n)
        k = n;
    memcpy(d, s, k);
    for (; k + LK_VB <= n; k += LK_VB)
        stream_vector(d + k, s + k);
    memcpy(d + k, s + k, n - k);
}

LK_INLINE void stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

#endif
