#ifndef LAYOUTKIT_PLANE_STRIPS_H
#define LAYOUTKIT_PLANE_STRIPS_H

#include "kernels.h"

/* Depthwise k x k of planes of pixels, stride 1 or 2, down a strip of `vectors` of them along the width; a row's mr is k,
 * its nr the pixels of its widest strip. Of one plane, or, where a strip has one vector, of two that are x_plane and
 * y_plane bytes apart:
 *
 *   y[o][j] = bias + sum over a, b < k of x[step*o + a][step*j + b] * w[a][b], in this order, o < rows,
 *             j < vectors * lanes
 *
 * x[i][c] is the element at x + i*x_row + c*item (bytes). It is padding, 0 and not read, if i is not in [top, bottom).
 * Columns of padding are told by a mask of each vector that is loaded: with stride 1 that of tap b of vector v, which begins
 * at column v*lanes + b; with stride 2 the two of taps b and b + 1, b even, which begin at column 2*v*lanes + b and `lanes`
 * columns later. Lanes whose bit is clear are 0 and not read; `masked`: any is clear. Of the last vector only the lanes y_lanes
 * are written. `far`: x and y are in memory rather than in a cache. */
typedef struct {
    const char *x;
    int64_t x_row;
    const void *w, *bias; /* [planes][k][k], [planes] or NULL */
    char *y;
    int64_t y_row, rows, top, bottom, x_plane, y_plane;
    const uint32_t *x_lanes; /* [vectors][k rounded up to a multiple of step] */
    uint32_t y_lanes;
    int step, vectors, planes, masked, positive, far;
    const void *clip; /* two limits: y is clipped to them, NaN stays NaN; or NULL */
} lk_plane_strips;
typedef void (*lk_plane_strips_fn)(const lk_plane_strips *);

#endif
