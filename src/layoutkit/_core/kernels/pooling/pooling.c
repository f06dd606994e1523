/* pooling_<type>: a row of outputs of pooling over windows, vectors of channels; see lk_pooling in pooling.h.
 *
 *   y[j][c] = max, or factor * scale[j] * sum, over q < depths, r < rows, t < taps of
 *             x[q][r][j*step + t*dilation - before][c]
 *
 * Four vectors of channels go through a window side by side, so that no maximum waits for the one before.
 * Edges: columns outside of the row of x are left out; the last vector of channels may be partial. A window that has
 * nothing is -Inf, or 0. NaN stays NaN.
 */
#include "common/numbers.h"
#include "common/vector.h"
#include "pooling.h"

#include <math.h>
#include <stddef.h>

#define SIDE_BY_SIDE 4
enum { MANY = SIDE_BY_SIDE * LK_LANES };

LK_INLINE vf larger(const vf found, const vf v)
{
    const vi takes = (v > found) | (v != v);
    return (vf)((takes & (vi)v) | (~takes & (vi)found));
}

/* The vectors at x of the taps [first, end) of every row, of which `count` channels are there. */
LK_INLINE void window(const lk_pooling *p, const char *x, char *y, const int64_t first, const int64_t end,
                      const void *scale, const int vectors, const int count)
{
    const int64_t tap = p->dilation * p->x_col;
    const real none = scale ? 0 : (real)-INFINITY;
    vf found[SIDE_BY_SIDE];
    for (int v = 0; v < vectors; v++)
        found[v] = none - (vf){};
    x += first * tap;
    for (int64_t q = 0; q < p->depths; q++)
        for (int64_t r = 0; r < p->rows; r++) {
            const char *at = x + q * p->x_depth + r * p->x_row;
            for (int64_t t = first; t < end; t++, at += tap)
                for (int v = 0; v < vectors; v++) {
                    const vf value = load_numbers(at + v * LK_LANES * ITEM, count, ELEMENT);
                    if (scale)
                        found[v] += value;
                    else
                        found[v] = larger(found[v], value);
                }
        }
    for (int v = 0; v < vectors; v++) {
        if (scale)
            found[v] *= (real)p->factor * *(const real *)scale;
        store_numbers(y + v * LK_LANES * ITEM, found[v], count, ELEMENT);
    }
}

LK_INLINE void pixels(const lk_pooling *p, const int mean)
{
    for (int64_t j = 0; j < p->cols; j++) {
        const int64_t at = j * p->step - p->before, left = p->size - at; /* columns of x from the first tap on */
        const int64_t first = at < 0 ? (-at + p->dilation - 1) / p->dilation : 0;
        const int64_t end = left <= 0 ? 0 : MIN(p->taps, (left + p->dilation - 1) / p->dilation);
        const char *x = p->x + at * p->x_col;
        char *y = p->y + j * p->y_col;
        const void *scale = mean ? (const real *)p->scale + j : NULL;
        int64_t c = p->count;
        for (; c >= MANY; c -= MANY, x += MANY * ITEM, y += MANY * ITEM)
            window(p, x, y, first, end, scale, SIDE_BY_SIDE, LK_LANES);
        for (; c >= LK_LANES; c -= LK_LANES, x += LK_LANES * ITEM, y += LK_LANES * ITEM)
            window(p, x, y, first, end, scale, 1, LK_LANES);
        if (c)
            window(p, x, y, first, end, scale, 1, (int)c);
    }
}

void LK_NAME(LK_TYPED(pooling))(const lk_pooling *p)
{
    if (p->scale)
        pixels(p, 1);
    else
        pixels(p, 0);
}

const lk_kernel LK_ROWS(pooling)[] = {
    LK_ROW(LK_POOLING, LK_TYPED(pooling), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
