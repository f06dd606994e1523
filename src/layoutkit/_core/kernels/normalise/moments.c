/* moments_<type>: means and sums of squared distances from them, of rows or of columns; see lk_moments in moments.h.
 *
 *   mean = first + (sum of d) / n        squares = sum of d^2 - (sum of d)^2 / n        d = x - first
 *
 * Since the first element is one of them, (first - mean)^2 is at most `squares`: little is lost in the difference.
 * Edges: behind the last element d is 0.
 */
#include "moments.h"
#include "wide.h"

/* Means and sums of squared deviations from them, from the sums of n distances from `first` and of their squares. */
LK_INLINE void finish(const lk_moments *g, vd first, vd sum, vd squares, double n, vd *mean, vd *deviations)
{
    const vd shift = sum / n, difference = squares - sum * shift;
    *mean = first + shift, *deviations = (vd)(~(difference < 0) & (wi)difference); /* NaN stays */
    if (g->about_zero)
        *mean = (vd){}, *deviations = squares;
}

LK_INLINE void row_moments(const lk_moments *g, int64_t i)
{
    const char *x = g->x + i * g->x_row;
    const real origin = g->about_zero ? 0 : load_numbers(x, 1, ELEMENT)[0];
    const vf rest = origin - (vf){};
    const vd first = splat_wide(origin);
    vd sum[PER_VECTOR * VECTORS] = {}, squares[PER_VECTOR * VECTORS] = {};
    int64_t j = 0;
#define ADD(vector) \
    do { \
        const vf v = vector; \
        const vd low = widened(v, 0) - first, high = widened(v, 1) - first; \
        sum[2 * k] += low, sum[2 * k + 1] += high; \
        squares[2 * k] = multiplied(low, low, squares[2 * k]); \
        squares[2 * k + 1] = multiplied(high, high, squares[2 * k + 1]); \
    } while (0)
    for (; j <= g->count - WIDE; j += WIDE)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++)
            ADD(load_numbers(x + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT));
    if (j < g->count)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++)
            ADD(load_wide(x, j, g->count, k, rest));
    vd mean, deviations;
    finish(g, first, splat_wide(total(sum)), splat_wide(total(squares)), (double)g->count, &mean, &deviations);
    g->mean[i] = mean[0], g->squares[i] = deviations[0];
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
        finish(g, first[h], sum[h], squares[h], (double)g->rows, &mean, &deviations);
        if (left >= DOUBLES)
            *(vd *)(g->mean + j + h * DOUBLES) = mean, *(vd *)(g->squares + j + h * DOUBLES) = deviations;
        else
            for (int c = 0; c < left; c++)
                g->mean[j + h * DOUBLES + c] = mean[c], g->squares[j + h * DOUBLES + c] = deviations[c];
    }
}

void LK_NAME(LK_TYPED(moments))(const lk_moments *g)
{
    int64_t j = 0;
    if (!g->by_column) {
        for (int64_t i = 0; i < g->rows; i++)
            row_moments(g, i);
        return;
    }
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
