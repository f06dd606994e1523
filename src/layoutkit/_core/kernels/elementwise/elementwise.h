#ifndef LAYOUTKIT_ELEMENTWISE_H
#define LAYOUTKIT_ELEMENTWISE_H

#include "epilogue.h"

/* A matrix of numbers: (i, j) is at + i * row + j * col, strides in bytes, which may be 0. Elements are those of the reals
 * that a row of LK_ELEMENTWISE computes with; of f32 also f16 and bf16; or u8 and s8, where q stands for
 * (q - zero) * scale. */
typedef struct {
    char *at;
    int64_t row, col;
    int element, zero;
    float scale;
} lk_matrix;

/* y[i][j] = steps(x[i][j]), i < rows, j < count: one step after another over pieces that stay in L1.
 *
 * The operand of step k is operand[k]; kind and operand of lk_step are not read. y is rounded to its elements, to nearest
 * even, integers after a division by their scale. y may be x or an operand, with the same strides; else it overlaps none.
 * `scratch`: 1 + steps times LK_PIECE_BYTES.
 * `table`: NULL, or y[i][j] = table[x[i][j]] of bytes, of which there are 256 in it, by their bits; steps are 0 then. */
enum { LK_PIECE_BYTES = 4096 };
typedef struct {
    lk_matrix x, y;
    int steps;
    const lk_step *step;
    const lk_matrix *operand;
    int64_t rows, count;
    char *scratch;
    const uint8_t *table;
} lk_elementwise;
typedef void (*lk_elementwise_fn)(const lk_elementwise *);

#endif
