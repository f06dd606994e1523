/* Clocks, in nanoseconds. */
#ifndef LK_CLOCK_H
#define LK_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t lk_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
}

/* The same to some milliseconds, in a few cycles. */
static inline int64_t lk_about_now(void) {
#ifdef CLOCK_MONOTONIC_COARSE
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return t.tv_sec * (int64_t)1000000000 + t.tv_nsec;
#else
    return lk_now();
#endif
}

#endif
