/* tap_sums_<type>: sums of products, for the gradient of a depthwise filter; see lk_tap_sums in tap_sums.h.
 *
 *   C[t][j] += sum over rows r, steps k of X[r][k][t][j] * Y[r][k][j]
 *
 * A lane is a channel. The sums of up to nine taps stay in registers, so Y is loaded once for them.
 * Edges: the last vector of channels may be partial; the caller leaves out taps outside of the input.
 */
#include "common/vector.h"
#include "tap_sums.h"

enum { MOST = 9 };

LK_INLINE vf load(const char *p, const uint32_t lanes) { return lanes ? load_lanes(p, lanes) : *(const vf *)p; }

LK_INLINE void some(const lk_tap_sums *g, const int first, const int taps, const uint32_t lanes)
{
    const int64_t x_step = g->x_step, y_step = g->y_step, steps = g->steps;
    vf acc[MOST];
    int64_t at[MOST];
#pragma GCC unroll 16
    for (int t = 0; t < taps; t++)
        acc[t] = (vf){}, at[t] = g->tap[first + t];
    for (int64_t r = 0; r < g->rows; r++) {
        const char *x = g->x + r * g->x_row, *y = g->y + r * g->y_row;
        for (int64_t k = 0; k < steps; k++, x += x_step, y += y_step) {
            vf v = load(y, lanes);
            LK_PIN(v);
#pragma GCC unroll 16
            for (int t = 0; t < taps; t++) {
                if (lanes) {
                    const vf other = load_lanes(x + at[t], lanes);
                    LK_FMA(acc[t], v, other);
                } else {
                    LK_FMA_AT(acc[t], v, x + at[t]);
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < taps; t++)
        *(vf *)(g->c + g->sum[first + t]) += acc[t];
}

void LK_NAME(LK_TYPED(tap_sums))(const lk_tap_sums *g)
{
    int t = 0;
    if (!g->lanes) {
        for (; t + 9 <= g->taps; t += 9)
            some(g, t, 9, 0);
        for (; t + 3 <= g->taps; t += 3)
            some(g, t, 3, 0);
    }
    for (; t + 3 <= g->taps; t += 3)
        some(g, t, 3, g->lanes);
    for (; t < g->taps; t++)
        some(g, t, 1, g->lanes);
}

const lk_kernel LK_ROWS(tap_sums)[] = {
    LK_ROW(LK_TAP_SUMS, LK_TYPED(tap_sums), LK_STR(LK_REAL), LK_LANES, 0, 0, LK_TILE(LK_STR(LK_REAL))),
    LK_LAST_ROW,
};
