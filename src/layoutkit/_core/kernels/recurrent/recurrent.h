#ifndef LAYOUTKIT_RECURRENT_H
#define LAYOUTKIT_RECURRENT_H

#include "kernels.h"

/* One step in time of a recurrent layer: of `rows` sequences (at most the row's mr), i, and all units j < hidden.
 *
 *   s[g][j] = x[i][g][j] + sum over k of h[i][k] * R[g][k][j], k in ascending order, one FMA after another
 *
 *   LSTM        gates i, o, f, c:  c' = sigmoid(s[f]) c + sigmoid(s[i]) tanh(s[c]),  y = sigmoid(s[o]) tanh(c');  state: c, c'
 *   GRU         gates z, r, h:     y = (1 - z) tanh(x[h] + r (s[h] - x[h] + bias)) + z before, z = sigmoid(s[z]), r likewise
 *   GRU_GATES   gates z, r:        state = z,  y = r before; then, with this y as h,
 *   GRU_HIDDEN  gate h:            y = (1 - state) tanh(s[h]) + state before
 *   TANH, RELU  one gate:          y = tanh(s), max(s, 0)
 *
 * x: gate g of sequence i begins at x + i * x_row + g * x_gate (bytes), its units are contiguous; so are those of all below.
 * R is packed as [block of a vector of units][k < hidden][gate][unit of the block], with 0 past the last unit.
 * y may not be h. Beyond the last unit only R is read, and nothing is written. */
enum { LK_LSTM, LK_GRU, LK_GRU_GATES, LK_GRU_HIDDEN, LK_RNN_TANH, LK_RNN_RELU, LK_CELL_COUNT };
typedef struct {
    int cell, rows;
    int64_t hidden;
    const char *x;
    int64_t x_row, x_gate;
    const char *h;
    int64_t h_row;
    const char *r;
    const char *bias;   /* of a GRU, or NULL */
    const char *before; /* the state before the step */
    int64_t before_row;
    char *state;
    int64_t state_row;
    char *y;
    int64_t y_row;
} lk_recurrent;
typedef void (*lk_recurrent_fn)(const lk_recurrent *);

#endif
