/* add_<type>: a tensor, or the sum of two, between limits; see lk_add in add.h.
 *
 *   y[i][j] = clip(a[i][j] + b[i][j])
 *
 * Of integers q stand for the numbers (q - zero) * scale; results are divided by theirs, rounded and saturated. Products
 * and sums are rounded one by one, as dequantised tensors are.
 * Edges: the last vector of a row may be partial.
 */
#include "add.h"
#include "common/numbers.h"
#include "common/vector.h"

LK_INLINE vf read(const char *p, const int count, const lk_scale of)
{
    vf v = load_numbers(p, count, ELEMENT);
    if (ITEM == 1) {
        v = (v - (real)of.zero) * (real)of.scale;
        LK_PIN(v); /* the sum must not be fused with the product */
    }
    return v;
}

LK_INLINE void write(char *p, const vf v, const int count, const lk_scale of)
{
#if LK_BITS == 32
    if (ITEM == 1) {
        store_bytes(p, to_bytes(v / of.scale, of.zero, ELEMENT), count);
        return;
    }
#endif
    (void)of;
    store_numbers(p, v, count, ELEMENT);
}

LK_INLINE void some(const lk_add *g, const char *a, const char *b, char *y, const int count, const int two, const int clips)
{
    vf v = read(a, count, g->of_a);
    if (two)
        v += read(b, count, g->of_b);
    if (clips)
        v = between_limits(v, g->clip);
    write(y, v, count, g->of_y);
}

LK_INLINE void rows(const lk_add *g, const int two, const int clips)
{
    for (int64_t i = 0; i < g->rows; i++) {
        const char *a = g->a + i * g->a_row, *b = two ? g->b + i * g->b_row : a;
        char *y = g->y + i * g->y_row;
        int64_t left = g->count;
        for (; left >= LK_LANES; left -= LK_LANES, a += LK_LANES * ITEM, b += LK_LANES * ITEM, y += LK_LANES * ITEM)
            some(g, a, b, y, LK_LANES, two, clips);
        if (left)
            some(g, a, b, y, (int)left, two, clips);
    }
}

void LK_NAME(LK_TYPED(add))(const lk_add *g)
{
    if (g->b && g->clip)
        rows(g, 1, 1);
    else if (g->b)
        rows(g, 1, 0);
    else
        rows(g, 0, g->clip != NULL);
}

const lk_kernel LK_ROWS(add)[] = {
    LK_ROW(LK_ADD, LK_TYPED(add), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
