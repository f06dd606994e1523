/* strips_3x<columns>_<type>: 3x3 depthwise, stride 1 or 2, down a strip of columns; see lk_strips in kernels.h.
 *
 *   y[o][j] = bias + sum_a sum_b x[step*o + a][step*j + b] * w[a][b]        vectors of channels
 *
 * The nine weights stay in registers all the way down the strip, and so do the sums of every output row that the
 * current input row contributes to: three with stride 1, two with stride 2. Each input is loaded once per strip for up
 * to nine multiplications, a third of the loads of tiles of two rows. That decides where pixels lie a power of two
 * apart, because then few lines of a column fit in the cache at once.
 * Edges: padding in the first or last column (left, right) and rows of padding are skipped.
 */
#include "kernels.h"
#include "vector.h"

#include <stddef.h>

#if LK_VB == 64
#define MAX_COLS 7
#else
#define MAX_COLS 2
#endif

/* Adds one input row to the sums of up to three output rows, whose first, second and last tap it is; NULL: none. */
LK_INLINE void add_row(vf *first, vf *second, vf *last, const vf (*w)[3], const char *x, const int64_t x_col,
                       const int cols, const int step, const int left, const int right)
{
    const int count = (cols - 1) * step + 3;
    x += left * x_col;
#pragma GCC unroll 32
    for (int i = left; i < count - right; i++, x += x_col) {
        const vf v = *(const vf *)x;
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

LK_INLINE void begin(vf *acc, const vf *bias, const int cols)
{
    const vf v = bias ? *bias : (vf){};
#pragma GCC unroll 8
    for (int j = 0; j < cols; j++)
        acc[j] = v;
}

LK_INLINE void end(const lk_strips *s, char *y, vf *acc, const int cols)
{
    if (s->positive)
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++)
            acc[j] = positive_zeros(acc[j]);
    if (s->clip)
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++)
            acc[j] = between_limits(acc[j], s->clip);
#pragma GCC unroll 8
    for (int j = 0; j < cols; j++, y += s->y_col)
        *(vf *)y = acc[j];
}

/* Output rows before the first and after the last of the strip are not computed. */
#define ADD(FIRST, SECOND, LAST) \
    add_row(FIRST, SECOND, LAST, (const vf(*)[3])w, x, s->x_col, cols, step, left, right)

/* Input row i, i % 3 == P: the first tap of output row i, the second of i - 1, the last of i - 2. With 3n + 1 rows no
 * multiplication is wasted. */
#define ROW1(P) \
    { \
        if (i == rows) \
            break; \
        begin(acc[P], bias, cols); \
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
            end(s, y, acc[(P + 1) % 3], cols); \
            y += s->y_row; \
        } \
        i++, x += s->x_row; \
    }

/* Input rows i = 2o and 2o + 1, o % 2 == P: the first and second tap of output row o; row 2o is the last of o - 1. */
#define ROWS2(P) \
    { \
        begin(acc[P], bias, cols); \
        if (i >= s->top && i < s->bottom) { \
            if (P == 0 && i == 0) \
                ADD(acc[0], NULL, NULL); \
            else if (i == rows - 1) \
                ADD(NULL, NULL, acc[1 - P]); \
            else \
                ADD(acc[P], NULL, acc[1 - P]); \
        } \
        if (i >= 2) { \
            end(s, y, acc[1 - P], cols); \
            y += s->y_row; \
        } \
        if (++i == rows) \
            break; \
        x += s->x_row; \
        if (i >= s->top && i < s->bottom) \
            ADD(NULL, acc[P], NULL); \
        i++, x += s->x_row; \
    }

LK_INLINE void strip(const lk_strips *s, const int64_t v, const int cols, const int step, const int left,
                     const int right)
{
    vf w[3][3], acc[3][MAX_COLS] = {};
    const char *x = s->x + v * LK_VB;
    char *y = s->y + v * LK_VB;
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

#define CASE(COLS, STEP, LEFT, RIGHT) \
    case COLS: \
        for (int64_t v = 0; v < s->vectors; v++) \
            strip(s, v, COLS, STEP, LEFT, RIGHT); \
        break;
#if LK_VB == 64
#define CASES(STEP, LEFT, RIGHT) \
    switch (s->cols) { CASE(4, STEP, LEFT, RIGHT) CASE(5, STEP, LEFT, RIGHT) CASE(6, STEP, LEFT, RIGHT) \
                       CASE(7, STEP, LEFT, RIGHT) }
#else
#define CASES(STEP, LEFT, RIGHT) switch (s->cols) { CASE(1, STEP, LEFT, RIGHT) CASE(2, STEP, LEFT, RIGHT) }
#endif

LK_INLINE void run(const lk_strips *s)
{
    const int edges = 4 * (s->step == 2) + 2 * s->left + s->right;
    switch (edges) {
    case 0: CASES(1, 0, 0) break;
    case 1: CASES(1, 0, 1) break;
    case 2: CASES(1, 1, 0) break;
    case 3: CASES(1, 1, 1) break;
    case 4: CASES(2, 0, 0) break;
    case 5: CASES(2, 0, 1) break;
    case 6: CASES(2, 1, 0) break;
    case 7: CASES(2, 1, 1) break;
    }
}

#if LK_VB == 64
void LK_NAME(LK_TYPED(strips_3x7))(const lk_strips *s) { run(s); }
#else
void LK_NAME(LK_TYPED(strips_3x2))(const lk_strips *s) { run(s); }
#endif

const lk_kernel LK_ROWS(strips)[] = {
#if LK_VB == 64
    LK_ROW(LK_STRIPS, LK_TYPED(strips_3x7), LK_STR(LK_REAL), LK_LANES, 3, 7),
#else
    LK_ROW(LK_STRIPS, LK_TYPED(strips_3x2), LK_STR(LK_REAL), LK_LANES, 3, 2),
#endif
    LK_LAST_ROW,
};
