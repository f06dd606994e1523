/* plane_strips_<taps>x<vectors>_<type>: depthwise k x k of a plane of pixels, stride 1 or 2; see lk_plane_strips in
 * plane_strips.h.
 *
 *   y[o][j] = bias + sum_a sum_b x[step*o + a][step*j + b] * w[a][b]        j: pixels along the width, in vectors
 *
 * As in strips.c the sums of all output rows that an input row contributes to stay in registers down the strip: k with
 * stride 1, half as many with stride 2. With stride 1 a tap is a load of its own, mostly across two cache lines; with
 * stride 2 two taps are the even and the odd elements of two vectors. Weights are broadcast, and serve all vectors of the
 * strip; of 3x3 they stay in registers (AVX-512). Where rows have one vector, two planes keep more sums in flight.
 * Edges: lanes in the padding load as 0 by masks; input rows of padding are skipped; sums of output rows outside the
 * strip are not stored.
 */
#pragma GCC optimize("schedule-insns2") /* left out elsewhere (meson.build); 3x3 gains 3 to 5 % */
#include "common/every_second.h"
#include "common/vector.h"
#include "plane_strips.h"

#include <stddef.h>

#define MAX_ROWS 7 /* of sums */
#define MAX_VECTORS 4
#define MAX_PLANES 2
#define MAX_LOADS 8 /* of a vector of an input row */
#define READ_AHEAD 24 /* rows */
#define WRITE_AHEAD 12
#define LOADS_OF(k, step) (((k) + (step) - 1) / (step) * (step))

LK_INLINE vf splat(real x) { return x - (vf){}; }

#if LK_VB == 32
typedef vi lane_mask; /* made once, not for every load */
LK_INLINE lane_mask mask_of(uint32_t lanes) { return (vi)lane_signs(lanes); }
LK_INLINE vf load_masked(const char *p, lane_mask mask) { return (vf)LK_OP(maskload)((const real *)p, (__m256i)mask); }
#else
typedef uint32_t lane_mask;
LK_INLINE lane_mask mask_of(uint32_t lanes) { return lanes; }
LK_INLINE vf load_masked(const char *p, lane_mask mask) { return load_lanes(p, mask); }
#endif

/* The even and the odd elements of two vectors, in an order that in_order mends. */
#if LK_VB == 32 && LK_BITS == 64
LK_INLINE vf evens_of(vf a, vf b) { return (vf)_mm256_unpacklo_pd((native)a, (native)b); }
LK_INLINE vf odds_of(vf a, vf b) { return (vf)_mm256_unpackhi_pd((native)a, (native)b); }
#elif LK_VB == 32
LK_INLINE vf evens_of(vf a, vf b) { return (vf)_mm256_shuffle_ps((native)a, (native)b, 0x88); }
LK_INLINE vf odds_of(vf a, vf b) { return (vf)_mm256_shuffle_ps((native)a, (native)b, 0xdd); }
#else
LK_INLINE vf evens_of(vf a, vf b) { return every_second(a, b, 0); }
LK_INLINE vf odds_of(vf a, vf b) { return every_second(a, b, 1); }
#endif
LK_INLINE vf in_order(vf v)
{
#if LK_VB == 32
    return (vf)_mm256_permute4x64_pd((__m256d)v, 0xd8);
#else
    return v;
#endif
}

/* Adds an input row to the sums of all output rows that read it: acc[m] with its row of taps first + m * step. Vector v
 * loads by masks if bit v of `masked` is set. Some of the rows may be outside the strip: they are never stored. `splats`:
 * the weights in every lane, or NULL. */
LK_INLINE void add_row(vf (*acc)[MAX_VECTORS], const lk_plane_strips *s, const real *w, const vf *splats,
                       const lane_mask *lanes, const char *x, const int first, const int k, const int step,
                       const int vectors, const int planes, const int masked)
{
    const int loads = LOADS_OF(k, step);
#pragma GCC unroll 8
    for (int b = 0; b < k; b += step) {
        const int taps = b + step <= k ? step : 1;
        vf xv[2][MAX_VECTORS]; /* of tap b, and of b + 1 */
#pragma GCC unroll 4
        for (int v = 0; v < planes * vectors; v++) {
            const char *p = x + v / vectors * s->x_plane + b * LK_ITEM + v % vectors * step * LK_VB;
            const lane_mask *mask = lanes + v % vectors * loads + b;
            vf part[2];
#pragma GCC unroll 2
            for (int i = 0; i < step; i++)
                part[i] = masked >> v % vectors & 1 ? load_masked(p + i * LK_VB, mask[i]) : *(const vf *)(p + i * LK_VB);
            xv[0][v] = step == 1 ? part[0] : evens_of(part[0], part[1]);
            if (taps == 2)
                xv[1][v] = odds_of(part[0], part[1]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < taps; i++)
#pragma GCC unroll 8
            for (int m = 0; first + m * step < k; m++)
#pragma GCC unroll 2
                for (int plane = 0; plane < planes; plane++) {
                    const int tap = (plane * k + first + m * step) * k + b + i;
                    const vf wv = splats ? splats[tap] : splat(w[tap]);
#pragma GCC unroll 4
                    for (int v = plane * vectors; v < (plane + 1) * vectors; v++)
                        LK_FMA(acc[m][v], xv[i][v], wv);
                }
    }
}

LK_INLINE void store_row(const lk_plane_strips *s, char *y, vf *acc, const int step, const int vectors, const int plain)
{
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++, y += LK_VB) {
        if (step == 2)
            acc[v] = in_order(acc[v]);
        if (!plain && s->positive)
            acc[v] = positive_zeros(acc[v]);
        if (!plain && s->clip)
            acc[v] = between_limits(acc[v], s->clip);
        if (v == vectors - 1)
            store_lanes(y, acc[v], s->y_lanes);
        else
            *(vf *)y = acc[v];
    }
}

/* Of a plane that is in memory: a strip reads so little of each row that hardware does not see the next ones coming. */
LK_INLINE void prefetch_ahead(const lk_plane_strips *s, const char *x, char *y, const int step, const int vectors)
{
    for (int row = 0; row < step; row++)
#pragma GCC unroll 8
        for (int at = 0; at < vectors * step * LK_VB; at += 64)
            __builtin_prefetch(x + (READ_AHEAD + row) * s->x_row + at, 0);
#pragma GCC unroll 4
    for (int at = 0; at < vectors * LK_VB; at += 64)
        __builtin_prefetch(y + WRITE_AHEAD * s->y_row + at, 1);
}

/* acc[m] has the sums of output row newest - m. `plain`: they are stored as they are. */
LK_INLINE void strip(const lk_plane_strips *s, const int k, const int step, const int vectors, const int planes,
                     const int masked, const int plain)
{
    const real *const w = s->w, *const bias = s->bias;
    const int has_splats = LK_VB == 64 && k == 3, oldest = (k - 1) / step;
    vf splats[18];
    lane_mask lanes[MAX_VECTORS * MAX_LOADS];
    const int64_t x_row = s->x_row, y_row = s->y_row, top = s->top, bottom = s->bottom, rows = s->rows + oldest;
    const char *x = s->x;
    char *y = s->y;
    vf acc[MAX_ROWS][MAX_VECTORS], first[MAX_PLANES];
#pragma GCC unroll 32
    for (int i = 0; i < vectors * LOADS_OF(k, step); i++)
        lanes[i] = mask_of(s->x_lanes[i]);
    if (has_splats)
#pragma GCC unroll 32
        for (int i = 0; i < planes * k * k; i++) {
            splats[i] = splat(w[i]);
            LK_PIN(splats[i]);
        }
#pragma GCC unroll 2
    for (int plane = 0; plane < planes; plane++)
        first[plane] = bias ? splat(bias[plane]) : (vf){};
#pragma GCC unroll 8
    for (int m = 0; m <= oldest; m++)
#pragma GCC unroll 4
        for (int v = 0; v < planes * vectors; v++)
            acc[m][v] = first[v / vectors];
    for (int64_t newest = 0, i = 0; newest < rows; newest++, i += step, x += step * x_row) {
        if (s->far)
            prefetch_ahead(s, x, y, step, vectors);
        if (i >= top && i < bottom)
            add_row(acc, s, w, has_splats ? splats : NULL, lanes, x, 0, k, step, vectors, planes, masked);
        if (newest >= oldest) {
#pragma GCC unroll 2
            for (int plane = 0; plane < planes; plane++)
                store_row(s, y + plane * s->y_plane, acc[oldest] + plane * vectors, step, vectors, plain);
            y += y_row;
        }
        if (step == 2 && newest + 1 < rows && i + 1 >= top && i + 1 < bottom)
            add_row(acc, s, w, has_splats ? splats : NULL, lanes, x + x_row, 1, k, step, vectors, planes, masked);
#pragma GCC unroll 8
        for (int m = oldest; m > 0; m--)
#pragma GCC unroll 4
            for (int v = 0; v < planes * vectors; v++)
                acc[m][v] = acc[m - 1][v];
#pragma GCC unroll 4
        for (int v = 0; v < planes * vectors; v++)
            acc[0][v] = first[v / vectors];
    }
}

/* One function for each number of vectors: in larger ones gcc 12 allocates registers worse. */
#define STEPS(K, STEP, VECTORS, PLANES) \
    static void strip_##K##x##VECTORS##x##PLANES##_##STEP(const lk_plane_strips *s) \
    { \
        const int ends = 1 | 1 << (VECTORS - 1); \
        int some = 0; \
        for (int i = 0; i < VECTORS * LOADS_OF(K, STEP); i++) \
            some |= (s->x_lanes[i] != (1u << LK_LANES) - 1) << i / LOADS_OF(K, STEP); \
        if (s->positive || s->clip) \
            strip(s, K, STEP, VECTORS, PLANES, ~0, 0); \
        else if (!s->masked) \
            strip(s, K, STEP, VECTORS, PLANES, 0, 1); \
        else if (VECTORS == 2 && some == 1) \
            strip(s, K, STEP, VECTORS, PLANES, 1, 1); \
        else if (VECTORS == 2 && some == 2) \
            strip(s, K, STEP, VECTORS, PLANES, 2, 1); \
        else if (VECTORS > 2 && !(some & ~ends)) \
            strip(s, K, STEP, VECTORS, PLANES, ends, 1); \
        else \
            strip(s, K, STEP, VECTORS, PLANES, ~0, 1); \
    }
#define STRIP(K, VECTORS, PLANES) \
    STEPS(K, 1, VECTORS, PLANES) STEPS(K, 2, VECTORS, PLANES) \
    static void strip_##K##x##VECTORS##x##PLANES(const lk_plane_strips *s) \
    { \
        (s->step == 1 ? strip_##K##x##VECTORS##x##PLANES##_1 : strip_##K##x##VECTORS##x##PLANES##_2)(s); \
    }
#define KERNEL(STEM, ...) \
    void LK_NAME(LK_TYPED(STEM))(const lk_plane_strips *s) \
    { \
        static const lk_plane_strips_fn of[MAX_PLANES][MAX_VECTORS] = {__VA_ARGS__}; \
        of[s->planes - 1][s->vectors - 1](s); \
    }
STRIP(3, 1, 1) STRIP(3, 2, 1) STRIP(3, 1, 2)
#if LK_VB == 64
STRIP(3, 3, 1) STRIP(3, 4, 1)
STRIP(5, 1, 1) STRIP(5, 2, 1) STRIP(5, 3, 1) STRIP(5, 4, 1) STRIP(5, 1, 2)
STRIP(7, 1, 1) STRIP(7, 2, 1) STRIP(7, 3, 1) STRIP(7, 1, 2)
KERNEL(plane_strips_3x4, {strip_3x1x1, strip_3x2x1, strip_3x3x1, strip_3x4x1}, {strip_3x1x2})
KERNEL(plane_strips_5x4, {strip_5x1x1, strip_5x2x1, strip_5x3x1, strip_5x4x1}, {strip_5x1x2})
KERNEL(plane_strips_7x3, {strip_7x1x1, strip_7x2x1, strip_7x3x1}, {strip_7x1x2})
#else
KERNEL(plane_strips_3x2, {strip_3x1x1, strip_3x2x1}, {strip_3x1x2})
#endif
#if LK_VB == 32
STRIP(5, 1, 1) STRIP(5, 2, 1) STRIP(5, 1, 2)
STRIP(7, 1, 1)
STEPS(7, 2, 2, 1) STEPS(7, 2, 1, 2)
/* With stride 1 one after the other: there are registers for the seven sums of one vector only. */
static void strip_7x2x1(const lk_plane_strips *s)
{
    if (s->step == 2) {
        strip_7x2x1_2(s);
        return;
    }
    lk_plane_strips vector = *s;
    vector.vectors = 1, vector.y_lanes = (1 << LK_LANES) - 1;
    strip_7x1x1(&vector);
    vector.x += LK_VB, vector.y += LK_VB, vector.x_lanes += 7, vector.y_lanes = s->y_lanes;
    strip_7x1x1(&vector);
}
static void strip_7x1x2(const lk_plane_strips *s)
{
    if (s->step == 2) {
        strip_7x1x2_2(s);
        return;
    }
    lk_plane_strips plane = *s;
    for (int i = 0; i < 2; i++) {
        strip_7x1x1(&plane);
        plane.x += s->x_plane, plane.y += s->y_plane, plane.w = (const real *)s->w + 7 * 7;
        if (s->bias)
            plane.bias = (const real *)s->bias + 1;
    }
}
KERNEL(plane_strips_5x2, {strip_5x1x1, strip_5x2x1}, {strip_5x1x2})
KERNEL(plane_strips_7x2, {strip_7x1x1, strip_7x2x1}, {strip_7x1x2})
#endif

const lk_kernel LK_ROWS(plane_strips)[] = {
#if LK_VB == 64
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_3x4), LK_STR(LK_REAL), LK_LANES, 3, 4 * LK_LANES, LK_TILE(LK_STR(LK_REAL))),
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_5x4), LK_STR(LK_REAL), LK_LANES, 5, 4 * LK_LANES, LK_TILE(LK_STR(LK_REAL))),
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_7x3), LK_STR(LK_REAL), LK_LANES, 7, 3 * LK_LANES, LK_TILE(LK_STR(LK_REAL))),
#else
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_3x2), LK_STR(LK_REAL), LK_LANES, 3, 2 * LK_LANES, LK_TILE(LK_STR(LK_REAL))),
#endif
#if LK_VB == 32
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_5x2), LK_STR(LK_REAL), LK_LANES, 5, 2 * LK_LANES, LK_TILE(LK_STR(LK_REAL))),
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_7x2), LK_STR(LK_REAL), LK_LANES, 7, 2 * LK_LANES, LK_TILE(LK_STR(LK_REAL))),
#endif
    LK_LAST_ROW,
};
