#ifndef LAYOUTKIT_WINOGRAD_H
#define LAYOUTKIT_WINOGRAD_H

#include "kernels.h"

/* The transforms of Winograd, tile by tile. F(m x m, 3 x 3) has n x n products, n = m + 2; 1 x m tiles are transformed
 * along the width only. The points are 0, +-p[0], +-p[1], .., infinity. The table `k`, derived in winograd_matrices.py, holds
 *   e[0..P-1]                      coefficients of the product of all (x^2 - p^2), P pairs, without the leading 1
 *   f[0..P-2], p, p^2 .. p^(m-1)   for each pair: the same product without its own factor, and the powers of p
 * Row 0 of BT is the first of these polynomials in even columns. So row 0 of BT and of G carry the sign that makes
 * column n - 2 of BT a 1.
 *
 * Tiles of 3 x 3 are those of stride 2: n = 7 inputs and products along an axis, and no table. y[i] = sum over k of
 * w[k] d[2i + k] is F(3, 2) of the even inputs with w[0] and w[2], plus the odd inputs times w[1]. Products are in the order
 *   F(3, 2) at 0, +1, -1;  d[1] w[1], d[3] w[1];  F(3, 2) at infinity;  d[5] w[1]
 * so that those that only the last output takes are the last two.
 *
 * in:     v[t * v_stride + c] = (BT d B)[t], d[i][j] the element c at src + i*row + j*col (bytes), 0 outside
 *         [row0, row1) x [col0, col1). Whole vectors are written, so up to a vector past `channels`.
 * out:    y[i][j] at dst + i*row + j*col = bias + (AT m A)[i][j], i < rows, j < cols; m is laid out as v.
 * Channels are in whole runs of `block` elements, block_stride bytes apart. block >= channels: one run of exactly
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

/* The same of filters that lie side by side, while they are multiplied: u[t * u_stride + c * width + o] = (G w_co G^T)[t]
 * for `channels` channels c and `width` filters o, whole vectors. Tap a of w_co is w[(c * rows * 3 + a) * width + o].
 * n x n products of 3 x 3 taps, or with rows = 1, n of 3. The table `k` holds row 0 of G's one number, and of each pair of
 * points +-p its rows' numbers s, s p, s p^2. Computed in float: a number is rounded four times along each axis. */
typedef struct {
    const void *w;
    int64_t channels, width;
    int n, rows;
    const void *k;
    void *u;
    int64_t u_stride;
} lk_winograd_expand;
typedef void (*lk_winograd_expand_fn)(const lk_winograd_expand *);

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

#endif
