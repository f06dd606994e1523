/* strips_<taps>x<columns>_<type>: depthwise k x k, stride 1 or 2, down a strip of columns; see lk_strips in strips.h.
 *
 *   y[o][j] = bias + sum_a sum_b x[step*o + a][step*j + b] * w[a][b]        vectors of channels
 *
 * The sums of all output rows that the current input row contributes to stay in registers: k with stride 1, half as
 * many with stride 2. So each input is loaded once per strip, for up to k * k multiplications, and each weight once per
 * input row, for all columns; of 3x3 the nine weights stay in registers as well (AVX-512). That counts most where pixels
 * are a power of two apart: few lines of a column are in the cache at once. The next vector of channels is prefetched, by
 * 3x3 always, by others and by 3x3 of 32 bytes with stride 2 where the image is in memory.
 * 1x1 shares no input: it goes pixel by pixel, in the order of memory.
 * Edges: output rows outside the strip and input rows of padding are skipped; columns of padding are read as zeros, or
 * skipped.
 */
#pragma GCC optimize("schedule-insns2") /* left out elsewhere (meson.build); 3x3 gains 3 to 5 % */
#include "common/numbers.h"
#include "common/vector.h"
#include "strips.h"

#include <stddef.h>

#define MAX_ROWS 7 /* of sums */
#if LK_VB == 64
#define MAX_COLS 7
#else
#define MAX_COLS 4
#endif
#define MAX_INPUTS 16 /* of a row that are in registers */

enum { EDGES, MASKED }; /* columns may be padding; and the vector may be partial */

static const real zeros[LK_LANES];

/* The lanes of a mask, its first ones. */
LK_INLINE vf some(const char *p, const uint32_t lanes)
{
    return NARROW ? load_numbers(p, __builtin_popcount(lanes), ELEMENT) : load_lanes(p, lanes);
}

LK_INLINE vf column(const lk_strips *s, const char *x, const int i, const int kind)
{
    const int inside = s->inside >> i & 1;
    const char *p = x + i * s->x_col;
    if (kind == MASKED)
        return inside ? some(p, s->x_lanes) : (vf){};
    return load_numbers(inside ? p : (const char *)zeros, LK_LANES, ELEMENT);
}

/* The same columns of the next vector of channels: hardware does not see it, pixels may be on pages of their own. */
LK_INLINE void prefetch_next(const lk_strips *s, const char *x, const int rows, const int count)
{
    for (int row = 0; row < rows; row++, x += s->x_row)
        for (int i = 0; i < count; i++)
            __builtin_prefetch(x + i * s->x_col + LK_LANES * ITEM, 0, 2);
}

LK_INLINE void begin_row(vf *acc, const vf bias, const int cols)
{
#pragma GCC unroll 8
    for (int j = 0; j < cols; j++)
        acc[j] = bias;
}

LK_INLINE void store_row(const lk_strips *s, char *y, vf *acc, const int cols, const int kind)
{
    if (s->positive)
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++)
            acc[j] = positive_zeros(acc[j]);
    if (s->clip)
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++)
            acc[j] = between_limits(acc[j], s->clip);
    const int64_t y_col = s->y_col;
    if (NARROW && !s->wide) {
        const int lanes = kind == MASKED ? __builtin_popcount(s->y_lanes) : LK_LANES;
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++, y += y_col)
            store_numbers(y, acc[j], lanes, ELEMENT);
        return;
    }
#pragma GCC unroll 8
    for (int j = 0; j < cols; j++, y += y_col) {
        if (kind == MASKED)
            store_lanes(y, acc[j], s->y_lanes);
        else
            *(vf *)y = acc[j];
    }
}

/* As add_row, where all of the rows are in the strip: columns are loaded when they are multiplied, for few registers. */
LK_INLINE void add_inner_row(vf (*acc)[MAX_COLS], const lk_strips *s, const char *x, const vf *w, const int first,
                             const int k, const int cols, const int step, const int kind)
{
    const int full = ((k + step - 1) / step + 1) * cols >= 16; /* sums and columns leave no register for a weight */
#pragma GCC unroll 8
    for (int b = 0; b < k; b++) {
        vf xv[MAX_COLS];
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++)
            xv[j] = column(s, x, j * step + b, kind);
#pragma GCC unroll 8
        for (int m = 0; first + m * step < k; m++) {
            const vf *const at = w + (first + m * step) * k + b;
#pragma GCC unroll 8
            for (int j = 0; j < cols; j++)
                if (full)
                    LK_FMA_AT(acc[m][j], xv[j], at);
                else
                    LK_FMA(acc[m][j], xv[j], *at);
        }
    }
}

/* Adds an input row to the sums of the output rows newest, newest - 1, .., with their rows of taps first,
 * first + step, ..; `inner`: all of these are in the strip. */
LK_INLINE void add_row(vf (*acc)[MAX_COLS], const lk_strips *s, const char *x, const vf *w, const int64_t newest,
                       const int first, const int k, const int cols, const int step, const int kind, const int inner)
{
    const int count = (cols - 1) * step + k;
    if (LK_VB == 32 && inner) {
        add_inner_row(acc, s, x, w, first, k, cols, step, kind);
        return;
    }
    vf xv[MAX_INPUTS];
#pragma GCC unroll 16
    for (int i = 0; i < count; i++)
        xv[i] = column(s, x, i, kind);
#pragma GCC unroll 8
    for (int m = 0; first + m * step < k; m++) {
        if ((uint64_t)(newest - m) >= (uint64_t)s->rows)
            continue;
#pragma GCC unroll 8
        for (int b = 0; b < k; b++) {
            const vf wv = w[(first + m * step) * k + b];
#pragma GCC unroll 8
            for (int j = 0; j < cols; j++)
                LK_FMA(acc[m][j], xv[j * step + b], wv);
        }
    }
}

/* acc[m] has the sums of output row newest - m. */
LK_INLINE void strip(const lk_strips *s, const int64_t v, const int k, const int cols, const int step, const int kind)
{
    const int oldest = (k - 1) / step; /* output rows that an input row contributes to, but for the newest */
    const vf *const w = (const vf *)s->w + v * k * k;
    const vf bias = s->bias ? ((const vf *)s->bias)[v] : (vf){};
    const char *x = s->x + v * LK_LANES * ITEM;
    char *y = s->y + v * LK_LANES * (s->wide ? (int)sizeof(real) : ITEM);
    vf acc[MAX_ROWS][MAX_COLS];
#pragma GCC unroll 8
    for (int m = 0; m <= oldest; m++)
        begin_row(acc[m], bias, cols);
    for (int64_t newest = 0, i = 0; newest < s->rows + oldest; newest++, i += step, x += step * s->x_row) {
        const int inner = newest >= oldest && newest < s->rows;
        if (s->far && v + 1 < s->vectors)
            prefetch_next(s, x, step, (cols - 1) * step + k);
        if (i >= s->top && i < s->bottom)
            add_row(acc, s, x, w, newest, 0, k, cols, step, kind, inner);
        if (newest >= oldest) {
            store_row(s, y, acc[oldest], cols, kind);
            y += s->y_row;
        }
        if (step == 2 && newest + 1 < s->rows + oldest && i + 1 >= s->top && i + 1 < s->bottom)
            add_row(acc, s, x + s->x_row, w, newest, 1, k, cols, step, kind, inner);
#pragma GCC unroll 8
        for (int m = oldest; m > 0; m--)
#pragma GCC unroll 8
            for (int j = 0; j < cols; j++)
                acc[m][j] = acc[m - 1][j];
        begin_row(acc[0], bias, cols);
    }
}

/* Of 3x3: adds one input row to the sums of up to three output rows, whose first, second and last tap it is; NULL:
 * none. Its first column is padding if `left`, its last one if `right`: tests that are cheaper than code for each. */
LK_INLINE void add_row_3(vf *first, vf *second, vf *last, const lk_strips *s, const vf (*w)[3], const char *x,
                       const int cols, const int step, const int left, const int right)
{
    const int count = (cols - 1) * step + 3;
    const int64_t x_col = s->x_col;
    if (LK_VB == 32 && step == 2 && s->far)
        prefetch_next(s, x, 1, count);
#pragma GCC unroll 32
    for (int i = 0; i < count; i++, x += x_col) {
        if ((i == 0 && left) || (i == count - 1 && right))
            continue;
        const vf v = load_numbers(x, LK_LANES, ELEMENT);
        if (LK_VB != 32 || step == 1)
            __builtin_prefetch(x + LK_VB, 0, 2); /* near ones gain, too */
#pragma GCC unroll 4
        for (int b = 0; b < 3; b++) {
            const int j = (i - b) / step;
            if (i < b || (i - b) % step || j >= cols)
                continue;
            if (first)
                LK_FMA(first[j], v, w[0][b]);
            if (second)
                LK_FMA(second[j], v, w[1][b]);
            if (last)
                LK_FMA(last[j], v, w[2][b]);
        }
    }
}

/* Output rows before the first and after the last of the strip are not computed. */
#define ADD(FIRST, SECOND, LAST) \
    add_row_3(FIRST, SECOND, LAST, s, (const vf(*)[3])w, x, cols, step, left, right)

/* Input row i, i % 3 == P: the first tap of output row i, the second of i - 1, the last of i - 2. With 3n + 1 rows no
 * multiplication is wasted. */
#define ROW1(P) \
    { \
        if (i == rows) \
            break; \
        begin_row(acc[P], bias ? *bias : (vf){}, cols); \
        if (i >= s->top && i < s->bottom) { \
            if (P == 0 && i == 0) \
                ADD(acc[0], NULL, NULL); \
            else if (P == 1 && i == 1) \
                ADD(acc[1], acc[0], NULL); \
            else if (P == 1 && i == rows - 2) \
                ADD(NULL, acc[0], acc[2]); \
            else if (P == 2 && i == rows - 1) \
                ADD(NULL, NULL, acc[0]); \
            else \
                ADD(acc[P], acc[(P + 2) % 3], acc[(P + 1) % 3]); \
        } \
        if (i >= 2) { \
            store_row(s, y, acc[(P + 1) % 3], cols, EDGES); \
            y += s->y_row; \
        } \
        i++, x += s->x_row; \
    }

/* Input rows i = 2o and 2o + 1, o % 2 == P: the first and second tap of output row o; row 2o is the last of o - 1. */
#define ROWS2(P) \
    { \
        begin_row(acc[P], bias ? *bias : (vf){}, cols); \
        if (i >= s->top && i < s->bottom) { \
            if (P == 0 && i == 0) \
                ADD(acc[0], NULL, NULL); \
            else if (i == rows - 1) \
                ADD(NULL, NULL, acc[1 - P]); \
            else \
                ADD(acc[P], NULL, acc[1 - P]); \
        } \
        if (i >= 2) { \
            store_row(s, y, acc[1 - P], cols, EDGES); \
            y += s->y_row; \
        } \
        if (++i == rows) \
            break; \
        x += s->x_row; \
        if (i >= s->top && i < s->bottom) \
            ADD(NULL, acc[P], NULL); \
        i++, x += s->x_row; \
    }

/* 3x3 with at most one column of padding on either side: the rows of sums take turns. */
LK_INLINE void strip_3(const lk_strips *s, const int64_t v, const int cols, const int step, const int left,
                       const int right)
{
    vf w[3][3], acc[3][MAX_COLS] = {};
    const char *x = s->x + v * LK_LANES * ITEM;
    char *y = s->y + v * LK_LANES * (s->wide ? (int)sizeof(real) : ITEM);
    const vf *const bias = s->bias ? (const vf *)s->bias + v : NULL;
    const int64_t rows = (s->rows - 1) * step + 3;
    int64_t i = 0;
#pragma GCC unroll 16
    for (int b = 0; b < 9; b++) {
        w[b / 3][b % 3] = ((const vf *)s->w)[9 * v + b];
        LK_PIN(w[b / 3][b % 3]); /* in registers, not read again for every row */
    }
    if (step == 1)
        for (;;) {
            ROW1(0)
            ROW1(1)
            ROW1(2)
        }
    else
        for (;;) {
            ROWS2(0)
            ROWS2(1)
        }
}

/* Of 1x1, pixel by pixel. */
LK_INLINE void scaled(const lk_strips *s, const int step)
{
    const int64_t full = s->vectors - (s->x_lanes != 0), y_item = s->wide ? (int)sizeof(real) : ITEM;
    const vf *const w = s->w, *const bias = s->bias;
    for (int64_t i = 0; i < s->rows; i++)
        for (int j = 0; j < s->cols; j++) {
            const int inside = i * step >= s->top && i * step < s->bottom && (s->inside >> (j * step) & 1);
            const char *const x = s->x + i * step * s->x_row + j * step * s->x_col;
            char *const y = s->y + i * s->y_row + j * s->y_col;
            for (int64_t v = 0; v < s->vectors; v++) {
                vf sum = bias ? bias[v] : (vf){};
                const char *const at = x + v * LK_LANES * ITEM;
                if (inside)
                    LK_FMA(sum, v < full ? load_numbers(at, LK_LANES, ELEMENT) : some(at, s->x_lanes), w[v]);
                store_row(s, y + v * LK_LANES * y_item, &sum, 1, v < full ? EDGES : MASKED);
            }
        }
}

void LK_NAME(LK_TYPED(strips_1x8))(const lk_strips *s) { scaled(s, s->step); }

/* One function for each number of columns: in larger ones gcc 12 allocates registers worse. The last vector may be
 * partial. */
#define EACH(FUNCTION, ...) \
    for (int64_t v = 0; v < full; v++) \
        FUNCTION(s, v, __VA_ARGS__);
#define STRIP(K, COLS, FULL) \
    static void strip_##K##x##COLS(const lk_strips *s) \
    { \
        const int64_t full = s->vectors - (s->x_lanes != 0); \
        FULL(K, COLS) \
        if (full < s->vectors && s->step == 2) \
            strip(s, full, K, COLS, 2, MASKED); \
        else if (full < s->vectors) \
            strip(s, full, K, COLS, 1, MASKED); \
    }
#define FULL(K, COLS) \
    if (s->step == 2) \
        EACH(strip, K, COLS, 2, EDGES) \
    else \
        EACH(strip, K, COLS, 1, EDGES)
#define FULL_3(K, COLS) \
    const int left = ~s->inside & 1, right = ~s->inside >> ((COLS - 1) * s->step + 2) & 1; \
    if (s->step == 2) \
        EACH(strip_3, COLS, 2, left, right) \
    else \
        EACH(strip_3, COLS, 1, left, right)
#if LK_VB == 64
STRIP(3, 4, FULL_3) STRIP(3, 5, FULL_3) STRIP(3, 6, FULL_3) STRIP(3, 7, FULL_3)
STRIP(5, 1, FULL) STRIP(5, 2, FULL) STRIP(5, 3, FULL) STRIP(5, 4, FULL)
STRIP(7, 1, FULL) STRIP(7, 2, FULL) STRIP(7, 3, FULL)
#elif LK_VB == 16
STRIP(3, 1, FULL_3) STRIP(3, 2, FULL_3)
#else
STRIP(3, 2, FULL_3) STRIP(3, 3, FULL_3) STRIP(3, 4, FULL_3)
STRIP(5, 1, FULL) STRIP(5, 2, FULL) STRIP(7, 1, FULL) STRIP(7, 2, FULL)
#endif

#define KERNEL(STEM, ...) \
    void LK_NAME(LK_TYPED(STEM))(const lk_strips *s) \
    { \
        static const lk_strips_fn of_columns[] = {__VA_ARGS__}; \
        of_columns[s->cols - 1](s); \
    }
#if LK_VB == 64
KERNEL(strips_3x7, NULL, NULL, NULL, strip_3x4, strip_3x5, strip_3x6, strip_3x7)
KERNEL(strips_5x4, strip_5x1, strip_5x2, strip_5x3, strip_5x4)
KERNEL(strips_7x3, strip_7x1, strip_7x2, strip_7x3)
#elif LK_VB == 16
KERNEL(strips_3x2, strip_3x1, strip_3x2)
#else
KERNEL(strips_3x4, NULL, strip_3x2, strip_3x3, strip_3x4)
KERNEL(strips_5x2, strip_5x1, strip_5x2)
KERNEL(strips_7x2, strip_7x1, strip_7x2)
#endif

const lk_kernel LK_ROWS(strips)[] = {
    LK_ROW(LK_STRIPS, LK_TYPED(strips_1x8), LK_STR(LK_KIND), LK_LANES, 1, 8, LK_TILE(LK_STR(LK_REAL))),
#if LK_VB == 64
    LK_ROW(LK_STRIPS, LK_TYPED(strips_3x7), LK_STR(LK_KIND), LK_LANES, 3, 7, LK_TILE(LK_STR(LK_REAL))),
    LK_ROW(LK_STRIPS, LK_TYPED(strips_5x4), LK_STR(LK_KIND), LK_LANES, 5, 4, LK_TILE(LK_STR(LK_REAL))),
    LK_ROW(LK_STRIPS, LK_TYPED(strips_7x3), LK_STR(LK_KIND), LK_LANES, 7, 3, LK_TILE(LK_STR(LK_REAL))),
#elif LK_VB == 16
    LK_ROW(LK_STRIPS, LK_TYPED(strips_3x2), LK_STR(LK_KIND), LK_LANES, 3, 2, LK_TILE(LK_STR(LK_REAL))),
#else
    LK_ROW(LK_STRIPS, LK_TYPED(strips_3x4), LK_STR(LK_KIND), LK_LANES, 3, 4, LK_TILE(LK_STR(LK_REAL))),
    LK_ROW(LK_STRIPS, LK_TYPED(strips_5x2), LK_STR(LK_KIND), LK_LANES, 5, 2, LK_TILE(LK_STR(LK_REAL))),
    LK_ROW(LK_STRIPS, LK_TYPED(strips_7x2), LK_STR(LK_KIND), LK_LANES, 7, 2, LK_TILE(LK_STR(LK_REAL))),
#endif
    LK_LAST_ROW,
};
