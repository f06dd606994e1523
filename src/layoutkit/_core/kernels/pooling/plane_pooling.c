/* plane_pooling_f32: pooling of planes whose pixels are contiguous; see lk_plane_pooling in plane_pooling.h.
 *
 * A vector of columns of the outputs at a time: first along each row of x in its windows, then down that column of vectors,
 * which is in scratch, or, where windows have two or three rows and columns, in registers.
 * Columns two pixels apart are loaded by shuffles of vectors, those further apart by gathers.
 * A maximum by one instruction loses NaN: columns with any are computed again by comparisons, which keep it.
 * Edges: columns outside of x are left out by masks; rows outside of x by shorter windows; the last vector is masked.
 */
#include "common/every_second.h"
#include "common/numbers.h"
#include "common/vector.h"
#include "plane_pooling.h"
#include "unordered.h"

#include <math.h>
#include <string.h>

enum { MEAN, LARGEST, LARGEST_OR_NAN }; /* results of windows */

LK_INLINE vf neutral(const int what) { return (what == MEAN ? 0 : (real)-INFINITY) - (vf){}; }

/* What a window has so far, and one more element. */
LK_INLINE vf joined(vf so_far, vf v, const int what)
{
    if (what == MEAN)
        return so_far + v;
    if (what == LARGEST)
        return at_least(so_far, v);
    const vi is_new = (v > so_far) | (v != v);
    return (vf)((is_new & (vi)v) | (~is_new & (vi)so_far));
}

/* The lanes l < LK_LANES whose column at + l * step is in [0, size). */
LK_INLINE uint32_t inside(int64_t at, int64_t size, int64_t step)
{
    const int64_t first = at < 0 ? (step - 1 - at) / step : 0, left = size - at;
    const int64_t end = left <= 0 ? 0 : step == 1 ? left : (left + step - 1) / step;
    const uint32_t below = end >= LK_LANES ? ~0u >> (32 - LK_LANES) : (1u << end) - 1;
    return first >= LK_LANES ? 0 : below >> first << first;
}

/* The lanes in `mask` from p on, `step` elements apart; the others are neutral. */
LK_INLINE vf load_inside(const char *p, uint32_t mask, int64_t step, const int what)
{
#if defined(__AVX512F__)
    if (step == 1)
        return (vf)_mm512_mask_loadu_ps((native)neutral(what), (__mmask16)mask, p);
    const vi at = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vf)_mm512_mask_i32gather_ps((native)neutral(what), (__mmask16)mask, (__m512i)(at * (int32_t)step), p, LK_ITEM);
#else
    vf v = neutral(what);
#if defined(__AVX2__)
    if (step == 1)
        return (vf)_mm256_blendv_ps((native)v, (native)load_lanes(p, mask), (native)lane_signs(mask));
#endif
    for (int l = 0; l < LK_LANES; l++)
        if (mask >> l & 1)
            v[l] = *(const real *)(p + l * step * LK_ITEM);
    return v;
#endif
}

/* Which columns of vectors lie inside of x: of the n loads of a window, and of the second ones of pairs. */
typedef struct {
    uint32_t first[3], second[2];
} columns;

LK_INLINE columns columns_of(int64_t at, const lk_plane_pooling *p, const int64_t n, const int pairs, const int64_t apart)
{
    columns c = {};
    for (int k = 0; k < (pairs ? (n + 1) / 2 : n); k++) {
        c.first[k] = inside(at + (pairs ? 2 * k : k * p->dilation), p->size, pairs ? 1 : apart);
        if (pairs)
            c.second[k] = inside(at + 2 * k + LK_LANES, p->size, 1);
    }
    return c;
}

/* Windows of n columns of a row, the first of which begins at x, combined with those before if there are `more`. Lanes are
 * `apart` columns apart; `pairs`: two, and vectors of neighbours are shuffled. `masked`: some columns lie outside of x. */
LK_INLINE vf along(const char *x, int64_t dilation, const columns *c, vf so_far, const int more, lanes *bad, const int64_t n,
                   const int pairs, const int64_t apart, const int masked, const int what)
{
    vf v[4];
    for (int k = 0; k < (pairs ? (n + 1) / 2 : n); k++) {
        const char *from = x + (pairs ? 2 * k * LK_ITEM : k * dilation);
        v[k] = masked ? load_inside(from, c->first[k], pairs ? 1 : apart, what) : *(const vf *)from;
        if (pairs) {
            const char *next = from + LK_VB;
            const vf w = masked ? load_inside(next, c->second[k], 1, what) : *(const vf *)next;
            const vf even = every_second(v[k], w, 0);
            so_far = k || more ? joined(so_far, even, what) : even;
            if (2 * k + 1 < n)
                so_far = joined(so_far, every_second(v[k], w, 1), what);
            if (what == LARGEST)
                *bad |= unordered(v[k], w);
        } else {
            so_far = k || more ? joined(so_far, v[k], what) : v[k];
        }
    }
    if (what == LARGEST && !pairs) {
        *bad |= unordered(v[0], v[n - 1]);
        if (n == 3)
            *bad |= unordered(v[1], v[1]);
    }
    return so_far;
}

/* Windows of n columns of each row of x, from column `at` on, into the column: of the first plane and columns, or combined
 * with those before. */
LK_INLINE lanes rows_along(const char *x, int64_t at, const lk_plane_pooling *p, vf *column, int64_t rows, int more,
                           const int64_t n, const int pairs, const int64_t apart, const int masked, const int what)
{
    const int64_t x_row = p->x_row, dilation = p->dilation * LK_ITEM;
    columns c;
    lanes bad = NO_LANES;
    if (masked)
        c = columns_of(at, p, n, pairs, apart);
    x += at * LK_ITEM;
    for (int64_t r = 0; r < rows; r++, x += x_row)
        column[r] = along(x, dilation, &c, more ? column[r] : neutral(what), more, &bad, n, pairs, apart, masked, what);
    return bad;
}

/* The same of any number of columns; of each row by itself, none of them outside. */
LK_INLINE lanes whole_rows_along(const char *x, int64_t at, const lk_plane_pooling *p, vf *column, int64_t rows, int more,
                                 const int what)
{
    const int64_t x_row = p->x_row, dilation = p->dilation * LK_ITEM, taps = p->taps;
    lanes bad = NO_LANES;
    x += at * LK_ITEM;
    for (int64_t r = 0; r < rows; r++, x += x_row) {
        vf so_far = more ? column[r] : neutral(what);
        const char *from = x;
        for (int64_t t = 0; t < taps; t++, from += dilation) {
            const vf v = *(const vf *)from;
            so_far = joined(so_far, v, what);
            if (what == LARGEST)
                bad |= unordered(v, v);
        }
        column[r] = so_far;
    }
    return bad;
}

typedef lanes (*rows_fn)(const char *x, int64_t at, const lk_plane_pooling *p, vf *column, int64_t rows, int more);
/* One function for each number of columns, so that their masks stay in registers. */
#define ROWS(NAME, N, PAIRS, APART, MASKED, WHAT) \
    static __attribute__((noinline)) lanes NAME##_##WHAT(const char *x, int64_t at, const lk_plane_pooling *p, vf *column, \
                                                         int64_t rows, int more) \
    { \
        return more ? rows_along(x, at, p, column, rows, 1, N, PAIRS, APART, MASKED, WHAT) \
                    : rows_along(x, at, p, column, rows, 0, N, PAIRS, APART, MASKED, WHAT); \
    }
#define EACH(WHAT) \
    ROWS(rows_1, 1, 0, 1, 0, WHAT) ROWS(rows_2, 2, 0, 1, 0, WHAT) ROWS(rows_3, 3, 0, 1, 0, WHAT) \
    ROWS(rows_1_masked, 1, 0, 1, 1, WHAT) ROWS(rows_2_masked, 2, 0, 1, 1, WHAT) ROWS(rows_3_masked, 3, 0, 1, 1, WHAT) \
    ROWS(pairs_1, 1, 1, 2, 0, WHAT) ROWS(pairs_2, 2, 1, 2, 0, WHAT) ROWS(pairs_3, 3, 1, 2, 0, WHAT) \
    ROWS(pairs_1_masked, 1, 1, 2, 1, WHAT) ROWS(pairs_2_masked, 2, 1, 2, 1, WHAT) ROWS(pairs_3_masked, 3, 1, 2, 1, WHAT) \
    ROWS(gathered, 1, 0, p->step, 1, WHAT) \
    static const rows_fn functions_##WHAT[2][2][3] = { \
        {{rows_1_##WHAT, rows_2_##WHAT, rows_3_##WHAT}, {rows_1_masked_##WHAT, rows_2_masked_##WHAT, rows_3_masked_##WHAT}}, \
        {{pairs_1_##WHAT, pairs_2_##WHAT, pairs_3_##WHAT}, {pairs_1_masked_##WHAT, pairs_2_masked_##WHAT, pairs_3_masked_##WHAT}}};
EACH(MEAN)
EACH(LARGEST)
ROWS(one_by_one, 1, 0, p->step, 1, LARGEST_OR_NAN)

/* Whole windows along each row of x into the column. */
LK_INLINE lanes windows_along(const char *x, int64_t at, const lk_plane_pooling *p, vf *column, int64_t rows, int more,
                              const int masked, const int what)
{
    const int pairs = p->step == 2, near = p->dilation == 1;
    lanes bad = NO_LANES;
    if (p->step == 1 && !masked && p->taps > 3 && what != LARGEST_OR_NAN)
        return whole_rows_along(x, at, p, column, rows, more, what);
    for (int64_t left = p->taps, n; left > 0; left -= n, at += n * p->dilation, more = 1) {
        rows_fn rows_of;
        if (what == LARGEST_OR_NAN || p->step > 2) {
            n = 1;
            rows_of = what == MEAN ? gathered_MEAN : what == LARGEST ? gathered_LARGEST : one_by_one_LARGEST_OR_NAN;
        } else {
            n = pairs ? (!near || left == 1 ? 1 : left % 2 ? 3 : 2) : MIN(3, left);
            rows_of = (what == MEAN ? functions_MEAN : functions_LARGEST)[pairs][masked][n - 1];
        }
        bad |= rows_of(x, at, p, column, rows, more);
    }
    return bad;
}

/* A run of output rows whose windows have n rows of x, from the column. */
LK_INLINE void run_down(const lk_plane_pooling *p, char *y, const vf *column, int64_t i, int64_t end, vf scale, int count,
                        const int64_t n, const int what)
{
    const int64_t step = p->row_step, dilation = p->row_dilation, y_row = p->y_row;
    for (; i < end; i++, column += step, y += y_row) {
        vf so_far = n ? column[0] : neutral(what);
        for (int64_t r = 1; r < n; r++)
            so_far = joined(so_far, column[r * dilation], what);
        if (what == MEAN)
            so_far *= p->row_scale[i] * scale;
        if (count == LK_LANES)
            *(vf *)y = so_far;
        else
            store_reals(y, so_far, count);
    }
}

/* The outputs of a column. `begin`: the row of x that is its first vector. */
LK_INLINE void rows_down(const lk_plane_pooling *p, char *y, const vf *column, int64_t begin, vf scale, int count,
                         const int what)
{
    const int64_t d = p->row_dilation, taps = p->row_taps, reach = (taps - 1) * d;
    for (int64_t i = 0, end; i < p->rows; i = end) {
        const int64_t at = i * p->row_step - p->row_before, left = p->row_size - at;
        const int64_t first = at < 0 ? MIN(taps, (-at + d - 1) / d) : 0;
        const int64_t last = left <= 0 ? first : MAX(first, MIN(taps, (left + d - 1) / d));
        const vf *from = column + (at + first * d - begin);
        char *to = y + i * p->y_row;
        end = i + 1;
        if (first == 0 && last == taps) { /* so have the next ones, as long as they do not leave x */
            end = MAX(end, MIN(p->rows, (p->row_size - 1 - reach + p->row_before) / p->row_step + 1));
            if (taps == 2) {
                run_down(p, to, from, i, end, scale, count, 2, what);
                continue;
            }
            if (taps == 3) {
                run_down(p, to, from, i, end, scale, count, 3, what);
                continue;
            }
        }
        run_down(p, to, from, i, end, scale, count, last - first, what);
    }
}

/* What combined with any row is that row; not even a sum of -0 becomes another number. */
LK_INLINE vf no_row(const int what) { return (what == MEAN ? -(real)0 : (real)-INFINITY) - (vf){}; }

/* Windows of n rows of n columns, `step` apart both ways, of outputs [i, end) of the columns of vectors [j, last): what rows
 * have in common stays in registers. */
LK_INLINE lanes flow(const lk_plane_pooling *p, int64_t i, const int64_t end, int64_t j, const int64_t last, const int n,
                     const int step, const int masked, const int what)
{
    const int64_t x_row = p->x_row, y_row = p->y_row, dilation = p->dilation * LK_ITEM, size = p->row_size;
    const float *const row_scale = p->row_scale;
    lanes bad = NO_LANES;
    for (; j < last; j += LK_LANES) {
        const int64_t at = j * p->step - p->before;
        const int count = (int)MIN(LK_LANES, p->cols - j);
        int64_t h = i * step - p->row_before; /* of x */
        const char *x = p->x + h * x_row + at * LK_ITEM;
        char *y = p->y + i * y_row + j * LK_ITEM;
        columns c;
        vf row[3], scale = {};
        if (masked)
            c = columns_of(at, p, n, step == 2, 1);
        if (what == MEAN)
            scale = p->factor * load_reals((const char *)(p->scale + j), count);
#define ALONG(r) \
    row[r] = (uint64_t)h < (uint64_t)size ? along(x, dilation, &c, neutral(what), 0, &bad, n, step == 2, 1, masked, what) \
                                          : no_row(what), \
    x += x_row, h++
#pragma GCC unroll 2
        for (int r = 0; r < n - step; r++)
            ALONG(r);
        for (int64_t k = i; k < end; k++, y += y_row) {
#pragma GCC unroll 2
            for (int r = n - step; r < n; r++)
                ALONG(r);
            vf so_far = joined(row[0], row[1], what);
            if (n == 3)
                so_far = joined(so_far, row[2], what);
            if (what == MEAN)
                so_far *= row_scale[k] * scale;
            if (count == LK_LANES)
                *(vf *)y = so_far;
            else
                store_reals(y, so_far, count);
#pragma GCC unroll 2
            for (int r = 0; r < n - step; r++)
                row[r] = row[r + step];
        }
    }
    return bad;
}

typedef lanes (*flow_fn)(const lk_plane_pooling *p, int64_t i, int64_t end, int64_t j, int64_t last);
#define FLOW(NAME, N, STEP, MASKED, WHAT) \
    static __attribute__((noinline)) lanes NAME##_##WHAT(const lk_plane_pooling *p, int64_t i, int64_t end, int64_t j, \
                                                         int64_t last) \
    { \
        return flow(p, i, end, j, last, N, STEP, MASKED, WHAT); \
    }
#define FLOWS(WHAT) \
    FLOW(flow_2_by_2, 2, 2, 0, WHAT) FLOW(flow_3_by_1, 3, 1, 0, WHAT) FLOW(flow_3_by_2, 3, 2, 0, WHAT) \
    FLOW(flow_2_by_2_masked, 2, 2, 1, WHAT) FLOW(flow_3_by_1_masked, 3, 1, 1, WHAT) FLOW(flow_3_by_2_masked, 3, 2, 1, WHAT) \
    static const flow_fn flows_##WHAT[2][3] = {{flow_2_by_2_##WHAT, flow_3_by_1_##WHAT, flow_3_by_2_##WHAT}, \
        {flow_2_by_2_masked_##WHAT, flow_3_by_1_masked_##WHAT, flow_3_by_2_masked_##WHAT}};
FLOWS(MEAN)
FLOWS(LARGEST)

/* Which of them are of windows like these, all of which have a row of x; -1: none. */
LK_INLINE int flow_of(const lk_plane_pooling *p)
{
    const int64_t taps = p->row_taps, last = (p->rows - 1) * p->row_step - p->row_before;
    if (p->depths != 1 || p->row_dilation != 1 || p->taps != taps || p->step != p->row_step)
        return -1;
    if (p->row_size < 1 || p->row_before >= taps || last >= p->row_size)
        return -1;
    if (p->step == 1)
        return taps == 3 ? 1 : -1;
    return p->step == 2 && p->dilation == 1 && (taps == 2 || taps == 3) ? 2 * (int)taps - 4 : -1;
}

/* Whether some columns of the windows of a vector of outputs lie outside of x. */
LK_INLINE int is_masked(const lk_plane_pooling *p, int64_t j)
{
    const int64_t at = j * p->step - p->before, reach = (p->taps - 1) * p->dilation + (LK_LANES - 1) * p->step;
    return at < 0 || at + reach + (p->step == 2 ? 2 : 0) >= p->size;
}

/* A column of a vector, through scratch; 0 if there are NaN that were lost. */
LK_INLINE int column_of(const lk_plane_pooling *p, int64_t j, int64_t begin, int64_t end, const int what)
{
    const int64_t at = j * p->step - p->before;
    const int masked = is_masked(p, j), count = (int)MIN(LK_LANES, p->cols - j);
    vf *column = (vf *)p->scratch, scale = {};
    char *y = p->y + j * LK_ITEM;
    lanes bad = NO_LANES;
    for (int64_t q = 0; q < p->depths; q++)
        bad |= windows_along(p->x + q * p->x_depth + begin * p->x_row, at, p, column, end - begin, q > 0, masked, what);
    if (what == LARGEST && any(bad))
        return 0;
    if (what == MEAN)
        scale = p->factor * load_reals((const char *)(p->scale + j), count);
    if (count == LK_LANES)
        rows_down(p, y, column, begin, scale, LK_LANES, what);
    else
        rows_down(p, y, column, begin, scale, count, what);
    return 1;
}

/* All columns by one of the flows. Whether there were NaN that were lost. */
static int by_flow(const lk_plane_pooling *p, const int which)
{
    /* Rows so many bytes apart share few lines of L1, or are in as many pages: some at a time. */
    enum { FEW_ROWS = 16, APART = 512, PAGE = 4096 };
    const int64_t rows = p->x_row % APART && p->x_row < PAGE ? p->rows : FEW_ROWS;
    lanes bad = NO_LANES;
    for (int64_t i = 0; i < p->rows; i += rows)
        for (int64_t j = 0, last; j < p->cols; j = last) {
            const int masked = is_masked(p, j);
            for (last = j + LK_LANES; last < p->cols && is_masked(p, last) == masked;)
                last += LK_LANES;
            const flow_fn flow_rows = (p->scale ? flows_MEAN : flows_LARGEST)[masked][which];
            bad |= flow_rows(p, i, MIN(p->rows, i + rows), j, MIN(last, p->cols));
        }
    return !p->scale && any(bad);
}

void LK_NAME(plane_pooling_f32)(const lk_plane_pooling *args)
{
    lk_plane_pooling copy = *args;
    const lk_plane_pooling *p = &copy;
    if (!copy.depths)
        copy.row_size = 0;
    const int64_t span = (p->rows - 1) * p->row_step + (p->row_taps - 1) * p->row_dilation + 1;
    const int64_t begin = MAX(0, -p->row_before), end = MAX(begin, MIN(p->row_size, span - p->row_before));
    const int flows = flow_of(p);
    if (flows >= 0 && !by_flow(p, flows))
        return;
    for (int64_t j = 0; j < p->cols; j += LK_LANES) {
        if (p->scale)
            column_of(p, j, begin, end, MEAN);
        else if (!column_of(p, j, begin, end, LARGEST))
            column_of(p, j, begin, end, LARGEST_OR_NAN);
    }
}

const lk_kernel LK_ROWS(plane_pooling)[] = {
    LK_ROW(LK_PLANE_POOLING, plane_pooling_f32, "f32", LK_LANES, 0, 0),
    LK_LAST_ROW,
};
