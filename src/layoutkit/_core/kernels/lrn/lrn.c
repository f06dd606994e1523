/* lrn_<type>: local response normalisation across channels, pixels with their channels together; see lk_lrn in lrn.h.
 *
 *   y[i][c] = x[i][c] / (bias + scale * sum over k of x[i][k]^2)^(3/4)      c - below <= k <= c + above, 0 <= k < count
 *
 * A buffer has the squares of a pixel between zeros; its vectors that begin one channel apart are summed.
 * Edges: the last vector of channels may be partial.
 */
#include "common/numbers.h"
#include "common/vector.h"
#include "lrn.h"

#include <math.h>

LK_INLINE vf root(const vf v)
{
#if defined(__AVX2__)
    return (vf)LK_OP(sqrt)((native)v);
#else
    vf root = v;
    for (int i = 0; i < LK_LANES; i++)
        root[i] = LK_BITS == 64 ? (real)sqrt((double)v[i]) : (real)sqrtf((float)v[i]);
    return root;
#endif
}

void LK_NAME(LK_TYPED(lrn))(const lk_lrn *p)
{
    real *const squares = (real *)p->squares + p->below; /* zeros before them and behind */
    const vf bias = (real)p->bias - (vf){}, scale = (real)p->scale - (vf){};
    const char *x = p->x;
    char *y = p->y;
    for (int64_t i = 0; i < p->pixels; i++, x += p->x_pixel, y += p->y_pixel) {
        for (int64_t c = 0; c < p->count; c += LK_LANES) {
            const vf v = load_numbers(x + c * ITEM, (int)MIN(p->count - c, LK_LANES), ELEMENT);
            *(vf *)(squares + c) = v * v; /* 0 beyond the last channel */
        }
        for (int64_t c = 0; c < p->count; c += LK_LANES) {
            vf sum = {};
            for (int64_t k = -p->below; k <= p->above; k++)
                sum += *(const vf *)(squares + c + k);
            const vf base = fused(scale, sum, bias), half = root(base);
            const int count = (int)MIN(p->count - c, LK_LANES);
            const vf v = load_numbers(x + c * ITEM, count, ELEMENT);
            store_numbers(y + c * ITEM, v / (half * root(half)), count, ELEMENT);
        }
    }
}

const lk_kernel LK_ROWS(lrn)[] = {
    LK_ROW(LK_LRN, LK_TYPED(lrn), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
