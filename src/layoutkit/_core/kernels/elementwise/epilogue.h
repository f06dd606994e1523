#ifndef LAYOUTKIT_EPILOGUE_H
#define LAYOUTKIT_EPILOGUE_H

#include "kernels.h"

/* The steps of epilogues and of elementwise operations: enumerators and names, whether a step has an operand b, the error in
 * ulp over all of the type (0.5: rounded once, 0: exact), and the way it is done, see passes.h. a is a step's numbers.
 * These are errors with FMA, where linear, hardsigmoid, hardswish_of and sum round a * x + b once; without it the product is
 * rounded too.
 *
 *   clip   x limited to a0 .. a1                 elu       x < 0 ? a0 (e^x - 1) : x      square  x x
 *   prelu  x < 0 ? x b : x                       softplus  ln(1 + e^x)                   linear  a0 x + a1
 *   silu   x s, s = sigmoid = 1 / (1 + e^-x)     mish      x tanh(softplus(x))           round   to the nearest, even
 *   gelu   x/2 erfc(-x / sqrt 2)                 swish     x sigmoid(a0 x)               sum     x + a0 b
 *   gelu_tanh  its approximation                 hardsigmoid   a0 x + a1 limited to 0 .. 1
 *   hardswish  x/6 (x + 3 limited to 0 .. 6)     hardswish_of  x times that
 *   pow    a0 |x|^a1, times a2 where x < 0, or times a3 where it is -0 or -Inf: 1, -1 or NaN
 *   selu   x > 0 ? a1 x : a0 (e^x - 1)           celu      x < 0 ? a0 (e^(x / a0) - 1) : x
 *   softsign  x / (1 + |x|)                      sign      -1, 0 or 1                    reciprocal  1 / x
 *   thresholded_relu  x > a0 ? x : 0             shrink    x + a0 below -a1, x - a0 above a1, else 0
 *   rsub   b - x                                 rdiv      b / x
 *   sin, cos  of x in radians
 *   fill   b ? a0 : x                            keep      b ? x : a0                    less, ..  1 if x < b, else 0
 *
 * Of results that are rounded to bf16, sigmoid and silu are within 2^-12 of their value before that.
 *
 * NaN stays NaN, but a0 x^0 is a0, and thresholded_relu and shrink make it 0. At -Inf silu, gelu, gelu_tanh, hardswish and
 * mish give -0, their limit; swish and hardswish_of give 0 of the sign of x where their factor is 0. */
#define LK_STEPS(X) \
    X(CLIP, clip, 0, 0, SHORT) X(PRELU, prelu, 1, 0.5, SHORT) X(SILU, silu, 0, 4, LONG) X(GELU, gelu, 0, 7, GATED) \
    X(GELU_TANH, gelu_tanh, 0, 4, GATED) X(HARDSWISH, hardswish, 0, 3, SHORT) X(ELU, elu, 0, 2, LONG) \
    X(TANH, tanh, 0, 3, LONG) X(SIGMOID, sigmoid, 0, 3, LONG) X(SOFTPLUS, softplus, 0, 2, LONG) \
    X(ABS, abs, 0, 0, SHORT) X(SQUARE, square, 0, 0.5, SHORT) X(SQRT, sqrt, 0, 0.5, SHORT) X(EXP, exp, 0, 1.5, LONG) \
    X(LOG, log, 0, 1, LONG) X(POW, pow, 0, 3, LONG) X(ROUND, round, 0, 0, SHORT) X(MISH, mish, 0, 5, LONG) \
    X(SWISH, swish, 0, 4, LONG) X(HARDSIGMOID, hardsigmoid, 0, 0.5, SHORT) \
    X(HARDSWISH_OF, hardswish_of, 0, 1.5, SHORT) X(LINEAR, linear, 0, 0.5, SHORT) X(ERF, erf, 0, 3, LONG) \
    X(SELU, selu, 0, 2.5, LONG) X(CELU, celu, 0, 3, LONG) X(SOFTSIGN, softsign, 0, 1.5, LONG) \
    X(NEG, neg, 0, 0, SHORT) X(SIGN, sign, 0, 0, SHORT) X(FLOOR, floor, 0, 0, SHORT) X(CEIL, ceil, 0, 0, SHORT) \
    X(RECIPROCAL, reciprocal, 0, 0.5, SHORT) X(THRESHOLDED_RELU, thresholded_relu, 0, 0, SHORT) \
    X(SHRINK, shrink, 0, 0.5, SHORT) X(SUM, sum, 1, 0.5, SHORT) X(SIN, sin, 0, 3, LONG) X(COS, cos, 0, 3, LONG) \
    X(ADD, add, 1, 0.5, SHORT) X(MUL, mul, 1, 0.5, SHORT) X(MAX, max, 1, 0, SHORT) X(MIN, min, 1, 0, SHORT) \
    X(SUB, sub, 1, 0.5, SHORT) X(RSUB, rsub, 1, 0.5, SHORT) X(DIV, div, 1, 0.5, SHORT) X(RDIV, rdiv, 1, 0.5, SHORT) \
    X(EQUAL, equal, 1, 0, SHORT) X(LESS, less, 1, 0, SHORT) X(LESS_EQUAL, less_equal, 1, 0, SHORT) \
    X(GREATER, greater, 1, 0, SHORT) X(GREATER_EQUAL, greater_equal, 1, 0, SHORT) X(FILL, fill, 1, 0, SHORT) \
    X(KEEP, keep, 1, 0, SHORT)
#define LK_STEP(upper, lower, has_operand, ulps, way) LK_STEP_##upper,
enum { LK_STEPS(LK_STEP) LK_STEP_COUNT };
const char *lk_step_name(int step); /* NULL: there is no such step */
double lk_step_ulps(int step);

/* The operand of a step: one number, or one for each channel, of the type of the sums; or elements laid out as y. */
enum { LK_NUMBER, LK_PER_CHANNEL, LK_TENSOR };
typedef struct {
    int step, kind;
    const char *numbers; /* of the type of the sums, or NULL */
    const char *operand; /* or NULL */
} lk_step;

/* The epilogue: y[i][j] = steps(sum[i][j] + add[i][j]), i < rows, j < count, one step after another.
 *
 * Row i is elements at y + offset + row[i], and of operands and add, unless that is NULL, at the same place; add and y
 * may be the same memory. The sums are in y; if elements of y are narrower than the sums, at sums + i * sums_row, which is
 * overwritten, and results are rounded to nearest even. Output (i, j) is of channel
 * c = channel + i * channel_row + j * channel_col (steps of 0 or 1). `keeps_zero`: the only step is a clip, of 0 to 0.
 * Sums of s32 become float(sum) * mul[c] + off[c] (off may be NULL), their channels are columns; add, tensors and
 * results that are integers q mean (q - zero) * scale, results saturated. */
enum { LK_MAX_STEPS = 32 };
typedef struct {
    char *y;
    const char *add;
    char *sums;
    int64_t sums_row;
    const float *mul, *off;
    float scale;
    int zero;
    int x_zero; /* of a convolution of integers: the value of its padding */
    const int64_t *row;
    int64_t offset, rows, count, channel;
    int channel_row, channel_col;
    int steps, keeps_zero;
    const lk_step *step;
} lk_epilogue;
typedef void (*lk_epilogue_fn)(const lk_epilogue *);

#endif
