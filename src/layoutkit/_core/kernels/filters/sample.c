/* sample_<type>: values between the elements of an array, by splines of order 0, 1 or 3; see sample.h.
 *
 *   y[i] = sum over the elements k around point i of x[k] * w[0][k0] * .. * w[rank - 1][k_last]
 *
 * A vector of points: first, along each axis, the offsets and weights of the elements around each point, then the sum over all
 * combinations of these. Products are not fused with sums, so that results do not depend on the instruction set.
 * Edges: where some point or an element around it is outside, the lanes are mapped one by one, and offsets come from the table.
 * The last vector of points is filled up with zeros.
 */
#include "common/vector.h"
#include "sample.h"

#include <math.h>
#include <string.h>

enum { POINTS = LK_VB / 8, MOST_TAPS = 4 };
typedef double doubles __attribute__((vector_size(LK_VB), aligned(8), may_alias));
typedef int64_t longs __attribute__((vector_size(LK_VB), aligned(8), may_alias));

typedef struct {
    doubles weight[LK_SAMPLE_RANK][MOST_TAPS];
    longs offset[LK_SAMPLE_RANK][MOST_TAPS];
} taps_of_points;

/* Keeps a product from being fused with a sum. */
#if defined(__AVX512F__)
#define LK_SEPARATE(x) __asm__("" : "+v"(x))
#elif defined(__AVX2__)
#define LK_SEPARATE(x) __asm__("" : "+x"(x))
#elif defined(__aarch64__)
#define LK_SEPARATE(x) __asm__("" : "+w"(x))
#else
#define LK_SEPARATE(x) ((void)0)
#endif

LK_INLINE doubles rounded_down(doubles v)
{
#if defined(__AVX512F__)
    return (doubles)_mm512_roundscale_pd((__m512d)v, 8 | 1);
#elif defined(__AVX2__)
    return (doubles)_mm256_round_pd((__m256d)v, 8 | 1);
#else
    for (int i = 0; i < POINTS; i++)
        v[i] = floor(v[i]);
    return v;
#endif
}

/* Whole numbers below 2^51 as integers. */
LK_INLINE longs as_longs(doubles v)
{
    const doubles shift = (doubles){} + 0x1.8p52;
    return (longs)(v + shift) - (longs)shift;
}

LK_INLINE int any_lane(longs mask)
{
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return _mm256_movemask_pd((__m256d)mask) != 0;
#else
    int64_t any = 0;
    for (int i = 0; i < POINTS; i++)
        any |= mask[i];
    return any != 0;
#endif
}

/* One by one, which takes less time than the gathers of AMD's Zen 4. */
LK_INLINE doubles gathered(const real *x, longs at)
{
    real v[POINTS];
#pragma GCC unroll 8
    for (int i = 0; i < POINTS; i++)
        v[i] = x[at[i]];
#if defined(__AVX512F__) && LK_BITS == 32
    return (doubles)_mm512_cvtps_pd(_mm256_loadu_ps(v));
#else
    doubles result;
    for (int i = 0; i < POINTS; i++)
        result[i] = (double)v[i];
    return result;
#endif
}

/* A coordinate outside of an array, taken inside, or at most one element outside; what is nearest stays up to three outside.
 * Points halfway between two elements fall to the side that they do in scipy, of which each formula is. */
static double mapped(double c, double size, int mode)
{
    const double last = size - 1, period = mode == LK_SAMPLE_REFLECT ? 2 * size : 2 * last;
    switch (mode) {
    case LK_SAMPLE_MIRROR:
        if (c < 0) {
            c += period * trunc(-c / period);
            return c <= -last ? c + period : -c;
        }
        c -= period * trunc(c / period);
        return c >= size ? period - c : c;
    case LK_SAMPLE_REFLECT:
        if (c < 0) {
            if (c < -period)
                c += period * trunc(-c / period);
            return c < -size ? c + period : -c - 1;
        }
        c -= period * trunc(c / period);
        return c >= size ? period - c - 1 : c;
    case LK_SAMPLE_WRAP: return c < 0 ? c + last * (trunc(-c / last) + 1) : c - last * trunc(c / last);
    case LK_SAMPLE_GRID_WRAP: return c < 0 ? c + size * (trunc((-1 - c) / size) + 1) : c - size * trunc(c / size);
    default: return c < -3 ? -3 : c > size + 1 ? size + 1 : c;
    }
}

/* The elements around points along an axis; `outside` gets lanes of points that are not in the array, and stay so. */
LK_INLINE void set_taps(const lk_sample *p, taps_of_points *taps, int axis, doubles c, longs *outside, const int order)
{
    const int64_t size = p->size[axis], *const table = p->offset[axis] + LK_SAMPLE_MARGIN;
    const double last = (double)(size - 1);
    const longs within = (longs)(c >= (order == 3)) & (longs)(c <= last - (order == 0 ? 0 : order == 1 ? 1 : 2));
    const int plain = !any_lane(~within);
    if (!plain)
        for (int i = 0; i < POINTS; i++) {
            if (p->mode == LK_SAMPLE_CONSTANT) {
                if (!(c[i] >= 0 && c[i] <= last))
                    (*outside)[i] = -1, c[i] = 0;
                continue;
            }
            c[i] = c[i] > -9e15 && c[i] < 9e15 ? c[i] : 0; /* NaN: anywhere */
            if (!(c[i] >= 0 && c[i] <= last))
                c[i] = size == 1 && p->mode != LK_SAMPLE_NEAREST ? 0 : mapped(c[i], (double)size, p->mode);
        }
    const doubles below = rounded_down(c + (order ? 0 : 0.5)), y = c - below, z = 1 - y;
    const int first = -(order == 3);
    if (plain && size > 1) {
        const int64_t step = table[1] - table[0];
        taps->offset[axis][0] = as_longs((below + (double)first) * (double)step);
        for (int t = 1; t <= order; t++)
            taps->offset[axis][t] = taps->offset[axis][t - 1] + step;
    } else {
        const longs at = as_longs(below);
        for (int i = 0; i < POINTS; i++)
            for (int t = 0; t <= order; t++)
                taps->offset[axis][t][i] = table[at[i] + first + t];
    }
    doubles *const w = taps->weight[axis];
    if (order == 1) {
        w[0] = 1 - y, w[1] = y;
    } else if (order == 3) {
        doubles a = y * y * (y - 2) * 3, b = z * z * (z - 2) * 3;
        LK_SEPARATE(a);
        LK_SEPARATE(b);
        w[1] = (a + 4) / 6, w[2] = (b + 4) / 6;
        w[0] = z * z * z / 6, w[3] = 1 - w[0] - w[1] - w[2];
    }
}

LK_INLINE doubles sum_of(const lk_sample *p, const taps_of_points *taps, const int rank, const int order)
{
    const int last = rank - 1;
    int at[LK_SAMPLE_RANK] = {0};
    doubles sum = {};
    for (;;) {
        longs base = {};
        for (int k = 0; k < last; k++)
            base += taps->offset[k][at[k]];
#pragma GCC unroll 4
        for (int t = 0; t <= order; t++) {
            doubles v = gathered(p->x, base + taps->offset[last][t]);
            if (order)
                for (int k = 0; k < rank; k++)
                    v *= taps->weight[k][k < last ? at[k] : t];
            LK_SEPARATE(v);
            sum += v;
        }
        int k = last - 1;
        for (; k >= 0 && ++at[k] > order; k--)
            at[k] = 0;
        if (k < 0)
            return sum;
    }
}

/* Points of an oblique line are in another row, and page, every few elements, where processors do not fetch ahead: the elements
 * at every eighth point are asked for, all at once. */
LK_INLINE void fetch_ahead(const lk_sample *p, const int order)
{
    const int last = p->rank - 1, above = last > 0 ? last - 1 : last;
    const int64_t *const rows = p->offset[above] + LK_SAMPLE_MARGIN;
    const int64_t row = order && p->size[above] > 1 ? rows[1] - rows[0] : 0;
    for (int64_t i = 0; i < p->count; i += 8) {
        int64_t at = 0, inside = 1;
        for (int k = 0; k <= last; k++) {
            const double c = p->at[k][i];
            inside &= c >= 0 && c <= (double)(p->size[k] - 1);
            at += p->offset[k][LK_SAMPLE_MARGIN + (inside ? (int64_t)c : 0)];
        }
        if (inside) {
            __builtin_prefetch((const real *)p->x + at);
            __builtin_prefetch((const real *)p->x + at + row);
        }
    }
}

LK_INLINE void sample_points(const lk_sample *p, const int order)
{
    taps_of_points taps;
    fetch_ahead(p, order);
    for (int64_t first = 0; first < p->count; first += POINTS) {
        const int n = (int)MIN(p->count - first, POINTS);
        longs outside = {};
        for (int k = 0; k < p->rank; k++) {
            doubles c = {};
            if (n == POINTS)
                c = *(const doubles *)(p->at[k] + first);
            else
                memcpy(&c, p->at[k] + first, (size_t)n * 8);
            set_taps(p, &taps, k, c, &outside, order);
        }
        doubles v = p->rank == 2 ? sum_of(p, &taps, 2, order) : p->rank == 3 ? sum_of(p, &taps, 3, order)
                                                                              : sum_of(p, &taps, p->rank, order);
        v = (doubles)(((longs)v & ~outside) | ((longs)((doubles){} + p->constant) & outside));
        if (p->rounds) {
            const longs up = (longs)(v > 0);
            v += (doubles)((up & (longs)((doubles){} + 0.5)) | (~up & (longs)((doubles){} - 0.5)));
            for (int i = 0; i < 2; i++) {
                const doubles limit = (doubles){} + (i ? p->most : p->least);
                const longs beyond = i ? (longs)(v > limit) : (longs)(v < limit);
                v = (doubles)((beyond & (longs)limit) | (~beyond & (longs)v));
            }
        }
        if (n == POINTS)
            *(doubles *)(p->y + first) = v;
        else
            memcpy(p->y + first, &v, (size_t)n * 8);
    }
}

void LK_NAME(LK_TYPED(sample))(const lk_sample *args)
{
    const lk_sample local = *args;
    if (local.order == 0)
        sample_points(&local, 0);
    else if (local.order == 1)
        sample_points(&local, 1);
    else
        sample_points(&local, 3);
}

const lk_kernel LK_ROWS(sample)[] = {
    LK_ROW(LK_SAMPLE, LK_TYPED(sample), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
