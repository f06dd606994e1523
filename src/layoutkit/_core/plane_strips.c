/* plane_strips_<taps>x<vectors>_<type>: depthwise k x k of a plane of pixels; see lk_plane_strips in kernels.h.
 *
 *   y[o][j] = bias + sum_a sum_b x[o + a][j + b] * w[a][b]        j: pixels along the width, in vectors
 *
 * As in strips.c the sums of all k output rows that an input row contributes to stay in registers down the strip. A tap
 * is a load of its own, mostly across two cache lines, for k multiplications; weights are broadcast, and serve all
 * vectors of the strip.
 * Edges: lanes in the padding load as 0 by masks; output rows outside the strip and input rows of padding are skipped.
 */
#include "kernels.h"
#include "vector.h"

#include <stddef.h>

#define MAX_ROWS 7 /* of sums */
#define MAX_VECTORS 4

LK_INLINE vf splat(real x) { return x - (vf){}; }

/* Adds an input row to the sums of all output rows that it meets: acc[m] with its row of taps m. Vector v loads by
 * masks if bit v of `masked` is set. */
LK_INLINE void add_row(vf (*acc)[MAX_VECTORS], const lk_plane_strips *s, const char *x, const int k,
                       const int vectors, const int masked)
{
    const real *const w = s->w;
#pragma GCC unroll 8
    for (int b = 0; b < k; b++) {
        vf xv[MAX_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const char *p = x + b * LK_ITEM + v * LK_VB;
            xv[v] = masked >> v & 1 ? load_lanes(p, s->x_lanes[v * k + b]) : *(const vf *)p;
        }
#pragma GCC unroll 8
        for (int m = 0; m < k; m++) {
            const vf wv = splat(w[m * k + b]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                LK_FMA(acc[m][v], xv[v], wv);
        }
    }
}

/* The same where some of these output rows are outside the strip. */
LK_INLINE void add_edge_row(vf (*acc)[MAX_VECTORS], const lk_plane_strips *s, const char *x, const int64_t newest,
                            const int k, const int vectors)
{
    const real *const w = s->w;
#pragma GCC unroll 8
    for (int m = 0; m < k; m++) {
        if ((uint64_t)(newest - m) >= (uint64_t)s->rows)
            continue;
        for (int b = 0; b < k; b++) {
            const vf wv = splat(w[m * k + b]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const vf xv = load_lanes(x + b * LK_ITEM + v * LK_VB, s->x_lanes[v * k + b]);
                LK_FMA(acc[m][v], xv, wv);
            }
        }
    }
}

LK_INLINE void store_row(const lk_plane_strips *s, char *y, vf *acc, const int vectors)
{
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++, y += LK_VB) {
        if (s->positive)
            acc[v] = positive_zeros(acc[v]);
        if (s->clip)
            acc[v] = between_limits(acc[v], s->clip);
        if (v == vectors - 1)
            store_lanes(y, acc[v], s->y_lanes);
        else
            *(vf *)y = acc[v];
    }
}

/* acc[m] has the sums of output row newest - m. */
LK_INLINE void strip(const lk_plane_strips *s, const int k, const int vectors, const int masked)
{
    const vf bias = s->bias ? splat(*(const real *)s->bias) : (vf){};
    const char *x = s->x;
    char *y = s->y;
    vf acc[MAX_ROWS][MAX_VECTORS];
#pragma GCC unroll 8
    for (int m = 0; m < k; m++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[m][v] = bias;
    for (int64_t newest = 0; newest < s->rows + k - 1; newest++, x += s->x_row) {
        if (newest >= s->top && newest < s->bottom) {
            if (newest >= k - 1 && newest < s->rows)
                add_row(acc, s, x, k, vectors, masked);
            else
                add_edge_row(acc, s, x, newest, k, vectors);
        }
        if (newest >= k - 1) {
            store_row(s, y, acc[k - 1], vectors);
            y += s->y_row;
        }
#pragma GCC unroll 8
        for (int m = k - 1; m > 0; m--)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                acc[m][v] = acc[m - 1][v];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            acc[0][v] = bias;
    }
}

/* One function for each number of vectors: in larger ones gcc 12 allocates registers worse. */
#define STRIP(K, VECTORS) \
    static void strip_##K##x##VECTORS(const lk_plane_strips *s) \
    { \
        const int ends = 1 | 1 << (VECTORS - 1); \
        int some = 0; \
        for (int i = 0; i < VECTORS * K; i++) \
            some |= (s->x_lanes[i] != (1u << LK_LANES) - 1) << i / K; \
        if (!s->masked) \
            strip(s, K, VECTORS, 0); \
        else if (VECTORS > 2 && !(some & ~ends)) \
            strip(s, K, VECTORS, ends); \
        else \
            strip(s, K, VECTORS, ~0); \
    }
#define KERNEL(STEM, ...) \
    void LK_NAME(LK_TYPED(STEM))(const lk_plane_strips *s) \
    { \
        static const lk_plane_strips_fn of_vectors[] = {__VA_ARGS__}; \
        of_vectors[s->vectors - 1](s); \
    }
STRIP(3, 1) STRIP(3, 2)
#if LK_VB == 64
STRIP(3, 3) STRIP(3, 4)
STRIP(5, 1) STRIP(5, 2) STRIP(5, 3) STRIP(5, 4)
STRIP(7, 1) STRIP(7, 2) STRIP(7, 3)
KERNEL(plane_strips_3x4, strip_3x1, strip_3x2, strip_3x3, strip_3x4)
KERNEL(plane_strips_5x4, strip_5x1, strip_5x2, strip_5x3, strip_5x4)
KERNEL(plane_strips_7x3, strip_7x1, strip_7x2, strip_7x3)
#else
KERNEL(plane_strips_3x2, strip_3x1, strip_3x2)
#endif

const lk_kernel LK_ROWS(plane_strips)[] = {
#if LK_VB == 64
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_3x4), LK_STR(LK_REAL), LK_LANES, 3, 4 * LK_LANES),
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_5x4), LK_STR(LK_REAL), LK_LANES, 5, 4 * LK_LANES),
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_7x3), LK_STR(LK_REAL), LK_LANES, 7, 3 * LK_LANES),
#else
    LK_ROW(LK_PLANE_STRIPS, LK_TYPED(plane_strips_3x2), LK_STR(LK_REAL), LK_LANES, 3, 2 * LK_LANES),
#endif
    LK_LAST_ROW,
};
