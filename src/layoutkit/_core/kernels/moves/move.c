/* Moves of elements of one width: copy, transpose, gather, fill; see lk_move in move.h.
 *
 *   dst[i0*d0 + i1*d1] = src[i0*s0 + i1*s1]
 *
 * The kernels of one width, transposes above all, are in move_width.inc.
 * Edges of a streamed copy: the bytes up to the first aligned vector, then streamed vectors, then the rest.
 */
#include "common/bytes.h"
#include "common/stream.h"
#include "common/vector.h"
#include "move.h"

#include <string.h>

enum { MAX_VECTORS_BYTES = 1024 }; /* longer runs are worth a call of memcpy */

/* Copies runs of at least BYTES and at most twice as many: their first and their last BYTES, which may overlap. */
#define SHORT_RUNS(BYTES) \
    static void copy_from_##BYTES(const lk_move *m) \
    { \
        typedef char piece __attribute__((vector_size(BYTES), aligned(1), may_alias)); \
        const int64_t last = m->n1 - BYTES, prefetch_bytes = m->prefetch_bytes; \
        const char *s = m->src; \
        char *d = m->dst; \
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0) { \
            const piece a = *(const piece *)s, b = *(const piece *)(s + last); \
            *(piece *)d = a; \
            *(piece *)(d + last) = b; \
            if (prefetch_bytes) \
                __builtin_prefetch(s + prefetch_bytes, 0, 2); \
        } \
    }
SHORT_RUNS(1) SHORT_RUNS(2) SHORT_RUNS(4) SHORT_RUNS(8) SHORT_RUNS(16)
#if LK_VB > 16
SHORT_RUNS(32)
#endif
#if LK_VB > 32
SHORT_RUNS(64)
#endif

/* Copies runs of at most two vectors. */
static void copy_short(const lk_move *m)
{
    const int64_t n = m->n1;
#if LK_VB > 32
    if (n >= 64)
        copy_from_64(m);
    else
#endif
#if LK_VB > 16
    if (n >= 32)
        copy_from_32(m);
    else
#endif
    if (n >= 16)
        copy_from_16(m);
    else if (n >= 8)
        copy_from_8(m);
    else if (n >= 4)
        copy_from_4(m);
    else if (n >= 2)
        copy_from_2(m);
    else if (n)
        copy_from_1(m);
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
    } else if (m->stream && n >= 8 * LK_VB) {
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0)
            stream_run(d, s, n);
    } else if (n <= 2 * LK_VB) { /* a block of a blocked layout, a pixel of few channels */
        copy_short(m);
    } else if (n <= MAX_VECTORS_BYTES) {
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0) {
            for (int64_t k = 0; k + LK_VB < n; k += LK_VB)
                copy_part(d + k, s + k, LK_VB);
            copy_part(d + n - LK_VB, s + n - LK_VB, LK_VB);
        }
    } else {
        for (int64_t i = 0; i < m->n0; i++, s += m->s0, d += m->d0)
            memcpy(d, s, n);
    }
}

#if LK_VB > 16
typedef long long vl __attribute__((vector_size(LK_VB)));

/* Loads a vector of 16 bytes each from p, p + step, ..; with `at`, from p + at[0] - at[0], p + at[per] - at[0], .. */
LK_INLINE vl gather_lanes(const char *p, const int64_t *at, const int per, int64_t step)
{
#define LANE(l) _mm_loadu_si128((const void *)(p + (at ? at[(l) * per] - at[0] : (l) * step)))
#if LK_VB == 64
    __m512i v = _mm512_castsi128_si512(LANE(0));
    v = _mm512_inserti32x4(v, LANE(1), 1);
    v = _mm512_inserti32x4(v, LANE(2), 2);
    return (vl)_mm512_inserti32x4(v, LANE(3), 3);
#else
    return (vl)_mm256_inserti128_si256(_mm256_castsi128_si256(LANE(0)), LANE(1), 1);
#endif
#undef LANE
}

/* Stores a vector to the places that gather_lanes loads from. */
LK_INLINE void scatter_lanes(char *p, const int64_t *at, const int per, int64_t step, vl v)
{
#define LANE(l) (void *)(p + (at ? at[(l) * per] - at[0] : (l) * step))
#if LK_VB == 64
    _mm_storeu_si128(LANE(0), _mm512_castsi512_si128((__m512i)v));
    _mm_storeu_si128(LANE(1), _mm512_extracti32x4_epi32((__m512i)v, 1));
    _mm_storeu_si128(LANE(2), _mm512_extracti32x4_epi32((__m512i)v, 2));
    _mm_storeu_si128(LANE(3), _mm512_extracti32x4_epi32((__m512i)v, 3));
#else
    _mm_storeu_si128(LANE(0), _mm256_castsi256_si128((__m256i)v));
    _mm_storeu_si128(LANE(1), _mm256_extracti128_si256((__m256i)v, 1));
#endif
#undef LANE
}
#endif

/* Writes a vector over and over, from byte k of a run on; inline, for short runs. */
LK_INLINE void repeat_short(char *d, const char *v, int64_t k, int64_t run)
{
    for (; k < run; k += LK_VB)
        copy_part(d + k, v, (int)MIN(LK_VB, run - k));
}

/* The same of a whole run, with a vector of equal elements of `bytes`: whole vectors are stored within lines. */
static __attribute__((noinline)) void repeat_vector(char *d, const char *v, int64_t run, int bytes, int stream)
{
    const int64_t head = -(intptr_t)d & (LK_VB - 1);
    int64_t k = 0;
    if (run > LK_VB && head % bytes == 0) {
        if (head)
            memcpy(d, v, LK_VB);
        for (k = head; k + LK_VB <= run; k += LK_VB) {
            if (stream)
                stream_vector(d + k, v);
            else
                memcpy(d + k, v, LK_VB);
        }
    }
    repeat_short(d, v, k, run);
}

#define PER_WIDTH "moves/move_width.inc"
#include "common/widths.inc"

/* Moves one wide element, a block of a blocked layout, as it is or padded. */
LK_INLINE void move_wide(char *d, const char *s, int64_t valid, const char *pad, const int bytes, const int stream)
{
    const int step = MIN(LK_VB, bytes);
    if (valid && bytes <= 64) { /* pads, then elements over them: a load of both from a buffer would wait for the stores */
        for (int k = 0; k < bytes; k += step)
            copy_part(d + k, pad + k, step);
        for (int k = 0; k < valid; k += step)
            copy_part(d + k, s + k, (int)MIN(step, valid - k));
        return;
    }
    for (int k = 0; k < bytes; k += step) {
        if (stream)
            stream_part(d + k, s + k, step);
        else
            memcpy(d + k, s + k, step);
    }
}

/* Writes an element of at most a vector n times in a row. */
LK_INLINE void repeat_wide(char *d, const char *s, int64_t n, const int bytes, int stream)
{
    char v[LK_VB];
    memcpy(v, s, bytes);
    if (n <= 8) { /* a vector that is loaded waits for the stores that it was put together by */
        for (int64_t j = 0; j < n; j++)
            memcpy(d + j * bytes, v, bytes);
        return;
    }
    for (int k = bytes; k < LK_VB; k += bytes)
        memcpy(v + k, s, bytes);
    repeat_vector(d, v, n * bytes, bytes, stream);
}

#if defined(__AVX512BW__)
/* Loads a cache line of elements of `bytes`, s1 apart; of each only the bytes in k, the others are those of `pad`. */
LK_INLINE __m512i line_of(const char *s, int64_t s1, const int bytes, __mmask64 k, __m512i pad)
{
    if (bytes == 64)
        return _mm512_mask_loadu_epi8(pad, k, s);
    if (bytes == 32) {
        const __m256i p = _mm512_castsi512_si256(pad);
        const __m256i a = _mm256_mask_loadu_epi8(p, (__mmask32)k, s);
        const __m256i b = _mm256_mask_loadu_epi8(p, (__mmask32)k, s + s1);
        return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    }
    const __m128i p = _mm512_castsi512_si128(pad);
    __m512i v = _mm512_castsi128_si512(_mm_mask_loadu_epi8(p, (__mmask16)k, s));
    v = _mm512_inserti32x4(v, _mm_mask_loadu_epi8(p, (__mmask16)k, s + s1), 1);
    v = _mm512_inserti32x4(v, _mm_mask_loadu_epi8(p, (__mmask16)k, s + 2 * s1), 2);
    return _mm512_inserti32x4(v, _mm_mask_loadu_epi8(p, (__mmask16)k, s + 3 * s1), 3);
}

/* Moves rows of blocks by whole cache lines, stored as `how` says. SHIFT: unaligned rows, contiguous or long. STORE: the
 * last blocks of a row may be less than a line. */
enum { STORE, STREAM, SHIFT };
LK_INLINE void rows_of_lines(const lk_move *m, const int bytes, const int how)
{
    const int64_t n0 = m->n0, n1 = m->n1, s0 = m->s0, s1 = m->s1, d0 = m->d0, prefetch_bytes = m->prefetch_bytes;
    const int per = 64 / bytes, follow = d0 == n1 * bytes;
    const __mmask64 k = m->valid ? (1ull << m->valid) - 1 : ~0ull;
    const __m512i pad = m->valid ? _mm512_loadu_si512(m->pad) : _mm512_setzero_si512();
    const char *src = m->src;
    char *dst = m->dst;
    lk_shifted out = shifted_begin(dst, (follow ? n0 : 1) * n1 * bytes);
    for (int64_t i = 0; i < n0; i++, src += s0, dst += d0) {
        const char *s = src;
        if (how == SHIFT && i && !follow) {
            shifted_end(&out);
            shifted_next(&out, dst, n1 * bytes);
        }
        int64_t j = 0;
        for (; j + per <= n1; j += per, s += per * s1) {
            const __m512i line = line_of(s, s1, bytes, k, pad);
            if (how == SHIFT)
                shifted_put(&out, (vi)line);
            else if (how == STREAM)
                _mm512_stream_si512((void *)(dst + j * bytes), line);
            else
                _mm512_storeu_si512((void *)(dst + j * bytes), line);
            if (prefetch_bytes)
                for (int e = 0; e < per; e++)
                    __builtin_prefetch(s + e * s1 + prefetch_bytes, 0, 2);
        }
        for (; how == STORE && j < n1; j++, s += s1)
            move_wide(dst + j * bytes, s, m->valid, m->pad, bytes, 0);
    }
    if (how == SHIFT)
        shifted_end(&out);
}

/* Moves by whole lines if the blocks of a row of the destination follow one another. Returns whether it did. */
LK_INLINE int write_lines(const lk_move *m, const int bytes, const int64_t d1)
{
    const int64_t run = m->n1 * bytes;
    if (d1 != bytes || (run % 64 && (m->stream || run < 64)))
        return 0;
    if (m->stream && ((intptr_t)m->dst | m->d0) % 64 == 0)
        rows_of_lines(m, bytes, STREAM);
    else if (m->stream && can_shift(m->dst) && (m->d0 == run || (run >= 512 && m->d0 % 64 == 0)))
        rows_of_lines(m, bytes, SHIFT);
    else
        rows_of_lines(m, bytes, STORE);
    return 1;
}
#define WRITE_LINES(BITS, d1) \
    if (BITS <= 512 && write_lines(m, MIN(64, BITS / 8), d1)) \
        return;
#else
#define WRITE_LINES(BITS, d1)
#endif

/* Moves rows of wide elements, which are d1 apart in the destination. */
LK_INLINE void rows_of_wide(const lk_move *m, int64_t d1, int64_t prefetch_bytes, const int bytes, const int stream)
{
    const int64_t n1 = m->n1, s1 = m->s1, valid = m->valid;
    const char *pad = m->pad;
    for (int64_t i = 0; i < m->n0; i++) {
        const char *s = m->src + i * m->s0;
        char *d = m->dst + i * m->d0;
        for (int64_t j = 0; j < n1; j++, s += s1, d += d1) {
            move_wide(d, s, valid, pad, bytes, stream);
            if (prefetch_bytes)
                __builtin_prefetch(s + prefetch_bytes, 0, 2);
        }
    }
}

#define WIDE(BITS) \
    void LK_NAME(gather_x##BITS)(const lk_move *m) \
    { \
        if (BITS <= 8 * LK_VB && m->s1 == 0 && m->d1 == BITS / 8 && !m->valid) { /* of an array that is broadcast */ \
            for (int64_t i = 0; i < m->n0; i++) \
                repeat_wide(m->dst + i * m->d0, m->src + i * m->s0, m->n1, MIN(LK_VB, BITS / 8), m->stream); \
            return; \
        } \
        WRITE_LINES(BITS, m->d1) \
        if (BITS >= 512 && m->stream && ((intptr_t)m->dst | m->d0 | m->d1) % 64 == 0) \
            rows_of_wide(m, m->d1, 0, BITS / 8, 1); \
        else \
            rows_of_wide(m, m->d1, 0, BITS / 8, 0); \
    } \
    void LK_NAME(transpose_x##BITS)(const lk_move *m) \
    { \
        WRITE_LINES(BITS, m->d1) \
        if (m->stream && ((intptr_t)m->dst | m->d0) % MIN(64, BITS / 8) == 0) \
            rows_of_wide(m, BITS / 8, m->prefetch_bytes, BITS / 8, 1); \
        else \
            rows_of_wide(m, BITS / 8, m->prefetch_bytes, BITS / 8, 0); \
    }
WIDE(128)
WIDE(256)
WIDE(512)
WIDE(1024)
WIDE(2048)

void LK_NAME(fill_x128)(const lk_move *m)
{
    for (int64_t i = 0; i < m->n0; i++) {
        char *d = m->dst + i * m->d0;
        if (m->d1 == 16)
            repeat_wide(d, m->src, m->n1, 16, 0);
        else
            for (int64_t j = 0; j < m->n1; j++)
                memcpy(d + j * m->d1, m->src, 16);
    }
}

#define ROW(FAMILY, STEM, BITS, TILE) LK_ROW(FAMILY, STEM##_x##BITS, "x" #BITS, 8 * LK_VB / BITS, TILE, TILE)
#define ROWS(BITS) \
    ROW(LK_TRANSPOSE, transpose, BITS, tile_n##BITS), ROW(LK_GATHER, gather, BITS, 0), ROW(LK_FILL, fill, BITS, 0)
#define WIDE_ROWS(BITS) ROW(LK_TRANSPOSE, transpose, BITS, 0), ROW(LK_GATHER, gather, BITS, 0)

const lk_kernel LK_NAME(lk_rows_move)[] = {
    ROW(LK_COPY, copy, 8, 0),
    ROWS(8),
    ROWS(16),
    ROWS(32),
    ROWS(64),
    WIDE_ROWS(128),
    WIDE_ROWS(256),
    WIDE_ROWS(512),
    WIDE_ROWS(1024),
    WIDE_ROWS(2048),
    ROW(LK_FILL, fill, 128, 0),
    LK_LAST_ROW,
};
