/* weigh_u8, weigh_s8, weigh_u16, weigh_s16: weighted sums and means of rows of small integers; see filters.h.
 *
 *   y[i] = cast(sum over t of weight[t] * x[t][i])     as doubles have it
 *
 * Sums are made of integers: of each word of a row the two bytes (two elements, or the halves of one), of which pairs of rows
 * are summed first, times the two words of a weight, two products in a lane. The fraction of a sum tells whether doubles could
 * be on the other side of a whole number; such vectors are made of doubles, too.
 * Means: even and odd elements of a vector are summed in lanes twice as wide.
 * Edges: the last vector of a row overlaps the one before; a row shorter than a vector is made of doubles.
 */
#include "halves.h"
#include "stores.h"
#include "sums.h"

enum { WORDS = LK_VB / 2 };
/* Of bytes, too, which begin anywhere. */
typedef int16_t shorts __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef uint16_t words_of __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef int32_t longs __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef uint32_t ulongs __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef float singles __attribute__((vector_size(LK_VB), aligned(4), may_alias));

#if defined(__AVX512BW__)
#define WHOLE_OP(name, ending) LK_PASTE(_mm512_, name##_##ending)
typedef __m512i whole_native;
#elif defined(__AVX2__)
#define WHOLE_OP(name, ending) LK_PASTE(_mm256_, name##_##ending)
typedef __m256i whole_native;
#elif defined(__SSE2__) && LK_VB == 16
#define WHOLE_OP(name, ending) LK_PASTE(_mm_, name##_##ending)
typedef __m128i whole_native;
#endif

#ifdef WHOLE_OP
#define LOW_WORDS(a, b) ((longs)WHOLE_OP(unpacklo, epi16)((whole_native)(a), (whole_native)(b)))
#define HIGH_WORDS(a, b) ((longs)WHOLE_OP(unpackhi, epi16)((whole_native)(a), (whole_native)(b)))
#define WORD_OF(lane, half) ((lane) / 4 * 8 + (half) * 4 + (lane) % 4)
#define PRODUCTS(a, w) ((longs)WHOLE_OP(madd, epi16)((whole_native)(a), (whole_native)(w)))
#else /* even elements and odd ones */
#define LOW_WORDS(a, b) (((longs)(a) & 0xffff) | ((longs)(b) << 16))
#define HIGH_WORDS(a, b) ((longs)((ulongs)(a) >> 16) | ((longs)(b) & (int32_t)0xffff0000))
#define WORD_OF(lane, half) (2 * (lane) + (half))
#define PRODUCTS(a, w) (((a) << 16 >> 16) * ((w) << 16 >> 16) + ((a) >> 16) * ((w) >> 16))
#endif

LK_INLINE longs plus_products(longs sum, longs a, longs w)
{
#if defined(__AVX512VNNI__)
    return (longs)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)w);
#else
    return (longs)((ulongs)sum + (ulongs)PRODUCTS(a, w)); /* parts of a sum may wrap around */
#endif
}

/* Results of LOW_WORDS and HIGH_WORDS, of which only the low 16 bits count. */
LK_INLINE shorts joined(longs low, longs high)
{
#ifdef WHOLE_OP
    return (shorts)WHOLE_OP(packs, epi32)((whole_native)(low << 16 >> 16), (whole_native)(high << 16 >> 16));
#else
    return (shorts)((low & 0xffff) | (high << 16));
#endif
}

/* Likewise of numbers that are not negative and fit: in bytes, or in words. */
LK_INLINE shorts joined_naturals(longs low, longs high, const int e)
{
#if defined(__AVX2__)
    (void)e;
    return (shorts)WHOLE_OP(packus, epi32)((whole_native)low, (whole_native)high);
#elif defined(WHOLE_OP)
    return e == LK_U8 ? (shorts)WHOLE_OP(packs, epi32)((whole_native)low, (whole_native)high) : joined(low, high);
#else
    (void)e;
    return joined(low, high);
#endif
}

/* The lower and the upper bytes of words. */
typedef struct {
    shorts low, high;
} byte_words;

LK_INLINE byte_words split(shorts v, const int e)
{
    const words_of u = (words_of)v;
    if (e == LK_S8)
        return (byte_words){(shorts)(u << 8) >> 8, v >> 8};
    return (byte_words){v & 255, e == LK_S16 ? v >> 8 : (shorts)(u >> 8)};
}

/* Those of a row, or of two rows together. */
LK_INLINE byte_words load_one(const char *p, const int e) { return split(*(const shorts *)p, e); }
LK_INLINE byte_words load_two(const char *p, const char *q, const int e, const int kind)
{
    const byte_words a = load_one(p, e), b = load_one(q, e);
    if (kind == LK_WEIGH_SUMS)
        return (byte_words){a.low + b.low, a.high + b.high};
    return (byte_words){a.low - b.low, a.high - b.high};
}

/* Of the elements of a vector, by lower and upper bytes, and by LOW_WORDS and HIGH_WORDS: sums with the high words and with
 * the low words of weights. */
typedef struct {
    longs high[2][2], low[2][2];
} word_sums;

LK_INLINE void add_products(word_sums *sums, byte_words a, byte_words b, const int32_t *fixed, const int exact)
{
    const longs high = fixed[0] - (longs){}, low = fixed[1] - (longs){};
#pragma GCC unroll 2
    for (int d = 0; d < 2; d++) {
        const shorts v = d ? a.high : a.low, w = d ? b.high : b.low;
        const longs halves[2] = {LOW_WORDS(v, w), HIGH_WORDS(v, w)};
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            sums->high[d][h] = plus_products(sums->high[d][h], halves[h], high);
            if (!exact)
                sums->low[d][h] = plus_products(sums->low[d][h], halves[h], low);
        }
    }
}

/* Bits of lanes at most `most` above a multiple of mask + 1. */
LK_INLINE uint32_t near_multiple(ulongs v, int32_t most, int32_t mask)
{
    const ulongs rest = v & (uint32_t)mask, limit = (uint32_t)most - (ulongs){};
#if defined(__AVX512BW__)
    return _mm512_cmple_epu32_mask((__m512i)rest, (__m512i)limit);
#else
    const longs near = (longs)(rest <= limit);
#if defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)near);
#elif defined(__SSE2__)
    return (uint32_t)_mm_movemask_ps((__m128)near);
#else
    uint32_t bits = 0;
    for (int k = 0; k < LK_VB / 4; k++)
        bits |= (near[k] & 1u) << k;
    return bits;
#endif
#endif
}

/* Bits of lanes within `doubt` of a multiple of mask + 1 other than 0; what is near 0 is cast to 0 on both sides of it. */
LK_INLINE uint32_t in_doubt(longs v, int32_t doubt, int32_t mask)
{
    const ulongs moved = (ulongs)(v + doubt), most = (uint32_t)(2 * doubt) - (ulongs){};
#if defined(__AVX512BW__)
    const __mmask16 far = _mm512_cmpgt_epu32_mask((__m512i)moved, (__m512i)most);
    return _mm512_mask_cmple_epu32_mask(far, (__m512i)(moved & (uint32_t)mask), (__m512i)most);
#else
    return near_multiple(moved | (ulongs)((longs)(moved <= most) & mask), 2 * doubt, mask);
#endif
}

/* Vectors of sums from element i on, or their first n elements, made of doubles. */
LK_INLINE void doubles_from(const lk_combine *p, int64_t i, const int vectors, const int n, const int e, const int kind)
{
    vf sum[MOST_VECTORS];
    weighed_sums(p, sum, i, vectors, n, e, kind);
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
        if (kind == LK_WEIGH_PLAIN)
            sum[k] = sum[k] / (real)p->size;
        store_some(p->y + (i + k * LK_LANES) * bytes_of(e), sum[k], n, e);
    }
}

static __attribute__((noinline)) void made_of_doubles(const lk_combine *p, int64_t first, int64_t end)
{
#define OF_DOUBLES(e, kind) \
    { \
        int64_t i = first; \
        for (; i <= end - 4 * LK_LANES; i += 4 * LK_LANES) \
            doubles_from(p, i, 4, LK_LANES, e, kind); \
        for (; i < end; i += LK_LANES) \
            doubles_from(p, i, 1, (int)MIN(end - i, LK_LANES), e, kind); \
    }
#define BY_KIND(e) \
    switch (p->kind) { \
    case LK_WEIGH_EACH: OF_DOUBLES(e, LK_WEIGH_EACH) break; \
    case LK_WEIGH_SUMS: OF_DOUBLES(e, LK_WEIGH_SUMS) break; \
    case LK_WEIGH_DIFFERENCES: OF_DOUBLES(e, LK_WEIGH_DIFFERENCES) break; \
    case LK_WEIGH_PLAIN: OF_DOUBLES(e, LK_WEIGH_PLAIN) break; \
    }
    switch (p->element) {
    case LK_U8: BY_KIND(LK_U8) break;
    case LK_S8: BY_KIND(LK_S8) break;
    case LK_U16: BY_KIND(LK_U16) break;
    case LK_S16: BY_KIND(LK_S16) break;
    }
}

LK_INLINE int32_t whole_at(const char *x, int64_t i, const int e)
{
    return e == LK_U8 ? ((const uint8_t *)x)[i] : e == LK_S8 ? ((const int8_t *)x)[i]
           : e == LK_U16                                   ? ((const uint16_t *)x)[i]
                                                           : ((const int16_t *)x)[i];
}

/* Element i alone. */
static void one_of_doubles(const lk_combine *p, int64_t i, const int e)
{
    const double *weight = p->weight;
    const int pairs = p->kind == LK_WEIGH_EACH ? 0 : p->kind == LK_WEIGH_SUMS ? 1 : -1;
    double sum = weight[0] * whole_at(p->x[0], i, e);
    LK_SEPARATE(sum);
    for (int64_t t = 1; t < p->taps; t++) {
        double v = whole_at(p->x[t], i, e), w = weight[pairs ? (t + 1) / 2 : t];
        if (pairs)
            v += pairs * whole_at(p->x[++t], i, e);
        v *= w;
        LK_SEPARATE(v);
        sum += v;
    }
    if (bytes_of(e) == 1)
        p->y[i] = (char)(int32_t)sum;
    else
        ((int16_t *)p->y)[i] = (int16_t)(int32_t)sum;
}

/* The sums of a vector that are in doubt; bits are of the lanes of a word_sums. Few are made one by one. */
static __attribute__((noinline)) void without_doubt(const lk_combine *p, int64_t i, const uint32_t (*bits)[2], const int e)
{
    enum { FEW = 4 };
    int count = 0;
    for (int d = 0; d < 3 - bytes_of(e); d++)
        count += __builtin_popcount(bits[d][0]) + __builtin_popcount(bits[d][1]);
    if (count > FEW) {
        made_of_doubles(p, i, i + LK_VB / bytes_of(e));
        return;
    }
    for (int d = 0; d < 3 - bytes_of(e); d++)
        for (int h = 0; h < 2; h++)
            for (uint32_t left = bits[d][h]; left; left &= left - 1) {
                const int64_t word = WORD_OF(__builtin_ctz(left), h);
                one_of_doubles(p, i + (bytes_of(e) == 1 ? 2 * word + d : word), e);
            }
}

LK_INLINE void weigh_vector(const lk_combine *p, int64_t i, const int e, const int kind, const int exact, const int how)
{
    const int64_t at = i * bytes_of(e);
    if (p->ahead)
        prefetch(p->ahead + at);
    const char *const *x = p->x, *const *end = x + p->taps;
    const int32_t *fixed = p->fixed;
    const int bytes = bytes_of(e);
    word_sums sums = {};
    if (kind == LK_WEIGH_EACH) {
        for (; x < end - 1; x += 2, fixed += 2)
            add_products(&sums, load_one(x[0] + at, e), load_one(x[1] + at, e), fixed, exact);
        if (x < end)
            add_products(&sums, load_one(x[0] + at, e), (byte_words){}, fixed, exact);
    } else {
        byte_words first = load_one(x[0] + at, e), second = {};
        if (++x < end)
            second = load_two(x[0] + at, x[1] + at, e, kind);
        add_products(&sums, first, second, fixed, exact);
        for (x += 2, fixed += 2; x < end - 2; x += 4, fixed += 2)
            add_products(&sums, load_two(x[0] + at, x[1] + at, e, kind), load_two(x[2] + at, x[3] + at, e, kind), fixed, exact);
        if (x < end)
            add_products(&sums, load_two(x[0] + at, x[1] + at, e, kind), (byte_words){}, fixed, exact);
    }
    const int32_t mask = (int32_t)((1u << p->fraction) - 1), doubt = p->doubt;
    uint32_t doubtful[2][2] = {};
    shorts results[2];
#pragma GCC unroll 2
    for (int d = 0; d < 3 - bytes; d++) {
        longs sum[2];
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            sum[h] = sums.high[d][h];
            if (bytes == 2)
                sum[h] += (longs)((ulongs)sums.high[1][h] << 8);
            if (!exact) {
                if (bytes == 2)
                    sum[h] += (sums.low[1][h] + (sums.low[0][h] >> 8)) >> 8;
                else
                    sum[h] += sums.low[d][h] >> 16;
                doubtful[d][h] = in_doubt(sum[h], doubt, mask);
            }
            sum[h] = (sum[h] + ((sum[h] >> 31) & mask)) >> p->fraction;
        }
        results[d] = joined(sum[0], sum[1]);
    }
    shorts result = bytes == 2 ? results[0] : (shorts)((results[0] & 255) | (shorts)((words_of)results[1] << 8));
    if (!exact && __builtin_expect(doubtful[0][0] | doubtful[0][1] | doubtful[1][0] | doubtful[1][1], 0)) {
        lk_combine some = *p;
        some.y = (char *)&result - at; /* not what is stored past the caches */
        without_doubt(&some, i, (const uint32_t (*)[2])doubtful, e);
    }
    put_vector(p->y + at, &result, how);
}

LK_INLINE void weigh_vectors(const lk_combine *p, const int e, const int kind, const int exact)
{
    const int stream = p->stream;
#define WEIGH_VECTOR(i, vectors, how) weigh_vector(p, i, e, kind, exact, how)
    STORE_VECTORS(p->y, p->count, bytes_of(e), 1, stream, WEIGH_VECTOR);
#undef WEIGH_VECTOR
}

/* Whole quotients of sums of at most LK_MOST_BYTES bytes by their number: m / 2^(16 + s) exceeds 1 / size by less than
 * 2^-(16 + s), and a sum times that is less than 1 / size, the least distance of a quotient to the next whole number. */
LK_INLINE words_of quotients_8(words_of v, uint32_t m, int s)
{
#ifdef WHOLE_OP
    return (words_of)WHOLE_OP(mulhi, epu16)((whole_native)v, (whole_native)((uint16_t)m - (words_of){})) >> s;
#else
    for (int k = 0; k < WORDS; k++)
        v[k] = (uint16_t)(v[k] * m >> (16 + s));
    return v;
#endif
}

/* Likewise of LK_MOST_WORDS words, below 2^22: see `ended` in weigh.c. */
LK_INLINE ulongs quotients_16(ulongs v, float inverse)
{
    const singles quotients = (__builtin_convertvector((longs)v, singles) + 0.5f) * inverse;
    return (ulongs)__builtin_convertvector(quotients, longs);
}

/* How means are divided. */
typedef struct {
    uint32_t m;
    int s;
    float inverse;
} mean_end;

/* Of pairs of elements of a vector: the sums of both together, the odd one times 2^8 or 2^16, and those of the odd ones alone. */
typedef struct {
    words_of both, odd;
} mean_sums;

/* Adds a vector of a row to sums, or takes it away. It is loaded once: loads across cache lines take longer than sums. */
LK_INLINE void add_elements(mean_sums *sums, const char *x, const int away, const int bytes)
{
    words_of v = *(const words_of *)x;
    LK_PIN(v);
    if (bytes == 1) {
        sums->both = away ? sums->both - v : sums->both + v;
        sums->odd = away ? sums->odd - (v >> 8) : sums->odd + (v >> 8);
    } else {
        const ulongs both = (ulongs)sums->both, odd = (ulongs)sums->odd, u = (ulongs)v;
        sums->both = (words_of)(away ? both - u : both + u);
        sums->odd = (words_of)(away ? odd - (u >> 16) : odd + (u >> 16));
    }
}

LK_INLINE words_of means_of(mean_sums sums, mean_end end, const int bytes)
{
    if (bytes == 1)
        return quotients_8(sums.both - (sums.odd << 8), end.m, end.s) | quotients_8(sums.odd, end.m, end.s) << 8;
    const ulongs both = (ulongs)sums.both, odd = (ulongs)sums.odd;
    return (words_of)(quotients_16(both - (odd << 16), end.inverse) | quotients_16(odd, end.inverse) << 16);
}

/* Vectors from element i on of `rows` results: each has one row that the result before has not, and lacks its first. */
LK_INLINE void mean_vectors(
    const lk_combine *p, int64_t i, mean_end end, const int rows, const int vectors, const int bytes, const int how)
{
    const char *const *x = p->x;
    const int64_t taps = p->taps, at = i * bytes;
    mean_sums sums[4] = {};
    if (p->ahead)
        for (int r = 0; r < rows; r++)
            prefetch_vectors(p->ahead + r * p->ahead_row + at, vectors);
    for (int64_t t = 0; t < taps; t++)
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            add_elements(sums + k, x[t] + at + k * LK_VB, 0, bytes);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++) {
            if (r) {
                add_elements(sums + k, x[taps + r - 1] + at + k * LK_VB, 0, bytes);
                add_elements(sums + k, x[r - 1] + at + k * LK_VB, 1, bytes);
            }
            const words_of result = means_of(sums[k], end, bytes);
            put_vector(p->y + r * p->y_row + at + k * LK_VB, &result, how);
        }
}

LK_INLINE void mean_rows(const lk_combine *p, const int rows, const int bytes)
{
    const int size = (int)p->size, s = LOG2(size - 1);
    const int stream = p->stream && (rows == 1 || p->y_row % LK_VB == 0);
    const uint32_t m = (uint32_t)(((1ull << (16 + s)) + (uint32_t)size - 1) / (uint32_t)size);
    const mean_end end = {m, s, 1 / (float)size};
#define MEAN_VECTORS(i, vectors, how) mean_vectors(p, i, end, rows, vectors, bytes, how)
    STORE_VECTORS(p->y, p->count, bytes, 4, stream, MEAN_VECTORS);
#undef MEAN_VECTORS
}

LK_INLINE void means(const lk_combine *p, const int bytes)
{
    const int of_doubles = p->size < 2 || p->count < LK_VB / bytes;
    if (!of_doubles && p->rows == LK_BAND_ROWS)
        mean_rows(p, LK_BAND_ROWS, bytes);
    else if (!of_doubles && p->rows <= 1)
        mean_rows(p, 1, bytes);
    else {
        lk_combine one = *p;
        for (int64_t r = 0; r < MAX(1, p->rows); r++, one.x++, one.y += p->y_row, one.ahead = NULL)
            if (of_doubles)
                made_of_doubles(&one, 0, p->count);
            else
                mean_rows(&one, 1, bytes);
    }
}

#include "smooth.h"
#include "pairs.h"

LK_INLINE void weigh_whole(const lk_combine *p, const int e)
{
    const int exact = p->doubt == 0;
    if (p->kind == LK_WEIGH_HALVES)
        halve_rows(p, e);
    else if ((e == LK_U8 || e == LK_U16) && (p->kind == LK_WEIGH_BAND_SUMS || p->kind == LK_WEIGH_LINE_SUMS))
        smooth(p, e);
    else if (bytes_of(e) == 2 && (p->kind == LK_WEIGH_BAND_PAIRS || p->kind == LK_WEIGH_LINE_PAIRS))
        weigh_pairs(p, e);
    else if (p->kind == LK_WEIGH_PLAIN)
        means(p, bytes_of(e));
    else if (p->count < LK_VB / bytes_of(e))
        made_of_doubles(p, 0, p->count);
    else if (p->kind == LK_WEIGH_EACH)
        exact ? weigh_vectors(p, e, LK_WEIGH_EACH, 1) : weigh_vectors(p, e, LK_WEIGH_EACH, 0);
    else if (p->kind == LK_WEIGH_SUMS)
        exact ? weigh_vectors(p, e, LK_WEIGH_SUMS, 1) : weigh_vectors(p, e, LK_WEIGH_SUMS, 0);
    else
        exact ? weigh_vectors(p, e, LK_WEIGH_DIFFERENCES, 1) : weigh_vectors(p, e, LK_WEIGH_DIFFERENCES, 0);
}

#define WHOLE_ROW(type, e) \
    void LK_NAME(weigh_##type)(const lk_combine *restrict p) { weigh_whole(p, e); }
WHOLE_ROW(u8, LK_U8)
WHOLE_ROW(s8, LK_S8)
WHOLE_ROW(u16, LK_U16)
WHOLE_ROW(s16, LK_S16)

const lk_kernel LK_NAME(lk_rows_whole)[] = {
    LK_ROW(LK_WEIGH, weigh_u8, "u8", LK_VB, 0, 0),
    LK_ROW(LK_WEIGH, weigh_s8, "s8", LK_VB, 0, 0),
    LK_ROW(LK_WEIGH, weigh_u16, "u16", LK_VB / 2, 0, 0),
    LK_ROW(LK_WEIGH, weigh_s16, "s16", LK_VB / 2, 0, 0),
    LK_LAST_ROW,
};
