/* Rows of results that are stored past the caches, while rows to come are prefetched. */
#ifndef LAYOUTKIT_STORES_H
#define LAYOUTKIT_STORES_H

#include "common/stream.h"
#include "filters.h"

/* How many elements are in front of the first aligned vector of a row that is streamed: they are stored with others behind. */
LK_INLINE int64_t unaligned_elements(const lk_combine *p, int64_t item)
{
    return p->stream && p->count * item >= LK_VB ? (-(intptr_t)p->y & (LK_VB - 1)) / item : 0;
}

/* A vector at p, which is aligned if it is streamed. */
LK_INLINE void put_vector(char *p, const void *v, const int stream)
{
    if (stream)
        stream_vector(p, v);
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
