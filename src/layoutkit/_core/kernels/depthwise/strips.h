#ifndef LAYOUTKIT_STRIPS_H
#define LAYOUTKIT_STRIPS_H

#include "kernels.h"

/* Depthwise k x k down a strip of columns, for `vectors` of contiguous channels; a row's mr is k:
 *
 *   y[o][j] = bias + sum over a, b < k of x[step*o + a][step*j + b] * w[a][b], in this order, o < rows, j < cols
 *
 * x[i][c] is the vector at x + i*x_row + c*x_col (bytes). It is padding, 0 and not read, if i is not in [top, bottom)
 * or bit c of `inside` is clear: of 3x3 only the first and the last may be. step is 1 or 2; cols is at most the kernel's,
 * and of 3x3 at least half of that. If x_lanes is not 0, the last vector is partial: of x those lanes are read, the
 * others are 0, and of y those of y_lanes are written. Of rows of narrow numbers x and y are of these, w and bias of the
 * type of the sums, as y is with `wide`. `far`: x is in memory rather than in a cache. */
typedef struct {
    const char *x;
    int64_t x_row, x_col;
    const void *w, *bias; /* [vectors][k][k][lanes], [vectors][lanes] or NULL */
    char *y;
    int64_t y_row, y_col, rows, top, bottom, vectors;
    uint32_t inside, x_lanes, y_lanes;
    int cols, step, positive, wide, far;
    const void *clip; /* two limits: y is clipped to them, NaN stays NaN; or NULL */
} lk_strips;
typedef void (*lk_strips_fn)(const lk_strips *);

#endif
