/* blend_rows_<type>, blend_pixels_<type>: weighted sums for interpolation; see blend.h.
 *
 * Pixels of one element: the elements that a vector of results reads are mostly within two vectors, so each tap is a
 * shuffle of these. Where they are farther apart (an image becomes smaller), and at the end of a row, they are loaded one by
 * one.
 * Edges: the last vector of a row, or of the elements of a pixel, may be partial.
 */
#include "blend.h"
#include "common/numbers.h"
#include "common/vector.h"

/* Vectors of sums from element i on, the last of which has n elements. */
LK_INLINE void sum_vectors(const lk_blend_rows *p, const int taps, int64_t i, const int vectors, const int n)
{
    const real *weight = p->weight;
    vf sum[4];
    char *y = p->y + i * LK_ITEM;
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        sum[k] = weight[0] * load_reals(p->x[0] + (i + k * LK_LANES) * LK_ITEM, k + 1 < vectors ? LK_LANES : n);
    for (int t = 1; t < taps; t++) {
        const char *x = p->x[t] + i * LK_ITEM;
        const vf w = weight[t] - (vf){};
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            sum[k] = fused(w, load_reals(x + k * LK_LANES * LK_ITEM, k + 1 < vectors ? LK_LANES : n), sum[k]);
    }
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        store_reals(y + k * LK_LANES * LK_ITEM, sum[k], k + 1 < vectors ? LK_LANES : n);
}

LK_INLINE void sum_rows(const lk_blend_rows *p, const int taps)
{
    int64_t i = 0;
    for (; i <= p->count - 4 * LK_LANES; i += 4 * LK_LANES)
        sum_vectors(p, taps, i, 4, LK_LANES);
    for (; i <= p->count - LK_LANES; i += LK_LANES)
        sum_vectors(p, taps, i, 1, LK_LANES);
    if (i < p->count)
        sum_vectors(p, taps, i, 1, (int)(p->count - i));
}

void LK_NAME(LK_TYPED(blend_rows))(const lk_blend_rows *p)
{
    if (p->taps == 2) {
        const char *x[2] = {p->x[0], p->x[1]};
        const real *weights = p->weight, weight[2] = {weights[0], weights[1]};
        const lk_blend_rows two = {.x = x, .weight = weight, .y = p->y, .taps = 2, .count = p->count};
        sum_rows(&two, 2);
    } else {
        const lk_blend_rows local = *p; /* which no store changes */
        sum_rows(&local, (int)local.taps);
    }
}

/* Pixels of several elements. */
LK_INLINE void blend_units(const lk_blend_pixels *p, const int taps)
{
    const int64_t count = p->count, unit = p->unit, step = p->y_step;
    const real *weight = p->weight;
    const int32_t *at = p->at;
    const char *x = p->x;
    char *y = p->y;
    for (int64_t j = 0; j < count; j++, y += step)
        for (int64_t c = 0; c < unit; c += LK_LANES) {
            const int n = (int)MIN(unit - c, LK_LANES);
            vf sum = weight[j] * load_reals(x + (at[j] + c) * LK_ITEM, n);
            for (int t = 1; t < taps; t++)
                sum = fused(weight[t * count + j] - (vf){}, load_reals(x + (at[t * count + j] + c) * LK_ITEM, n), sum);
            store_reals(y + c * LK_ITEM, sum, n);
        }
}

/* The elements of x at these indices, all below 2 * LK_LANES. */
LK_INLINE vf near_elements(const char *x, vi at)
{
    const vf low = *(const vf *)x, high = *(const vf *)(x + LK_VB);
    return (vf)__builtin_shuffle(low, high, at);
}

/* As `fused`, of one element: results do not depend on whether a pixel is at the end of a row. */
LK_INLINE real fused_one(real a, real b, real c)
{
#if defined(__FMA__) || defined(__aarch64__)
    return (real)(LK_BITS == 64 ? __builtin_fma(a, b, c) : __builtin_fmaf((float)a, (float)b, (float)c));
#else
    return a * b + c;
#endif
}

LK_INLINE void blend_elements(const lk_blend_pixels *p, const int taps)
{
    const int64_t count = p->count;
    const real *weight = p->weight, *x = (const real *)p->x;
    const int32_t *all = p->at;
    char *y = p->y;
    int64_t j = 0;
    for (; LK_BITS == 32 && LK_VB > 16 && p->y_step == LK_ITEM && j + LK_LANES <= count; j += LK_LANES) {
        vf sum = {};
        for (int t = 0; t < taps; t++) {
            const int32_t *at = all + t * count + j;
            const int64_t first = at[0];
            const vf w = *(const vf *)(weight + t * count + j);
            vf v;
            if (at[LK_LANES - 1] - first < 2 * LK_LANES)
                v = near_elements((const char *)(x + first), *(const vi *)at - (int32_t)first);
            else
                for (int l = 0; l < LK_LANES; l++)
                    v[l] = x[at[l]];
            if (t)
                sum = fused(w, v, sum);
            else
                sum = w * v;
        }
        *(vf *)(y + j * LK_ITEM) = sum;
    }
    for (; j < count; j++) {
        real sum = weight[j] * x[p->at[j]];
        for (int t = 1; t < taps; t++)
            sum = fused_one(weight[t * count + j], x[p->at[t * count + j]], sum);
        *(real *)(p->y + j * p->y_step) = sum;
    }
}

void LK_NAME(LK_TYPED(blend_pixels))(const lk_blend_pixels *args)
{
    const lk_blend_pixels local = *args, *p = &local;
    if (p->unit == 1 && p->taps == 2)
        blend_elements(p, 2);
    else if (p->unit == 1)
        blend_elements(p, (int)p->taps);
    else if (p->taps == 2)
        blend_units(p, 2);
    else
        blend_units(p, (int)p->taps);
}

const lk_kernel LK_ROWS(blend)[] = {
    LK_ROW(LK_BLEND_ROWS, LK_TYPED(blend_rows), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_ROW(LK_BLEND_PIXELS, LK_TYPED(blend_pixels), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
