#ifndef LAYOUTKIT_CONVERT_H
#define LAYOUTKIT_CONVERT_H

#include "kernels.h"

/* Converts n0 rows of n1 elements; s0 and d0 are the bytes from row to row, s1 and d1 those from element to element.
 * Elements of a row are contiguous; on one side rows may be interleaved instead: then s0 or d0 is the width of an
 * element, s1 or d1 is not, n0 is at most LK_MAX_INTERLEAVED, and nothing is summed. Each element:
 *   v   = (src - sub) * mul + off, or (src - sub) / mul + off if `divide`
 *   v   = alpha * v, and + beta * (dst - add) if `sum`
 *   dst = v rounded to an integer (to nearest even) if the type of dst is one, + add, rounded or saturated to that type
 * All of it is computed in the row's type, f32 or f64, in which the values of both types must be exact. f64 rounds s64,
 * but not integers that are only shifted, by sub and add that are numbers of s32. NaN becomes the integer 0 + add.
 * sub, mul, off and add are NULL (left out) or arrays of the row's type, of which element i0*p0 + i1*p1 applies to
 * (i0, i1). inv is NULL or 1 / mul, allowed where dst is an integer but s64, src none, off NULL and 2^-60 <= |mul| <=
 * 2^60. high and low are NULL or, where inv is allowed and only for narrow integers, numbers of the sign of mul whose sum
 * is 1 / mul within 2^-45 of it: x * high + x * low, rounded once, becomes the same integer as x / mul.
 * `stream` asks for stores that bypass the caches; the caller ends with a fence. prefetch_bytes is the prefetch distance in
 * the source; 0: none. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, s0, s1, d0, d1;
    const char *sub, *mul, *inv, *off, *add, *high, *low;
    int64_t p0, p1;
    double alpha, beta;
    int64_t prefetch_bytes;
    int src_type, dst_type, divide, sum, stream;
} lk_convert;
enum { LK_MAX_INTERLEAVED = 16 };
typedef void (*lk_convert_fn)(const lk_convert *);

#endif
