/* softmax_<type>: softmax and its logarithm along rows or down columns; see lk_softmax in softmax.h.
 *
 *   y[i][j] = e^(x[i][j] - max) / sum
 *
 * Three passes over a row, or over some columns: the maximum, the sum, the results. The exponentials are scaled by 2^UP, and
 * so is the sum, so that only quotients may be denormal; of f32 they are stored in y until the last pass, of narrow types
 * computed once more.
 * Edges: elements behind the last one are -Inf for the maximum, and 0 in the sum.
 */
#include "elementwise/steps.h"
#include "softmax.h"
#include "wide.h"

#define LOWEST splat(-(real)__builtin_inf())

/* e^(x - maximum) * 2^UP, x not above the maximum */
LK_INLINE vf power(vf x, vf maximum)
{
    const vf d = x - maximum;
    return (vf)(~(d < (real)-SILU) & (vi)exponential_up(exponent_of(at_least(d, splat(-SILU)))));
}

/* The factor of powers with this sum; of logarithms, what is subtracted from x - max. */
LK_INLINE vf from_sum(vf sum, const int logarithms)
{
    if (logarithms)
        return at_ends(logarithm(sum * DOWN, (vf){}), sum);
    return (real)1 / sum;
}

/* n results at y, from x or, where powers are stored in y, from these. */
LK_INLINE void finish(const char *x, char *y, int n, vf maximum, vf by, const int logarithms)
{
    vf v;
    if (logarithms)
        v = (load_numbers(x, n, ELEMENT) - maximum) - by;
    else if (NARROW)
        v = power(load_numbers(x, n, ELEMENT), maximum) * by;
    else
        v = load_numbers(y, n, ELEMENT) * by;
    store_numbers(y, v, n, ELEMENT);
}

#define ADD_POWERS(k, p) (parts[2 * (k)] += widened(p, 0), parts[2 * (k) + 1] += widened(p, 1))

LK_INLINE void softmax_row(const lk_softmax *g, const char *x, char *y, const int logarithms)
{
    vf maxima[VECTORS > 4 ? VECTORS : 4], at[4];
    int64_t j = 0;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        maxima[k] = LOWEST;
    for (; j <= g->count - 4 * LK_LANES; j += 4 * LK_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            at[k] = load_numbers(x + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT);
            maxima[k] = at_least(maxima[k], at[k]); /* a NaN in it is passed over: the sum will be NaN */
        }
    for (; j < g->count; j += LK_LANES)
        maxima[0] = at_least(maxima[0], load_first(x + j * ITEM, (int)MIN(g->count - j, LK_LANES), LOWEST));
    const vf top = splat(largest_lane(at_least(at_least(maxima[0], maxima[1]), at_least(maxima[2], maxima[3]))));

    vd parts[PER_VECTOR * VECTORS] = {};
    for (j = 0; j <= g->count - 4 * LK_LANES; j += 4 * LK_LANES) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            at[k] = power(load_numbers(x + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT), top);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            if (!NARROW && !logarithms)
                store_numbers(y + (j + k * LK_LANES) * ITEM, at[k], LK_LANES, ELEMENT);
            ADD_POWERS(k % VECTORS, at[k]);
        }
    }
    for (; j < g->count; j += WIDE)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++) {
            const int64_t left = g->count - j - k * LK_LANES;
            if (left <= 0)
                continue;
            const int n = (int)MIN(left, LK_LANES);
            vf p = power(load_numbers(x + (j + k * LK_LANES) * ITEM, n, ELEMENT), top);
            if (!NARROW && !logarithms)
                store_numbers(y + (j + k * LK_LANES) * ITEM, p, n, ELEMENT);
            if (n < LK_LANES)
                p = first_lanes(p, n);
            ADD_POWERS(k, p);
        }
    const vf by = from_sum(splat((real)total(parts)), logarithms);
    for (j = 0; j <= g->count - LK_LANES; j += LK_LANES)
        finish(x + j * ITEM, y + j * ITEM, LK_LANES, top, by, logarithms);
    if (j < g->count)
        finish(x + j * ITEM, y + j * ITEM, (int)(g->count - j), top, by, logarithms);
}

/* n columns in `vectors` of them, the last of which may be partial. */
LK_INLINE void softmax_columns(const lk_softmax *g, const char *x, char *y, int n, const int vectors, const int logarithms)
{
#define LANES_OF(k) (n >= ((k) + 1) * LK_LANES ? LK_LANES : n - (k) * LK_LANES)
    vf maxima[2], by[2];
    vd sum[4] = {};
    const char *at = x;
    char *to = y;
#pragma GCC unroll 2
    for (int k = 0; k < vectors; k++)
        maxima[k] = LOWEST;
    for (int64_t i = 0; i < g->rows; i++, at += g->x_row)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++)
            maxima[k] = at_least(maxima[k], load_numbers(at + k * LK_LANES * ITEM, LANES_OF(k), ELEMENT));
    at = x;
    for (int64_t i = 0; i < g->rows; i++, at += g->x_row, to += g->y_row)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++) {
            const vf p = power(load_numbers(at + k * LK_LANES * ITEM, LANES_OF(k), ELEMENT), maxima[k]);
            if (!NARROW && !logarithms)
                store_numbers(to + k * LK_LANES * ITEM, p, LANES_OF(k), ELEMENT);
            sum[2 * k] += widened(p, 0), sum[2 * k + 1] += widened(p, 1);
        }
#pragma GCC unroll 2
    for (int k = 0; k < vectors; k++)
        by[k] = from_sum(narrowed(sum[2 * k], sum[2 * k + 1]), logarithms);
    at = x, to = y;
    for (int64_t i = 0; i < g->rows; i++, at += g->x_row, to += g->y_row)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++)
            finish(at + k * LK_LANES * ITEM, to + k * LK_LANES * ITEM, LANES_OF(k), maxima[k], by[k], logarithms);
}

LK_INLINE void softmax(const lk_softmax *given, const int logarithms)
{
    const lk_softmax g = *given;
    int64_t j = 0;
    if (!g.by_column) {
        for (int64_t i = 0; i < g.rows; i++)
            softmax_row(&g, g.x + i * g.x_row, g.y + i * g.y_row, logarithms);
        return;
    }
    for (; j <= g.count - 2 * LK_LANES; j += 2 * LK_LANES)
        softmax_columns(&g, g.x + j * ITEM, g.y + j * ITEM, 2 * LK_LANES, 2, logarithms);
    for (; j <= g.count - LK_LANES; j += LK_LANES)
        softmax_columns(&g, g.x + j * ITEM, g.y + j * ITEM, LK_LANES, 1, logarithms);
    if (j < g.count)
        softmax_columns(&g, g.x + j * ITEM, g.y + j * ITEM, (int)(g.count - j), 1, logarithms);
}

void LK_NAME(LK_TYPED(softmax))(const lk_softmax *g)
{
    if (g->logarithm)
        softmax(g, 1);
    else
        softmax(g, 0);
}

const lk_kernel LK_ROWS(softmax)[] = {
    LK_ROW(LK_SOFTMAX, LK_TYPED(softmax), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
