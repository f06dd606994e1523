/* weights_<type>: softmax of scores that come block after block; see lk_weights in weights.h.
 *
 *   s[i][j] = e^(scale * s[i][j] + mask[i][j] - max)
 *
 * Two passes over some rows, which stay in L1: the scaled and masked scores and their maximum; the powers and their sum. The
 * maximum of a row is waited for while those of the next ones are sought.
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

enum { UNROLLED = 4, ROWS = 4 };

/* e^d, d not above 0; 0 where it would not be a normal number: so its power of 2 needs no scaling. */
LK_INLINE vf power(vf d)
{
    const vf x = at_least(d, splat(LEAST_WEIGHT)), magic = MAGIC_OF(0), shifted = fused(x, splat(log2_e), magic);
    const vf n = shifted - magic, r = fused(n, splat(-ln2_rest), fused(n, splat(-ln2), x));
    const vf series = polynomial(exp_series, EXP_TERMS, r), two_to_n = (vf)((vi)shifted << MANTISSA_BITS);
#if LK_VB == 64 && LK_BITS == 32
    const __mmask16 normal = _mm512_cmp_ps_mask((__m512)d, (__m512)splat(LEAST_WEIGHT), _CMP_NLT_UQ);
    return (vf)_mm512_maskz_mul_ps(normal, (__m512)series, (__m512)two_to_n); /* gcc would multiply twice, and select */
#else
    return choose(d < (real)LEAST_WEIGHT, (vf){}, series * two_to_n);
#endif
}

/* A vector of scaled and masked scores: n of them, then -Inf. `inside`: the lanes of a last vector that hold scores. */
LK_INLINE vf score(const lk_weights *g, const real *s, const char *mask, int64_t n, const vf scale, const vi inside)
{
    vf v = *(const vf *)s;
    if (!mask)
        v = v * scale;
    else if (!g->mask_col)
        v = fused(v, scale, splat(*(const real *)mask));
    else if (n >= LK_LANES)
        v = fused(v, scale, *(const vf *)mask);
    else
        v = fused(v, scale, load_lanes(mask, (1u << n) - 1));
    return n < LK_LANES ? choose(inside, v, splat(LK_LEAST)) : v;
}

static const lane_integer lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

LK_INLINE real sum_of_lanes(vf v)
{
#pragma GCC unroll 4
    for (int half = LK_LANES / 2; half; half /= 2)
        v += (vf)__builtin_shuffle((vi)v, *(const vi *)lanes ^ half);
    return v[0];
}

/* The scores of a row; the largest of them and of what was before. */
LK_INLINE real scores(const lk_weights *g, real *s, const char *mask, const real before, const vf scale, const vi inside)
{
    const int64_t step = g->mask_col ? LK_ITEM : 0;
    vf maxima[UNROLLED];
    int64_t j = 0;
#pragma GCC unroll 4
    for (int k = 0; k < UNROLLED; k++)
        maxima[k] = splat(LK_LEAST);
    for (; j <= g->count - UNROLLED * LK_LANES; j += UNROLLED * LK_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < UNROLLED; k++) {
            const int64_t at = j + k * LK_LANES;
            const vf v = score(g, s + at, mask ? mask + at * step : 0, LK_LANES, scale, inside);
            *(vf *)(s + at) = v;
            maxima[k] = at_least(maxima[k], v);
        }
    for (; j < g->count; j += LK_LANES) {
        const vf v = score(g, s + j, mask ? mask + j * step : 0, g->count - j, scale, inside);
        *(vf *)(s + j) = v;
        maxima[0] = at_least(maxima[0], v);
    }
    const real top = largest_lane(at_least(at_least(maxima[0], maxima[1]), at_least(maxima[2], maxima[3])));
    return before > top ? before : top;
}

/* The powers of a row; their sum. */
LK_INLINE real powers(real *s, const int64_t count, const vf base)
{
    vf sum[UNROLLED] = {};
    int64_t j = 0;
    for (; j <= count - UNROLLED * LK_LANES; j += UNROLLED * LK_LANES)
#pragma GCC unroll 4
        for (int k = 0; k < UNROLLED; k++) {
            vf *const at = (vf *)(s + j + k * LK_LANES);
            *at = power(*at - base);
            sum[k] += *at;
        }
    for (; j < count; j += LK_LANES) {
        *(vf *)(s + j) = power(*(vf *)(s + j) - base);
        sum[0] += *(vf *)(s + j);
    }
    return sum_of_lanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

void LK_NAME(LK_TYPED(weights))(const lk_weights *args)
{
    const lk_weights g = *args;
    const vf scale = splat((real)g.scale);
    const vi inside = *(const vi *)lanes < (lane_integer)(g.count % LK_LANES);
    real *const maximum = (real *)g.maxima, *const total = (real *)g.sums, *const factors = (real *)g.factors;
    for (int64_t first = 0; first < g.rows; first += ROWS) {
        const int rows = (int)MIN(ROWS, g.rows - first);
        real base[ROWS], factor[ROWS + LK_LANES] = {0};
        for (int r = 0; r < rows; r++) {
            const int64_t i = first + r;
            const char *const mask = g.mask ? g.mask + i * g.mask_row : 0;
            const real top = scores(&g, (real *)(g.s + i * g.s_row), mask, maximum[i], scale, inside);
            base[r] = top > (real)LK_LEAST ? top : 0;
            factor[r] = maximum[i] - base[r];
            maximum[i] = top;
        }
        for (int r = 0; r < rows; r += LK_LANES)
            *(vf *)(factor + r) = power(*(const vf *)(factor + r));
        for (int r = 0; r < rows; r++) {
            const int64_t i = first + r;
            total[i] = factor[r] * total[i] + powers((real *)(g.s + i * g.s_row), g.count, splat(base[r]));
            factors[i] = factor[r];
        }
    }
}

const lk_kernel LK_ROWS(weights)[] = {
    LK_ROW(LK_WEIGHTS, LK_TYPED(weights), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
