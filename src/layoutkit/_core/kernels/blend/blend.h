#ifndef LAYOUTKIT_BLEND_H
#define LAYOUTKIT_BLEND_H

#include "kernels.h"

/* Weighted sums of rows, or of pixels at given offsets, for interpolation.
 *
 * blend_rows:    y[i] = sum over t of weight[t] * x[t][i]                       t < taps, i < count
 * blend_pixels:  y[j][c] = sum over t of weight[t*count + j] * x[at[t*count + j] + c]   t < taps, j < count, c < unit
 *
 * Weights are reals, and so are y of rows and x of pixels; x of rows and y of pixels are numbers of the row's type.
 * `at` counts elements and does not descend along j for any t; pixels of y are y_step bytes apart. So are each of `rows`, x_row
 * and y_row bytes apart. Where `unit` is 1, two vectors from any element of x that is read may be read, too. `taps` is at
 * least 1. */
typedef struct {
    const char *const *x;
    char *y;
    const void *weight;
    int64_t taps, count;
} lk_blend_rows;
typedef void (*lk_blend_rows_fn)(const lk_blend_rows *);

typedef struct {
    const char *x;
    char *y;
    const int32_t *at;
    const void *weight;
    int64_t taps, count, unit, y_step, rows, x_row, y_row;
} lk_blend_pixels;
typedef void (*lk_blend_pixels_fn)(const lk_blend_pixels *);

#endif
