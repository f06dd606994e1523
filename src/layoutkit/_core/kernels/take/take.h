#ifndef LAYOUTKIT_TAKE_H
#define LAYOUTKIT_TAKE_H

#include "kernels.h"

/* Rows of `count` units of `unit` bytes each, y_step bytes apart, taken from a row of x:
 *
 *   unit j of y = the unit that begins at[j] bytes after x           if `at` is not NULL
 *                 the unit that begins (j / repeat) * step bytes     otherwise; step may be 0 or negative
 *
 * The rows of x are x_row bytes apart; each of the `rows` of them becomes `copies` rows of y, all of which are y_row bytes
 * apart. Where there are several copies, the units of y are contiguous.
 * `unit` is a multiple of the width of the row's elements, and x and y are aligned to that width. Kernels of 8 bits take
 * units of any size, others those of one element. Those of 8 bits copy as many other units `beside` these, one of each at a
 * time, if that is not NULL; both then have one row, no table and no repetitions. */
typedef struct {
    const char *x;
    char *y;
    const int64_t *at;
    int64_t count, unit, y_step, step, repeat, rows, copies, x_row, y_row;
    const void *beside; /* an lk_take */
} lk_take;
typedef void (*lk_take_fn)(const lk_take *);

#endif
