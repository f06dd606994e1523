/* LK_WEIGH_BAND_SUMS and LK_WEIGH_LINE_SUMS of unsigned small integers: sums of whole.c whose windows are mirrored, and whose
 * results fit.
 *
 *   y[r][i] = floor(weight[0] * x[r + half][i] + sum over t of weight[t + 1] * (x[r + t][i] + x[r + taps - 1 - t][i]))
 *
 * Windows of several rows have rows in common: of each the lower bytes of words are taken once, then the upper ones. Along a row
 * of bytes the words from element j on have elements j, j + 2, .. in their lower bytes and j + 1, j + 3, .. in the upper ones,
 * which are those that begin at j + 1: even and odd results are two windows that have all but one of them in common.
 * Sums begin with `doubt`, so that those in doubt are at most twice that above a multiple of 2^fraction.
 * Edges: as in whole.c.
 */
#ifndef LAYOUTKIT_SMOOTH_H
#define LAYOUTKIT_SMOOTH_H

#if defined(__AVX512BW__)
enum { SMOOTH_ROWS = 4 };
#else
enum { SMOOTH_ROWS = 1 };
#endif

/* Of each window and of LOW_WORDS and HIGH_WORDS: sums with the high words and with the low words of weights. */
typedef struct {
    longs high[4][2], low[4][2];
} smooth_sums;

/* Adds two terms of each window. */
LK_INLINE void add_terms(smooth_sums *sums, const shorts *a, const shorts *b, const int32_t *fixed, const int windows)
{
    const longs high = fixed[0] - (longs){}, low = fixed[1] - (longs){};
#pragma GCC unroll 4
    for (int r = 0; r < windows; r++) {
        const longs halves[2] = {LOW_WORDS(a[r], b[r]), HIGH_WORDS(a[r], b[r])};
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
            sums->high[r][h] = plus_products(sums->high[r][h], halves[h], high);
            sums->low[r][h] = plus_products(sums->low[r][h], halves[h], low);
        }
    }
}

/* The lower or the upper bytes of words. */
LK_INLINE shorts bytes_of_words(const char *p, const int upper)
{
    const words_of v = *(const words_of *)p;
    return upper ? (shorts)(v >> 8) : (shorts)(v & 255);
}

/* Sums of `windows` windows of some bytes of words that begin a row further on each. */
LK_INLINE void smooth_rows(const lk_combine *p, int64_t at, smooth_sums *sums, const int windows, const int upper)
{
    const char *const *x = p->x, *const *last = x + p->taps - 1;
    const int64_t half = p->taps / 2;
    const int32_t *fixed = p->fixed;
    shorts before[5] = {}, behind[5] = {}, a[4], b[4] = {};
#pragma GCC unroll 4
    for (int r = 0; r < windows; r++) {
        a[r] = bytes_of_words(x[half + r] + at, upper);
        if (half) {
            before[r] = bytes_of_words(x[r] + at, upper), behind[r + 1] = bytes_of_words(last[r] + at, upper);
            b[r] = before[r] + behind[r + 1];
        }
    }
    add_terms(sums, a, b, fixed, windows);
    int64_t t = 1;
    for (; t + 1 < half; t += 2) { /* before[r] is x[r + t - 1], behind[r + 1] is last[r - t + 1] */
        fixed += 2;
        before[windows] = bytes_of_words(x[windows + t - 1] + at, upper), behind[0] = bytes_of_words(last[-t] + at, upper);
#pragma GCC unroll 4
        for (int r = 0; r < windows; r++)
            a[r] = before[r + 1] + behind[r];
        const shorts next = bytes_of_words(x[windows + t] + at, upper), next_behind = bytes_of_words(last[-t - 1] + at, upper);
#pragma GCC unroll 4
        for (int r = 0; r < windows; r++)
            before[r] = r < windows - 2 ? before[r + 2] : r == windows - 2 ? before[windows] : next;
#pragma GCC unroll 4
        for (int r = windows; r > 0; r--)
            behind[r] = r > 2 ? behind[r - 2] : r == 2 ? behind[0] : next_behind;
#pragma GCC unroll 4
        for (int r = 0; r < windows; r++)
            b[r] = before[r] + behind[r + 1];
        add_terms(sums, a, b, fixed, windows);
    }
    if (t < half) {
#pragma GCC unroll 4
        for (int r = 0; r < windows; r++)
            a[r] = bytes_of_words(x[r + t] + at, upper) + bytes_of_words(last[r - t] + at, upper), b[r] = (shorts){};
        add_terms(sums, a, b, fixed + 2, windows);
    }
}

/* Sums of the even and the odd bytes of a row, two windows. */
LK_INLINE void smooth_bytes(const lk_combine *p, int64_t at, smooth_sums *sums)
{
    const char *const x = p->x[0] + at, *const last = x + p->taps - 1;
    const int64_t half = p->taps / 2;
    const int32_t *fixed = p->fixed;
    byte_words before = {}, behind = {};
    const byte_words middle = load_one(x + half, LK_U8);
    if (half)
        before = load_one(x, LK_U8), behind = load_one(last, LK_U8);
    shorts a[2] = {middle.low, middle.high}, b[2] = {before.low + behind.low, before.high + behind.high};
    add_terms(sums, a, b, fixed, 2);
    for (int64_t t = 1; t < half; t += 2) { /* `before` begins at x + t - 1, `behind` at last - t + 1 */
        const byte_words next = load_one(x + t + 1, LK_U8), next_behind = load_one(last - t - 1, LK_U8);
        a[0] = before.high + next_behind.high, a[1] = next.low + behind.low;
        b[0] = next.low + next_behind.low, b[1] = next.high + next_behind.high;
        fixed += 2;
        add_terms(sums, a, b, fixed, 2); /* the weight of a term too many is 0 */
        before = next, behind = next_behind;
    }
}

enum { MOST_ROWS = 256 }; /* of at most 128 weights */

/* Window r, as LK_WEIGH_SUMS takes it, in room for its rows. */
static void one_window(lk_combine *p, int64_t r, const char **table)
{
    const int64_t half = p->taps / 2, step = p->kind == LK_WEIGH_LINE_SUMS ? 1 : p->kind == LK_WEIGH_LINE_PAIRS ? 2 : 0;
#define WINDOW_ROW(t) (step ? p->x[0] + (t) * step : p->x[r + (t)])
    table[0] = WINDOW_ROW(half);
    for (int64_t t = 0; t < half; t++)
        table[1 + 2 * t] = WINDOW_ROW(t), table[2 + 2 * t] = WINDOW_ROW(p->taps - 1 - t);
#undef WINDOW_ROW
    p->x = table, p->y += r * p->y_row, p->kind = LK_WEIGH_SUMS;
}

static __attribute__((noinline)) void smooth_of_doubles(const lk_combine *p)
{
    const char *table[MOST_ROWS];
    for (int64_t r = 0; r < p->rows; r++) {
        lk_combine one = *p;
        one_window(&one, r, table);
        made_of_doubles(&one, 0, one.count);
    }
}

/* Results of 0 are not in doubt: they are cast to 0 on both sides of it. */
static __attribute__((noinline)) void smooth_without_doubt(
    const lk_combine *p, int64_t r, int64_t i, uint32_t (*bits)[2], shorts *result, const int e)
{
    const char *table[MOST_ROWS];
    uint32_t any = 0;
    for (int d = 0; d < 3 - bytes_of(e); d++)
        for (int h = 0; h < 2; h++)
            for (int k = 0; k < LK_VB / 4; k++) {
                const int64_t word = WORD_OF(k, h);
                const int zero = bytes_of(e) == 1 ? !((const char *)result)[2 * word + d] : !(*result)[word];
                bits[d][h] &= ~((uint32_t)zero << k);
                any |= bits[d][h];
            }
    lk_combine one = *p;
    one_window(&one, r, table);
    one.y = (char *)result - i * bytes_of(e);
    if (any)
        without_doubt(&one, i, (const uint32_t (*)[2])bits, e);
}

/* The results of two sums, as words, and which of them are in doubt. */
LK_INLINE shorts smooth_ends(const lk_combine *p, const longs *sum, uint32_t *doubtful, const int e)
{
    const int32_t mask = (int32_t)((1u << p->fraction) - 1), most = 2 * p->doubt;
    doubtful[0] = near_multiple((ulongs)sum[0], most, mask), doubtful[1] = near_multiple((ulongs)sum[1], most, mask);
    return joined_naturals(sum[0] >> p->fraction, sum[1] >> p->fraction, e);
}

LK_INLINE void begin_sums(smooth_sums *sums, const int windows, int doubt)
{
    *sums = (smooth_sums){};
#pragma GCC unroll 4
    for (int r = 0; r < windows; r++)
        sums->high[r][0] = sums->high[r][1] = doubt - (longs){};
}

/* A vector of results of each of `rows` windows. */
LK_INLINE void smooth_vectors(const lk_combine *p, int64_t i, const int rows, const int e, const int line, int how)
{
    const int64_t at = i * bytes_of(e);
    uint32_t doubtful[SMOOTH_ROWS][2][2] = {};
    shorts result[SMOOTH_ROWS];
    if (p->ahead)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            prefetch(p->ahead + r * p->ahead_row + at);
    if (line) {
        smooth_sums sums;
        begin_sums(&sums, 2, p->doubt);
        smooth_bytes(p, at, &sums);
        shorts half[2];
#pragma GCC unroll 2
        for (int d = 0; d < 2; d++) {
            const longs sum[2] = {sums.high[d][0] + (sums.low[d][0] >> 16), sums.high[d][1] + (sums.low[d][1] >> 16)};
            half[d] = smooth_ends(p, sum, doubtful[0][d], e);
        }
        result[0] = half[0] | half[1] << 8;
    } else if (e == LK_U8) {
        shorts half[2][SMOOTH_ROWS];
#pragma GCC unroll 2
        for (int d = 0; d < 2; d++) {
            smooth_sums sums;
            begin_sums(&sums, rows, p->doubt);
            smooth_rows(p, at, &sums, rows, d);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                const longs sum[2] = {sums.high[r][0] + (sums.low[r][0] >> 16), sums.high[r][1] + (sums.low[r][1] >> 16)};
                half[d][r] = smooth_ends(p, sum, doubtful[r][d], e);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            result[r] = half[0][r] | half[1][r] << 8;
    } else {
        smooth_sums upper = {}, lower;
        smooth_rows(p, at, &upper, rows, 1);
        begin_sums(&lower, rows, p->doubt);
        smooth_rows(p, at, &lower, rows, 0);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            longs sum[2];
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++)
                sum[h] = lower.high[r][h] + (upper.high[r][h] << 8) + ((upper.low[r][h] + (lower.low[r][h] >> 8)) >> 8);
            result[r] = smooth_ends(p, sum, doubtful[r][0], e);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        if (__builtin_expect(doubtful[r][0][0] | doubtful[r][0][1] | doubtful[r][1][0] | doubtful[r][1][1], 0))
            smooth_without_doubt(p, r, i, doubtful[r], &result[r], e);
        put_vector(p->y + r * p->y_row + at, &result[r], how);
    }
}

LK_INLINE void smooth_band(const lk_combine *p, const int rows, const int e, const int line)
{
    const int lanes = LK_VB / bytes_of(e), stream = p->stream && (rows == 1 || p->y_row % LK_VB == 0);
    int64_t i = 0, next = stream ? unaligned_elements(p->y, bytes_of(e)) : 0;
    int how = next ? STORE_FRONT : stream ? STORE_PAST : STORE_ALL;
    if (!next)
        next = lanes;
    while (i < p->count) {
        smooth_vectors(p, i, rows, e, line, how);
        how = stream ? STORE_PAST : STORE_ALL;
        i = next, next += lanes;
        if (i < p->count && next > p->count)
            i = p->count - lanes, next = p->count, how = stream ? STORE_END : STORE_ALL;
    }
}

LK_INLINE void smooth(const lk_combine *p, const int e)
{
    lk_combine band = *p;
    int64_t r = 0;
    if (p->count < LK_VB / bytes_of(e))
        smooth_of_doubles(p);
    else if (e == LK_U8 && p->kind == LK_WEIGH_LINE_SUMS)
        smooth_band(p, 1, e, 1);
    else
        while (r < p->rows) {
            const int rows = p->rows - r >= SMOOTH_ROWS ? SMOOTH_ROWS : 1;
            if (rows == SMOOTH_ROWS)
                smooth_band(&band, SMOOTH_ROWS, e, 0);
            else
                smooth_band(&band, 1, e, 0);
            r += rows, band.x += rows, band.y += rows * p->y_row, band.ahead = NULL;
        }
}

#endif
