/* Moves of elements of one width: copy, transpose, gather, fill; see lk_move in kernels.h.
 *
 *   dst[i0*d0 + i1*d1] = src[i0*s0 + i1*s1]
 *
 * The movers of one width, transposes above all, stand in move_width.inc.
 * copy: Regions: the head up to the first aligned vector; streamed vectors; the rest.
 */
#include "kernels.h"
#include "stream.h"
#include "vector.h"

#include <string.h>

/* n <= LK_VB bytes, nothing behind them touched. */
LK_INLINE void copy_part(char *d, const char *s, int n)
{
#if defined(__AVX512BW__)
    const __mmask64 m = n == 64 ? ~0ull : (1ull << n) - 1;
    _mm512_mask_storeu_epi8(d, m, _mm512_maskz_loadu_epi8(m, s));
#else
    if (n >= LK_VB) {
        memcpy(d, s, LK_VB);
        return;
    }
    if (LK_VB > 16 && n & 16)
        memcpy(d, s, LK_VB > 16 ? 16 : 0), d += 16, s += 16;
    if (n & 8)
        memcpy(d, s, 8), d += 8, s += 8;
    if (n & 4)
        memcpy(d, s, 4), d += 4, s += 4;
    if (n & 2)
        memcpy(d, s, 2), d += 2, s += 2;
    if (n & 1)
        *d = *s;
#endif
}

/* n0 runs of n1 bytes. */
void LK_NAME(copy_x8)(const lk_move *m)
{
    const char *s = m->src;
    char *d = m->dst;
    const int64_t n = m->n1;
    if (m->stream && n % LK_VB == 0 && ((intptr_t)d | m->d0) % LK_VB == 0) { /* blocks, or aligned rows */
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0)
            for (int64_t k = 0; k < n; k += LK_VB)
                stream_vector(d + k, s + k);
        stream_end();
    } else if (m->stream && n >= 8 * LK_VB) {
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0)
            stream_run(d, s, n);
        stream_end();
    } else if (n <= 4 * LK_VB) { /* a block of a blocked layout, a pixel of few channels */
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0) {
            int64_t k = 0;
            for (; k + LK_VB <= n; k += LK_VB)
                copy_part(d + k, s + k, LK_VB);
            if (k < n)
                copy_part(d + k, s + k, (int)(n - k));
        }
    } else {
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0)
            memcpy(d, s, n);
    }
}

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define BITS 8
#include "move_width.inc"
#undef BITS
#define BITS 16
#include "move_width.inc"
#undef BITS
#define BITS 32
#include "move_width.inc"
#undef BITS
#define BITS 64
#include "move_width.inc"
#undef BITS

/* Elements of a whole vector or a part of one: blocks of blocked layouts, moved as they are or padded. */
LK_INLINE void move_wide(char *d, const char *s, const lk_move *m, const int bytes, const int stream)
{
    char whole[64];
    if (m->valid && bytes <= 64) {
        memcpy(whole, m->pad, bytes);
        memcpy(whole, s, m->valid);
        s = whole;
    }
    const int step = MIN(LK_VB, bytes);
    for (int k = 0; k < bytes; k += step) {
        if (stream)
            stream_part(d + k, s + k, step);
        else
            copy_part(d + k, s + k, step);
    }
}

#define WIDE(BITS) \
    void LK_NAME(gather_x##BITS)(const lk_move *m) \
    { \
        for (int64_t i = 0; i < m->n0; i++) \
            for (int64_t j = 0; j < m->n1; j++) \
                move_wide(m->dst + i * m->d0 + j * m->d1, m->src + i * m->s0 + j * m->s1, m, BITS / 8, 0); \
    } \
    void LK_NAME(transpose_x##BITS)(const lk_move *m) \
    { \
        const int stream = m->stream && ((intptr_t)m->dst | m->d0) % MIN(64, BITS / 8) == 0; \
        for (int64_t i = 0; i < m->n0; i++) { \
            const char *s = m->src + i * m->s0; \
            char *d = m->dst + i * m->d0; \
            for (int64_t j = 0; j < m->n1; j++, s += m->s1, d += BITS / 8) { \
                if (stream) \
                    move_wide(d, s, m, BITS / 8, 1); \
                else \
                    move_wide(d, s, m, BITS / 8, 0); \
                if (m->ahead) \
                    __builtin_prefetch(s + m->ahead); \
            } \
        } \
        if (stream) \
            stream_end(); \
    }
WIDE(128)
WIDE(256)
WIDE(512)
WIDE(1024)
WIDE(2048)

typedef struct { uint64_t lo, hi; } pair;
void LK_NAME(fill_x128)(const lk_move *m)
{
    pair x;
    memcpy(&x, m->src, sizeof x);
    for (int64_t i = 0; i < m->n0; i++)
        for (int64_t j = 0; j < m->n1; j++)
            memcpy(m->dst + i * m->d0 + j * m->d1, &x, sizeof x);
}

#define ROWS(BITS) \
    LK_ROW(LK_TRANSPOSE, transpose_x##BITS, BITS, tile_n##BITS, tile_n##BITS), \
        LK_ROW(LK_GATHER, gather_x##BITS, BITS, 0, 0), LK_ROW(LK_FILL, fill_x##BITS, BITS, 0, 0)

const lk_kernel LK_NAME(lk_rows_move)[] = {
    LK_ROW(LK_COPY, copy_x8, 8, 0, 0),
    ROWS(8),
    ROWS(16),
    ROWS(32),
    ROWS(64),
    LK_ROW(LK_TRANSPOSE, transpose_x128, 128, 0, 0),
    LK_ROW(LK_TRANSPOSE, transpose_x256, 256, 0, 0),
    LK_ROW(LK_TRANSPOSE, transpose_x512, 512, 0, 0),
    LK_ROW(LK_TRANSPOSE, transpose_x1024, 1024, 0, 0),
    LK_ROW(LK_TRANSPOSE, transpose_x2048, 2048, 0, 0),
    LK_ROW(LK_GATHER, gather_x128, 128, 0, 0),
    LK_ROW(LK_GATHER, gather_x256, 256, 0, 0),
    LK_ROW(LK_GATHER, gather_x512, 512, 0, 0),
    LK_ROW(LK_GATHER, gather_x1024, 1024, 0, 0),
    LK_ROW(LK_GATHER, gather_x2048, 2048, 0, 0),
    LK_ROW(LK_FILL, fill_x128, 128, 0, 0),
    LK_LAST_ROW,
};
