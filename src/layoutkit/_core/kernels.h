/* The contract of every family of micro-kernels, and the row that registers a kernel.
 *
 * A micro-kernel computes one tile on one thread. Loops, blocking, packing and threads are Cython and live elsewhere.
 * Each family is one source file, compiled once per instruction set (see meson.build). It ends with its rows.
 * To add a kernel, write the function and add its row: dispatch, tests, benchmarks and tuning read the rows.
 */
#ifndef LAYOUTKIT_KERNELS_H
#define LAYOUTKIT_KERNELS_H

#include <stdint.h>

#define LK_NOWHERE INT64_MIN /* of an offset: there is nothing, or padding */

/* The element types: enumerators, names, bytes. */
#define LK_ELEMENTS(X) \
    X(F32, f32, 4) X(F64, f64, 8) X(F16, f16, 2) X(BF16, bf16, 2) X(S32, s32, 4) X(S8, s8, 1) X(U8, u8, 1) \
    X(S16, s16, 2) X(U16, u16, 2) X(U32, u32, 4) X(S64, s64, 8) X(BOOL, bool, 1) X(E4M3, e4m3, 1) X(E5M2, e5m2, 1) \
    X(S4, s4, 1) X(U4, u4, 1)
#define LK_ELEMENT(upper, lower, bytes) LK_##upper,
enum { LK_ELEMENTS(LK_ELEMENT) LK_TYPE_COUNT };

/* The types of convolutions: their name, and the elements of source, filter, sums (with bias and slopes) and destination
 * (with the residual). Strides, workspaces, packings and estimates follow. Structs say "elements" of what they point to.
 * Rows that multiply are registered by the source; those of the epilogue by the destination, or by the sums where it is
 * one of them. */
#define LK_TYPES(X) \
    X(f32, F32, F32, F32, F32) X(f64, F64, F64, F64, F64) \
    X(bf16, BF16, BF16, F32, BF16) X(bf16_f32, BF16, BF16, F32, F32) \
    X(f16, F16, F16, F32, F16) X(f16_f32, F16, F16, F32, F32) \
    X(u8s8_s32, U8, S8, S32, S32) X(u8s8_f32, U8, S8, S32, F32) X(u8s8_u8, U8, S8, S32, U8) X(u8s8_s8, U8, S8, S32, S8) \
    X(s8s8_s32, S8, S8, S32, S32) X(s8s8_f32, S8, S8, S32, F32) X(s8s8_u8, S8, S8, S32, U8) X(s8s8_s8, S8, S8, S32, S8)

/* The instruction sets, lowest first: enumerators and names. */
#define LK_ISAS(X) \
    X(PORTABLE, portable) X(AVX2, avx2) X(AVX2_VNNI, avx2_vnni) X(AVX512, avx512) X(AVX512_VNNI, avx512_vnni) \
    X(AVX512_BF16, avx512_bf16)
#define LK_ENUMERATOR(upper, lower) LK_##upper,
enum { LK_ISAS(LK_ENUMERATOR) LK_ISA_COUNT };

/* How sums of s32 of a panel's columns become bytes, where products and sums are below 2^31:
 *
 *   y[j] = sign ^ (saturated_u8(rounded(sum[j] * mul[j] + off[j]) + zero), limited to least[j] .. most[j])
 *
 * Results of s8 are those of u8 with a zero point 128 higher and another first bit (sign: 128). If not `adds`, off is 0;
 * if not `shifts`, the zero point is 0 and nothing is limited. `apart`: each vector of
 * sums goes where c_col says, 8 or 16 whole bytes; else a row's bytes follow one another from the first place on. */
enum { LK_MAX_COLUMNS = 64 };
typedef struct {
    float mul[LK_MAX_COLUMNS], off[LK_MAX_COLUMNS];
    uint8_t least[LK_MAX_COLUMNS], most[LK_MAX_COLUMNS];
    int zero, sign, apart, adds, shifts;
} __attribute__((aligned(64))) lk_rounding;

/* C[i][j] (+)= sum over taps t, blocks q, k of A[t][q][i][k] * B[t][q][k][j], i < rows, j < cols.
 *
 * Where the row's `unit` is not 1, each A[..][k] and B[..][k][j] is that many narrow elements, multiplied in pairs and
 * summed with the rest in one step: a unit takes the bytes of a sum, and C, bias and clip are of the sums' type. Of units of four
 * A is u8, B is s8, sums are s32 that wrap around; where `flip` is set, its bits of each unit of A are flipped first, as
 * makes u8 of s8. These leave out no tap in the padding, `zero` is what it holds; b_row is only for units of one.
 *
 * A: elements are read one by one and broadcast, so A may have any strides. Row i begins at
 *      a + row[i] + tap[t] + q * block_stride          (bytes)
 *    Where bit i of mask[t] is clear, that row is padding at that tap: `zero`, kb zeros, is read instead.
 *    A block has kb elements, the last one kb_last.
 * B: packed or strided. Rows (t, q, k) follow one another, ldb elements apart; with b_tap only those of one tap do.
 *    With b_row, which allows one tap and one block, row k is at b + b_row[k]. Whole vectors are read.
 * Sums: each begins with its bias, or 0, and goes through taps, blocks and k in this order, one FMA after another. After
 *    each `chunk` steps, and where a `period` ends, at which chunks begin anew, what they came to is added to a total, and
 *    the next step adds to 0: rounding errors grow as the root of a chunk. If `positive`, a result of -0 becomes +0.
 * C: vector v of row i is at c + c_row[i] + c_col[v]. With c_split each vector is stored as two halves, at c_col[2v]
 *    and c_col[2v + 1]. C is stored once, in whole vectors, except that only the first cols % lanes elements of the
 *    last vector are stored if that is not 0 (half a vector if c_split). c_split and accumulate exclude each other.
 *    With `out`, which only rows of units of four of vectors of more than 16 bytes take, and without c_split, accumulate,
 *    resume, clip and pads, bytes take the place of sums. With `narrow`, which only rows of units of two take, and without
 *    c_split, accumulate and resume, sums are rounded to numbers like those of A: vectors of C have half the bytes.
 */
typedef struct {
    const char *a;
    const int64_t *row;
    const int64_t *tap;
    const uint32_t *mask; /* NULL: every row reads every tap */
    const void *zero;
    int64_t taps, blocks, block_stride, kb, kb_last;
    int64_t chunk, period; /* in steps of k, positive */
    const char *b;
    int64_t ldb;
    const int64_t *b_tap; /* of elements: rows of tap t begin at b + b_tap[t]; NULL: of all taps, they follow on */
    const int64_t *b_row; /* of elements; or NULL */
    const void *bias_col; /* one value per column, whole vectors are read; or NULL */
    const void *bias_row; /* one value per row; or NULL */
    char *c;
    const int64_t *c_row, *c_col;
    int c_split;
    int accumulate; /* the result, bias included, is added to what C holds */
    int resume;     /* C holds the total of earlier taps, of whole periods; no bias, accumulate or c_split */
    int positive;
    int rows, cols;
    uint32_t flip;
    int narrow;
    int pads;          /* the last so many columns are stored as 0, whatever was summed; accumulate: C holds 0 there */
    const void *clip; /* two limits: at last C is clipped to them, NaN stays NaN; or NULL */
    const char *to_prefetch; /* prefetched into L2 during the computation: usually the part of the filter used next */
    int64_t to_prefetch_bytes;
    const char *next_c;        /* rows of C written soon, prefetched for writing: next_c + next_c_row[i] + c_col[v] */
    const int64_t *next_c_row; /* `rows` of them; NULL: none */
    int64_t beside;            /* what lies so many bytes from them is read soon, prefetched as well; 0: nothing */
    const lk_rounding *out;    /* bytes are stored, at c_row and c_col, not sums; or NULL */
} lk_gemm;
typedef void (*lk_gemm_fn)(const lk_gemm *);

/* Depthwise convolution and that of small groups, for one or two output rows (r < rows) of vectors of output channels:
 *
 *   y[r][j] = bias + sum over channels c, rows of taps t, taps b of x[r][j][c][t][b] * w[c][t][b]
 *
 * Each output channel reads `depth` input channels; one, its own, if `order` is NULL. A sum begins with the bias and
 * goes through c, t, b in this order, one FMA after another. If `positive`, a result of -0 becomes +0.
 *
 * Tiles: columns j come in tiles of at most the kernel's width. In a tile x[r][j][c][t][b] is the vector at
 *   x + tile.x + r * x_row + tap[t] + j * x_col + b * x_tap + vector * x_vector          (bytes)
 * or 0 if bit r of inside[t] is clear, and y[r][j] is stored at y + tile.y + r * y_row + j * y_col + vector * y_vector.
 * A `step` other than 0 states that x_col == step * x_tap: columns share vectors of x.
 *
 * Masks, a bit per lane: of x those of x_mask[j * (step ? step : kw) + b] are read, the others are 0; of y those of
 * y_mask[j] are written. They are as long as the kernel's widest tile needs. `whole`: all bits of both are set.
 * `edges`: all bits of y_mask are set, and those of x_mask too but for some of the first and last kw / 2 + 1, which are
 * 0. Beside that, vector v reads only the lanes x_lanes[v] and writes only y_lanes[v]; `full[v]`: these are all lanes.
 *
 * square[t], where it is set: taps t .. t + 2 lie x_row apart and are inside the input for both output rows.
 *
 * Small groups (`order` given): lane i of x[..][c] is lane order[vector][c][i] of the vector at x_at[vector][c], which
 * takes the place of vector * x_vector.
 * Local copy (`copy` given as well): columns that lie in few sets of the cache would evict each other between channels.
 * So full vectors read a copy of what the columns of a tile read: `copies` rows, row i from copy_at[i] on, made only
 * where copy_inside[i] says so. Output row r reads row copy_tap[t] + r of the copy. A row has the pixels in the order
 * of x_mask (zeros where no bit is set), copy_pixel bytes each, of which copy_bytes[vector] are filled, from
 * x_at[vector][0] on. A copy serves the following vectors too, as far as its bytes suffice.
 */
typedef struct {
    int64_t x, y;
    const uint32_t *x_mask, *y_mask;
    int cols, whole, edges;
} lk_depthwise_tile;
typedef struct {
    const char *x;
    int64_t x_row, x_col, x_tap, x_vector;
    const int64_t *tap;
    const uint32_t *inside, *square;
    const void *clip;     /* two limits: y is clipped to them, NaN stays NaN; or NULL */
    const void *w, *bias; /* [vectors][depth][taps][kw][lanes], [vectors][lanes] or NULL */
    char *y;
    int64_t y_row, y_col, y_vector;
    const lk_depthwise_tile *tile;
    const int32_t *order; /* [vectors][depth][lanes], or NULL */
    const int64_t *x_at;  /* [vectors][depth] */
    const uint32_t *x_lanes, *y_lanes, *full; /* [vectors][depth], [vectors], [vectors] */
    char *copy; /* or NULL */
    const int64_t *copy_at, *copy_tap, *copy_bytes; /* bytes, rows of the copy, bytes */
    const uint32_t *copy_inside;
    int64_t copy_pixel;
    int rows, tiles, vectors, taps, depth, kw, step, positive, copies;
} lk_depthwise;
typedef void (*lk_depthwise_fn)(const lk_depthwise *);

/* Depthwise k x k down a strip of columns, for `vectors` of channels that lie together; a row's mr is k:
 *
 *   y[o][j] = bias + sum over a, b < k of x[step*o + a][step*j + b] * w[a][b], in this order, o < rows, j < cols
 *
 * x[i][c] is the vector at x + i*x_row + c*x_col (bytes). It is padding, 0 and not read, if i is not in [top, bottom)
 * or bit c of `inside` is clear: of 3x3 only the first and the last may be. step is 1 or 2; cols is at most the kernel's,
 * and of 3x3 at least half of that. If x_lanes is not 0, the last vector is partial: of x those lanes are read, the
 * others are 0, and of y those of y_lanes are written. Of rows of narrow numbers x and y are of these, w and bias of the
 * type of the sums, as y is with `wide`. */
typedef struct {
    const char *x;
    int64_t x_row, x_col;
    const void *w, *bias; /* [vectors][k][k][lanes], [vectors][lanes] or NULL */
    char *y;
    int64_t y_row, y_col, rows, top, bottom, vectors;
    uint32_t inside, x_lanes, y_lanes;
    int cols, step, positive, wide;
    const void *clip; /* two limits: y is clipped to them, NaN stays NaN; or NULL */
} lk_strips;
typedef void (*lk_strips_fn)(const lk_strips *);

/* Depthwise k x k of planes of pixels, stride 1, down a strip of `vectors` of them along the width; a row's mr is k, its
 * nr the pixels of its widest strip. Of one plane, or, where a strip has one vector, of two that are x_plane and y_plane
 * bytes apart:
 *
 *   y[o][j] = bias + sum over a, b < k of x[o + a][j + b] * w[a][b], in this order, o < rows, j < vectors * lanes
 *
 * x[i][c] is the element at x + i*x_row + c*item (bytes). It is padding, 0 and not read, if i is not in [top, bottom) or
 * if the bit of lane j % lanes of x_lanes[j / lanes][c - j] is clear; `masked`: any of these is. Of the last vector only
 * the lanes y_lanes are written. */
typedef struct {
    const char *x;
    int64_t x_row;
    const void *w, *bias; /* [planes][k][k], [planes] or NULL */
    char *y;
    int64_t y_row, rows, top, bottom, x_plane, y_plane;
    const uint32_t *x_lanes; /* [vectors][k] */
    uint32_t y_lanes;
    int vectors, planes, masked, positive;
    const void *clip; /* two limits: y is clipped to them, NaN stays NaN; or NULL */
} lk_plane_strips;
typedef void (*lk_plane_strips_fn)(const lk_plane_strips *);

/* A row of `cols` outputs of pooling, of `count` channels each, which lie together:
 *
 *   y[j][c] = max, or factor * scale[j] * sum, over q < depths, r < rows, t < taps of
 *             x[q][r][j*step + t*dilation - before][c]
 *
 * x[q][r][i][c] is the element at x + q*x_depth + r*x_row + i*x_col + c*item (bytes); the dilation of rows is in x_row.
 * Columns i outside of [0, size) are left out. A window that has nothing is -Inf, or 0; NaN stays NaN. */
typedef struct {
    const char *x;
    int64_t x_depth, x_row, x_col;
    char *y;
    int64_t y_col, depths, rows, cols, taps, step, dilation, before, size, count;
    const void *scale; /* [cols]; NULL: the largest */
    double factor;
} lk_pooling;
typedef void (*lk_pooling_fn)(const lk_pooling *);

/* The gradient of such a row: y is that of the outputs, which is read, and dx is added to, strided as x is. Of means x is
 * not read. */
typedef struct {
    lk_pooling window;
    char *dx;
    int64_t dx_depth, dx_row, dx_col;
} lk_pooling_back;
typedef void (*lk_pooling_back_fn)(const lk_pooling_back *);

/* Local response normalisation of `pixels` with `count` channels each, which lie together, x_pixel and y_pixel bytes apart:
 *
 *   y[i][c] = x[i][c] / (bias + scale * sum over k of x[i][k]^2)^(3/4)      c - below <= k <= c + above, 0 <= k < count
 */
typedef struct {
    const char *x;
    int64_t x_pixel;
    char *y;
    int64_t y_pixel, pixels, count, below, above;
    void *squares; /* zeros: below + whole vectors of channels + above, and a vector more */
    double bias, scale;
} lk_lrn;
typedef void (*lk_lrn_fn)(const lk_lrn *);

/* Sums of two tensors, or with b NULL one alone, rows of `count` elements that lie a_row, b_row and y_row bytes apart:
 *
 *   y[i][j] = clip(a[i][j] + b[i][j])      between two limits, NaN stays NaN; `clip` NULL: as it is
 *
 * Elements are all of the row's type. Integers q stand for (q - zero) * scale; only they have scales. */
typedef struct {
    float scale;
    int32_t zero;
} lk_scale;
typedef struct {
    const char *a, *b;
    char *y;
    int64_t a_row, b_row, y_row, rows, count;
    const void *clip;
    lk_scale of_a, of_b, of_y;
} lk_add;
typedef void (*lk_add_fn)(const lk_add *);

/* Sums of outer products, what the gradient of a filter is made of:
 *
 *   C[i][j] += sum over rows r, k < steps of A[r][k][i] * B[r][k][j]      i < mr of the row, j < vectors * lanes
 *
 * A[r][k] is mr elements at a + a_row[r] + k*a_step, B[r][k] whole vectors at b + b_row[r] + k*b_step, C[i] at c + i*c_row
 * (bytes). `vectors` is at most the row's nr / lanes. Without `accumulate` C becomes the sum. Each step prefetches what is
 * next_step bytes on from the one before it, from `next` on. */
typedef struct {
    const char *a, *b, *next;
    char *c;
    const int64_t *a_row, *b_row;
    int64_t a_step, b_step, c_row, next_step, rows, steps;
    int vectors, accumulate;
} lk_outer;
typedef void (*lk_outer_fn)(const lk_outer *);

/* The same of channels each by itself, one in a lane:
 *
 *   C[t][j] += sum over rows r, k < steps of X[r][k][t][j] * Y[r][k][j]      t < taps
 *
 * X[r][k][t] is a vector at x + r*x_row + k*x_step + tap[t], Y[r][k] one at y + r*y_row + k*y_step, C[t] a whole one at
 * c + sum[t] (bytes). `lanes`: of X and Y only these are read; 0: all. */
typedef struct {
    const char *x, *y;
    char *c;
    const int64_t *tap, *sum;
    int64_t x_row, x_step, y_row, y_step, rows, steps;
    int taps;
    uint32_t lanes;
} lk_tap_sums;
typedef void (*lk_tap_sums_fn)(const lk_tap_sums *);

/* The steps of an epilogue: enumerators and names, whether a step has an operand b, and the error in ulp over all of the
 * type (0.5: rounded once, 0: exact). a is a step's numbers. These are errors with FMA, where linear, hardsigmoid,
 * hardswish_of and sum round a * x + b once; without it the product is rounded too.
 *
 *   clip   x limited to a0 .. a1                 elu       x < 0 ? a0 (e^x - 1) : x      square  x x
 *   prelu  x < 0 ? x b : x                       softplus  ln(1 + e^x)                   linear  a0 x + a1
 *   silu   x s, s = sigmoid = 1 / (1 + e^-x)     mish      x tanh(softplus(x))           round   to the nearest, even
 *   gelu   x/2 erfc(-x / sqrt 2)                 swish     x sigmoid(a0 x)               sum     x + a0 b
 *   gelu_tanh  its approximation                 hardsigmoid   a0 x + a1 limited to 0 .. 1
 *   hardswish  x/6 (x + 3 limited to 0 .. 6)     hardswish_of  x times that
 *   pow    a0 |x|^a1, times a2 where x < 0, or times a3 where it is -0 or -Inf: 1, -1 or NaN
 *
 * NaN stays NaN, but a0 x^0 is a0. At -Inf silu, gelu, gelu_tanh, hardswish and mish give -0, their limit; swish and
 * hardswish_of give 0 of the sign of x where their factor is 0. */
#define LK_STEPS(X) \
    X(CLIP, clip, 0, 0) X(PRELU, prelu, 1, 0.5) X(SILU, silu, 0, 4) X(GELU, gelu, 0, 7) X(GELU_TANH, gelu_tanh, 0, 4) \
    X(HARDSWISH, hardswish, 0, 3) X(ELU, elu, 0, 2) X(TANH, tanh, 0, 3) X(SIGMOID, sigmoid, 0, 3) \
    X(SOFTPLUS, softplus, 0, 2) X(ABS, abs, 0, 0) X(SQUARE, square, 0, 0.5) X(SQRT, sqrt, 0, 0.5) X(EXP, exp, 0, 1.5) \
    X(LOG, log, 0, 1) X(POW, pow, 0, 3) X(ROUND, round, 0, 0) X(MISH, mish, 0, 5) X(SWISH, swish, 0, 3) \
    X(HARDSIGMOID, hardsigmoid, 0, 0.5) X(HARDSWISH_OF, hardswish_of, 0, 1.5) X(LINEAR, linear, 0, 0.5) \
    X(SUM, sum, 1, 0.5) X(ADD, add, 1, 0.5) X(MUL, mul, 1, 0.5) X(MAX, max, 1, 0) X(MIN, min, 1, 0)
#define LK_STEP(upper, lower, operand, ulps) LK_STEP_##upper,
enum { LK_STEPS(LK_STEP) LK_STEP_COUNT };

/* The operand of a step: one number, or one for each channel, of the type of the sums; or elements that lie as y does. */
enum { LK_NUMBER, LK_PER_CHANNEL, LK_TENSOR };
typedef struct {
    int step, kind;
    const char *numbers; /* of the type of the sums, or NULL */
    const char *operand; /* or NULL */
} lk_step;

/* The epilogue: y[i][j] = steps(sum[i][j] + add[i][j]), i < rows, j < count, one step after another.
 *
 * Row i is elements at y + offset + row[i], and of operands and add, unless that is NULL, at the same place; add and y
 * may be the same memory. The sums are what y holds; but where y has other elements, which the last values are rounded to
 * (to nearest even), sums + i * sums_row, which are overwritten. Output (i, j) is of channel
 * c = channel + i * channel_row + j * channel_col (steps of 0 or 1). `keeps_zero`: the only step is a clip, of 0 to 0.
 * Sums of s32 become float(sum) * mul[c] + off[c] (off may be NULL), their channels lie along the columns; what is added
 * to them and rounded to integers is meant as (q - zero) * scale, saturated, operands that are tensors too. */
enum { LK_MAX_STEPS = 32 };
typedef struct {
    char *y;
    const char *add;
    char *sums;
    int64_t sums_row;
    const float *mul, *off;
    float scale;
    int zero;
    int x_zero; /* of a convolution of integers, what its padding holds */
    const int64_t *row;
    int64_t offset, rows, count, channel;
    int channel_row, channel_col;
    int steps, keeps_zero;
    const lk_step *step;
} lk_epilogue;
typedef void (*lk_epilogue_fn)(const lk_epilogue *);

/* Depthwise convolution of integers, u8 (or, with `flip`, s8) by s8, for one or two output rows of a tile of columns and
 * a run of as many channels as a vector has bytes:
 *
 *   s[r][j] = bias + sum over quads g, taps b, i < 4 of x[4g + i][begin + step*j + apart*b] * w[g][b][r][i]
 *
 * r < rows, j < cols, in sums of s32 that wrap around. x[u] is the row of the input that is made for this sum, at
 * row[u] + column[..] bytes, where the 16 channels of piece k are those at at[k], bytes[k] of them, in the order
 * order[k], if that is given; `whole`: all pieces of the vector are whole and in their order (2), and follow one another
 * (1). Rows that are NULL, and columns that are LK_NOWHERE, are `zero`, as many bytes as a vector. `flip` flips its bits of
 * every four bytes, as makes u8 of s8.
 * With `whole` of 2 the pieces may be those of several columns: they are `segments` even shares, one after another, and
 * column[i * segments + k] is that of share k.
 *
 * First columns [first, end) are gathered to the panel, [quads][columns][4 vectors][lanes][4], aligned to 64 bytes. The
 * rest of what a tile reads is there already, of the same rows and channels. Lane l of vector v is channel
 * 16 (l / 4) + 4 v + l % 4, in the panel, in w, which has packed_rows for r, and in the bias.
 * Sums are stored with the channels in their order, vector v of s[r][j] at s + s_at[v] + r * s_row + j * s_col, of the last
 * one of `vectors` the lanes `lanes`, 0: all.
 * With `out`, which rows of vectors of 16 bytes do not take, not the sums are stored but bytes that are made of them: its
 * `mul` and `off` are in the order of the panel, `least` and `most` in that of channels. `s_whole`: the first s_bytes are
 * stored in one; else they are a vector, and piece k goes to s_at[k]. Results may be stored twice. */
typedef struct {
    const char *const *row; /* [4 * quads] */
    const int64_t *column;
    const int64_t *at, *bytes; /* [pieces] */
    const char *order;         /* [pieces][16], or NULL */
    const char *zero;
    char *panel;
    const char *w;    /* [quads][kw][4 vectors][packed_rows][lanes][4] */
    const char *bias; /* [4 vectors][lanes], or NULL */
    char *s;
    const int64_t *s_at;
    int64_t s_row, s_col, columns, first, end, begin, step, apart;
    uint32_t flip, lanes;
    int quads, kw, rows, packed_rows, cols, vectors, pieces, whole, segments, s_whole, s_bytes;
    const lk_rounding *out; /* or NULL */
} lk_quads;
typedef void (*lk_quads_fn)(const lk_quads *);

/* dst[i0*d0 + i1*d1] = src[i0*s0 + i1*s1], i0 < n0, i1 < n1: elements of one width, strides in bytes.
 * copy:      s1 == d1 == width (runs of n1 elements)
 * transpose: s0 == d1 == width (the source is contiguous along i0, the destination along i1)
 * gather:    any strides
 * fill:      src is one element, its strides are not read
 *
 * Either loop of a transpose may be split in two digits, so that whole vectors are moved where a block is shorter than
 * a vector. If in0 is not 0, i0 = a*in0 + b is at a*out_d0 + b*d0 in the destination; likewise in1 and out_s1 for i1 in
 * the source. Then n0 and n1 are at most LK_MAX_DIGITS.
 * If `valid` is not 0, the source has only the first `valid` of the n1 elements (of an element of 128 bits and more:
 * the first `valid` bytes). The rest of the destination becomes `pad`, 64 bytes of repeated pad elements.
 * `stream` asks for stores that bypass the caches. prefetch_bytes is the prefetch distance, from where the source is
 * read to what is prefetched; 0: none. A kernel may ignore both. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, s0, s1, d0, d1;
    int64_t in0, out_d0, in1, out_s1;
    int64_t valid;
    const char *pad;
    int64_t prefetch_bytes;
    int stream;
} lk_move;
enum { LK_MAX_DIGITS = 1024 };
typedef void (*lk_move_fn)(const lk_move *);

/* A nest: `loops`, outermost first, around a tile, one call of a kernel on elements of `width` bytes. Loop i has n[i]
 * steps of s[i] bytes in the source and d[i] in the destination; `src` and `dst` are the offsets of the first element.
 * The loops are flattened into one range of `tasks`, which threads share. */
enum { LK_MAX_LOOPS = 32 };
typedef struct {
    lk_move_fn fn;
    lk_move tile;
    int64_t src, dst, tasks;
    int width, loops;
    int64_t n[LK_MAX_LOOPS], s[LK_MAX_LOOPS], d[LK_MAX_LOOPS];
} lk_nest;

/* Tasks [task, end) of a nest around transposes, each moved as a panel, see panel.c. scratch: LK_PANEL_BYTES, aligned
 * to 64 bytes. A tile fits if (n0 * width + 128) * n1 <= LK_PANEL_IN_BYTES and max(n0 * width, 64, width) * n1 <=
 * LK_PANEL_OUT_BYTES. */
enum { LK_PANEL_IN_BYTES = 192 << 10, LK_PANEL_OUT_BYTES = 192 << 10, LK_PANEL_TAILS_BYTES = 64 << 10 };
enum { LK_PANEL_BYTES = 2 * LK_PANEL_IN_BYTES + LK_PANEL_OUT_BYTES + LK_PANEL_TAILS_BYTES + (8 << 10) };
/* Of the buffer of a slab, which the scratch of a thread begins with, and of what waits of lines that it ends in. */
enum { LK_SLAB_BYTES = 96 << 10, LK_TAILS_BYTES = 64 << 10 };
typedef void (*lk_panel_fn)(const lk_nest *, const char *src, char *dst, int64_t task, int64_t end, char *scratch);

/* Copies `runs` runs of `bytes` bytes, run r from src + from[r] to dst + to[r], see drain.c. Where `continues` is set,
 * they go on where those of the call before ended, which had `goes_on` set: tails, a line for each run, holds what is
 * left of that. Both only for runs of at least LK_MIN_DRAINED_BYTES. */
enum { LK_MIN_DRAINED_BYTES = 128 };
typedef struct {
    const char *src;
    char *dst, *tails;
    const int64_t *from, *to;
    int64_t runs, bytes;
    int continues, goes_on;
} lk_drain;
typedef void (*lk_drain_fn)(const lk_drain *);

/* A loop whose index has several digits, the lowest first, of n[k] values each: index i is at the sum of step[k] bytes
 * times its digit k; but value v of the first digit is at table[v] bytes, if there is a table. LK_NOWHERE in a table is
 * a pad of the other array. */
enum { LK_MAX_FUSED = 16, LK_MAX_FUSED_TABLE = 4096 };
typedef struct {
    int digits;
    int64_t count, n[LK_MAX_FUSED], step[LK_MAX_FUSED];
    const int64_t *table; /* or NULL */
} lk_fused_loop;

/* Tasks [task, end) of fused transposes, see fused.c:
 *
 *   dst[to(i) + j*width] = src[i*width + from(j)]     i < columns.count, j < rows.count
 *
 * Columns are contiguous in the source, rows in the destination, however many digits they have: to(i) and from(j) are
 * those of the two loops. Columns that are nowhere, pads of the source, are skipped; rows that are nowhere become `pad`,
 * 64 bytes of repeated pad elements. The loops of the nest are around that; its tile says only whether to stream. A task
 * is `unit` rows of a panel of `panel` columns; those of one panel follow one another. scratch: LK_FUSED_BYTES, aligned
 * to 64. */
typedef struct {
    int64_t vectors;
    const int64_t *ends;   /* of each vector, the number of the first window that is not its own */
    const int64_t *at;     /* of each window, where it begins in the source */
    const uint64_t *takes; /* bit e: element e of the vector comes from this window */
    const char *orders;    /* a vector for each window: which of its elements go where; that of others has all bits set */
    const int8_t *kinds;   /* of each vector: 0, or of how many registers of four lanes of 16 bytes it is: windows.h */
    const char *firsts;    /* a vector for each one: pads where elements are pads, else 0; NULL: there are none */
    int64_t stop;          /* the end of what the table reaches in the source */
    int part;              /* whether windows reach beyond that, or a vector beyond the destination */
} lk_windows;
typedef struct {
    lk_fused_loop columns, rows;
    const int64_t *sizes; /* of runs, or NULL */
    int64_t period, panel, unit;
    const char *pad;
    lk_windows windows;
} lk_fused;
enum { LK_MAX_FUSED_PANEL = 1024, LK_PANEL_PAD_BYTES = LK_MAX_FUSED_PANEL * 8 + 128 };
enum { LK_FUSED_BYTES = 2 * LK_MAX_FUSED_PANEL * 64 + LK_PANEL_PAD_BYTES };
typedef void (*lk_fused_fn)(const lk_nest *, const lk_fused *, const char *src, char *dst, int64_t task, int64_t end,
                            char *scratch);

/* Tasks of joined transposes, see joined.c: columns follow one another in the destination, to(i) = i * rows.count *
 * width. A task is `unit` columns. rows.count is at most LK_MAX_JOINED_ROWS, `panel` is not read. scratch:
 * LK_JOINED_BYTES, aligned to 64 bytes, for rows of at most LK_MAX_JOINED_RUN_BYTES together. */
enum { LK_MAX_JOINED_ROWS = 1024, LK_MAX_JOINED_RUN_BYTES = 2048, LK_JOINED_PAD_BYTES = 256 };
enum { LK_JOINED_BYTES = 64 * LK_MAX_JOINED_RUN_BYTES + 8192 + LK_JOINED_PAD_BYTES };

/* Tasks of runs, see runs.c: run j, from(j) in the source, follows run j - 1 in the destination; one that is nowhere is
 * of pads. It has columns.count bytes; but if there are `sizes`, those of the value of its first digit, of which all
 * rows.n[0] together have `period` bytes. A task is `unit` runs, with sizes a multiple of rows.n[0]; `panel` is not
 * read. scratch: LK_RUNS_BYTES, aligned to 64 bytes. */
enum { LK_RUNS_BYTES = 8192 };

/* Tasks of windows, see windows.c: the steps of the nest's loops. At each, rows.count elements that follow one another
 * in the destination come from where the table of `rows` says, or are `pad`. windows_of (windows.h) makes the windows of
 * this table. `columns`, `panel` and `unit` are not read, there is no scratch. Of a row of the kernel, nr is how many
 * elements a vector has, mr the bytes of an element of its orders. */

/* The transforms of Winograd, tile by tile. F(m x m, 3 x 3) has n x n products, n = m + 2; 1 x m tiles are transformed
 * along the width only. The points are 0, +-p[0], +-p[1], .., infinity. The table `k`, derived in winograd.py, holds
 *   e[0..P-1]                      coefficients of the product of all (x^2 - p^2), P pairs, without the leading 1
 *   f[0..P-2], p, p^2 .. p^(m-1)   for each pair: the same product without its own factor, and the powers of p
 * Row 0 of BT is the first of these polynomials in even columns. So row 0 of BT and of G carry the sign that makes
 * column n - 2 of BT a 1.
 *
 * in:     v[t * v_stride + c] = (BT d B)[t], d[i][j] the element c at src + i*row + j*col (bytes), 0 outside
 *         [row0, row1) x [col0, col1). Whole vectors are written, so up to a vector past `channels`.
 * out:    y[i][j] at dst + i*row + j*col = bias + (AT m A)[i][j], i < rows, j < cols; m is laid out as v.
 * Channels lie in whole runs of `block` elements, block_stride bytes apart. block >= channels: one run of exactly
 * `channels` elements. A block is a multiple of a vector, or half a vector. */
typedef struct {
    const char *src;
    int64_t row, col;
    int row0, row1, col0, col1;
    int64_t channels, block, block_stride;
    void *v;
    int64_t v_stride;
    const void *k;
    uint8_t pad, flip;
} lk_winograd_in;
typedef void (*lk_winograd_in_fn)(const lk_winograd_in *);

typedef struct {
    const void *m;
    int64_t m_stride;
    char *dst;
    int64_t row, col;
    int rows, cols;
    int64_t channels, block, block_stride;
    const void *bias; /* `channels` elements, or NULL */
    const void *k;
} lk_winograd_out;
typedef void (*lk_winograd_out_fn)(const lk_winograd_out *);

/* The filter's transform: u[t * u_stride + o] = (G w_o G^T)[t] for o < count, 0 for the rest up to `width`, which is
 * whole vectors. Computed in double. w_o: rh x rw contiguous elements at w + o * w_stride. gh: nh x rh, gw: nw x rw. */
typedef struct {
    const void *w;
    int64_t w_stride;
    int count, width;
    int nh, nw, rh, rw;
    const double *gh, *gw;
    void *u;
    int64_t u_stride;
} lk_winograd_filter;
typedef void (*lk_winograd_filter_fn)(const lk_winograd_filter *);

/* A filter's gradient from sums of products U of F(4 x 4, 3 x 3), or with nh = 1 of F(1 x 4, 1 x 3):
 *
 *   dst[t] (+)= (GT U G)[t]     of `count` floats, whole vectors, at dst + t*dst_stride; U[t] at u + t*u_stride (bytes)
 *
 * Without `accumulate` dst is overwritten. The table `k` holds the nh * 6 products of G's scales, and p and p^2 of both
 * pairs: row i of G is such a scale times 1, p, p^2. */
typedef struct {
    const char *u;
    int64_t u_stride;
    char *dst;
    int64_t dst_stride, count;
    int nh, accumulate;
    const void *k;
} lk_winograd_taps;
typedef void (*lk_winograd_taps_fn)(const lk_winograd_taps *);

/* Of each of `rows` contiguous rows of `count` floats the largest magnitude is taken. `most` is the largest of these,
 * `least` the smallest that is not 0 (0: there is none), both as the bits of a float: Inf is 0x7f800000, a NaN more. */
typedef struct {
    const float *w;
    int64_t rows, count;
    int32_t least, most;
} lk_extent;
typedef void (*lk_extent_fn)(lk_extent *);

/* Converts n0 rows of n1 elements; s0 and d0 are the bytes from row to row, s1 and d1 those from element to element.
 * Elements of a row are contiguous; on one side rows may be interleaved instead: then s0 or d0 is the width of an
 * element, s1 or d1 is not, n0 is at most LK_MAX_INTERLEAVED, and nothing is summed. Each element:
 *   v   = (src - sub) * mul + off, or (src - sub) / mul + off if `divide`
 *   v   = alpha * v, and + beta * (dst - add) if `sum`
 *   dst = v rounded to an integer (to nearest even) if the type of dst is one, + add, rounded or saturated to that type
 * All of it is computed in the row's type, f32 or f64, in which the values of both types must be exact. f64 rounds s64,
 * but not integers that are only shifted, by sub and add that are numbers of s32. NaN becomes the integer 0 + add.
 * sub, mul, off and add are NULL (left out) or arrays of the row's type, of which element i0*p0 + i1*p1 applies to
 * (i0, i1). inv is NULL or 1 / mul, allowed where dst is an integer but s64, src none, off NULL and 2^-60 <= |mul| <=
 * 2^60. high and low are NULL or, where inv is allowed and only for narrow integers, numbers of the sign of mul whose sum
 * is 1 / mul within 2^-45 of it: x * high + x * low, rounded once, becomes the same integer as x / mul. `stream` asks for stores that bypass the caches; the caller ends with a fence. prefetch_bytes is the prefetch
 * distance in the source; 0: none. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, s0, s1, d0, d1;
    const char *sub, *mul, *inv, *off, *add, *high, *low;
    int64_t p0, p1;
    double alpha, beta;
    int64_t prefetch_bytes;
    int src_type, dst_type, divide, sum, stream;
} lk_convert;
enum { LK_MAX_INTERLEAVED = 16 };
typedef void (*lk_convert_fn)(const lk_convert *);

/* Integers of 4 bits in packed pairs, two to a byte: element k is in byte k / 2, in its lower half if k is even. Bytes of
 * s8 if `is_signed`, else of u8, are on the other side.
 * unpack: dst[i*d0 + j] = element at + i*s0 + j*s1 of src, i < n0, j < n1 (d0 in bytes, s0 and s1 in elements)
 * pack:   element j of dst = src[j], saturated, j < n1; the half byte behind the last one becomes 0. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, at, s0, s1, d0;
    int is_signed;
} lk_packed;
typedef void (*lk_packed_fn)(const lk_packed *);

/* The machine's limit: `peak` does n rounds of independent FMAs, or steps, of the row's type and returns their flops. */
typedef double (*lk_peak_fn)(int64_t n);

/* The families: enumerators and names. */
#define LK_FAMILIES(X) \
    X(GEMM, gemm) X(DEPTHWISE, depthwise) X(STRIPS, strips) X(PLANE_STRIPS, plane_strips) X(QUADS, quads) X(OUTER, outer) \
    X(TAP_SUMS, tap_sums) X(POOLING, pooling) X(LRN, lrn) X(ADD, add) X(EPILOGUE, epilogue) X(COPY, copy) X(TRANSPOSE, transpose) \
    X(GATHER, gather) X(FILL, fill) X(PANEL, panel) X(FUSED, fused) X(JOINED, joined) X(RUNS, runs) X(WINDOWS, windows) X(DRAIN, drain) \
    X(CONVERT, convert) X(UNPACK, unpack) X(PACK, pack) X(PEAK, peak) X(WINOGRAD_IN, winograd_in) \
    X(WINOGRAD_OUT, winograd_out) X(WINOGRAD_FILTER, winograd_filter) X(WINOGRAD_TAPS, winograd_taps) X(POOLING_BACK, pooling_back) \
    X(EXTENT, extent)
enum { LK_FAMILIES(LK_ENUMERATOR) LK_FAMILY_COUNT };

typedef struct {
    const char *name;
    int family, isa;
    const char *types; /* of the elements: "f32", ..; where they are only moved, their width in bits: "x8", "x16", .. */
    int lanes;         /* elements of these types in a vector register; 0: one element is wider than that */
    int mr, nr;        /* register tile: rows x columns; 0: any */
    int unit;          /* elements that a lane multiplies and sums in a step */
    void (*fn)(void);
} lk_kernel;

typedef struct {
    const char *name;
    int src, filter, sum, dst; /* elements */
} lk_types;
const lk_types *lk_all_types(void);      /* ends with name == NULL */
const char *lk_element_name(int element); /* NULL: there is no such element */
int lk_element_bytes(int element);

/* Every compiled row, best instruction set first; ends with name == NULL. */
const lk_kernel *const *lk_all_kernels(void); /* NULL-terminated list of row arrays */
const char *lk_isa_name(int isa);       /* NULL: there is no such set, or family */
const char *lk_family_name(int family);
const char *lk_step_name(int step);
double lk_step_ulps(int step);
int lk_isa_supported(int isa); /* this CPU and its operating system run it */

/* Names in a family's source carry the instruction set, which -DLK_ISA=.. and -DLK_ISA_ID=.. state. */
#define LK_PASTE_(a, b) a##b
#define LK_PASTE(a, b) LK_PASTE_(a, b)
#define LK_NAME(x) LK_PASTE(LK_PASTE(x, _), LK_ISA)
#define LK_STR_(x) #x
#define LK_STR(x) LK_STR_(x)
#define LK_ROW(family, stem, types, lanes, mr, nr) \
    {LK_STR(LK_NAME(stem)), family, LK_ISA_ID, types, lanes, mr, nr, LK_UNIT, (void (*)(void))LK_NAME(stem)}
#define LK_LAST_ROW {0, 0, 0, 0, 0, 0, 0, 0, 0}
#ifndef LK_UNIT
#define LK_UNIT 1
#endif

#define LK_INLINE static inline __attribute__((always_inline))

#endif
