/* Moves of elements of one width: copy, transpose, gather, fill; see lk_move in kernels.h.
 *
 *   dst[i0*d0 + i1*d1] = src[i0*s0 + i1*s1]
 *
 * transpose: N x N tiles in registers, log2(N) rounds of interleaving rows i and i + N/2.
 * Regions: whole tiles; then ragged rows and columns, gathered element by element.
 */
#include "kernels.h"
#include "vector.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

/* Bypasses the caches; p aligned to the vector. */
LK_INLINE void stream_vector(char *p, const char *v)
{
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)p, _mm512_loadu_si512(v));
#elif defined(__AVX__)
    _mm256_stream_si256((void *)p, _mm256_loadu_si256((const void *)v));
#elif defined(__SSE2__)
    _mm_stream_si128((void *)p, _mm_loadu_si128((const void *)v));
#else
    memcpy(p, v, LK_VB);
#endif
}

LK_INLINE void stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

/* n0 runs of n1 bytes. */
void LK_NAME(copy_x8)(const lk_move *m)
{
    const char *s = m->src;
    char *d = m->dst;
    const int64_t n = m->n1;
    if (m->stream && n >= 256) {
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0) {
            int64_t k = -(intptr_t)d & (LK_VB - 1);
            memcpy(d, s, k);
            for (; k + 4 * LK_VB <= n; k += 4 * LK_VB) {
                __builtin_prefetch(s + k + 2048);
                for (int u = 0; u < 4; u++)
                    stream_vector(d + k + u * LK_VB, s + k + u * LK_VB);
            }
            memcpy(d + k, s + k, n - k);
        }
        stream_end();
    } else if (n == 64 || n == 32) { /* a block of a blocked layout */
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0)
            for (int64_t k = 0; k < n; k += 32)
                memcpy(d + k, s + k, 32);
    } else {
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0)
            memcpy(d, s, n);
    }
}

/* The movers of one element type, N lanes to a tile row. */
#define MOVERS(BITS, TYPE, N) \
    typedef TYPE v##BITS __attribute__((vector_size(N * sizeof(TYPE)), aligned(sizeof(TYPE)), may_alias)); \
\
    LK_INLINE void gather##BITS(const char *s, char *d, int64_t n0, int64_t n1, const lk_move *m) \
    { \
        for (int64_t i = 0; i < n0; i++) \
            for (int64_t j = 0; j < n1; j++) \
                memcpy(d + i * m->d0 + j * m->d1, s + i * m->s0 + j * m->s1, sizeof(TYPE)); \
    } \
    void LK_NAME(gather_x##BITS)(const lk_move *m) { gather##BITS(m->src, m->dst, m->n0, m->n1, m); } \
\
    void LK_NAME(fill_x##BITS)(const lk_move *m) \
    { \
        TYPE x; \
        memcpy(&x, m->src, sizeof x); \
        for (int64_t i = 0; i < m->n0; i++) \
            for (int64_t j = 0; j < m->n1; j++) \
                memcpy(m->dst + i * m->d0 + j * m->d1, &x, sizeof x); \
    } \
\
    LK_INLINE void tile##BITS(const char *s, char *d, const lk_move *m, const int stream) \
    { \
        v##BITS a[N], b[N], lo, hi; \
        for (int i = 0; i < N; i++) { \
            lo[i] = i % 2 ? N + i / 2 : i / 2; \
            hi[i] = lo[i] + N / 2; \
        } \
        _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) a[i] = *(const v##BITS *)(s + i * m->s1); \
        _Pragma("GCC unroll 4") for (int round = 1; round < N; round *= 2) \
        { \
            _Pragma("GCC unroll 16") for (int i = 0; i < N / 2; i++) \
            { \
                b[2 * i] = __builtin_shuffle(a[i], a[i + N / 2], lo); \
                b[2 * i + 1] = __builtin_shuffle(a[i], a[i + N / 2], hi); \
            } \
            _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) a[i] = b[i]; \
        } \
        _Pragma("GCC unroll 16") for (int i = 0; i < N; i++) \
        { \
            if (stream) \
                stream_vector(d + i * m->d0, (const char *)&a[i]); \
            else \
                *(v##BITS *)(d + i * m->d0) = a[i]; \
        } \
    } \
\
    void LK_NAME(transpose_x##BITS)(const lk_move *m) \
    { \
        const int64_t w = sizeof(TYPE), t0 = m->n0 / N * N, t1 = m->n1 / N * N; \
        const int stream = m->stream && N * w == LK_VB && !(((intptr_t)m->dst | m->d0) & (LK_VB - 1)); \
        for (int64_t j = 0; j < t1; j += N) { \
            const char *s = m->src + j * m->s1; \
            char *d = m->dst + j * w; \
            if (stream) \
                for (int64_t i = 0; i < t0; i += N) \
                    tile##BITS(s + i * w, d + i * m->d0, m, 1); \
            else \
                for (int64_t i = 0; i < t0; i += N) \
                    tile##BITS(s + i * w, d + i * m->d0, m, 0); \
            gather##BITS(s + t0 * w, d + t0 * m->d0, m->n0 - t0, N, m); \
        } \
        gather##BITS(m->src + t1 * m->s1, m->dst + t1 * w, m->n0, m->n1 - t1, m); \
        if (stream) \
            stream_end(); \
    }

#define MIN(a, b) ((a) < (b) ? (a) : (b))
MOVERS(8, uint8_t, 16)
MOVERS(16, uint16_t, MIN(LK_VB / 2, 16))
MOVERS(32, uint32_t, MIN(LK_VB / 4, 16))
MOVERS(64, uint64_t, MIN(LK_VB / 8, 8))

typedef struct { uint64_t lo, hi; } pair;
void LK_NAME(gather_x128)(const lk_move *m)
{
    for (int64_t i = 0; i < m->n0; i++)
        for (int64_t j = 0; j < m->n1; j++)
            memcpy(m->dst + i * m->d0 + j * m->d1, m->src + i * m->s0 + j * m->s1, sizeof(pair));
}

/* An element is a register already: whole lines of the destination at a time. */
void LK_NAME(transpose_x128)(const lk_move *m)
{
    lk_move part = *m;
    for (int64_t j = 0; j < m->n1; j += 4) {
        part.n1 = MIN(4, m->n1 - j);
        LK_NAME(gather_x128)(&part);
        part.src += 4 * m->s1;
        part.dst += 4 * m->d1;
    }
}

void LK_NAME(fill_x128)(const lk_move *m)
{
    pair x;
    memcpy(&x, m->src, sizeof x);
    for (int64_t i = 0; i < m->n0; i++)
        for (int64_t j = 0; j < m->n1; j++)
            memcpy(m->dst + i * m->d0 + j * m->d1, &x, sizeof x);
}

#define ROWS(BITS, N) \
    LK_ROW(LK_TRANSPOSE, transpose_x##BITS, BITS, N, N), LK_ROW(LK_GATHER, gather_x##BITS, BITS, 0, 0), \
        LK_ROW(LK_FILL, fill_x##BITS, BITS, 0, 0)

const lk_kernel LK_NAME(lk_rows_move)[] = {
    LK_ROW(LK_COPY, copy_x8, 8, 0, 0),
    ROWS(8, 16),
    ROWS(16, MIN(LK_VB / 2, 16)),
    ROWS(32, MIN(LK_VB / 4, 16)),
    ROWS(64, MIN(LK_VB / 8, 8)),
    LK_ROW(LK_TRANSPOSE, transpose_x128, 128, 0, 4),
    LK_ROW(LK_GATHER, gather_x128, 128, 0, 0),
    LK_ROW(LK_FILL, fill_x128, 128, 0, 0),
    LK_LAST_ROW,
};
