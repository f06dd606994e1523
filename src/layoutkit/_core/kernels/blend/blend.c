/* blend_rows_<type>, blend_pixels_<type>: weighted sums for interpolation; see blend.h.
 *
 * Of narrow numbers rows are widened on their way to sums, and sums of pixels are rounded: between the two they are f32.
 * Pixels of one element: the elements that a vector of results reads are mostly within one vector or two, so each tap is a
 * shuffle of these, the same in all rows. Where they are farther apart (an image becomes smaller), halves of the results are
 * found like that; still farther, they are loaded one by one.
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
        sum[k] = weight[0] * load_numbers(p->x[0] + (i + k * LK_LANES) * ITEM, k + 1 < vectors ? LK_LANES : n, ELEMENT);
    for (int t = 1; t < taps; t++) {
        const char *x = p->x[t] + i * ITEM;
        const vf w = weight[t] - (vf){};
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            sum[k] = fused(w, load_numbers(x + k * LK_LANES * ITEM, k + 1 < vectors ? LK_LANES : n, ELEMENT), sum[k]);
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
LK_INLINE void blend_units(const lk_blend_pixels *p, const char *x, char *y, const int taps)
{
    const int64_t count = p->count, unit = p->unit, step = p->y_step;
    const real *weight = p->weight;
    const int32_t *at = p->at;
    for (int64_t j = 0; j < count; j++, y += step)
        for (int64_t c = 0; c < unit; c += LK_LANES) {
            const int n = (int)MIN(unit - c, LK_LANES);
            vf sum = weight[j] * load_reals(x + (at[j] + c) * LK_ITEM, n);
            for (int t = 1; t < taps; t++)
                sum = fused(weight[t * count + j] - (vf){}, load_reals(x + (at[t * count + j] + c) * LK_ITEM, n), sum);
            store_numbers(y + c * ITEM, sum, n, ELEMENT);
        }
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

/* Pixels [j, end) of one element. */
LK_INLINE void one_by_one(const lk_blend_pixels *p, const char *from, char *y, int64_t j, int64_t end, const int taps)
{
    const real *weight = p->weight, *x = (const real *)from;
    const int64_t count = p->count;
    for (; j < end; j++) {
        real sum = weight[j] * x[p->at[j]];
        for (int t = 1; t < taps; t++)
            sum = fused_one(weight[t * count + j], x[p->at[t * count + j]], sum);
        if (NARROW)
            store_numbers(y + j * p->y_step, sum - (vf){}, 1, ELEMENT);
        else
            *(real *)(y + j * p->y_step) = sum;
    }
}

#if LK_BITS == 32 && LK_VB > 16
enum { MAX_TAPS = 4 };

/* A vector of pixels from j on in all rows, within one vector of x from element `first` on, or `two`. */
LK_INLINE void blend_vector(const lk_blend_pixels *p, int64_t j, int64_t first, const int taps, const int two)
{
    vi order[MAX_TAPS];
    vf weight[MAX_TAPS];
    const char *x = p->x + first * LK_ITEM;
    char *y = p->y + j * ITEM;
    const int64_t x_row = p->x_row, y_row = p->y_row;
#pragma GCC unroll 4
    for (int t = 0; t < taps; t++) {
        order[t] = *(const vi *)(p->at + t * p->count + j) - (int32_t)first;
        weight[t] = *(const vf *)((const real *)p->weight + t * p->count + j);
    }
    for (int64_t i = 0; i < p->rows; i++, x += x_row, y += y_row) {
        const vi low = *(const vi *)x;
        vf sum = {};
#pragma GCC unroll 4
        for (int t = 0; t < taps; t++) {
            vf v;
            if (two)
                v = (vf)__builtin_shuffle(low, *(const vi *)(x + LK_VB), order[t]);
            else
                v = (vf)__builtin_shuffle(low, order[t]);
            if (t)
                sum = fused(weight[t], v, sum);
            else
                sum = weight[t] * v;
        }
        store_numbers(y, sum, LK_LANES, ELEMENT);
    }
}

/* The same, where the elements that the first half of the results reads are within two vectors from `first` on, those of the
 * second half within two from `second` on. */
LK_INLINE void blend_halves(const lk_blend_pixels *p, int64_t j, int64_t first, int64_t second, const int taps)
{
    vi low[MAX_TAPS], high[MAX_TAPS], upper;
    vf weight[MAX_TAPS];
    for (int k = 0; k < LK_LANES; k++)
        upper[k] = -(k >= LK_LANES / 2);
#pragma GCC unroll 4
    for (int t = 0; t < taps; t++) {
        const vi at = *(const vi *)(p->at + t * p->count + j);
        low[t] = at - (int32_t)first, high[t] = at - (int32_t)second;
        weight[t] = *(const vf *)((const real *)p->weight + t * p->count + j);
    }
    const char *x = p->x;
    char *y = p->y + j * ITEM;
    for (int64_t i = 0; i < p->rows; i++, x += p->x_row, y += p->y_row) {
        const char *const a = x + first * LK_ITEM, *const b = x + second * LK_ITEM;
        const vi a0 = *(const vi *)a, a1 = *(const vi *)(a + LK_VB), b0 = *(const vi *)b, b1 = *(const vi *)(b + LK_VB);
        vf sum = {};
#pragma GCC unroll 4
        for (int t = 0; t < taps; t++) {
            const vi v = __builtin_shuffle(a0, a1, low[t]), w = __builtin_shuffle(b0, b1, high[t]);
            const vf both = (vf)((v & ~upper) | (w & upper));
            if (t)
                sum = fused(weight[t], both, sum);
            else
                sum = weight[t] * both;
        }
        store_numbers(y, sum, LK_LANES, ELEMENT);
    }
}

LK_INLINE void blend_near(const lk_blend_pixels *p, int64_t j, int64_t first, const int taps, int64_t spans)
{
    if (spans <= LK_LANES)
        blend_vector(p, j, first, taps, 0);
    else
        blend_vector(p, j, first, taps, 1);
}

/* Vectors of pixels, the last of which may overlap the one before; 0 if there are too few. */
LK_INLINE int blend_vectors(const lk_blend_pixels *p)
{
    const int64_t last = p->count - LK_LANES;
    if (p->taps > MAX_TAPS || p->y_step != ITEM || last < 0)
        return 0;
    for (int64_t begin = 0; begin < p->count; begin += LK_LANES) {
        const int64_t j = MIN(begin, last);
        int64_t first = INT64_MAX, end = 0, second = INT64_MAX, middle = 0;
        for (int t = 0; t < p->taps; t++) {
            const int32_t *at = p->at + t * p->count + j;
            first = MIN(first, at[0]);
            middle = MAX(middle, at[LK_LANES / 2 - 1] + 1);
            second = MIN(second, at[LK_LANES / 2]);
            end = MAX(end, at[LK_LANES - 1] + 1);
        }
        const int near = middle - first <= 2 * LK_LANES && end - second <= 2 * LK_LANES;
        if (end - first > 2 * LK_LANES && near && p->taps == 2)
            blend_halves(p, j, first, second, 2);
        else if (end - first > 2 * LK_LANES && near)
            blend_halves(p, j, first, second, (int)p->taps);
        else if (end - first > 2 * LK_LANES)
            for (int64_t i = 0; i < p->rows; i++)
                one_by_one(p, p->x + i * p->x_row, p->y + i * p->y_row, j, j + LK_LANES, (int)p->taps);
        else if (p->taps == 2)
            blend_near(p, j, first, 2, end - first);
        else
            blend_near(p, j, first, (int)p->taps, end - first);
    }
    return 1;
}
#else
LK_INLINE int blend_vectors(const lk_blend_pixels *p) { return (void)p, 0; }
#endif

void LK_NAME(LK_TYPED(blend_pixels))(const lk_blend_pixels *args)
{
    const lk_blend_pixels local = *args, *p = &local;
    const char *x = p->x;
    char *y = p->y;
    if (p->unit == 1 && blend_vectors(p))
        return;
    for (int64_t i = 0; i < p->rows; i++, x += p->x_row, y += p->y_row)
        if (p->unit == 1)
            one_by_one(p, x, y, 0, p->count, (int)p->taps);
        else if (p->taps == 2)
            blend_units(p, x, y, 2);
        else
            blend_units(p, x, y, (int)p->taps);
}

const lk_kernel LK_ROWS(blend)[] = {
    LK_ROW(LK_BLEND_ROWS, LK_TYPED(blend_rows), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_ROW(LK_BLEND_PIXELS, LK_TYPED(blend_pixels), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
