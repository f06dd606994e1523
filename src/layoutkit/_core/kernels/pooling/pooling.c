/* pooling_<type>: a row of outputs of pooling over windows, vectors of channels; see lk_pooling in pooling.h.
 *
 *   y[j][c] = max, or factor * scale[j] * sum, over q < depths, r < rows, t < taps of
 *             x[q][r][j*step + t*dilation - before][c]
 *
 * Four vectors of channels go through a window side by side, so that no maximum waits for the one before. Maxima of few
 * columns are those of each column, which windows share; they are found by one instruction, which loses NaN: a row with any is
 * computed again.
 * Edges: columns outside of the row of x are left out; the last vector of channels may be partial. A window that has
 * no elements is -Inf, or 0. NaN stays NaN.
 */
#include "common/numbers.h"
#include "common/vector.h"
#include "pooling.h"
#include "unordered.h"

#include <math.h>
#include <stddef.h>

#define SIDE_BY_SIDE 4
enum { MANY = SIDE_BY_SIDE * LK_LANES, MAX_LISTED = 32 }; /* channels side by side; taps whose offsets are listed */

LK_INLINE vf larger(const vf maximum, const vf v)
{
    const vi is_new = (v > maximum) | (v != v);
    return (vf)((is_new & (vi)v) | (~is_new & (vi)maximum));
}

enum { BYTES = NARROW && ITEM == 1 };

/* n numbers of x, at most a vector. */
LK_INLINE vf load_x(const lk_pooling *p, const char *at, int n)
{
    const vf v = load_numbers(at, n, ELEMENT);
    if (BYTES)
        return v - (real)p->x_zero;
    return v;
}

LK_INLINE void store_y(const lk_pooling *p, char *at, vf v, int n)
{
#if LK_BITS == 32
    if (BYTES) {
        store_bytes(at, to_bytes(v * p->ratio, p->y_zero, ELEMENT), n);
        return;
    }
#endif
    store_numbers(at, v, n, ELEMENT);
}

#define LANES_OF(v) ((v) + 1 < vectors ? LK_LANES : count)

/* Take the vectors at x into sums or maxima; the last one has `count` channels. */
LK_INLINE void add_tap(const lk_pooling *p, vf *total, const char *x, const int mean, const int vectors, const int count)
{
    for (int v = 0; v < vectors; v++) {
        const vf value = load_x(p, x + v * LK_LANES * ITEM, LANES_OF(v));
        if (mean)
            total[v] += value;
        else
            total[v] = larger(total[v], value);
    }
}

LK_INLINE void store_window(const lk_pooling *p, char *y, vf *total, const void *scale, const int vectors, const int count)
{
    for (int v = 0; v < vectors; v++) {
        if (scale)
            total[v] *= (real)p->factor * *(const real *)scale;
        store_y(p, y + v * LK_LANES * ITEM, total[v], LANES_OF(v));
    }
}

/* The taps [first, end) of every row. `scale`: of means; NULL: maxima. */
LK_INLINE void window(const lk_pooling *p, const char *x, char *y, const int64_t first, const int64_t end,
                      const void *scale, const int vectors, const int count)
{
    const int64_t tap = p->dilation * p->x_col;
    vf total[SIDE_BY_SIDE];
    for (int v = 0; v < vectors; v++)
        total[v] = (scale ? 0 : (real)-INFINITY) - (vf){};
    x += first * tap;
    for (int64_t q = 0; q < p->depths; q++)
        for (int64_t r = 0; r < p->rows; r++) {
            const char *at = x + q * p->x_depth + r * p->x_row;
            for (int64_t t = first; t < end; t++, at += tap)
                add_tap(p, total, at, scale != NULL, vectors, count);
        }
    store_window(p, y, total, scale, vectors, count);
}

/* All taps of a window, `taps` of them, which are at these offsets from x. */
LK_INLINE void listed_window(const lk_pooling *p, const char *x, char *y, const int64_t *offset, const int64_t taps,
                             const void *scale, const int vectors, const int count)
{
    vf total[SIDE_BY_SIDE];
    for (int v = 0; v < vectors; v++)
        total[v] = load_x(p, x + offset[0] + v * LK_LANES * ITEM, LANES_OF(v));
    for (int64_t t = 1; t < taps; t++)
        add_tap(p, total, x + offset[t], scale != NULL, vectors, count);
    store_window(p, y, total, scale, vectors, count);
}

/* The offsets of all taps of a window; returns how many, or 0 if they are too many. */
LK_INLINE int64_t list_taps(const lk_pooling *p, int64_t *offset)
{
    int64_t n = 0;
    if (p->depths > MAX_LISTED || p->rows > MAX_LISTED || p->taps > MAX_LISTED
        || p->depths * p->rows * p->taps > MAX_LISTED)
        return 0;
    for (int64_t q = 0; q < p->depths; q++)
        for (int64_t r = 0; r < p->rows; r++)
            for (int64_t t = 0; t < p->taps; t++)
                offset[n++] = q * p->x_depth + r * p->x_row + t * p->dilation * p->x_col;
    return n;
}

/* Maxima of a column of windows; the last vector has `count` channels. */
LK_INLINE void column_maxima(const lk_pooling *p, const char *x, vf *top, lanes *bad, const int vectors, const int count)
{
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        top[v] = (real)-INFINITY - (vf){};
    for (int64_t q = 0; q < p->depths; q++, x += p->x_depth) {
        const char *at = x;
        for (int64_t r = 0; r < p->rows; r++, at += p->x_row) {
            vf value[SIDE_BY_SIDE];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                value[v] = load_x(p, at + v * LK_LANES * ITEM, LANES_OF(v));
                top[v] = at_least(top[v], value[v]);
            }
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v += 2)
                *bad |= unordered(value[v], value[v + (vectors > 1)]);
        }
    }
}

/* A row of maxima of windows of `taps` columns, `step` apart. Whether there were NaN. */
LK_INLINE int row_of_maxima(const lk_pooling *args, const char *x, char *y, const int taps, const int step, const int vectors,
                            const int count)
{
    const lk_pooling local = *args, *p = &local;
    vf top[5][SIDE_BY_SIDE];
    lanes bad = NO_LANES;
    int64_t i = -p->before; /* column of x */
    x += i * p->x_col;
#define COLUMN(t) \
    do { \
        if ((uint64_t)i < (uint64_t)p->size) \
            column_maxima(p, x, top[t], &bad, vectors, count); \
        else \
            for (int v = 0; v < vectors; v++) \
                top[t][v] = (real)-INFINITY - (vf){}; \
        i++, x += p->x_col; \
    } while (0)
#pragma GCC unroll 4
    for (int t = 0; t < taps - step; t++)
        COLUMN(t);
    for (int64_t j = 0; j < p->cols; j++, y += p->y_col) {
#pragma GCC unroll 2
        for (int t = taps - step; t < taps; t++)
            COLUMN(t);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vf most = top[0][v];
#pragma GCC unroll 4
            for (int t = 1; t < taps; t++)
                most = at_least(most, top[t][v]);
            store_y(p, y + v * LK_LANES * ITEM, most, LANES_OF(v));
#pragma GCC unroll 4
            for (int t = 0; t < taps - step; t++)
                top[t][v] = top[t + step][v];
        }
    }
    return any(bad);
}

#define MAXIMA(taps, step) \
    static __attribute__((noinline)) int maxima_##taps##_by_##step(const lk_pooling *p, const char *x, char *y, int64_t c) \
    { \
        if (c == MANY) \
            return row_of_maxima(p, x, y, taps, step, SIDE_BY_SIDE, LK_LANES); \
        if (c == LK_LANES) \
            return row_of_maxima(p, x, y, taps, step, 1, LK_LANES); \
        return row_of_maxima(p, x, y, taps, step, 1, (int)c); \
    }
MAXIMA(2, 2)
MAXIMA(3, 1)
MAXIMA(3, 2)
MAXIMA(5, 1)

/* Maxima by columns, if windows are like these; 0 if they are not, or there are NaN. */
static int by_columns(const lk_pooling *p)
{
    int (*maxima)(const lk_pooling *, const char *, char *, int64_t) = NULL;
    if (p->taps == 2 && p->step == 2 && p->count <= LK_LANES) /* no column is in two windows */
        maxima = maxima_2_by_2;
    else if (p->taps == 3 && (p->step == 1 || p->step == 2))
        maxima = p->step == 1 ? maxima_3_by_1 : maxima_3_by_2;
    else if (p->taps == 5 && p->step == 1)
        maxima = maxima_5_by_1;
    if (!maxima || p->dilation != 1)
        return 0;
    for (int64_t c = 0, n; c < p->count; c += n) {
        n = p->count - c >= MANY ? MANY : MIN(LK_LANES, p->count - c);
        if (maxima(p, p->x + c * ITEM, p->y + c * ITEM, n))
            return 0;
    }
    return 1;
}

/* n / dilation, rounded up; divisions are slow. */
LK_INLINE int64_t dilated(int64_t n, int64_t dilation) { return dilation == 1 ? n : (n + dilation - 1) / dilation; }

LK_INLINE void pixels(const lk_pooling *args, const int mean)
{
    const lk_pooling local = *args, *p = &local;
    int64_t offset[MAX_LISTED];
    const int64_t listed = list_taps(p, offset);
#define WINDOW(vectors, count) \
    do { \
        if (whole) \
            listed_window(p, x, y, offset, listed, scale, vectors, count); \
        else \
            window(p, x, y, first, end, scale, vectors, count); \
    } while (0)
    for (int64_t j = 0; j < p->cols; j++) {
        const int64_t at = j * p->step - p->before, left = p->size - at; /* columns of x from the first tap on */
        const int64_t first = at < 0 ? dilated(-at, p->dilation) : 0;
        const int64_t end = left <= 0 ? 0 : MIN(p->taps, dilated(left, p->dilation));
        const int whole = listed && first == 0 && end == p->taps;
        const char *x = p->x + at * p->x_col;
        char *y = p->y + j * p->y_col;
        const void *scale = mean ? (const real *)p->scale + j : NULL;
        int64_t c = p->count;
        for (; c >= MANY; c -= MANY, x += MANY * ITEM, y += MANY * ITEM)
            WINDOW(SIDE_BY_SIDE, LK_LANES);
        if (c > 3 * LK_LANES)
            WINDOW(4, (int)c - 3 * LK_LANES);
        else if (c > 2 * LK_LANES)
            WINDOW(3, (int)c - 2 * LK_LANES);
        else if (c > LK_LANES)
            WINDOW(2, (int)c - LK_LANES);
        else if (c)
            WINDOW(1, (int)c);
    }
}

void LK_NAME(LK_TYPED(pooling))(const lk_pooling *p)
{
    if (p->scale)
        pixels(p, 1);
    else if (!by_columns(p))
        pixels(p, 0);
}

const lk_kernel LK_ROWS(pooling)[] = {
    LK_ROW(LK_POOLING, LK_TYPED(pooling), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
