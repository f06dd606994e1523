/* Rows of results that are stored past the caches, while rows to come are prefetched. */
#ifndef LAYOUTKIT_STORES_H
#define LAYOUTKIT_STORES_H

#include "common/stream.h"
#include "filters.h"

/* How a vector is stored: all of it; past the caches, if it is aligned; what is in front of the first aligned vector, or behind
 * the last. Plain stores to lines that are streamed, too, would take longer than all others. */
enum { STORE_ALL, STORE_PAST, STORE_FRONT, STORE_END };

/* How many elements are in front of the first aligned vector of a row that is streamed. */
LK_INLINE int64_t unaligned_elements(const char *y, int64_t item) { return (-(intptr_t)y & (LK_VB - 1)) / item; }

/* RUN(i, vectors, how) for all of a row of `count` elements, at least a vector: `most` vectors at a time, then one by one; the
 * last overlaps the one before. Where `stream` is set, aligned ones are stored past the caches. */
#define STORE_VECTORS(y, count, item, most, stream, RUN) \
    do { \
        const int64_t of_vector = LK_VB / (int64_t)(item), end_ = (count); \
        int64_t i_ = (stream) ? unaligned_elements(y, item) : 0; \
        if (i_) \
            RUN(0, 1, STORE_FRONT); \
        for (; i_ <= end_ - (most) * of_vector; i_ += (most) * of_vector) \
            RUN(i_, most, (stream) ? STORE_PAST : STORE_ALL); \
        for (; i_ <= end_ - of_vector; i_ += of_vector) \
            RUN(i_, 1, (stream) ? STORE_PAST : STORE_ALL); \
        if (i_ < end_) \
            RUN(end_ - of_vector, 1, (stream) ? STORE_END : STORE_ALL); \
    } while (0)

LK_INLINE void put_vector(char *p, const void *v, const int how)
{
    const int behind = (int)((intptr_t)p & (LK_VB - 1));
    if (how == STORE_PAST)
        stream_vector(p, v);
    else if (how == STORE_FRONT)
        copy_part(p, v, LK_VB - behind);
    else if (how == STORE_END)
        copy_part(p + LK_VB - behind, (const char *)v + LK_VB - behind, behind);
    else
        memcpy(p, v, LK_VB);
}

LK_INLINE void prefetch_vectors(const char *p, const int vectors)
{
#pragma GCC unroll 4
    for (int k = 0; k < vectors; k++)
        prefetch(p + k * LK_VB);
}

#endif
