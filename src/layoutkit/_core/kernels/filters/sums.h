/* Weighted sums in the order and with the roundings that filters.h states; products and sums of small integers. */
#ifndef LAYOUTKIT_SUMS_H
#define LAYOUTKIT_SUMS_H

#include "filters.h"
#include "reals.h"

/* Keeps a product of doubles from being fused with a sum: results are those of C without FMA. */
#if LK_BITS == 64 && defined(__AVX512F__)
#define LK_SEPARATE(x) __asm__("" : "+v"(x))
#elif LK_BITS == 64 && defined(__AVX2__)
#define LK_SEPARATE(x) __asm__("" : "+x"(x))
#elif LK_BITS == 64 && defined(__aarch64__)
#define LK_SEPARATE(x) __asm__("" : "+w"(x))
#else
#define LK_SEPARATE(x) ((void)0)
#endif

LK_INLINE vf add_product(vf w, vf x, vf sum)
{
#if LK_BITS == 64
    vf product = w * x;
    LK_SEPARATE(product);
    return sum + product;
#else
    return fused(w, x, sum);
#endif
}

/* Elements of two rows, the first n of a vector, summed or subtracted; of small integers before they become reals, which is
 * exact too. */
LK_INLINE vf load_pair(const char *a, const char *b, const int n, const int e, const int kind)
{
    if (bytes_of(e) < 4 && n == LK_LANES) {
        const ints i = load_ints(a, e), j = load_ints(b, e);
        return from_ints(kind == LK_WEIGH_SUMS ? i + j : i - j);
    }
    const vf x = load_some(a, n, e), y = load_some(b, n, e);
    return kind == LK_WEIGH_SUMS ? x + y : x - y;
}

enum { MOST_VECTORS = 4 };

/* Sums of vectors from element i on; n, less than a vector: of one, and of its first n elements. */
LK_INLINE void weighed_sums(
    const lk_combine *p, vf *sum, int64_t i, const int vectors, const int n, const int e, const int kind)
{
    const real *weight = p->weight;
    const char *const *x = p->x;
    const int64_t taps = p->taps, at = i * bytes_of(e);
    const int step = LK_LANES * bytes_of(e);
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++) {
        sum[k] = load_some(x[0] + at + k * step, n, e);
        if (kind != LK_WEIGH_PLAIN)
            sum[k] = sum[k] * weight[0];
        LK_SEPARATE(sum[k]);
    }
    if (kind == LK_WEIGH_EACH || kind == LK_WEIGH_PLAIN)
        for (int64_t t = 1; t < taps; t++) {
            const char *from = x[t] + at;
            const vf w = (kind == LK_WEIGH_EACH ? weight[t] : 0) - (vf){};
#pragma GCC unroll 4
            for (int k = 0; k < vectors; k++) {
                const vf v = load_some(from + k * step, n, e);
                if (kind == LK_WEIGH_EACH)
                    sum[k] = add_product(w, v, sum[k]);
                else
                    sum[k] += v;
            }
        }
    else
        for (int64_t t = 1; t + 1 < taps; t += 2) {
            const char *a = x[t] + at, *b = x[t + 1] + at;
            const vf w = weight[(t + 1) / 2] - (vf){};
#pragma GCC unroll 4
            for (int k = 0; k < vectors; k++)
                sum[k] = add_product(w, load_pair(a + k * step, b + k * step, n, e, kind), sum[k]);
        }
}

#endif
