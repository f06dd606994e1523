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

#if defined(__AVX512F__)
/* How many elements before `middle` row a begins, and behind it row b, if that is as many, and at most a vector; else 0. */
LK_INLINE int64_t apart(const char *middle, const char *a, const char *b)
{
    const int64_t bytes = b - middle;
    return middle - a == bytes && bytes > 0 && bytes <= LK_VB && bytes % LK_ITEM == 0 ? bytes / LK_ITEM : 0;
}

/* The vector of which only the last n elements are read. */
LK_INLINE vf load_last(const char *p, int64_t n)
{
#if LK_BITS == 32
    return (vf)_mm512_maskz_loadu_ps((__mmask16)(0xffffu << (LK_LANES - n)), p);
#else
    return (vf)_mm512_maskz_loadu_pd((__mmask8)(0xffu << (LK_LANES - n)), p);
#endif
}

/* The vector that begins n elements behind the beginning of `now`, which `next` follows. */
LK_INLINE vf elements_from(vf now, vf next, int64_t n)
{
    vi from;
#pragma GCC unroll 16
    for (int k = 0; k < LK_LANES; k++)
        from[k] = k;
    from += (lane_integer)n;
    return (vf)LK_OP(permutex2var)((native)now, (__m512i)from, (native)next);
}
#endif

/* Adds the products of pairs of rows, four vectors of reals at a time. Of pairs that are one row, equally far before and behind
 * the first one, the row before is shuffled from the first one's vectors: loads that cross cache lines take longer. */
LK_INLINE void add_pairs(const lk_combine *p, vf *sum, int64_t at, const int e, const int kind)
{
    const real *weight = p->weight;
    const char *const *x = p->x;
#if defined(__AVX512F__)
    const char *const middle = x[0] + at;
    vf v[MOST_VECTORS + 1];
    int64_t reach = 0;
#pragma GCC unroll 4
    for (int k = 0; k < MOST_VECTORS; k++)
        v[k + 1] = load_elements(middle + k * LK_VB, e);
#endif
    for (int64_t t = 1; t + 1 < p->taps; t += 2) {
        const char *a = x[t] + at, *b = x[t + 1] + at;
        const vf w = weight[(t + 1) / 2] - (vf){};
#if defined(__AVX512F__)
        const int64_t n = apart(middle, a, b);
        if (n) {
            if (n > reach)
                v[0] = load_last(middle - LK_VB, n), reach = n;
#pragma GCC unroll 4
            for (int k = 0; k < MOST_VECTORS; k++) {
                const vf first = elements_from(v[k], v[k + 1], LK_LANES - n), second = load_elements(b + k * LK_VB, e);
                sum[k] = add_product(w, kind == LK_WEIGH_SUMS ? first + second : first - second, sum[k]);
            }
            continue;
        }
#endif
#pragma GCC unroll 4
        for (int k = 0; k < MOST_VECTORS; k++)
            sum[k] = add_product(w, load_pair(a + k * LK_VB, b + k * LK_VB, LK_LANES, e, kind), sum[k]);
    }
}

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
    else if (e == LK_OWN && vectors == MOST_VECTORS && n == LK_LANES)
        add_pairs(p, sum, at, e, kind);
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
