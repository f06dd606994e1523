/* weights_<type>: softmax of scores that come block after block; see lk_weights in weights.h.
 *
 *   s[i][j] = e^(scale * s[i][j] + mask[i][j] - max)
 *
 * Two passes over a row, which is in L1: the scaled and masked scores and their maximum; the powers and their sum.
 * Edges: scores behind the last one are -Inf, whose power is 0.
 */
#include "weights.h"
#include "elementwise/functions.h"

#include <math.h>

#if LK_BITS == 64
#define LEAST_WEIGHT -708.0
#else
#define LEAST_WEIGHT -87.0f
#endif

enum { UNROLLED = 4 };

/* e^d, d not above 0; 0 where it would not be a normal number. */
LK_INLINE vf power(vf d)
{
    const vi underflows = d < (real)LEAST_WEIGHT;
    return choose(underflows, (vf){}, exponential_up(exponent_of(at_least(d, splat(LEAST_WEIGHT)))) * DOWN);
}

/* A vector of scaled and masked scores: n of them, then -Inf. */
LK_INLINE vf score(const lk_weights *g, const real *s, const char *mask, int64_t n, const vf scale)
{
    const uint32_t lanes = n < LK_LANES ? (1u << n) - 1 : ~0u;
    vf v = *(const vf *)s;
    if (!mask)
        v = v * scale;
    else if (!g->mask_col)
        v = fused(v, scale, splat(*(const real *)mask));
    else if (n >= LK_LANES)
        v = fused(v, scale, *(const vf *)mask);
    else
        v = fused(v, scale, load_lanes(mask, lanes));
    if (n < LK_LANES) {
        real lane[LK_LANES];
        *(vf *)lane = v;
        for (int64_t j = n; j < LK_LANES; j++)
            lane[j] = LK_LEAST;
        v = *(vf *)lane;
    }
    return v;
}

LK_INLINE real sum_of_lanes(vf v)
{
    real lane[LK_LANES];
    *(vf *)lane = v;
    for (int n = LK_LANES / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            lane[i] += lane[i + n];
    return lane[0];
}

void LK_NAME(LK_TYPED(weights))(const lk_weights *args)
{
    const lk_weights g = *args;
    const vf scale = splat((real)g.scale);
    const int64_t step = g.mask_col ? LK_ITEM : 0;
    for (int64_t i = 0; i < g.rows; i++) {
        real *const s = (real *)(g.s + i * g.s_row), *const maximum = (real *)g.maxima + i;
        const char *const mask = g.mask ? g.mask + i * g.mask_row : 0;
        vf maxima[UNROLLED], sum[UNROLLED] = {};
        int64_t j = 0;
#pragma GCC unroll 4
        for (int k = 0; k < UNROLLED; k++)
            maxima[k] = splat(LK_LEAST);
        for (; j <= g.count - UNROLLED * LK_LANES; j += UNROLLED * LK_LANES)
#pragma GCC unroll 4
            for (int k = 0; k < UNROLLED; k++) {
                const int64_t at = j + k * LK_LANES;
                const vf v = score(&g, s + at, mask ? mask + at * step : 0, LK_LANES, scale);
                *(vf *)(s + at) = v;
                maxima[k] = at_least(maxima[k], v);
            }
        for (; j < g.count; j += LK_LANES) {
            const vf v = score(&g, s + j, mask ? mask + j * step : 0, g.count - j, scale);
            *(vf *)(s + j) = v;
            maxima[0] = at_least(maxima[0], v);
        }
        real top = largest_lane(at_least(at_least(maxima[0], maxima[1]), at_least(maxima[2], maxima[3])));
        top = *maximum > top ? *maximum : top;
        const vf base = splat(top > (real)LK_LEAST ? top : 0);
        for (j = 0; j <= g.count - UNROLLED * LK_LANES; j += UNROLLED * LK_LANES)
#pragma GCC unroll 4
            for (int k = 0; k < UNROLLED; k++) {
                vf *const at = (vf *)(s + j + k * LK_LANES);
                *at = power(*at - base);
                sum[k] += *at;
            }
        for (; j < g.count; j += LK_LANES) {
            *(vf *)(s + j) = power(*(vf *)(s + j) - base);
            sum[0] += *(vf *)(s + j);
        }
        const real factor = power(splat(*maximum) - base)[0];
        real *const total = (real *)g.sums + i;
        *total = factor * *total + sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
        ((real *)g.factors)[i] = factor;
        *maximum = top;
    }
}

const lk_kernel LK_ROWS(weights)[] = {
    LK_ROW(LK_WEIGHTS, LK_TYPED(weights), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
