/* reduce_<type>: rows or columns folded to one number each, in f64; see lk_reduce in reduce.h.
 *
 *   into[i] = fold(into[i], x[i][0], x[i][1], ..)
 *
 * Edges: behind the last element is what changes no fold: 0, 1, or an infinity.
 */
#include "elementwise/steps.h"
#include "reduce.h"
#include "wide.h"

#define INFINITE ((real)__builtin_inf())

/* What a fold of nothing is. */
LK_INLINE real neutral(const int fold)
{
    switch (fold) {
    case LK_FOLD_PRODUCT: return 1;
    case LK_FOLD_MOST: return -INFINITE;
    case LK_FOLD_LEAST: return INFINITE;
    case LK_FOLD_POWERS: return -INFINITE;
    default: return 0;
    }
}

/* Of a and b the larger, or the lesser; NaN if one is. */
LK_INLINE vf extreme(vf a, vf b, const int fold)
{
    return fold == LK_FOLD_MOST ? step_max(b, 0, a) : step_min(b, 0, a);
}

/* One vector more. Extremes are folded as they are, in `kept`; the others in f64, in two parts. */
LK_INLINE void take(vf v, vf most, vf *kept, vd *parts, const int fold)
{
    if (fold == LK_FOLD_MOST || fold == LK_FOLD_LEAST) {
        *kept = extreme(*kept, v, fold);
        return;
    }
    if (fold == LK_FOLD_ABSOLUTE)
        v = step_abs(v, 0, v);
    else if (fold == LK_FOLD_POWERS)
        v = step_exp(v - most, 0, v);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const vd d = widened(v, i);
        if (fold == LK_FOLD_SQUARES)
            parts[i] = multiplied(d, d, parts[i]);
        else
            parts[i] = fold == LK_FOLD_PRODUCT ? parts[i] * d : parts[i] + d;
    }
}

LK_INLINE double folded(double a, double b, const int fold)
{
    if (fold == LK_FOLD_PRODUCT)
        return a * b;
    if (fold == LK_FOLD_MOST)
        return a != a || a > b ? a : b;
    if (fold == LK_FOLD_LEAST)
        return a != a || a < b ? a : b;
    return a + b;
}

LK_INLINE void one_row(const lk_reduce *g, int64_t i, const int fold)
{
    const char *x = g->x + i * g->x_row;
    const vf none = splat(neutral(fold)), most = splat(fold == LK_FOLD_POWERS ? (real)g->most[i] : 0);
    vf kept[VECTORS];
    vd parts[2 * VECTORS];
#pragma GCC unroll 4
    for (int k = 0; k < VECTORS; k++)
        kept[k] = none, parts[2 * k] = parts[2 * k + 1] = splat_wide(fold == LK_FOLD_PRODUCT);
    int64_t j = 0;
    for (; j <= g->count - WIDE; j += WIDE)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++)
            take(load_numbers(x + (j + k * LK_LANES) * ITEM, LK_LANES, ELEMENT), most, kept + k, parts + 2 * k, fold);
    if (j < g->count)
#pragma GCC unroll 4
        for (int k = 0; k < VECTORS; k++)
            take(load_wide(x, j, g->count, k, none), most, kept + k, parts + 2 * k, fold);
    double found;
    if (fold == LK_FOLD_MOST || fold == LK_FOLD_LEAST) {
        found = kept[0][0];
        for (int k = 0; k < VECTORS; k++)
            for (int lane = 0; lane < LK_LANES; lane++)
                found = folded(found, kept[k][lane], fold);
    } else if (fold == LK_FOLD_PRODUCT) {
        found = 1;
        for (int k = 0; k < 2 * VECTORS; k++)
            for (int lane = 0; lane < DOUBLES; lane++)
                found *= parts[k][lane];
    } else
        found = total(parts);
    g->into[i] = folded(g->into[i], found, fold);
}

/* n columns from the j-th on, at most a vector. */
LK_INLINE void some_columns(const lk_reduce *g, int64_t j, int n, const int fold)
{
    const char *x = g->x + j * ITEM;
    vf kept = splat(neutral(fold)), most = {};
    vd parts[2];
    parts[0] = parts[1] = splat_wide(fold == LK_FOLD_PRODUCT);
    if (fold == LK_FOLD_POWERS)
        for (int c = 0; c < n; c++)
            most[c] = (real)g->most[j + c];
    for (int64_t i = 0; i < g->rows; i++, x += g->x_row)
        take(load_numbers(x, n, ELEMENT), most, &kept, parts, fold);
    for (int c = 0; c < n; c++) {
        const double found = fold == LK_FOLD_MOST || fold == LK_FOLD_LEAST ? kept[c] : parts[c / DOUBLES][c % DOUBLES];
        g->into[j + c] = folded(g->into[j + c], found, fold);
    }
}

LK_INLINE void reduced(const lk_reduce *given, const int fold)
{
    const lk_reduce g = *given;
    int64_t j = 0;
    if (!g.down) {
        for (int64_t i = 0; i < g.rows; i++)
            one_row(&g, i, fold);
        return;
    }
    for (; j <= g.count - LK_LANES; j += LK_LANES)
        some_columns(&g, j, LK_LANES, fold);
    if (j < g.count)
        some_columns(&g, j, (int)(g.count - j), fold);
}

void LK_NAME(LK_TYPED(reduce))(const lk_reduce *g)
{
#define FOLD(fold) case fold: reduced(g, fold); return;
    switch (g->fold) {
        FOLD(LK_FOLD_SUM) FOLD(LK_FOLD_ABSOLUTE) FOLD(LK_FOLD_SQUARES) FOLD(LK_FOLD_PRODUCT) FOLD(LK_FOLD_MOST)
        FOLD(LK_FOLD_LEAST) FOLD(LK_FOLD_POWERS)
    }
}

const lk_kernel LK_ROWS(reduce)[] = {
    LK_ROW(LK_REDUCE, LK_TYPED(reduce), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
