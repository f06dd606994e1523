#ifndef LAYOUTKIT_MOVE_H
#define LAYOUTKIT_MOVE_H

#include "kernels.h"

/* dst[i0*d0 + i1*d1] = src[i0*s0 + i1*s1], i0 < n0, i1 < n1: elements of one width, strides in bytes.
 * copy:      s1 == d1 == width (runs of n1 elements)
 * transpose: s0 == d1 == width (the source is contiguous along i0, the destination along i1)
 * gather:    any strides
 * fill:      src is one element, its strides are not read
 *
 * Either loop of a transpose may be split in two digits, so that whole vectors are moved where a block is shorter than
 * a vector. If in0 is not 0, i0 = a*in0 + b is at a*out_d0 + b*d0 in the destination; likewise in1 and out_s1 for i1 in
 * the source. Then n0 and n1 are at most LK_MAX_DIGITS.
 * If `valid` is not 0, the source has only the first `valid` of the n1 elements (of an element of 128 bits and more:
 * the first `valid` bytes). The rest of the destination becomes `pad`, 64 bytes of repeated pad elements.
 * `stream` asks for stores that bypass the caches. prefetch_bytes is the prefetch distance, from where the source is
 * read to what is prefetched; 0: none. A kernel may ignore both. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, s0, s1, d0, d1;
    int64_t in0, out_d0, in1, out_s1;
    int64_t valid;
    const char *pad;
    int64_t prefetch_bytes;
    int stream;
} lk_move;
enum { LK_MAX_DIGITS = 1024 };
typedef void (*lk_move_fn)(const lk_move *);

#endif
