#ifndef LAYOUTKIT_SOFTMAX_BYTES_H
#define LAYOUTKIT_SOFTMAX_BYTES_H

#include "kernels.h"

/* Softmax of each of `rows` rows of `count` bytes that stand for numbers in steps of s, x_row and y_row bytes apart, in
 * bytes that stand for numbers in steps of y_scale:
 *
 *   y[i][j] = saturated(rounded(e^(s (x[i][j] - max)) / sum / y_scale) + zero)
 *
 * The exponentials are products of two numbers, each of a table; u is x less the least value of its type:
 *
 *   e^(s (u - max)) = high[max % 16][15 - max / 16 + u / 16] * low[u % 16]
 *   low[i] = e^(s i)       high[r][i] = e^(s (16 (i - 15) - r)), i < 16       all in f32 that are not denormal, high may be 0
 *
 * The error of a quotient is some ulp of f32: what would be within that of a half may be rounded the other way. x and y may
 * be the same memory. */
enum { LK_HIGH_ROW = 32 }; /* of numbers, the last 16 are 0 */
typedef struct {
    const char *x;
    char *y;
    int64_t x_row, y_row, rows, count;
    const float *high, *low;
    float y_scale;
    int zero, x_signed, y_signed;
} lk_softmax_bytes;
typedef void (*lk_softmax_bytes_fn)(const lk_softmax_bytes *);

#endif
