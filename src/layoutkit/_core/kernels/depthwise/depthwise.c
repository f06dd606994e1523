/* depthwise_<rows>x<columns>_<type>: depthwise convolution and that of small groups; see lk_depthwise in depthwise.h.
 *
 *   y[r][j] = bias + sum_c sum_t sum_b x[r][j][c][t][b] * w[c][t][b]        vectors of output channels
 *
 * The register tile is two output rows by up to MAX_COLS columns. It stays in registers until all channels and taps are
 * summed, beside the filter's taps of one row of taps. Where neighbouring columns read the same vectors (x_col is
 * `step` taps), each vector is loaded once for all of them. Small groups are the same with the lanes of x permuted:
 * lane i reads channel c of its group. If a vector is all of one group, that channel is loaded to all lanes.
 * Edges: columns that touch the padding, and a partial last vector, load and store by masks; rows of taps in the
 * padding are skipped, for each output row.
 */
#include "common/vector.h"
#include "depthwise.h"

#include <stddef.h>

#if LK_VB == 64
#define MIN_COLS 4
#define MAX_COLS 8
#else
#define MIN_COLS 2
#define MAX_COLS 4
#endif
#define MAX_KW 7

enum { WHOLE, EDGES, MASKED };
enum { AS_IS, PERMUTED, ONE_LANE }; /* lanes of x */

static const real zeros[LK_LANES];

/* Loads column i of a row of vectors, at p, or of a row of single numbers, with its lanes in `order`. With EDGES the first
 * and last columns may be padding. */
LK_INLINE vf column(const char *p, const lk_depthwise_tile *at, const int i, const int count, const int kw,
                    const int kind, const uint32_t lanes, const vi *order, const int spread)
{
    if (kind == EDGES && (i <= kw / 2 || i >= count - 1 - kw / 2))
        p = at->x_mask[i] ? p : (const char *)zeros;
    if (spread == ONE_LANE)
        return *(const real *)p - (vf){};
    const vf v = kind == MASKED ? load_lanes(p, at->x_mask[i] & lanes) : *(const vf *)p;
    return spread ? shuffle_lanes(v, *order) : v;
}

/* Where the columns of a tile read: row of taps t of output row r begins at x + tap[t] * tap_bytes + r * row. tap_step
 * is the bytes from one tap to the next, `column` those from one output column to the next. */
typedef struct {
    const char *x;
    const int64_t *tap;
    int64_t tap_bytes, row, tap_step, column;
} place;

/* Adds one row of taps to those of the two output rows for which it is inside the input. */
LK_INLINE void row_of_taps(vf (*acc)[MAX_COLS], const place *from, const lk_depthwise_tile *at, const char *x,
                           const real *w, uint32_t inside, const uint32_t lanes, const vi *order, const int cols,
                           const int kw, const int step, const int kind, const int spread)
{
    const int count = (cols - 1) * step + kw;
    vf wv[MAX_KW];
#pragma GCC unroll 8
    for (int b = 0; b < kw; b++)
        wv[b] = *(const vf *)(w + b * LK_LANES);
#pragma GCC unroll 2
    for (int r = 0; r < 2; r++) {
        if (!(inside >> r & 1))
            continue;
        const char *p = x + r * from->row;
#pragma GCC unroll 32
        for (int i = 0; i < count; i++, p += from->tap_step) {
            const vf xv = column(p, at, i, count, kw, kind, lanes, order, spread);
#pragma GCC unroll 8
            for (int j = 0; j < cols; j++)
                if (i >= j * step && i - j * step < kw)
                    LK_FMA(acc[r][j], xv, wv[i - j * step]);
        }
    }
}

/* Adds 3 x 3 taps that are inside for both output rows: each vector is loaded once for all of them. */
LK_INLINE void square_of_taps(vf (*acc)[MAX_COLS], const place *from, const lk_depthwise_tile *at, const char *x,
                              const real *w, const uint32_t lanes, const vi *order, const int cols, const int kind,
                              const int spread)
{
    vf wv[3][3];
#pragma GCC unroll 16
    for (int b = 0; b < 9; b++)
        wv[b / 3][b % 3] = *(const vf *)(w + b * LK_LANES);
#pragma GCC unroll 4
    for (int y = 0; y < 4; y++, x += from->row) {
        const char *p = x;
#pragma GCC unroll 32
        for (int i = 0; i < cols + 2; i++, p += from->tap_step) {
            const vf xv = column(p, at, i, cols + 2, 3, kind, lanes, order, spread);
#pragma GCC unroll 4
            for (int b = 2; b >= 0; b--)
#pragma GCC unroll 2
                for (int r = 0; r < 2; r++)
                    if (y - r >= 0 && y - r < 3 && i - b >= 0 && i - b < cols)
                        LK_FMA(acc[r][i - b], xv, wv[y - r][b]);
        }
    }
}

/* Adds one row of taps: any number of them, at any distance. */
LK_INLINE void any_taps(vf (*acc)[MAX_COLS], const lk_depthwise *d, const place *from, const lk_depthwise_tile *at,
                        const char *x, const real *w, uint32_t inside, const uint32_t lanes, const vi *order,
                        const int cols, const int kind)
{
    const int64_t mask_step = d->step ? d->step : d->kw;
    for (int b = 0; b < d->kw; b++, x += from->tap_step) {
        const vf wv = *(const vf *)(w + b * LK_LANES);
#pragma GCC unroll 2
        for (int r = 0; r < 2; r++) {
            if (!(inside >> r & 1))
                continue;
            const char *p = x + r * from->row;
#pragma GCC unroll 8
            for (int j = 0; j < cols; j++, p += from->column) {
                vf xv = kind == WHOLE ? *(const vf *)p : load_lanes(p, at->x_mask[j * mask_step + b] & lanes);
                if (order)
                    xv = shuffle_lanes(xv, *order);
                LK_FMA(acc[r][j], xv, wv);
            }
        }
    }
}

/* Copies what the columns of a tile read, in the order of x_mask: `bytes` of each pixel from x on, zeros for padding */
static __attribute__((noinline)) void copy_columns(const lk_depthwise *d, const lk_depthwise_tile *at, const char *x,
                                                   const int64_t bytes, const int count)
{
    const int64_t turn = d->step ? count : d->kw, back = d->step ? 0 : d->x_col - d->kw * d->x_tap;
    char *to = d->copy;
    for (int i = 0; i < d->copies; i++) {
        const char *from = x + d->copy_at[i];
        if (!d->copy_inside[i]) { /* never read */
            to += count * d->copy_pixel;
            continue;
        }
        for (int j = 0, b = 0; j < count; j++, from += d->x_tap, to += d->copy_pixel) {
            const int there = at->x_mask[j] != 0;
            const int64_t last = bytes - LK_VB;
            for (int64_t k = 0; k < last; k += LK_VB)
                *(vf *)(to + k) = there ? *(const vf *)(from + k) : (vf){};
            *(vf *)(to + last) = there ? *(const vf *)(from + last) : (vf){};
            if (++b == turn) /* the next column's taps */
                from += back, b = 0;
        }
    }
}

LK_INLINE void micro_kernel(const lk_depthwise *d, const lk_depthwise_tile *at, const place *from, const int64_t v,
                    const int cols, const int kw, const int step, const int kind, const int spread)
{
    vf acc[2][MAX_COLS];
    const uint32_t y_lanes = d->y_lanes[v];
    const int64_t depth = spread ? d->depth : 1, row = d->kw * LK_LANES; /* row: elements of the filter's row of taps */
    const real *w = (const real *)d->w + v * depth * d->taps * row;
    const vf bias = d->bias ? ((const vf *)d->bias)[v] : (vf){};
#pragma GCC unroll 8
    for (int j = 0; j < cols; j++)
        acc[0][j] = acc[1][j] = bias;
    for (int64_t c = v * depth; c < (v + 1) * depth; c++) {
        const vi lane = spread == PERMUTED ? lane_order(d->order + c * LK_LANES) : (vi){};
        const vi *order = spread == PERMUTED ? &lane : NULL;
        for (int64_t t = 0; t < d->taps; t++, w += row) {
            const char *x = from->x + from->tap[t] * from->tap_bytes + (spread ? d->x_at[c] : v * d->x_vector);
            if (spread == ONE_LANE)
                x += d->order[c * LK_LANES] * (int64_t)sizeof(real);
            if (kw == 3 && step == 1 && LK_VB == 64 && d->square && d->square[t]) {
                square_of_taps(acc, from, at, x, w, d->x_lanes[c], order, cols, kind, spread);
                t += 2, w += 2 * row;
            } else if (kw) {
                row_of_taps(acc, from, at, x, w, d->inside[t], d->x_lanes[c], order, cols, kw, step, kind, spread);
            } else {
                any_taps(acc, d, from, at, x, w, d->inside[t], d->x_lanes[c], order, cols, kind);
            }
        }
    }
    if (d->positive)
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++) {
            acc[0][j] = positive_zeros(acc[0][j]);
            acc[1][j] = positive_zeros(acc[1][j]);
        }
    if (d->clip)
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++) {
            acc[0][j] = between_limits(acc[0][j], d->clip);
            acc[1][j] = between_limits(acc[1][j], d->clip);
        }
    char *y = d->y + at->y + v * d->y_vector;
#pragma GCC unroll 2
    for (int r = 0; r < 2; r++, y += d->y_row) {
        if (r == d->rows)
            break;
        char *to = y;
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++, to += d->y_col) {
            if (kind == MASKED)
                store_lanes(to, acc[r][j], at->y_mask[j] & y_lanes);
            else
                *(vf *)to = acc[r][j];
        }
    }
}

#define CASE(COLS, KW, STEP, KIND, SPREAD) \
    case COLS: micro_kernel(d, at, &from, v, COLS, KW, STEP, KIND, SPREAD); break;
#if MAX_COLS == 8
#define CASES(KW, STEP, KIND, SPREAD) \
    CASE(4, KW, STEP, KIND, SPREAD) CASE(5, KW, STEP, KIND, SPREAD) CASE(6, KW, STEP, KIND, SPREAD) \
    CASE(7, KW, STEP, KIND, SPREAD) CASE(8, KW, STEP, KIND, SPREAD)
#else
#define CASES(KW, STEP, KIND, SPREAD) \
    CASE(2, KW, STEP, KIND, SPREAD) CASE(3, KW, STEP, KIND, SPREAD) CASE(4, KW, STEP, KIND, SPREAD)
#endif

/* A variant does all tiles and vectors: KW taps a row, columns STEP taps apart (0: any). */
#define VARIANT(NAME, KW, STEP, SPREAD) \
    static void NAME(const lk_depthwise *d) \
    { \
        for (int i = 0; i < d->tiles; i++) { \
            const lk_depthwise_tile *at = d->tile + i; \
            const int cols = at->cols < MIN_COLS ? MIN_COLS : at->cols; \
            const int kind = at->cols < MIN_COLS ? MASKED : at->whole ? WHOLE : KW && at->edges ? EDGES : MASKED; \
            const place there = {d->x + at->x, d->tap, 1, d->x_row, d->x_tap, d->x_col}; \
            int64_t copied = 0, end = 0; /* the bytes that the copy holds, counted as in x_at */ \
            for (int64_t v = 0; v < d->vectors; v++) { \
                place from = there; \
                int how = d->full[v] ? kind : MASKED; \
                if (SPREAD && d->copy && d->full[v] && at->cols >= MIN_COLS) { \
                    const int64_t first = d->x_at[v * d->depth], last = d->x_at[(v + 1) * d->depth - 1] + LK_VB; \
                    const int count = d->step ? (cols - 1) * d->step + d->kw : cols * d->kw; \
                    if (first < copied || last > end) { \
                        copied = first, end = first + d->copy_bytes[v]; \
                        copy_columns(d, at, there.x + first, end - first, count); \
                    } \
                    from = (place){d->copy - copied, d->copy_tap, count * d->copy_pixel, count * d->copy_pixel, \
                                   d->copy_pixel, (d->step ? d->step : d->kw) * d->copy_pixel}; \
                    how = WHOLE; \
                } \
                if (how == MASKED) \
                    switch (cols) { CASES(KW, STEP, MASKED, SPREAD) } \
                else if (KW && SPREAD && d->full[v] == LK_ONE_LANE && how == EDGES) \
                    switch (cols) { CASES(KW, STEP, EDGES, SPREAD ? ONE_LANE : AS_IS) } \
                else if (KW && SPREAD && d->full[v] == LK_ONE_LANE) \
                    switch (cols) { CASES(KW, STEP, WHOLE, SPREAD ? ONE_LANE : AS_IS) } \
                else if (KW && how == EDGES) \
                    switch (cols) { CASES(KW, STEP, EDGES, SPREAD) } \
                else \
                    switch (cols) { CASES(KW, STEP, WHOLE, SPREAD) } \
            } \
        } \
    }

VARIANT(k3s1, 3, 1, AS_IS)
VARIANT(k3s2, 3, 2, AS_IS)
VARIANT(k5s1, 5, 1, AS_IS)
VARIANT(k5s2, 5, 2, AS_IS)
VARIANT(k7s1, 7, 1, AS_IS)
VARIANT(any, 0, 0, AS_IS)
VARIANT(spread_k1s1, 1, 1, PERMUTED)
VARIANT(spread_k3s1, 3, 1, PERMUTED)
VARIANT(spread_k3s2, 3, 2, PERMUTED)
VARIANT(spread_k5s1, 5, 1, PERMUTED)
VARIANT(spread_k5s2, 5, 2, PERMUTED)
VARIANT(spread_k7s1, 7, 1, PERMUTED)
VARIANT(spread_any, 0, 0, PERMUTED)

LK_INLINE void run(const lk_depthwise *d)
{
    if (d->order && d->step == 1 && d->kw == 3)
        spread_k3s1(d);
    else if (d->order && d->step == 2 && d->kw == 3)
        spread_k3s2(d);
    else if (d->order && d->step == 1 && d->kw == 1)
        spread_k1s1(d);
    else if (d->order && d->step == 1 && d->kw == 5)
        spread_k5s1(d);
    else if (d->order && d->step == 2 && d->kw == 5)
        spread_k5s2(d);
    else if (d->order && d->step == 1 && d->kw == 7)
        spread_k7s1(d);
    else if (d->order)
        spread_any(d);
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
void LK_NAME(LK_TYPED(depthwise_2x8))(const lk_depthwise *d) { run(d); }
#else
void LK_NAME(LK_TYPED(depthwise_2x4))(const lk_depthwise *d) { run(d); }
#endif

const lk_kernel LK_ROWS(depthwise)[] = {
#if LK_VB == 64
    LK_ROW(LK_DEPTHWISE, LK_TYPED(depthwise_2x8), LK_STR(LK_REAL), LK_LANES, 2, 8, LK_TILE(LK_STR(LK_REAL))),
#else
    LK_ROW(LK_DEPTHWISE, LK_TYPED(depthwise_2x4), LK_STR(LK_REAL), LK_LANES, 2, 4, LK_TILE(LK_STR(LK_REAL))),
#endif
    LK_LAST_ROW,
};
