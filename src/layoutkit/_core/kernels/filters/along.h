/* Plain sums of windows along a row, from registers: see LK_WEIGH_PLAIN in filters.h. */
#ifndef LAYOUTKIT_ALONG_H
#define LAYOUTKIT_ALONG_H

#include "stores.h"
#include "sums.h"

#if defined(__AVX512F__)
/* How many elements rows are apart that are one row, each from so many further on, within a vector; else 0. */
static int64_t steps_along(const lk_combine *p)
{
    const int64_t step = p->taps > 1 ? p->x[1] - p->x[0] : 0;
    if (step <= 0 || step % LK_ITEM || (p->taps - 1) * step > LK_VB)
        return 0;
    for (int64_t t = 2; t < p->taps; t++)
        if (p->x[t] - p->x[t - 1] != step)
            return 0;
    return step / LK_ITEM;
}

/* Plain sums of windows of elements `apart` from one another, four vectors of them: sums of m elements make those of 2 m. */
LK_INLINE void sums_along(const char *x, int64_t taps, int64_t apart, vf *sum)
{
    const int64_t behind = (taps - 1) * apart;
    vf v[MOST_VECTORS + 1];
#pragma GCC unroll 4
    for (int k = 0; k < MOST_VECTORS; k++)
        v[k] = *(const vf *)(x + k * LK_VB);
#if LK_BITS == 32
    v[4] = (vf)_mm512_maskz_loadu_ps((__mmask16)(0xffffu >> (LK_LANES - behind)), x + 4 * LK_VB);
#else
    v[4] = (vf)_mm512_maskz_loadu_pd((__mmask8)(0xffu >> (LK_LANES - behind)), x + 4 * LK_VB);
#endif
    int64_t done = 0;
    for (int64_t length = 1; length <= taps; length *= 2) {
        if (taps & length) {
#pragma GCC unroll 4
            for (int k = 0; k < MOST_VECTORS; k++)
                if (done)
                    sum[k] += elements_from(v[k], v[k + 1], done * apart);
                else
                    sum[k] = v[k];
            done += length;
        }
        if (2 * length <= taps)
#pragma GCC unroll 5
            for (int k = 0; k < MOST_VECTORS + 1; k++)
                v[k] += elements_from(v[k], k < MOST_VECTORS ? v[k + 1] : (vf){}, length * apart);
    }
}

/* Four vectors from element i on of plain sums along a row. */
LK_INLINE void sum_along(const lk_combine *p, int64_t i, real factor, int64_t apart, const int how)
{
    vf sum[MOST_VECTORS] = {};
    if (p->ahead)
        prefetch_vectors(p->ahead + i * LK_ITEM, MOST_VECTORS);
    sums_along(p->x[0] + i * LK_ITEM, p->taps, apart, sum);
#pragma GCC unroll 4
    for (int k = 0; k < MOST_VECTORS; k++) {
        sum[k] *= factor;
        put_vector(p->y + i * LK_ITEM + k * LK_VB, &sum[k], how);
    }
}
#endif

#endif
