/* moments_<type>: means and sums of squared distances from them, of rows or of columns; see lk_moments in moments.h.
 *
 *   mean = first + (sum of d) / n        squares = sum of d^2 - (sum of d)^2 / n        d = x - first
 *
 * Since the first element is one of them, (first - mean)^2 is at most `squares`: little is lost in the difference.
 * Edges: behind the last element d is 0.
 */
#include "moments.h"
#include "wide.h"

/* Means and sums of squared deviations from them, from the sums of distances from `first` and of their squares; `each`: 1
 * by their number. */
LK_INLINE void finish(const lk_moments *g, vd first, vd sum, vd squares, double each, vd *mean, vd *deviations)
{
    const vd shift = sum * each, difference = squares - sum * shift;
    *mean = first + shift, *deviations = (vd)(~(difference < 0) & (wi)difference); /* NaN stays */
    if (g->about_zero)
        *mean = (vd){}, *deviations = squares;
}

enum { STREAMS = 4, MIN_STREAM = 4 * WIDE }; /* parts of a long row, and short rows, that are summed side by side */

/* Sums of distances from an element, and of their squares, of every 16th element. */
typedef struct {
    vd sum[PER_VECTOR * VECTORS], squares[PER_VECTOR * VECTORS];
} sums;

LK_INLINE void add(sums *s, vf v, vd first, const int k)
{
    const vd low = widened(v, 0) - first, high = widened(v, 1) - first;
    s->sum[2 * k] += low, s->sum[2 * k + 1] += high;
    s->squares[2 * k] = multiplied(low, low, s->squares[2 * k]);
    s->squares[2 * k + 1] = multiplied(high, high, s->squares[2 * k + 1]);
}

/* Add `count` elements of each of n rows, x_row bytes apart, where the last ones are less than 16. */
LK_INLINE void add_rows(sums *of, const char *x, int64_t x_row, int64_t count, const vd *first, const int n)
{
    int64_t j = 0;
    for (; j <= count - WIDE; j += WIDE)
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
#pragma GCC unroll 4
            for (int k = 0; k < VECTORS; k++)
                add(of + i, load_numbers(x + i * x_row + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT), first[i], k);
    if (j < count)
#pragma GCC unroll 4
        for (int i = 0; i < n; i++)
#pragma GCC unroll 4
            for (int k = 0; k < VECTORS; k++)
                add(of + i, load_wide(x + i * x_row, j, count, k, (real)first[i][0] - (vf){}), first[i], k);
}

LK_INLINE vd origin_of(const lk_moments *g, const char *x)
{
    return splat_wide(g->about_zero ? 0 : load_numbers(x, 1, ELEMENT)[0]);
}

LK_INLINE void finish_row(const lk_moments *g, int64_t i, const sums *s, vd first, double each)
{
    vd mean, deviations;
    finish(g, first, splat_wide(total(s->sum)), splat_wide(total(s->squares)), each, &mean, &deviations);
    g->mean[i] = mean[0], g->squares[i] = deviations[0];
}

/* n rows from the i-th on. */
LK_INLINE void short_rows(const lk_moments *g, int64_t i, const int n, double each)
{
    const char *x = g->x + i * g->x_row;
    sums of[STREAMS] = {};
    vd first[STREAMS];
#pragma GCC unroll 4
    for (int r = 0; r < n; r++)
        first[r] = origin_of(g, x + r * g->x_row);
    add_rows(of, x, g->x_row, g->count, first, n);
#pragma GCC unroll 4
    for (int r = 0; r < n; r++)
        finish_row(g, i + r, of + r, first[r], each);
}

/* A row in four parts, and what is left of it. Vectors that are short have registers for `n` parts at a time. */
LK_INLINE void long_row(const lk_moments *g, int64_t i, const int n, double each)
{
    const char *x = g->x + i * g->x_row;
    const int64_t part = g->count / (STREAMS * WIDE) * WIDE;
    const vd origin = origin_of(g, x), first[STREAMS] = {origin, origin, origin, origin};
    sums of[STREAMS] = {};
    for (int r = 0; r < STREAMS; r += n)
        add_rows(of + r, x + r * part * ITEM, part * ITEM, part, first, n);
#pragma GCC unroll 8
    for (int k = 0; k < PER_VECTOR * VECTORS; k++) {
        of[0].sum[k] = (of[0].sum[k] + of[1].sum[k]) + (of[2].sum[k] + of[3].sum[k]);
        of[0].squares[k] = (of[0].squares[k] + of[1].squares[k]) + (of[2].squares[k] + of[3].squares[k]);
    }
    add_rows(of, x + STREAMS * part * ITEM, 0, g->count - STREAMS * part, first, 1);
    finish_row(g, i, of, origin, each);
}

LK_INLINE void all_rows(const lk_moments *args)
{
    const lk_moments g = *args;
    const int at_once = VECTORS == 1 ? STREAMS : 1;
    const double each = 1.0 / (double)g.count; /* divisions of vectors are slow */
    int64_t i = 0;
    if (g.count >= STREAMS * MIN_STREAM) {
        for (; i < g.rows; i++)
            long_row(&g, i, at_once, each);
        return;
    }
    for (; i <= g.rows - at_once; i += at_once)
        short_rows(&g, i, at_once, each);
    for (; i < g.rows; i++)
        short_rows(&g, i, 1, each);
}

/* Columns [j, j + n), in `vectors` of them, the last of which may be partial. */
LK_INLINE void column_vectors(const lk_moments *g, int64_t j, int n, const int vectors)
{
    vd first[2 * 4], sum[2 * 4] = {}, squares[2 * 4] = {};
    const char *x = g->x + j * ITEM;
#define LOAD(k) (n >= (k + 1) * LK_LANES ? load_numbers(x + k * LK_LANES * ITEM, LK_LANES, ELEMENT) \
                                         : load_numbers(x + k * LK_LANES * ITEM, n - k * LK_LANES, ELEMENT))
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
        const vf v = LOAD(k);
        first[2 * k] = widened(v, 0), first[2 * k + 1] = widened(v, 1);
        if (g->about_zero)
            first[2 * k] = first[2 * k + 1] = (vd){};
    }
    for (int64_t i = 0; i < g->rows; i++, x += g->x_row)
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++) {
            const vf v = LOAD(k);
            const vd low = widened(v, 0) - first[2 * k], high = widened(v, 1) - first[2 * k + 1];
            sum[2 * k] += low, sum[2 * k + 1] += high;
            squares[2 * k] = multiplied(low, low, squares[2 * k]);
            squares[2 * k + 1] = multiplied(high, high, squares[2 * k + 1]);
        }
#pragma GCC unroll 8
    for (int h = 0; h < 2 * vectors; h++) {
        const int left = n - h * DOUBLES;
        vd mean, deviations;
        finish(g, first[h], sum[h], squares[h], 1.0 / (double)g->rows, &mean, &deviations);
        if (left >= DOUBLES)
            *(vd *)(g->mean + j + h * DOUBLES) = mean, *(vd *)(g->squares + j + h * DOUBLES) = deviations;
        else
            for (int c = 0; c < left; c++)
                g->mean[j + h * DOUBLES + c] = mean[c], g->squares[j + h * DOUBLES + c] = deviations[c];
    }
}

/* Long rows, whose columns are summed some rows at a time: memory is read along the rows. What there is so far of sums and
 * squares is in `mean` and `squares`. Returns how many columns that were. */
LK_INLINE int64_t long_columns(const lk_moments *g)
{
    enum { BLOCK = 8, AHEAD = 2048 }; /* rows; bytes of the longest row of which a block ahead stays in L1 */
    const int64_t ahead = g->x_row <= AHEAD ? BLOCK * g->x_row : 0;
    const int64_t whole = g->count / LK_LANES * LK_LANES;
    for (int64_t i = 0; i < g->rows; i += BLOCK) {
        const int64_t rows = MIN(BLOCK, g->rows - i);
        for (int64_t j = 0; j < whole; j += LK_LANES) {
            const char *x = g->x + i * g->x_row + j * ITEM;
            vd *const sum = (vd *)(g->mean + j), *const squares = (vd *)(g->squares + j);
            const vf v = load_numbers(g->x + j * ITEM, LK_LANES, ELEMENT);
            vd first[2] = {}, a[2] = {}, b[2] = {};
            if (!g->about_zero)
                first[0] = widened(v, 0), first[1] = widened(v, 1);
            if (i)
                a[0] = sum[0], a[1] = sum[1], b[0] = squares[0], b[1] = squares[1];
            for (int64_t r = 0; r < rows; r++, x += g->x_row) {
                const vf w = load_numbers(x, LK_LANES, ELEMENT);
                const vd low = widened(w, 0) - first[0], high = widened(w, 1) - first[1];
                __builtin_prefetch(x + ahead);
                a[0] += low, a[1] += high;
                b[0] = multiplied(low, low, b[0]), b[1] = multiplied(high, high, b[1]);
            }
            sum[0] = a[0], sum[1] = a[1], squares[0] = b[0], squares[1] = b[1];
            if (i + BLOCK >= g->rows)
#pragma GCC unroll 2
                for (int h = 0; h < 2; h++)
                    finish(g, first[h], a[h], b[h], 1.0 / (double)g->rows, sum + h, squares + h);
        }
    }
    return whole;
}

void LK_NAME(LK_TYPED(moments))(const lk_moments *g)
{
    enum { LONG = 128 }; /* elements of a row */
    int64_t j = 0;
    if (!g->by_column) {
        all_rows(g);
        return;
    }
    if (g->count >= LONG)
        j = long_columns(g);
    for (; j <= g->count - 2 * LK_LANES; j += 2 * LK_LANES)
        column_vectors(g, j, 2 * LK_LANES, 2);
    for (; j <= g->count - LK_LANES; j += LK_LANES)
        column_vectors(g, j, LK_LANES, 1);
    if (j < g->count)
        column_vectors(g, j, (int)(g->count - j), 1);
}

const lk_kernel LK_ROWS(moments)[] = {
    LK_ROW(LK_MOMENTS, LK_TYPED(moments), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
