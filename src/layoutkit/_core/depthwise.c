/* depthwise_<rows>x<columns>_f32: every channel a convolution of its own; see lk_depthwise in kernels.h.
 *
 *   y[r][j] = bias + sum_t sum_b x[r][j][t][b] * w[t][b]        vectors of channels (or of pixels)
 *
 * Two output rows by up to MAX_COLS columns stay in registers until all taps are summed, the filter's taps of a
 * row of taps beside them. Where neighbouring columns read the same vectors (x_col is `step` taps), each is loaded
 * once for all of them.
 * Regions: columns that touch the padding, and the last vector where it is ragged, load and store by masks; rows of
 * taps in the padding are left out, for each output row.
 */
#include "kernels.h"
#include "vector.h"

#if LK_VB == 64
#define MIN_COLS 4
#define MAX_COLS 8
#else
#define MIN_COLS 2
#define MAX_COLS 4
#endif
#define MAX_KW 7

LK_INLINE void tile(const lk_depthwise *d, const lk_depthwise_tile *at, const int v, const int cols, const int kw,
                    const int step, const int masked, const int spread)
{
    vf acc[2][MAX_COLS];
    const uint32_t lanes = v + 1 == d->vectors && d->tail ? (1u << d->tail) - 1 : ~0u;
    const uint32_t lanes_in = spread ? d->x_lanes[v] : lanes;
    const char *x = d->x + at->x + (spread ? d->x_at[v] : v * d->x_vector);
    const float *w = d->w + (int64_t)v * d->taps * d->kw * LK_LANES;
    const int64_t x_col = d->x_col, x_tap = d->x_tap, mask_step = d->step ? d->step : d->kw;
    const vi order = spread ? *(const vi *)(d->order + v * LK_LANES) : (vi){};
    const vf bias = d->bias ? *(const vf *)(d->bias + v * LK_LANES) : (vf){};
#pragma GCC unroll 8
    for (int j = 0; j < cols; j++)
        acc[0][j] = acc[1][j] = bias;
    for (int64_t t = 0; t < d->taps; t++, w += d->kw * LK_LANES) {
        const uint32_t inside = d->inside[t];
        if (kw) {
            vf wv[MAX_KW];
#pragma GCC unroll 8
            for (int b = 0; b < kw; b++)
                wv[b] = *(const vf *)(w + b * LK_LANES);
#pragma GCC unroll 2
            for (int r = 0; r < 2; r++) {
                if (!(inside >> r & 1))
                    continue;
                const char *p = x + d->tap[t] + r * d->x_row;
#pragma GCC unroll 32
                for (int i = 0; i < (cols - 1) * step + kw; i++, p += x_tap) {
                    const vf xv = masked ? load_lanes(p, at->x_mask[i] & lanes) : *(const vf *)p;
#pragma GCC unroll 8
                    for (int j = 0; j < cols; j++)
                        if (i >= j * step && i - j * step < kw)
                            LK_FMA(acc[r][j], xv, wv[i - j * step]);
                }
            }
        } else {
            for (int b = 0; b < d->kw; b++) {
                const vf wv = *(const vf *)(w + b * LK_LANES);
#pragma GCC unroll 2
                for (int r = 0; r < 2; r++) {
                    if (!(inside >> r & 1))
                        continue;
                    const char *p = x + d->tap[t] + r * d->x_row + b * x_tap;
#pragma GCC unroll 8
                    for (int j = 0; j < cols; j++, p += x_col) {
                        vf xv = masked ? load_lanes(p, at->x_mask[j * mask_step + b] & lanes_in) : *(const vf *)p;
                        if (spread)
                            xv = shuffle_lanes(xv, order);
                        LK_FMA(acc[r][j], xv, wv);
                    }
                }
            }
        }
    }
    char *y = d->y + at->y + v * d->y_vector;
#pragma GCC unroll 2
    for (int r = 0; r < 2; r++) {
        if (r == d->rows)
            break;
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++) {
            char *to = y + r * d->y_row + j * d->y_col;
            if (masked)
                store_lanes(to, acc[r][j], at->y_mask[j] & lanes);
            else
                *(vf *)to = acc[r][j];
        }
    }
}

#define CASE(COLS, KW, STEP, MASKED, SPREAD) case COLS: tile(d, at, v, COLS, KW, STEP, MASKED, SPREAD); break;
#if MAX_COLS == 8
#define CASES(KW, STEP, MASKED, SPREAD) \
    CASE(4, KW, STEP, MASKED, SPREAD) CASE(5, KW, STEP, MASKED, SPREAD) CASE(6, KW, STEP, MASKED, SPREAD) \
    CASE(7, KW, STEP, MASKED, SPREAD) CASE(8, KW, STEP, MASKED, SPREAD)
#else
#define CASES(KW, STEP, MASKED, SPREAD) \
    CASE(2, KW, STEP, MASKED, SPREAD) CASE(3, KW, STEP, MASKED, SPREAD) CASE(4, KW, STEP, MASKED, SPREAD)
#endif

/* All tiles and vectors, with kw taps a row, columns `step` taps apart (0: any); `spread`: channels repeat. */
#define WAY(NAME, KW, STEP) \
    static void NAME(const lk_depthwise *d) \
    { \
        for (int i = 0; i < d->tiles; i++) { \
            const lk_depthwise_tile *at = d->tile + i; \
            const int whole = at->whole && at->cols >= MIN_COLS, cols = at->cols < MIN_COLS ? MIN_COLS : at->cols; \
            for (int v = 0; v < d->vectors; v++) { \
                if (whole && !(d->tail && v + 1 == d->vectors)) \
                    switch (cols) { CASES(KW, STEP, 0, 0) } \
                else \
                    switch (cols) { CASES(KW, STEP, 1, 0) } \
            } \
        } \
    }

WAY(k3s1, 3, 1)
WAY(k3s2, 3, 2)
WAY(k5s1, 5, 1)
WAY(k5s2, 5, 2)
WAY(k7s1, 7, 1)
WAY(any, 0, 0)

static void spread(const lk_depthwise *d)
{
    for (int i = 0; i < d->tiles; i++)
        for (int v = 0; v < d->vectors; v++) {
            const lk_depthwise_tile *at = d->tile + i;
            switch (at->cols < MIN_COLS ? MIN_COLS : at->cols) { CASES(0, 0, 1, 1) }
        }
}

LK_INLINE void run(const lk_depthwise *d)
{
    if (d->order)
        spread(d);
    else if (d->step == 1 && d->kw == 3)
        k3s1(d);
    else if (d->step == 2 && d->kw == 3)
        k3s2(d);
    else if (d->step == 1 && d->kw == 5)
        k5s1(d);
    else if (d->step == 2 && d->kw == 5)
        k5s2(d);
    else if (d->step == 1 && d->kw == 7)
        k7s1(d);
    else
        any(d);
}

#if LK_VB == 64
void LK_NAME(depthwise_2x8_f32)(const lk_depthwise *d) { run(d); }
#else
void LK_NAME(depthwise_2x4_f32)(const lk_depthwise *d) { run(d); }
#endif

const lk_kernel LK_NAME(lk_rows_depthwise)[] = {
#if LK_VB == 64
    LK_ROW(LK_DEPTHWISE, depthwise_2x8_f32, 32, 2, 8),
#else
    LK_ROW(LK_DEPTHWISE, depthwise_2x4_f32, 32, 2, 4),
#endif
    LK_LAST_ROW,
};
