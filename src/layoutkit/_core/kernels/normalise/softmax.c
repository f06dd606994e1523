/* softmax_<type>: softmax and its logarithm along rows or down columns; see lk_softmax in softmax.h.
 *
 *   y[i][j] = e^(x[i][j] - max) / sum
 *
 * Three passes over a row, or over some columns: the maximum, the sum, the results. The exponentials are scaled by 2^UP, and
 * so is the sum, so that only quotients may be denormal; of f32 they are stored in y until the last pass, of narrow types
 * computed once more. Short rows are done for as many as a vector has lanes together, so that what follows from a sum is
 * computed for all of them at once.
 * Edges: elements behind the last one are -Inf for the maximum, and 0 in the sum.
 */
#include "common/every_second.h"
#include "elementwise/functions.h"
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
        return logarithm_or_special(logarithm(sum * DOWN, (vf){}), sum);
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

/* Short rows, as many as a vector has lanes at most: their maxima, sums and factors are a vector. Powers are not stored in
 * y, as what is stored by a mask is loaded late. */
enum { SHORT = 256 };

/* The larger, or the sum, of elements 0 and 1 of a, 2 and 3, .. then of b. */
LK_INLINE vf larger_neighbours(vf a, vf b) { return at_least(every_second(a, b, 0), every_second(a, b, 1)); }
LK_INLINE vd sums_of_neighbours(vd a, vd b)
{
    const wi even = *(const wi *)lk_seconds_64;
    return __builtin_shuffle(a, b, even) + __builtin_shuffle(a, b, even + 1);
}

LK_INLINE void softmax_short_rows(const lk_softmax *g, const char *x, char *y, int rows, const int logarithms)
{
    const int64_t count = g->count, x_row = g->x_row, y_row = g->y_row;
    vf maxima[LK_LANES], by;
    vf powers[LK_LANES][SHORT / LK_LANES];
    vd sums[LK_LANES], parts[PER_VECTOR * VECTORS];
    real top[LK_LANES], of_row[LK_LANES];
    const int64_t last = (count - 1) / LK_LANES * LK_LANES;
    for (int r = 0; r < LK_LANES; r++) {
        const char *from = x + MIN(r, rows - 1) * x_row;
        maxima[r] = load_first(from + last * ITEM, (int)(count - last), LOWEST);
        for (int64_t j = 0; j < last; j += LK_LANES)
            maxima[r] = at_least(maxima[r], load_numbers(from + j * ITEM, LK_LANES, ELEMENT));
    }
#pragma GCC unroll 4
    for (int n = LK_LANES / 2; n; n /= 2)
#pragma GCC unroll 8
        for (int r = 0; r < n; r++)
            maxima[r] = larger_neighbours(maxima[2 * r], maxima[2 * r + 1]);
    *(vf *)top = maxima[0];
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < count; j += LK_LANES)
            powers[r][j / LK_LANES] =
                power(load_first(x + r * x_row + j * ITEM, (int)MIN(count - j, LK_LANES), LOWEST), splat(top[r]));
    for (int r = 0; r < LK_LANES; r++) {
        if (r >= rows) {
            sums[r] = (vd){};
            continue;
        }
        for (int64_t v = last / LK_LANES + 1; v % (2 * VECTORS); v++)
            powers[r][v] = (vf){};
#pragma GCC unroll 8
        for (int i = 0; i < PER_VECTOR * VECTORS; i++)
            parts[i] = (vd){};
        for (int64_t v = 0; v <= last / LK_LANES; v += 2 * VECTORS) /* two vectors are added before they are widened */
#pragma GCC unroll 4
            for (int k = 0; k < VECTORS; k++)
                ADD_POWERS(k, powers[r][v + k] + powers[r][v + k + VECTORS]);
#pragma GCC unroll 4
        for (int n = PER_VECTOR * VECTORS / 2; n; n /= 2)
#pragma GCC unroll 4
            for (int i = 0; i < n; i++)
                parts[i] = sums_of_neighbours(parts[2 * i], parts[2 * i + 1]);
        sums[r] = parts[0];
    }
#pragma GCC unroll 4
    for (int n = LK_LANES / 2; n > 1; n /= 2)
#pragma GCC unroll 8
        for (int r = 0; r < n; r++)
            sums[r] = sums_of_neighbours(sums[2 * r], sums[2 * r + 1]);
    by = from_sum(narrowed(sums[0], sums[1]), logarithms);
    *(vf *)of_row = by;
    for (int r = 0; r < rows; r++) {
        const vf maximum = splat(top[r]), factor = splat(of_row[r]);
        const char *from = x + r * x_row;
        char *to = y + r * y_row;
#define RESULT(j, n) \
    (logarithms ? (load_numbers(from + (j) * ITEM, n, ELEMENT) - maximum) - factor : powers[r][(j) / LK_LANES] * factor)
        for (int64_t j = 0; j < last; j += LK_LANES)
            store_numbers(to + j * ITEM, RESULT(j, LK_LANES), LK_LANES, ELEMENT);
        store_numbers(to + last * ITEM, RESULT(last, (int)(count - last)), (int)(count - last), ELEMENT);
    }
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

LK_INLINE void softmax(const lk_softmax *args, const int logarithms)
{
    const lk_softmax g = *args;
    int64_t j = 0;
    if (!g.by_column) {
        if (g.count <= SHORT) {
            for (int64_t i = 0; i < g.rows; i += LK_LANES)
                softmax_short_rows(&g, g.x + i * g.x_row, g.y + i * g.y_row, (int)MIN(LK_LANES, g.rows - i), logarithms);
            return;
        }
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
