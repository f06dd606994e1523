/* plane_strips_<taps>x<vectors>_<type>: depthwise k x k of a plane of pixels; see lk_plane_strips in plane_strips.h.
 *
 *   y[o][j] = bias + sum_a sum_b x[o + a][j + b] * w[a][b]        j: pixels along the width, in vectors
 *
 * As in strips.c the sums of all k output rows that an input row contributes to stay in registers down the strip. A tap
 * is a load of its own, mostly across two cache lines, for k multiplications; weights are broadcast, and serve all
 * vectors of the strip; of 3x3 they stay in registers (AVX-512). Where rows have one vector, two planes keep more sums in
 * flight.
 * Edges: lanes in the padding load as 0 by masks; input rows of padding are skipped; sums of output rows outside the
 * strip are not stored.
 */
#pragma GCC optimize("schedule-insns2") /* left out elsewhere (meson.build); 3x3 gains 3 to 5 % */
#include "common/vector.h"
#include "plane_strips.h"

#include <stddef.h>

#define MAX_ROWS 7 /* of sums */
#define MAX_VECTORS 4
#define MAX_PLANES 2

LK_INLINE vf splat(real x) { return x - (vf){}; }

/* Adds an input row to the sums of all output rows that read it: acc[m] with its row of taps m. Vector v loads by
 * masks if bit v of `masked` is set. Some of the k rows may be outside the strip: they are never stored. `splats`: the
 * weights in every lane, or NULL. */
LK_INLINE void add_row(vf (*acc)[MAX_VECTORS], const lk_plane_strips *s, const real *w, const vf *splats,
                       const uint32_t *lanes, const char *x, const int k, const int vectors, const int planes,
                       const int masked)
{
#pragma GCC unroll 8
    for (int b = 0; b < k; b++) {
        vf xv[MAX_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < planes * vectors; v++) {
            const char *p = x + v / vectors * s->x_plane + b * LK_ITEM + v % vectors * LK_VB;
            xv[v] = masked >> v % vectors & 1 ? load_lanes(p, lanes[v % vectors * k + b]) : *(const vf *)p;
        }
#pragma GCC unroll 8
        for (int m = 0; m < k; m++)
#pragma GCC unroll 2
            for (int plane = 0; plane < planes; plane++) {
                const vf wv = splats ? splats[(plane * k + m) * k + b] : splat(w[(plane * k + m) * k + b]);
#pragma GCC unroll 4
                for (int v = plane * vectors; v < (plane + 1) * vectors; v++)
                    LK_FMA(acc[m][v], xv[v], wv);
            }
    }
}

LK_INLINE void store_row(const lk_plane_strips *s, char *y, vf *acc, const int vectors, const int plain)
{
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++, y += LK_VB) {
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

/* acc[m] has the sums of output row newest - m. `plain`: they are stored as they are. */
LK_INLINE void strip(const lk_plane_strips *s, const int k, const int vectors, const int planes, const int masked,
                     const int plain)
{
    const real *const w = s->w, *const bias = s->bias;
    const int has_splats = LK_VB == 64 && k == 3;
    vf splats[18];
    uint32_t lanes[MAX_VECTORS * MAX_ROWS];
    const int64_t x_row = s->x_row, y_row = s->y_row, top = s->top, bottom = s->bottom, rows = s->rows + k - 1;
    const char *x = s->x;
    char *y = s->y;
    vf acc[MAX_ROWS][MAX_VECTORS], first[MAX_PLANES];
#pragma GCC unroll 32
    for (int i = 0; i < vectors * k; i++)
        lanes[i] = s->x_lanes[i];
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
    for (int m = 0; m < k; m++)
#pragma GCC unroll 4
        for (int v = 0; v < planes * vectors; v++)
            acc[m][v] = first[v / vectors];
    for (int64_t newest = 0; newest < rows; newest++, x += x_row) {
        if (newest >= top && newest < bottom)
            add_row(acc, s, w, has_splats ? splats : NULL, lanes, x, k, vectors, planes, masked);
        if (newest >= k - 1) {
#pragma GCC unroll 2
            for (int plane = 0; plane < planes; plane++)
                store_row(s, y + plane * s->y_plane, acc[k - 1] + plane * vectors, vectors, plain);
            y += y_row;
        }
#pragma GCC unroll 8
        for (int m = k - 1; m > 0; m--)
#pragma GCC unroll 4
            for (int v = 0; v < planes * vectors; v++)
                acc[m][v] = acc[m - 1][v];
#pragma GCC unroll 4
        for (int v = 0; v < planes * vectors; v++)
            acc[0][v] = first[v / vectors];
    }
}

/* One function for each number of vectors: in larger ones gcc 12 allocates registers worse. */
#define STRIP(K, VECTORS, PLANES) \
    static void strip_##K##x##VECTORS##x##PLANES(const lk_plane_strips *s) \
    { \
        const int ends = 1 | 1 << (VECTORS - 1); \
        int some = 0; \
        for (int i = 0; i < VECTORS * K; i++) \
            some |= (s->x_lanes[i] != (1u << LK_LANES) - 1) << i / K; \
        if (s->positive || s->clip) \
            strip(s, K, VECTORS, PLANES, ~0, 0); \
        else if (!s->masked) \
            strip(s, K, VECTORS, PLANES, 0, 1); \
        else if (VECTORS > 2 && !(some & ~ends)) \
            strip(s, K, VECTORS, PLANES, ends, 1); \
        else \
            strip(s, K, VECTORS, PLANES, ~0, 1); \
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
/* One after the other: there are registers for the seven sums of one plane only. */
static void strip_7x1x2(const lk_plane_strips *s)
{
    lk_plane_strips plane = *s;
    for (int i = 0; i < 2; i++) {
        strip_7x1x1(&plane);
        plane.x += s->x_plane, plane.y += s->y_plane, plane.w = (const real *)s->w + 7 * 7;
        if (s->bias)
            plane.bias = (const real *)s->bias + 1;
    }
}
KERNEL(plane_strips_5x2, {strip_5x1x1, strip_5x2x1}, {strip_5x1x2})
KERNEL(plane_strips_7x1, {strip_7x1x1}, {strip_7x1x2})
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
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_7x1), LK_STR(LK_REAL), LK_LANES, 7, LK_LANES, LK_TILE(LK_STR(LK_REAL))),
#endif
    LK_LAST_ROW,
};
