#ifndef LAYOUTKIT_OUTER_H
#define LAYOUTKIT_OUTER_H

#include "kernels.h"

/* Sums of outer products, for the gradient of a filter:
 *
 *   C[i][j] += sum over rows r, k < steps of A[r][k][i] * B[r][k][j]      i < mr of the row, j < vectors * lanes
 *
 * A[r][k] is mr elements at a + a_row[r] + k*a_step, B[r][k] whole vectors at b + b_row[r] + k*b_step, C[i] at c + i*c_row
 * (bytes). `vectors` is at most the row's nr / lanes. Without `accumulate` C becomes the sum. Step n prefetches
 * the line at next + n * next_step. */
typedef struct {
    const char *a, *b, *next;
    char *c;
    const int64_t *a_row, *b_row;
    int64_t a_step, b_step, c_row, next_step, rows, steps;
    int vectors, accumulate;
} lk_outer;
typedef void (*lk_outer_fn)(const lk_outer *);

#endif
