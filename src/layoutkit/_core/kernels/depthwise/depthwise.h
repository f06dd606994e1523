#ifndef LAYOUTKIT_DEPTHWISE_H
#define LAYOUTKIT_DEPTHWISE_H

#include "kernels.h"

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
 * 0. Beside that, vector v reads only the lanes x_lanes[v] and writes only y_lanes[v]; `full[v]`: these are all lanes;
 * LK_ONE_LANE: and each of its orders has the same lane everywhere.
 *
 * square[t], where it is set: taps t .. t + 2 are x_row apart and inside the input for both output rows.
 *
 * Small groups (`order` not NULL): lane i of x[..][c] is lane order[vector][c][i] of the vector at x_at[vector][c], which
 * takes the place of vector * x_vector.
 * Local copy (`copy` not NULL): columns in few sets of the cache would evict each other between channels.
 * So full vectors read a copy of what the columns of a tile read: `copies` rows, row i from copy_at[i] on, made only
 * if copy_inside[i] is set. Output row r reads row copy_tap[t] + r of the copy. A row has the pixels in the order
 * of x_mask (zeros where no bit is set), copy_pixel bytes each, of which copy_bytes[vector] are filled, from
 * x_at[vector][0] on. A copy serves the following vectors too, as far as its bytes suffice.
 */
enum { LK_ONE_LANE = 2 };
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

#endif
