#ifndef LAYOUTKIT_SAMPLE_H
#define LAYOUTKIT_SAMPLE_H

#include "kernels.h"

/* Values between the elements of an array: y[i] is the sum over the (order + 1)^rank elements around the point
 * (at[0][i], .., at[rank - 1][i]), times the weights of B-splines, in doubles, in the order of the elements.
 *
 * Points are mapped into the array by `mode` along each axis; elements around them, of which some are outside of it, by
 * `offset`: that of element k from LK_SAMPLE_MARGIN before the first to as many behind the last, in elements of x.
 *
 * Points on a line: where `line` is not NULL, coordinate k of point i is line[2 * k] + (number + i) * line[2 * k + 1],
 * with roundings after each, and `at` is not read. Rows of u8, s8, u16 and s16 have no order 3. */
typedef struct {
    const void *x; /* of the row's type */
    const int64_t *const *offset;
    const double *const *at;
    const double *line;
    int64_t number;
    const int64_t *size; /* of each axis */
    void *y; /* doubles, or where `own` is not 0 elements of the row's type, as C casts these doubles */
    int own;
    int64_t count;
    int rank, order, mode;
    double constant;           /* y, where LK_SAMPLE_CONSTANT finds a point outside */
    int rounds;                /* y is rounded, half away from 0, and limited to .. */
    double least, most;
} lk_sample;
typedef void (*lk_sample_fn)(const lk_sample *);

enum { LK_SAMPLE_MARGIN = 4, LK_SAMPLE_RANK = 8 };
enum {
    LK_SAMPLE_NEAREST,
    LK_SAMPLE_MIRROR,    /* about the first and the last element */
    LK_SAMPLE_REFLECT,   /* about the ends, half an element further */
    LK_SAMPLE_WRAP,      /* the last element is the first again */
    LK_SAMPLE_GRID_WRAP, /* the first follows the last */
    LK_SAMPLE_CONSTANT
};

#endif
