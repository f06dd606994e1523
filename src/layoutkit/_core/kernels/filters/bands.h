/* Several rows of weighed sums at a time: see LK_WEIGH_BAND and LK_WEIGH_BAND_EACH in filters.h. What windows have in common is
 * loaded once. */
#ifndef LAYOUTKIT_BANDS_H
#define LAYOUTKIT_BANDS_H

#include "filters.h"
#include "stores.h"
#include "sums.h"

/* What sums are multiplied by. */
LK_INLINE real factor_of(const lk_combine *p) { return p->end == LK_END_MEAN ? 1 / (real)p->size : 1; }

/* A step of a band: one row times its weights in the windows [first, last) of `rows`. */
LK_INLINE void band_step(const char *x, const real *weight, vf (*sum)[4], int first, int last, const int vectors, const int e)
{
    vf v[4];
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        v[k] = load_elements(x + k * LK_LANES * bytes_of(e), e);
#pragma GCC unroll 4
    for (int r = 0; r < LK_BAND_ROWS; r++)
        if (r >= first && r < last) {
            const vf w = weight[-r] - (vf){};
#pragma GCC unroll 4
            for (int k = 0; k < vectors; k++)
                sum[r][k] = fused(w, v[k], sum[r][k]);
        }
}

/* Vectors from element i on of `rows` results; each begins with its first product, and ends with its last. */
LK_INLINE void band_vectors(const lk_combine *p, int64_t i, real factor, const int rows, const int vectors, const int e)
{
    const char *const *x = p->x;
    const real *weight = p->weight;
    const int64_t taps = p->taps, at = i * bytes_of(e);
    vf sum[LK_BAND_ROWS][4];
    if (p->ahead)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            prefetch_vectors(p->ahead + r * p->ahead_row + at, vectors);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            sum[r][k] = (vf){} - (real)0.0;
    int64_t j = 0;
    for (; j < rows - 1; j++) /* of windows that have begun */
        band_step(x[j] + at, weight + j, sum, (int)MAX(0, j - taps + 1), (int)j + 1, vectors, e);
    for (; j < taps; j++)
        band_step(x[j] + at, weight + j, sum, 0, rows, vectors, e);
    for (; j < taps + rows - 1; j++) /* of those that have not ended */
        band_step(x[j] + at, weight + j, sum, (int)(j - taps) + 1, rows, vectors, e);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            *(vf *)(p->y + r * p->y_row + i * LK_ITEM + k * LK_VB) = sum[r][k] * factor;
}

/* Vectors from element i on of `rows` results whose windows are mirrored: as LK_WEIGH_SUMS and LK_WEIGH_DIFFERENCES sum them.
 * From the outermost pair inward, the rows before the middle ones and those behind move on by one. */
LK_INLINE void mirrored_vectors(
    const lk_combine *p, int64_t i, real factor, const int rows, const int vectors, const int e, const int kind)
{
    const char *const *x = p->x, *const *last = x + p->taps - 1;
    const real *weight = p->weight;
    const int64_t half = p->taps / 2, at = i * bytes_of(e);
    const int step = LK_LANES * bytes_of(e);
    vf sum[LK_BAND_ROWS][2], before[LK_BAND_ROWS][2] = {}, behind[LK_BAND_ROWS][2] = {};
    if (p->ahead)
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            prefetch_vectors(p->ahead + r * p->ahead_row + at, vectors);
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++) {
            sum[r][k] = load_elements(x[half + r] + at + k * step, e) * weight[0];
            LK_SEPARATE(sum[r][k]);
            if (r < rows - 1 && half) {
                before[r][k] = load_elements(x[r] + at + k * step, e);
                behind[r + 1][k] = load_elements(last[r + 1] + at + k * step, e);
            }
        }
    for (int64_t t = 0; t < half; t++) {
        const vf w = weight[t + 1] - (vf){};
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++) {
            before[rows - 1][k] = load_elements(x[t + rows - 1] + at + k * step, e);
            behind[0][k] = load_elements(last[-t] + at + k * step, e);
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int k = 0; k < vectors; k++) {
                const vf pair = kind == LK_WEIGH_BAND_SUMS ? before[r][k] + behind[r][k] : before[r][k] - behind[r][k];
                sum[r][k] = add_product(w, pair, sum[r][k]);
            }
#pragma GCC unroll 4
        for (int r = 1; r < rows; r++)
#pragma GCC unroll 2
            for (int k = 0; k < vectors; k++) {
                before[r - 1][k] = before[r][k];
                behind[rows - r][k] = behind[rows - r - 1][k];
            }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int k = 0; k < vectors; k++)
            *(vf *)(p->y + r * p->y_row + i * LK_ITEM + k * LK_VB) = sum[r][k] * factor;
}

/* Vectors from element i on of the results [first, end), each of the rows that are part of it. */
LK_INLINE void each_vectors(
    const lk_combine *p, int64_t i, real factor, const int first, const int end, const int vectors, const int how)
{
    const real *weight = p->weight;
    const char *const *x = p->x;
    const int64_t taps = p->taps, at = i * LK_ITEM, y_row = p->y_row;
    char *const y = p->y + at;
    vf sum[LK_BAND_ROWS][4];
    if (p->ahead)
#pragma GCC unroll 4
        for (int r = first; r < end; r++)
            prefetch_vectors(p->ahead + (r - first) * p->ahead_row + at, vectors);
#pragma GCC unroll 4
    for (int r = first; r < end; r++)
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            sum[r][k] = (vf){} - (real)0.0;
    for (int64_t t = 0; t < taps; t++, weight += LK_BAND_ROWS) {
        const int32_t parts = p->fixed[t] & ((1 << end) - (1 << first));
        if (!parts)
            continue;
        vf v[4];
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++)
            v[k] = load_elements(x[t] + at + k * LK_VB, LK_OWN);
#pragma GCC unroll 4
        for (int r = first; r < end; r++)
            if (__builtin_expect(parts >> r & 1, 1)) {
                const vf w = weight[r] - (vf){};
#pragma GCC unroll 4
                for (int k = 0; k < vectors; k++)
                    sum[r][k] = add_product(w, v[k], sum[r][k]);
            }
    }
#pragma GCC unroll 4
    for (int r = first; r < end; r++)
#pragma GCC unroll 4
        for (int k = 0; k < vectors; k++) {
            sum[r][k] *= factor;
            put_vector(y + r * y_row + k * LK_VB, &sum[r][k], how);
        }
}

#if defined(__AVX512F__)
enum { BAND_VECTORS = 4, MIRRORED_VECTORS = 2 };
#else
enum { BAND_VECTORS = 2, MIRRORED_VECTORS = 1 };
#endif

LK_INLINE void band_rows(const lk_combine *p, const int rows, const int e, const int kind)
{
    const int mirrored = kind == LK_WEIGH_BAND_SUMS || kind == LK_WEIGH_BAND_DIFFERENCES;
    const int vectors = mirrored ? MIRRORED_VECTORS : BAND_VECTORS;
    const real factor = factor_of(p);
#define BAND(i, vectors) \
    mirrored ? mirrored_vectors(p, i, factor, rows, vectors, e, kind) : band_vectors(p, i, factor, rows, vectors, e)
    int64_t i = 0;
    for (; i <= p->count - vectors * LK_LANES; i += vectors * LK_LANES)
        BAND(i, vectors);
    for (; i < p->count; i += LK_LANES)
        BAND(MIN(i, p->count - LK_LANES), 1);
#undef BAND
}

LK_INLINE void each_rows(const lk_combine *p, const int first, const int end)
{
    const real factor = factor_of(p);
    const int stream = p->stream && p->end <= LK_END_MEAN && (end - first == 1 || p->y_row % LK_VB == 0);
#define EACH_VECTORS(i, vectors, how) each_vectors(p, i, factor, first, end, vectors, how)
    STORE_VECTORS(p->y + first * p->y_row, p->count, LK_ITEM, BAND_VECTORS, stream, EACH_VECTORS);
#undef EACH_VECTORS
}

LK_INLINE void band_each(const lk_combine *p)
{
    if (p->rows == LK_BAND_ROWS)
        each_rows(p, 0, LK_BAND_ROWS);
    else
#pragma GCC unroll 4
        for (int r = 0; r < LK_BAND_ROWS; r++)
            if (r < p->rows)
                each_rows(p, r, r + 1);
}

LK_INLINE void band_elements(const lk_combine *p, const int e, const int kind)
{
    if (p->rows == LK_BAND_ROWS) {
        band_rows(p, LK_BAND_ROWS, e, kind);
        return;
    }
    lk_combine one = *p;
    for (int64_t r = 0; r < p->rows; r++, one.x++, one.y += p->y_row) {
        band_rows(&one, 1, e, kind);
        one.ahead = NULL;
    }
}

#endif
