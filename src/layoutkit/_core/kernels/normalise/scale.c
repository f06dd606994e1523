/* scale_<type>: the results of a normalisation, from its statistics; scale_<narrow>_f32 stores them as f32 for an epilogue.
 * See lk_scaling in scale.h.
 *
 *   y[i][j] = ((x[i][j] - mean) * factor + shift) * scale + bias
 *
 * Edges: the last vector of a row may be partial.
 */
#include "scale.h"
#include "common/numbers.h"

typedef struct {
    vf mean, factor, shift, scale, bias;
} row_numbers;

/* ReLU with an upper limit; NaN stays NaN. */
LK_INLINE vf rectified(vf r, float limit)
{
    const vi over = r > limit;
    r = (vf)(~(r < 0) & (vi)r);
    return (vf)((over & (vi)(limit - (vf){})) | (~over & (vi)r));
}

/* n elements of a row, at most a vector. `scales`: how many there are of scale and bias. */
LK_INLINE void scale_vector(const lk_scaling *g, const row_numbers *of_row, const char *x, const char *add, char *y, int64_t j,
                            int n, const int by_column, const int scales, const int limited, const int adds, const int to)
{
    const int64_t width = to == LK_OWN ? LK_ITEM : ITEM;
    const vf v = load_numbers(x + j * ITEM, n, ELEMENT);
    vf r;
    if (by_column)
        r = fused(v - load_reals((const char *)(g->mean + j), n), load_reals((const char *)(g->factor + j), n),
                  load_reals((const char *)(g->shift + j), n));
    else
        r = fused(v - of_row->mean, of_row->factor, of_row->shift);
    if (by_column && scales)
        r = fused(r, of_row->scale, of_row->bias);
    else if (scales == 2)
        r = fused(r, load_reals((const char *)(g->scale + j), n), load_reals((const char *)(g->bias + j), n));
    else if (scales)
        r = r * load_reals((const char *)(g->scale + j), n);
    if (adds)
        r = r + load_numbers(add + j * ITEM, n, ELEMENT);
    if (limited)
        r = rectified(r, g->limit);
    store_numbers(y + j * width, r, n, to);
}

LK_INLINE void scale_rows(const lk_scaling *args, const int by_column, const int scales, const int limited, const int adds,
                          const int to)
{
    const lk_scaling g = *args;
    const char *x = g.x, *add = g.add;
    char *y = g.y;
    for (int64_t i = 0; i < g.rows; i++, x += g.x_row, y += g.y_row, add += adds ? g.add_row : 0) {
        row_numbers of_row = {};
        if (!by_column)
            of_row = (row_numbers){.mean = g.mean[i] - (vf){}, .factor = g.factor[i] - (vf){},
                                   .shift = g.shift[i] - (vf){}};
        else if (scales)
            of_row = (row_numbers){.scale = g.scale[i] - (vf){}, .bias = (g.bias ? g.bias[i] : 0) - (vf){}};
        int64_t j = 0;
        for (; j <= g.count - LK_LANES; j += LK_LANES)
            scale_vector(&g, &of_row, x, add, y, j, LK_LANES, by_column, scales, limited, adds, to);
        if (j < g.count)
            scale_vector(&g, &of_row, x, add, y, j, (int)(g.count - j), by_column, scales, limited, adds, to);
    }
}

/* Without a scale. */
LK_INLINE void scale_plain(const lk_scaling *g, const int by_column, const int to)
{
    if (g->add && g->limit)
        scale_rows(g, by_column, 0, 1, 1, to);
    else if (g->add)
        scale_rows(g, by_column, 0, 0, 1, to);
    else if (g->limit)
        scale_rows(g, by_column, 0, 1, 0, to);
    else
        scale_rows(g, by_column, 0, 0, 0, to);
}

LK_INLINE void scale_all(const lk_scaling *g, const int to)
{
    if (!g->scale && g->by_column)
        scale_plain(g, 1, to);
    else if (!g->scale)
        scale_plain(g, 0, to);
    else if (g->by_column)
        scale_rows(g, 1, 1, 0, 0, to);
    else if (!g->bias)
        scale_rows(g, 0, 1, 0, 0, to);
    else
        scale_rows(g, 0, 2, 0, 0, to);
}

void LK_NAME(LK_TYPED(scale))(const lk_scaling *g) { scale_all(g, ELEMENT); }
#ifdef LK_NARROW
#define TO_REALS LK_PASTE(LK_PASTE(scale_, LK_NARROW), _f32)
void LK_NAME(TO_REALS)(const lk_scaling *g) { scale_all(g, LK_OWN); }
#endif

const lk_kernel LK_ROWS(scale)[] = {
    LK_ROW(LK_SCALE, LK_TYPED(scale), LK_STR(LK_KIND), LK_LANES, 0, 0),
#ifdef LK_NARROW
    LK_ROW(LK_SCALE, TO_REALS, LK_STR(LK_NARROW) "_f32", LK_LANES, 0, 0),
#endif
    LK_LAST_ROW,
};
