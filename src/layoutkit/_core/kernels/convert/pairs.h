#ifndef LAYOUTKIT_PAIRS_H
#define LAYOUTKIT_PAIRS_H

#include "kernels.h"

/* Integers of 4 bits in packed pairs, two to a byte: element k is in byte k / 2, in its lower half if k is even. Bytes of
 * s8 if `is_signed`, else of u8, are on the other side.
 * unpack: dst[i*d0 + j] = element at + i*s0 + j*s1 of src, i < n0, j < n1 (d0 in bytes, s0 and s1 in elements)
 * pack:   element j of dst = src[j], saturated, j < n1; the half byte behind the last one becomes 0. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, at, s0, s1, d0;
    int is_signed;
} lk_packed;
typedef void (*lk_packed_fn)(const lk_packed *);

#endif
