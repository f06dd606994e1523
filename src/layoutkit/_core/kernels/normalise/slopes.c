/* slope_sums_<type>, slopes_<type>: the two halves of the gradient of a batch normalisation, with a ReLU behind it or not;
 * see lk_slopes in slopes.h.
 *
 *   sums = sum of d, of d * e        dx = d * factor + e * slope + offset        e = x - mean
 *
 * Edges: behind the last element of a row d is 0.
 *
 * BLOCK numbers at most are added in floats, blocks in f64: to widen each would take half of the time.
 */
#include "slopes.h"
#include "wide.h"

typedef struct {
    vf mean, factor, shift, slope, offset;
} line_numbers;

/* Of n columns, or the same numbers in all lanes. */
LK_INLINE vf numbers_at(const float *p, int64_t at, int n, const int by_column)
{
    if (by_column)
        return load_reals((const char *)(p + at), n);
    return p[at] - (vf){};
}

LK_INLINE line_numbers line_at(const lk_slopes *g, int64_t at, int n, const int by_column, const int relu, const int second)
{
    line_numbers l = {.mean = numbers_at(g->mean, at, n, by_column)};
    if (relu || second)
        l.factor = numbers_at(g->factor, at, n, by_column);
    if (relu)
        l.shift = numbers_at(g->shift, at, n, by_column);
    if (second) {
        l.slope = numbers_at(g->slope, at, n, by_column);
        l.offset = numbers_at(g->offset, at, n, by_column);
    }
    return l;
}

/* What is known of a ReLU: that there is none, its argument, or its result. */
enum { NO_RELU, OF_ARGUMENT, OF_RESULT };

/* dy, or 0 where results were flat. A NaN among them passes the gradient, as in torch. */
LK_INLINE vf passed(vf dy, vf y, vf limit) { return (vf)(~((y <= 0) | (y >= limit)) & (vi)dy); }

LK_INLINE vf slope(vf dy, vf apart, const line_numbers *l, vf limit, const int relu)
{
    return relu ? passed(dy, fused(apart, l->factor, l->shift), limit) : dy;
}

/* Of n elements of slope_sums, at most a vector, which it writes with OF_RESULT. */
LK_INLINE vf slope_at(const char *dy, const char *y, char *d, int n, vf apart, const line_numbers *l, vf limit, const int relu)
{
    const vf given = load_numbers(dy, n, ELEMENT);
    if (relu != OF_RESULT)
        return slope(given, apart, l, limit, relu);
    const vf v = passed(given, load_numbers(y, n, ELEMENT), limit);
    store_numbers(d, v, n, ELEMENT);
    return v;
}

/* What y is compared with: an infinite limit is not reached, not even by Inf; results have it rounded as they are. */
LK_INLINE vf reached(const lk_slopes *g, const int relu)
{
    const vf limit = (g->limit == (real)__builtin_inf() ? (real)__builtin_nan("") : g->limit) - (vf){};
    char rounded[LK_VB];
    if (relu != OF_RESULT)
        return limit;
    store_numbers(rounded, limit, LK_LANES, ELEMENT);
    return load_numbers(rounded, LK_LANES, ELEMENT);
}

enum { BLOCK = 8 };

/* The sums of a block. */
typedef struct {
    vf sums, products;
} block_sums;

LK_INLINE void add(block_sums *b, vf d, vf apart)
{
    b->sums += d;
    b->products = fused(d, apart, b->products);
}

LK_INLINE void add_block(vd *sums, vd *products, const block_sums *b)
{
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        sums[i] += widened(b->sums, i), products[i] += widened(b->products, i);
}

LK_INLINE void sum_rows(const lk_slopes *args, const int relu)
{
    const lk_slopes g = *args;
    const vf limit = reached(&g, relu);
    const char *x = g.x, *dy = g.dy, *y = g.y;
    char *d = g.d;
    for (int64_t i = 0; i < g.rows; i++, x += g.x_row, dy += g.dy_row, y += relu == OF_RESULT ? g.y_row : 0,
                 d += relu == OF_RESULT ? g.d_row : 0) {
        const line_numbers l = line_at(&g, i, LK_LANES, 0, relu == OF_ARGUMENT, 0);
        vd sums[2 * VECTORS] = {}, products[2 * VECTORS] = {};
        int64_t j = 0;
        while (j <= g.count - WIDE) {
            block_sums b[VECTORS] = {};
            for (int i = 0; i < BLOCK && j <= g.count - WIDE; i++, j += WIDE)
#pragma GCC unroll 4
                for (int k = 0; k < VECTORS; k++) {
                    const int64_t at = (j + k * LK_LANES) * ITEM;
                    const vf apart = load_numbers(x + at, LK_LANES, ELEMENT) - l.mean;
                    add(b + k, slope_at(dy + at, y + at, d + at, LK_LANES, apart, &l, limit, relu), apart);
                }
#pragma GCC unroll 4
            for (int k = 0; k < VECTORS; k++)
                add_block(sums + 2 * k, products + 2 * k, b + k);
        }
        if (j < g.count)
#pragma GCC unroll 4
            for (int k = 0; k < VECTORS; k++) {
                const vf apart = load_wide(x, j, g.count, k, l.mean) - l.mean;
                const vf given = load_wide(dy, j, g.count, k, (vf){});
                const int64_t at = j + k * LK_LANES, left = MIN(LK_LANES, g.count - at);
                vf v = slope(given, apart, &l, limit, relu == OF_ARGUMENT);
                if (relu == OF_RESULT) {
                    v = passed(given, load_wide(y, j, g.count, k, (vf){}), limit);
                    if (left > 0)
                        store_numbers(d + at * ITEM, v, (int)left, ELEMENT);
                }
                block_sums b = {};
                add(&b, v, apart);
                add_block(sums + 2 * k, products + 2 * k, &b);
            }
        g.sums[i] = total(sums), g.products[i] = total(products);
    }
}

/* n columns from the j-th on, in `vectors` of them, the last of which may be partial. */
LK_INLINE void sum_columns(const lk_slopes *g, int64_t j, int n, const int vectors, const int relu)
{
#define LANES_OF(k) (n >= ((k) + 1) * LK_LANES ? LK_LANES : n - (k) * LK_LANES)
    const vf limit = reached(g, relu);
    const char *x = g->x + j * ITEM, *dy = g->dy + j * ITEM, *y = relu == OF_RESULT ? g->y + j * ITEM : NULL;
    char *d = relu == OF_RESULT ? g->d + j * ITEM : NULL;
    line_numbers l[2];
    vd sums[4] = {}, products[4] = {};
#pragma GCC unroll 2
    for (int k = 0; k < vectors; k++)
        l[k] = line_at(g, j + k * LK_LANES, LANES_OF(k), 1, relu == OF_ARGUMENT, 0);
    for (int64_t i = 0; i < g->rows;) {
        block_sums b[2] = {};
        for (const int64_t end = MIN(i + BLOCK, g->rows); i < end; i++) {
#pragma GCC unroll 2
            for (int k = 0; k < vectors; k++) {
                const int64_t at = k * LK_LANES * ITEM;
                const vf apart = load_numbers(x + at, LANES_OF(k), ELEMENT) - l[k].mean;
                add(b + k, slope_at(dy + at, y + at, d + at, LANES_OF(k), apart, l + k, limit, relu), apart);
            }
            x += g->x_row, dy += g->dy_row;
            if (relu == OF_RESULT)
                y += g->y_row, d += g->d_row;
        }
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++)
            add_block(sums + 2 * k, products + 2 * k, b + k);
    }
    for (int c = 0; c < n; c++)
        g->sums[j + c] = sums[c / DOUBLES][c % DOUBLES], g->products[j + c] = products[c / DOUBLES][c % DOUBLES];
}

/* Long rows, whose columns are summed some rows at a time: memory is read along the rows. Returns how many columns that
 * were. */
LK_INLINE int64_t sum_long_columns(const lk_slopes *g, const int relu)
{
    enum { AHEAD = 2048 }; /* bytes of the longest row of which a block ahead stays in L1 */
    const int64_t ahead = g->x_row <= AHEAD ? BLOCK : 0;
    const int64_t whole = g->count / LK_LANES * LK_LANES;
    const vf limit = reached(g, relu);
    for (int64_t i = 0; i < g->rows; i += BLOCK) {
        const int64_t rows = MIN(BLOCK, g->rows - i);
        for (int64_t j = 0; j < whole; j += LK_LANES) {
            const char *x = g->x + i * g->x_row + j * ITEM, *dy = g->dy + i * g->dy_row + j * ITEM;
            const char *y = relu == OF_RESULT ? g->y + i * g->y_row + j * ITEM : NULL;
            char *d = relu == OF_RESULT ? g->d + i * g->d_row + j * ITEM : NULL;
            const line_numbers l = line_at(g, j, LK_LANES, 1, relu == OF_ARGUMENT, 0);
            vd *const to = (vd *)(g->sums + j), *const products_to = (vd *)(g->products + j);
            block_sums b = {};
            for (int64_t r = 0; r < rows; r++, x += g->x_row, dy += g->dy_row) {
                const vf apart = load_numbers(x, LK_LANES, ELEMENT) - l.mean;
                __builtin_prefetch(x + ahead * g->x_row);
                __builtin_prefetch(dy + ahead * g->dy_row);
                add(&b, slope_at(dy, y, d, LK_LANES, apart, &l, limit, relu), apart);
                if (relu == OF_RESULT) {
                    __builtin_prefetch(y + ahead * g->y_row);
                    y += g->y_row, d += g->d_row;
                }
            }
            if (!i)
                to[0] = to[1] = products_to[0] = products_to[1] = (vd){};
            add_block(to, products_to, &b);
        }
    }
    return whole;
}

LK_INLINE void sum_all(const lk_slopes *g, const int relu)
{
    enum { LONG = 128 }; /* elements of a row */
    int64_t j = 0;
    if (!g->by_column) {
        sum_rows(g, relu);
        return;
    }
    if (g->count >= LONG)
        j = sum_long_columns(g, relu);
    for (; j <= g->count - 2 * LK_LANES; j += 2 * LK_LANES)
        sum_columns(g, j, 2 * LK_LANES, 2, relu);
    for (; j <= g->count - LK_LANES; j += LK_LANES)
        sum_columns(g, j, LK_LANES, 1, relu);
    if (j < g->count)
        sum_columns(g, j, (int)(g->count - j), 1, relu);
}

LK_INLINE void slope_rows(const lk_slopes *args, const int by_column, const int relu)
{
    const lk_slopes g = *args;
    const vf limit = reached(&g, relu);
    const char *x = g.x, *dy = g.dy;
    char *dx = g.dx;
#define SLOPE(n) do { \
        if (by_column) \
            l = line_at(&g, j, n, 1, relu, 1); \
        const vf apart = load_numbers(x + j * ITEM, n, ELEMENT) - l.mean; \
        const vf d = slope(load_numbers(dy + j * ITEM, n, ELEMENT), apart, &l, limit, relu); \
        store_numbers(dx + j * ITEM, fused(d, l.factor, fused(apart, l.slope, l.offset)), n, ELEMENT); \
    } while (0)
    for (int64_t i = 0; i < g.rows; i++, x += g.x_row, dy += g.dy_row, dx += g.dx_row) {
        line_numbers l = {};
        int64_t j = 0;
        if (!by_column)
            l = line_at(&g, i, LK_LANES, 0, relu, 1);
        for (; j <= g.count - LK_LANES; j += LK_LANES)
            SLOPE(LK_LANES);
        if (j < g.count)
            SLOPE((int)(g.count - j));
    }
}

void LK_NAME(LK_TYPED(slope_sums))(const lk_slopes *g)
{
    if (g->limit && g->y)
        sum_all(g, OF_RESULT);
    else if (g->limit)
        sum_all(g, OF_ARGUMENT);
    else
        sum_all(g, NO_RELU);
}

void LK_NAME(LK_TYPED(slopes))(const lk_slopes *g)
{
    if (g->by_column && g->limit)
        slope_rows(g, 1, 1);
    else if (g->by_column)
        slope_rows(g, 1, 0);
    else if (g->limit)
        slope_rows(g, 0, 1);
    else
        slope_rows(g, 0, 0);
}

const lk_kernel LK_ROWS(slopes)[] = {
    LK_ROW(LK_SLOPE_SUMS, LK_TYPED(slope_sums), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_ROW(LK_SLOPES, LK_TYPED(slopes), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
