/* pooling_back_<type>: the gradient of a row of outputs of pooling, vectors of channels; see lk_pooling_back in pooling.h.
 *
 *   dx[q][r][j*step + t*dilation - before][c] += dy[j][c]     where the window's maximum is, the first of equal ones,
 *                                             += factor * scale[j] * dy[j][c]     everywhere in it, for means
 *
 * Of several NaN the last one counts, as it does where the maximum is found.
 * Edges: columns outside of the row of x are left out; the last vector of channels may be partial.
 */
#include "common/numbers.h"
#include "common/vector.h"
#include "pooling.h"

#include <math.h>
#include <stddef.h>

/* A vector of `count` channels of the taps [first, end) of every row. */
LK_INLINE void window(const lk_pooling_back *g, const char *x, char *dx, vf dy, const int64_t first, const int64_t end,
                      const int mean, const int count)
{
    const lk_pooling *p = &g->window;
    const int64_t step = p->dilation * p->x_col, dx_step = p->dilation * g->dx_col;
    vf maximum = (real)-INFINITY - (vf){};
    vi at = {}, tap = {};
    if (!mean)
        for (int64_t q = 0; q < p->depths; q++)
            for (int64_t r = 0; r < p->rows; r++) {
                const char *from = x + q * p->x_depth + r * p->x_row + first * step;
                for (int64_t t = first; t < end; t++, from += step, tap += 1) {
                    const vf v = load_reals(from, count);
                    const vi is_new = (v > maximum) | (v != v);
                    maximum = (vf)((is_new & (vi)v) | (~is_new & (vi)maximum));
                    at = (is_new & tap) | (~is_new & at);
                }
            }
    tap = (vi){};
    for (int64_t q = 0; q < p->depths; q++)
        for (int64_t r = 0; r < p->rows; r++) {
            char *to = dx + q * g->dx_depth + r * g->dx_row + first * dx_step;
            for (int64_t t = first; t < end; t++, to += dx_step, tap += 1) {
                const vf add = mean ? dy : (vf)((at == tap) & (vi)dy);
                store_reals(to, load_reals(to, count) + add, count);
            }
        }
}

LK_INLINE void pixels(const lk_pooling_back *g, const int mean)
{
    const lk_pooling *p = &g->window;
    for (int64_t j = 0; j < p->cols; j++) {
        const int64_t at = j * p->step - p->before, left = p->size - at; /* columns of x from the first tap on */
        const int64_t first = at < 0 ? (-at + p->dilation - 1) / p->dilation : 0;
        const int64_t end = left <= 0 ? 0 : MIN(p->taps, (left + p->dilation - 1) / p->dilation);
        const char *x = p->x + at * p->x_col, *dy = p->y + j * p->y_col;
        char *dx = g->dx + at * g->dx_col;
        const real scale = mean ? (real)p->factor * ((const real *)p->scale)[j] : 1;
        int64_t c = p->count;
        for (; c >= LK_LANES; c -= LK_LANES, x += LK_VB, dx += LK_VB, dy += LK_VB)
            window(g, x, dx, load_reals(dy, LK_LANES) * scale, first, end, mean, LK_LANES);
        if (c)
            window(g, x, dx, load_reals(dy, (int)c) * scale, first, end, mean, (int)c);
    }
}

void LK_NAME(LK_TYPED(pooling_back))(const lk_pooling_back *g)
{
    if (g->window.scale)
        pixels(g, 1);
    else
        pixels(g, 0);
}

const lk_kernel LK_ROWS(pooling_back)[] = {
    LK_ROW(LK_POOLING_BACK, LK_TYPED(pooling_back), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
