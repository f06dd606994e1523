#ifndef LAYOUTKIT_DRAIN_H
#define LAYOUTKIT_DRAIN_H

#include "kernels.h"

/* Copies `runs` runs of `bytes` bytes, run r from src + from[r] to dst + to[r], see drain.c. Where `continues` is set,
 * they continue those of the call before, which had `goes_on` set: tails, a line for each run, has the rest of
 * that. Both only for runs of at least LK_MIN_DRAINED_BYTES. */
enum { LK_MIN_DRAINED_BYTES = 128 };
typedef struct {
    const char *src;
    char *dst, *tails;
    const int64_t *from, *to;
    int64_t runs, bytes;
    int continues, goes_on;
} lk_drain;
typedef void (*lk_drain_fn)(const lk_drain *);

#endif
