/* Points on a line that are well inside an array: which they are, where their elements are; see sample.h. */
#ifndef LAYOUTKIT_SAMPLE_LINE_H
#define LAYOUTKIT_SAMPLE_LINE_H

#include "sample_taps.h"

enum { LINE_POINTS = 256, LINE_RANK = 3 };
typedef int32_t line_ints __attribute__((vector_size(4 * POINTS), aligned(4), may_alias));

/* Of points: the offset of the first element around each, and how far the point is behind it along each axis. */
typedef struct {
    int32_t first[LINE_POINTS];
    double behind[LINE_RANK][LINE_POINTS];
} line_points;

/* One coordinate of point i, with the roundings of `coordinates`. */
LK_INLINE double coordinate(const lk_sample *p, int axis, int64_t i)
{
    const double *const line = p->line + 2 * axis;
    double along = (double)(p->number + i) * line[1];
    LK_SEPARATE(along);
    return line[0] + along;
}

/* Whether a coordinate, 1: has reached the array, 2: is still in it, on the way from point 0 to the last. */
LK_INLINE int is_on_way(const lk_sample *p, int axis, int64_t i, double last, const int which)
{
    const double c = coordinate(p, axis, i);
    return (p->line[2 * axis + 1] >= 0) == (which == 1) ? c >= 0 : c <= last;
}

/* The points [*low, *high) of a line whose elements are all inside. Roundings keep the order of coordinates. */
static void set_inside(const lk_sample *p, const int rank, const int order, int64_t *low, int64_t *high)
{
    int64_t first = 0, end = p->count;
    for (int k = 0; k < rank; k++) {
        const double last = (double)(p->size[k] - 1 - order);
        int64_t far = end;
        if (first < end && !is_on_way(p, k, first, last, 1))
            while (first < far) {
                const int64_t middle = (first + far) / 2;
                if (is_on_way(p, k, middle, last, 1))
                    far = middle;
                else
                    first = middle + 1;
            }
        far = first;
        if (far < end && !is_on_way(p, k, end - 1, last, 2))
            while (far < end) {
                const int64_t middle = (far + end) / 2;
                if (is_on_way(p, k, middle, last, 2))
                    far = middle + 1;
                else
                    end = middle;
            }
    }
    *low = first, *high = end;
}

LK_INLINE int64_t step_of(const lk_sample *p, int axis)
{
    return p->offset[axis][LK_SAMPLE_MARGIN + 1] - p->offset[axis][LK_SAMPLE_MARGIN];
}

/* Whether pairs of elements follow one another, and 32 bits hold all offsets. */
LK_INLINE int is_plain(const lk_sample *p, const int rank)
{
    double most = 0;
    for (int k = 0; k < rank; k++) {
        if (p->size[k] < 2)
            return 0;
        most += (double)p->size[k] * (double)step_of(p, k);
    }
    return step_of(p, rank - 1) == 1 && most < 0x1p31;
}

LK_INLINE line_ints as_ints(doubles v)
{
#if defined(__AVX512F__)
    return (line_ints)_mm512_cvttpd_epi32((__m512d)v);
#elif defined(__AVX2__)
    return (line_ints)_mm256_cvttpd_epi32((__m256d)v);
#else
    return __builtin_convertvector(as_longs(v), line_ints);
#endif
}

/* Those of n points from number `first` on, up to a whole vector: points behind the last are that again. */
LK_INLINE void set_points(const lk_sample *p, line_points *of, int64_t first, int n, const int rank, const int order)
{
    doubles number = {};
    double step[LINE_RANK], line[2 * LINE_RANK];
    memcpy(line, p->line, (size_t)rank * 2 * 8); /* which no store changes */
    for (int k = 0; k < rank; k++)
        step[k] = (double)step_of(p, k);
    for (int i = 0; i < POINTS; i++)
        number[i] = (double)(p->number + first + i);
    for (int i = 0; i < n; i += POINTS, number += (double)POINTS) {
        doubles at = {};
#pragma GCC unroll 3
        for (int k = 0; k < rank; k++) {
            doubles along = number * line[2 * k + 1];
            LK_SEPARATE(along);
            const doubles c = line[2 * k] + along, below = rounded_down(c + (order ? 0 : 0.5));
            if (order)
                *(doubles *)(of->behind[k] + i) = c - below;
            at += below * step[k]; /* whole numbers below 2^53 */
        }
        *(line_ints *)(of->first + i) = as_ints(at);
    }
    for (int i = n; i % POINTS; i++)
        of->first[i] = of->first[n - 1];
}

#endif
