/* reduce_<type>: rows or columns reduced to one number each, in f64; see lk_reduce in reduce.h.
 *
 *   into[i] = fold(into[i], x[i][0], x[i][1], ..)
 *
 * Edges: elements behind the last one are neutral: 0, 1, or an infinity.
 */
#include "elementwise/steps.h"
#include "reduce.h"
#include "wide.h"

#define INFINITE ((real)__builtin_inf())

/* The fold of no elements. */
LK_INLINE real neutral(const int fold)
{
    switch (fold) {
    case LK_FOLD_PRODUCT: return 1;
    case LK_FOLD_MAX: return -INFINITE;
    case LK_FOLD_MIN: return INFINITE;
    case LK_FOLD_POWERS: return -INFINITE;
    default: return 0;
    }
}

/* The maximum or minimum of a and b; NaN if one is. */
LK_INLINE vf extreme(vf a, vf b, const int fold)
{
    return fold == LK_FOLD_MAX ? step_max(b, 0, a) : step_min(b, 0, a);
}

/* Folds one more vector. Maxima and minima are kept in `extremes`; the others in f64, two vectors of `sums`. */
LK_INLINE void add_vector(vf v, vf maximum, vf *extremes, vd *sums, const int fold)
{
    if (fold == LK_FOLD_MAX || fold == LK_FOLD_MIN) {
        *extremes = extreme(*extremes, v, fold);
        return;
    }
    if (fold == LK_FOLD_ABSOLUTE)
        v = step_abs(v, 0, v);
    else if (fold == LK_FOLD_POWERS)
        v = step_exp(v - maximum, 0, v);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const vd d = widened(v, i);
        if (fold == LK_FOLD_SQUARES)
            sums[i] = multiplied(d, d, sums[i]);
        else
            sums[i] = fold == LK_FOLD_PRODUCT ? sums[i] * d : sums[i] + d;
    }
}

LK_INLINE double folded(double a, double b, const int fold)
{
    if (fold == LK_FOLD_PRODUCT)
        return a * b;
    if (fold == LK_FOLD_MAX)
        return a != a || a > b ? a : b;
    if (fold == LK_FOLD_MIN)
        return a != a || a < b ? a : b;
    return a + b;
}

enum { EXTREMES = 4 };

/* Maxima and minima are the same in any order: those of whole vectors from element 0 on, several of which are folded at a
 * time; the elements that are left begin at *end. */
LK_INLINE vf extreme_of_row(const char *x, int64_t count, int64_t *end, vf none, const int fold)
{
    vf some[EXTREMES] = {none, none, none, none};
    int64_t j = 0;
    for (; j <= count - EXTREMES * WIDE; j += EXTREMES * LK_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < EXTREMES; k++)
            some[k] = extreme(some[k], load_numbers(x + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT), fold);
    *end = j;
    return extreme(extreme(some[0], some[1], fold), extreme(some[2], some[3], fold), fold);
}

LK_INLINE void reduce_row(const lk_reduce *g, int64_t i, const int fold)
{
    const char *x = g->x + i * g->x_row;
    const vf none = splat(neutral(fold)), maximum = splat(fold == LK_FOLD_POWERS ? (real)g->maxima[i] : 0);
    vf extremes[VECTORS];
    vd sums[2 * VECTORS];
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++)
        extremes[k] = none, sums[2 * k] = sums[2 * k + 1] = splat_wide(fold == LK_FOLD_PRODUCT);
    int64_t j = 0;
    if (fold == LK_FOLD_MAX || fold == LK_FOLD_MIN)
        extremes[0] = extreme_of_row(x, g->count, &j, none, fold);
    for (; j <= g->count - WIDE; j += WIDE)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++)
            add_vector(load_numbers(x + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT), maximum, extremes + k, sums + 2 * k,
                       fold);
    if (j < g->count)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++)
            add_vector(load_wide(x, j, g->count, k, none), maximum, extremes + k, sums + 2 * k, fold);
    double result;
    if (fold == LK_FOLD_MAX || fold == LK_FOLD_MIN) {
        result = extremes[0][0];
        for (int k = 0; k < VECTORS; k++)
            for (int lane = 0; lane < LK_LANES; lane++)
                result = folded(result, extremes[k][lane], fold);
    } else if (fold == LK_FOLD_PRODUCT) {
        result = 1;
        for (int k = 0; k < 2 * VECTORS; k++)
            for (int lane = 0; lane < DOUBLES; lane++)
                result *= sums[k][lane];
    } else
        result = total(sums);
    g->into[i] = folded(g->into[i], result, fold);
}

/* n columns from the j-th on, at most a vector. */
LK_INLINE void reduce_columns(const lk_reduce *g, int64_t j, int n, const int fold)
{
    const char *x = g->x + j * ITEM;
    vf extremes = splat(neutral(fold)), maxima = {};
    vd sums[2];
    sums[0] = sums[1] = splat_wide(fold == LK_FOLD_PRODUCT);
    if (fold == LK_FOLD_POWERS)
        for (int c = 0; c < n; c++)
            maxima[c] = (real)g->maxima[j + c];
    for (int64_t i = 0; i < g->rows; i++, x += g->x_row)
        add_vector(load_numbers(x, n, ELEMENT), maxima, &extremes, sums, fold);
    for (int c = 0; c < n; c++) {
        const double result = fold == LK_FOLD_MAX || fold == LK_FOLD_MIN ? extremes[c] : sums[c / DOUBLES][c % DOUBLES];
        g->into[j + c] = folded(g->into[j + c], result, fold);
    }
}

LK_INLINE void reduce_all(const lk_reduce *args, const int fold)
{
    const lk_reduce g = *args;
    int64_t j = 0;
    if (!g.by_column) {
        for (int64_t i = 0; i < g.rows; i++)
            reduce_row(&g, i, fold);
        return;
    }
    for (; j <= g.count - LK_LANES; j += LK_LANES)
        reduce_columns(&g, j, LK_LANES, fold);
    if (j < g.count)
        reduce_columns(&g, j, (int)(g.count - j), fold);
}

void LK_NAME(LK_TYPED(reduce))(const lk_reduce *g)
{
#define FOLD(fold) case fold: reduce_all(g, fold); return;
    switch (g->fold) {
        FOLD(LK_FOLD_SUM) FOLD(LK_FOLD_ABSOLUTE) FOLD(LK_FOLD_SQUARES) FOLD(LK_FOLD_PRODUCT) FOLD(LK_FOLD_MAX)
        FOLD(LK_FOLD_MIN) FOLD(LK_FOLD_POWERS)
    }
}

const lk_kernel LK_ROWS(reduce)[] = {
    LK_ROW(LK_REDUCE, LK_TYPED(reduce), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
