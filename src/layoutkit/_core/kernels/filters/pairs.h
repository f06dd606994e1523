/* LK_WEIGH_BAND_PAIRS and LK_WEIGH_LINE_PAIRS of words: sums of whole.c whose windows are mirrored, of words as they are.
 *
 *   y[r][i] = cast(sum over t of w[t] * x[r + t][i])     as doubles have it, of the sums that LK_WEIGH_SUMS states
 *
 * A word of u16 counts as the s16 that is 2^15 less; what all of them lack is in `start`. A weight is a high word and some bits
 * below it, `shift` of them, so that a sum of 32 bits holds the products with either:
 *
 *   sum = start + sum over t of high[t] * x[t] + (sum over t of low[t] * x[t] >> shift)     in units of 2^-fraction
 *
 * A lane has the products with two taps. Across rows it takes a pair of rows, 2 q and 2 q + 1, whatever the window: those that
 * begin at odd rows have pairs of weights that begin with one of 0. Along a row it takes elements that follow one another, even
 * results those of even taps and the next, odd results those of odd taps and the next.
 * fixed: start, shift, whether results are natural: not negative, of u16, and fit; of each pair of weights its high words and
 * its low words; then those of pairs that begin with a 0.
 * Edges: as in whole.c.
 */
#ifndef LAYOUTKIT_PAIRS_H
#define LAYOUTKIT_PAIRS_H

#if defined(__AVX512BW__)
enum { PAIR_ROWS = 4, PAIR_VECTORS = 2 };
#elif defined(__AVX2__)
enum { PAIR_ROWS = 2, PAIR_VECTORS = 1 };
#else
enum { PAIR_ROWS = 1, PAIR_VECTORS = 1 };
#endif

enum { START, SHIFT, NATURAL, WEIGHTS }; /* of `fixed` */

/* The sums of a vector of results: of the halves of LOW_WORDS and HIGH_WORDS, or even and odd results. */
typedef struct {
    longs high[2], low[2];
} pair_sums;

LK_INLINE shorts load_words(const char *p, const int e)
{
    const shorts v = *(const shorts *)p;
    return v ^ (int16_t)(e == LK_U16 ? -32768 : 0);
}

LK_INLINE void add_pair(pair_sums *sums, const int half, longs v, const int32_t *weights)
{
    sums->high[half] = plus_products(sums->high[half], v, weights[0] - (longs){});
    sums->low[half] = plus_products(sums->low[half], v, weights[1] - (longs){});
}

/* Adds the rows 2 q and 2 q + 1 to the windows [first, end), some of `rows`. */
LK_INLINE void add_rows(const lk_combine *p, pair_sums *sums, int64_t at, int64_t q, const int first, const int end, const int e)
{
    const int64_t taps = p->taps, n = (taps + 1) / 2;
    const int32_t *plain = p->fixed + WEIGHTS, *shifted = plain + 2 * n;
    const shorts a = load_words(p->x[2 * q] + at, e);
    const shorts b = end == 1 && 2 * q + 1 == taps ? (shorts){} : load_words(p->x[2 * q + 1] + at, e);
    const longs halves[2] = {LOW_WORDS(a, b), HIGH_WORDS(a, b)};
#pragma GCC unroll 4
    for (int r = first; r < end; r++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            add_pair(sums + r, h, halves[h], (r % 2 ? shifted : plain) + 2 * (q - r / 2));
}

/* How sums end. */
typedef struct {
    int shift, fraction;
    int32_t mask, doubt;
} pair_end;

/* Rounds sums down, of natural results, or towards 0. Sums of naturals begin with `doubt`. */
LK_INLINE longs ended_pairs(pair_end end, longs high, longs low, uint32_t *doubtful, const int natural)
{
    const longs sum = (longs)((ulongs)high + (ulongs)(low >> end.shift));
    if (natural) {
        *doubtful = near_multiple((ulongs)sum, 2 * end.doubt, end.mask);
        return sum >> end.fraction;
    }
    *doubtful = in_doubt(sum, end.doubt, end.mask);
    return (sum + ((sum >> 31) & end.mask)) >> end.fraction;
}

/* Result i of window r alone, made of doubles. */
LK_INLINE int16_t pairs_of_doubles(const lk_combine *p, int64_t r, int64_t i, const int line, const int e)
{
#define WORD_AT(t) whole_at(line ? p->x[0] + 2 * (t) : p->x[r + (t)], i, e)
    const int64_t last = p->taps - 1;
    const double *weight = p->weight;
    double sum = weight[0] * WORD_AT(last / 2);
    LK_SEPARATE(sum);
    for (int64_t t = 0; t < last / 2; t++) {
        double v = weight[t + 1] * (WORD_AT(t) + WORD_AT(last - t));
        LK_SEPARATE(v);
        sum += v;
    }
    return (int16_t)(int32_t)sum;
#undef WORD_AT
}

/* Makes the results in doubt of doubles: few one by one. Naturals near 0 are 0 on both sides of it; others are not in doubt. */
LK_INLINE shorts pairs_in_doubt(
    const lk_combine *p, int64_t r, int64_t i, uint32_t low, uint32_t high, shorts result, const int line, const int e)
{
    enum { FEW = 4 };
    const int natural = p->fixed[NATURAL];
    if (__builtin_popcount(low) + __builtin_popcount(high) > FEW) {
        uint32_t any = !natural;
        for (int k = 0; k < WORDS; k++)
            any |= (uint16_t)result[k];
        if (any) {
            const char *table[MOST_ROWS];
            lk_combine one = *p;
            one_window(&one, r, table);
            one.y = (char *)&result - 2 * i;
            made_of_doubles(&one, i, i + WORDS);
        }
        return result;
    }
    for (int h = 0; h < 2; h++)
        for (uint32_t left = h ? high : low; left; left &= left - 1) {
            const int lane = __builtin_ctz(left), word = line ? 2 * lane + h : WORD_OF(lane, h);
            if (!natural || result[word])
                result[word] = pairs_of_doubles(p, r, i + word, line, e);
        }
    return result;
}
#define PAIRS_IN_DOUBT(name, line, e) \
    static __attribute__((noinline)) shorts name( \
        const lk_combine *p, int64_t r, int64_t i, uint32_t low, uint32_t high, shorts result) \
    { \
        return pairs_in_doubt(p, r, i, low, high, result, line, e); \
    }
PAIRS_IN_DOUBT(rows_of_u16_in_doubt, 0, LK_U16)
PAIRS_IN_DOUBT(rows_of_s16_in_doubt, 0, LK_S16)
PAIRS_IN_DOUBT(line_of_u16_in_doubt, 1, LK_U16)
PAIRS_IN_DOUBT(line_of_s16_in_doubt, 1, LK_S16)

LK_INLINE pair_end end_of(const lk_combine *p)
{
    return (pair_end){p->fixed[SHIFT], p->fraction, (int32_t)((1u << p->fraction) - 1), p->doubt};
}

LK_INLINE void begin_pairs(const lk_combine *p, pair_sums *sums, const int count, const int natural)
{
    const int32_t start = p->fixed[START] + (natural ? p->doubt : 0);
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++)
            sums[r].high[h] = start - (longs){}, sums[r].low[h] = (longs){};
}

/* A vector of results of each of `rows` windows, an even number or 1. */
LK_INLINE void pair_rows(const lk_combine *p, int64_t i, const int rows, const int e, const int natural, int how)
{
    const int64_t at = 2 * i, n = (p->taps + 1) / 2;
    const pair_end end = end_of(p);
    pair_sums sums[PAIR_ROWS];
    begin_pairs(p, sums, rows, natural);
    if (p->ahead)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            prefetch(p->ahead + r * p->ahead_row + at);
    int64_t q = 0;
    if (rows == 4)
        add_rows(p, sums, at, q++, 0, 2, e);
    for (; q < n; q++)
        add_rows(p, sums, at, q, 0, rows, e);
    if (rows == 4)
        add_rows(p, sums, at, q, 2, 4, e);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        uint32_t first, second;
        const longs low = ended_pairs(end, sums[r].high[0], sums[r].low[0], &first, natural);
        const longs high = ended_pairs(end, sums[r].high[1], sums[r].low[1], &second, natural);
        shorts result = natural ? joined_naturals(low, high, e) : joined(low, high);
        if (__builtin_expect(first | second, 0))
            result = (e == LK_U16 ? rows_of_u16_in_doubt : rows_of_s16_in_doubt)(p, r, i, first, second, result);
        put_vector(p->y + r * p->y_row + at, &result, how);
    }
}

/* Vectors of results along row 0 from element i on. */
LK_INLINE void pair_line(const lk_combine *p, int64_t i, const int vectors, const int e, const int natural, int how)
{
    const int64_t n = (p->taps + 1) / 2;
    const int32_t *plain = p->fixed + WEIGHTS, *shifted = plain + 2 * n;
    const char *x = p->x[0] + 2 * i;
    const pair_end end = end_of(p);
    pair_sums sums[PAIR_VECTORS];
    begin_pairs(p, sums, vectors, natural);
    for (int64_t q = 0; q < n; q++, x += 4)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++) {
            const longs v = (longs)load_words(x + k * LK_VB, e);
            add_pair(sums + k, 0, v, plain + 2 * q);
            add_pair(sums + k, 1, v, shifted + 2 * q);
        }
#pragma GCC unroll 2
    for (int k = 0; k < vectors; k++) {
        uint32_t first, second;
        const longs even = ended_pairs(end, sums[k].high[0], sums[k].low[0], &first, natural);
        const longs odd = ended_pairs(end, sums[k].high[1], sums[k].low[1], &second, natural);
        shorts result = (shorts)((even & 0xffff) | (longs)((ulongs)odd << 16));
        if (__builtin_expect(first | second, 0))
            result = (e == LK_U16 ? line_of_u16_in_doubt : line_of_s16_in_doubt)(p, 0, i + k * WORDS, first, second, result);
        put_vector(p->y + 2 * (i + k * WORDS), &result, how);
    }
}

LK_INLINE void pair_band(const lk_combine *p, const int rows, const int e, const int natural)
{
    const int line = p->kind == LK_WEIGH_LINE_PAIRS, stream = p->stream && (rows == 1 || p->y_row % LK_VB == 0);
    int64_t i = 0, next = stream ? unaligned_elements(p->y, 2) : 0;
    int how = next ? STORE_FRONT : stream ? STORE_PAST : STORE_ALL;
    if (!next)
        next = WORDS;
    while (i < p->count) {
        if (line && next == i + WORDS && i + PAIR_VECTORS * WORDS <= p->count && how != STORE_END) {
            pair_line(p, i, PAIR_VECTORS, e, natural, how);
            next = i + PAIR_VECTORS * WORDS;
        } else if (line)
            pair_line(p, i, 1, e, natural, how);
        else
            pair_rows(p, i, rows, e, natural, how);
        how = stream ? STORE_PAST : STORE_ALL;
        i = next, next += WORDS;
        if (i < p->count && next > p->count)
            i = p->count - WORDS, next = p->count, how = stream ? STORE_END : STORE_ALL;
    }
}

LK_INLINE void pair_windows(const lk_combine *p, const int e, const int natural)
{
    lk_combine band = *p;
    for (int64_t r = 0; r < p->rows;) {
        const int rows = p->rows - r >= PAIR_ROWS ? PAIR_ROWS : 1;
        if (rows == PAIR_ROWS)
            pair_band(&band, PAIR_ROWS, e, natural);
        else
            pair_band(&band, 1, e, natural);
        r += rows, band.x += rows, band.y += rows * p->y_row, band.ahead = NULL;
    }
}

LK_INLINE void weigh_pairs(const lk_combine *p, const int e)
{
    if (p->count < WORDS)
        smooth_of_doubles(p);
    else if (p->fixed[NATURAL])
        pair_windows(p, e, 1);
    else
        pair_windows(p, e, 0);
}

#endif
