/* A parallel region: what a call gives to `lk_share_out` of team.h, and how its threads take work from it.
 *
 * A region has a share for every thread that it may have, and a share has portions, which are claimed from a counter:
 * half of those that are left at a time. A thread begins with the share of its own slot, whose data it had in its
 * caches in the call before, and goes on with what is left of the others. When nothing is left, the region has ended.
 */
#ifndef LK_REGION_H
#define LK_REGION_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    _Alignas(64) _Atomic int taken; /* portions that some thread has begun */
    int portions;
} lk_portions;

/* Runs portions of share `share` of `shares` until `lk_claim` finds none. `slot`, below the number of threads that were
 * asked for, is of this thread alone as long as the region lasts: it may have a workspace under this number. */
typedef void (*lk_share_fn)(void *argument, int slot, int share, int shares, lk_portions *portions);

/* Takes tasks [*first, *last) of a share that consists of [begin, end); 0 if nothing is left. */
static inline int lk_claim(lk_portions *p, int64_t begin, int64_t end, int64_t *first, int64_t *last) {
    int taken = atomic_load_explicit(&p->taken, memory_order_relaxed);
    while (taken < p->portions) {
        int upto = taken + (p->portions - taken + 1) / 2;
        if (!atomic_compare_exchange_weak_explicit(&p->taken, &taken, upto, memory_order_relaxed, memory_order_relaxed))
            continue;
        *first = begin + (end - begin) * taken / p->portions;
        *last = begin + (end - begin) * upto / p->portions;
        if (*first < *last)
            return 1;
        taken = upto;
    }
    return 0;
}

#endif
