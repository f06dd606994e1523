#ifndef LAYOUTKIT_TAKE_H
#define LAYOUTKIT_TAKE_H

#include "kernels.h"

/* A row of `count` units of `unit` bytes each, y_step bytes apart, taken from x:
 *
 *   unit j of y = the unit that begins at[j] bytes after x           if `at` is not NULL
 *                 the unit that begins (j / repeat) * step bytes     otherwise; step may be 0 or negative
 *
 * `unit` is a multiple of the width of the row's elements, and so is what x and y are aligned to. Kernels of 8 bits take
 * units of any size, others those of one element. */
typedef struct {
    const char *x;
    char *y;
    const int64_t *at;
    int64_t count, unit, y_step, step, repeat;
} lk_take;
typedef void (*lk_take_fn)(const lk_take *);

#endif
