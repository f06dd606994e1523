/* softmax_<type>: softmax and its logarithm along rows or down columns; see lk_softmax in softmax.h.
 *
 *   y[i][j] = e^(x[i][j] - most) / sum
 *
 * Three passes over a row, or over some columns: the largest, the sum, the results. The exponentials are kept scaled by
 * 2^UP, which the sum is as well, so that only quotients may be denormal; f32 waits for them in y, narrow numbers are
 * computed once more.
 * Edges: behind the last element is -Inf for the largest, and 0 in the sum.
 */
#include "elementwise/steps.h"
#include "softmax.h"
#include "wide.h"

#define LEAST splat(-(real)__builtin_inf())

/* e^(x - most) * 2^UP, x not above most */
LK_INLINE vf power(vf x, vf most)
{
    const vf d = x - most;
    return choose(d < (real)-SILU, (vf){}, exponential_up(exponent_of(at_least(d, splat(-SILU)))));
}

/* What powers are multiplied with, or what is taken from the distances; `sum` is of powers. */
LK_INLINE vf from_sum(vf sum, const int logarithms)
{
    if (logarithms)
        return at_ends(logarithm(sum * DOWN, (vf){}), sum);
    return (real)1 / sum;
}

/* n results at y, of x; `y` may hold the powers. */
LK_INLINE void finish(const char *x, char *y, int n, vf most, vf by, const int logarithms)
{
    vf v;
    if (logarithms)
        v = (load_numbers(x, n, ELEMENT) - most) - by;
    else if (NARROW)
        v = power(load_numbers(x, n, ELEMENT), most) * by;
    else
        v = load_numbers(y, n, ELEMENT) * by;
    store_numbers(y, v, n, ELEMENT);
}

LK_INLINE real largest_lane(vf v)
{
    real most = v[0];
    for (int i = 1; i < LK_LANES; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

LK_INLINE void one_row(const lk_softmax *g, const char *x, char *y, const int logarithms)
{
    vf most[VECTORS > 4 ? VECTORS : 4], at[4];
    int64_t j = 0;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        most[k] = LEAST;
    for (; j <= g->count - 4 * LK_LANES; j += 4 * LK_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            at[k] = load_numbers(x + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT);
            most[k] = at_least(most[k], at[k]); /* a NaN in it is passed over: the sum will be NaN */
        }
    for (; j < g->count; j += LK_LANES)
        most[0] = at_least(most[0], load_first(x + j * ITEM, (int)MIN(g->count - j, LK_LANES), LEAST));
    const vf top = splat(largest_lane(at_least(at_least(most[0], most[1]), at_least(most[2], most[3]))));

    vd parts[PER_VECTOR * VECTORS] = {};
    for (j = 0; j < g->count; j += WIDE)
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
            parts[2 * k] += widened(p, 0), parts[2 * k + 1] += widened(p, 1);
        }
    const vf by = from_sum(splat((real)total(parts)), logarithms);
    for (j = 0; j <= g->count - LK_LANES; j += LK_LANES)
        finish(x + j * ITEM, y + j * ITEM, LK_LANES, top, by, logarithms);
    if (j < g->count)
        finish(x + j * ITEM, y + j * ITEM, (int)(g->count - j), top, by, logarithms);
}

/* n columns in so many vectors, the last of which may be partial. */
LK_INLINE void some_columns(const lk_softmax *g, const char *x, char *y, int n, const int vectors, const int logarithms)
{
#define LANES_OF(k) (n >= ((k) + 1) * LK_LANES ? LK_LANES : n - (k) * LK_LANES)
    vf most[2], by[2];
    vd sum[4] = {};
    const char *at = x;
    char *to = y;
#pragma GCC unroll 2
    for (int k = 0; k < vectors; k++)
        most[k] = LEAST;
    for (int64_t i = 0; i < g->rows; i++, at += g->x_row)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++)
            most[k] = at_least(most[k], load_numbers(at + k * LK_LANES * ITEM, LANES_OF(k), ELEMENT));
    at = x;
    for (int64_t i = 0; i < g->rows; i++, at += g->x_row, to += g->y_row)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++) {
            const vf p = power(load_numbers(at + k * LK_LANES * ITEM, LANES_OF(k), ELEMENT), most[k]);
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
            finish(at + k * LK_LANES * ITEM, to + k * LK_LANES * ITEM, LANES_OF(k), most[k], by[k], logarithms);
}

LK_INLINE void softmax(const lk_softmax *given, const int logarithms)
{
    const lk_softmax g = *given;
    int64_t j = 0;
    if (!g.down) {
        for (int64_t i = 0; i < g.rows; i++)
            one_row(&g, g.x + i * g.x_row, g.y + i * g.y_row, logarithms);
        return;
    }
    for (; j <= g.count - 2 * LK_LANES; j += 2 * LK_LANES)
        some_columns(&g, g.x + j * ITEM, g.y + j * ITEM, 2 * LK_LANES, 2, logarithms);
    for (; j <= g.count - LK_LANES; j += LK_LANES)
        some_columns(&g, g.x + j * ITEM, g.y + j * ITEM, LK_LANES, 1, logarithms);
    if (j < g.count)
        some_columns(&g, g.x + j * ITEM, g.y + j * ITEM, (int)(g.count - j), 1, logarithms);
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
