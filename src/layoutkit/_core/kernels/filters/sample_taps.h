/* Points of an array: their coordinates, and the elements around them along each axis; see sample.h. */
#ifndef LAYOUTKIT_SAMPLE_TAPS_H
#define LAYOUTKIT_SAMPLE_TAPS_H

#include "common/vector.h"
#include "sample.h"

#include <math.h>
#include <string.h>

enum { POINTS = LK_VB / 8, MOST_TAPS = 4 };
typedef double doubles __attribute__((vector_size(LK_VB), aligned(8), may_alias));
typedef int64_t longs __attribute__((vector_size(LK_VB), aligned(8), may_alias));

/* `step`: from an element to the next, where points are well inside of the array, else 0. */
typedef struct {
    doubles weight[LK_SAMPLE_RANK][MOST_TAPS];
    longs offset[LK_SAMPLE_RANK][MOST_TAPS];
    int64_t step[LK_SAMPLE_RANK];
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

/* A coordinate outside of an array, taken inside, or at most one element outside; what is nearest is beyond the edge, where all
 * elements around a point are equal, and keeps its fraction, of which weights, and so the last bits of their sums, are.
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
    default: return c < -3 ? c - floor(c) - 3 : c > size + 1 ? c - floor(c) + size + 1 : c; /* without roundings */
    }
}

/* The elements around points along an axis; `outside` gets lanes of points that are not in the array, and stay so. */
LK_INLINE void set_taps(const lk_sample *p, taps_of_points *taps, int axis, doubles c, longs *outside, const int order)
{
    const int64_t size = p->size[axis], *const table = p->offset[axis] + LK_SAMPLE_MARGIN;
    const double last = (double)(size - 1);
    if (p->mode == LK_SAMPLE_CONSTANT) {
        const longs beyond = ~((longs)(c >= 0) & (longs)(c <= last));
        *outside |= beyond;
        c = (doubles)((longs)c & ~beyond);
    }
    const longs within = (longs)(c >= (order == 3)) & (longs)(c <= last - (order == 0 ? 0 : order == 1 ? 1 : 2));
    const int plain = !any_lane(~within);
    if (!plain && p->mode != LK_SAMPLE_CONSTANT)
        for (int i = 0; i < POINTS; i++) {
            c[i] = c[i] > -9e15 ? MIN(c[i], 9e15) : -9e15; /* whole numbers; NaN is outside */
            if (!(c[i] >= 0 && c[i] <= last))
                c[i] = size == 1 && p->mode != LK_SAMPLE_NEAREST ? 0 : mapped(c[i], (double)size, p->mode);
        }
    const doubles below = rounded_down(c + (order ? 0 : 0.5)), y = c - below, z = 1 - y;
    const int first = -(order == 3);
    if (plain && size > 1) {
        const int64_t step = table[1] - table[0];
        taps->step[axis] = step;
        taps->offset[axis][0] = as_longs((below + (double)first) * (double)step);
        for (int t = 1; t <= order; t++)
            taps->offset[axis][t] = taps->offset[axis][t - 1] + step;
    } else {
        const longs at = as_longs(below);
        taps->step[axis] = 0;
        for (int i = 0; i < POINTS; i++)
            for (int t = 0; t <= order; t++)
                taps->offset[axis][t][i] = table[at[i] + first + t];
    }
    doubles *const w = taps->weight[axis];
    if (order == 1) {
        w[0] = z, w[1] = 1 - z; /* as scipy rounds them: y may be a little larger or smaller */
    } else if (order == 3) {
        doubles a = y * y * (y - 2) * 3, b = z * z * (z - 2) * 3;
        LK_SEPARATE(a);
        LK_SEPARATE(b);
        w[1] = (a + 4) / 6, w[2] = (b + 4) / 6;
        w[0] = z * z * z / 6, w[3] = 1 - w[0] - w[1] - w[2];
    }
}

/* Coordinates of n points, POINTS or less, from number `first` on. */
LK_INLINE doubles coordinates(const lk_sample *p, int axis, int64_t first, int n)
{
    doubles c = {};
    if (p->line) {
        const double *const line = p->line + 2 * axis;
        for (int i = 0; i < POINTS; i++)
            c[i] = i;
        doubles along = (c + (double)(p->number + first)) * line[1];
        LK_SEPARATE(along);
        return line[0] + along;
    }
    if (n == POINTS)
        return *(const doubles *)(p->at[axis] + first);
    memcpy(&c, p->at[axis] + first, (size_t)n * 8);
    return c;
}

#endif
