/* recurrent_<type>: a step of an LSTM, a GRU or an RNN; see lk_recurrent in recurrent.h.
 *
 *   s[g][j] = x[i][g][j] + sum over k of h[i][k] * R[g][k][j]
 *
 * A register tile has all gates of some sequences for a vector of units. Of one sequence it has several such vectors if there
 * are few gates, to hide the latency of FMA. The sums go through memory to the functions of the gates.
 * Edges: the last vector of units may be partial.
 */
#include "recurrent.h"
#include "elementwise/steps.h"

enum { MAX_ROWS = LK_VB == 64 ? 4 : 2, MAX_VECTORS = 16 };

typedef struct {
    vf vector[MAX_VECTORS]; /* [block][sequence][gate] */
} sums;

LK_INLINE uint32_t lanes_from(const lk_recurrent *p, int64_t unit)
{
    const int64_t left = p->hidden - unit;
    return left >= LK_LANES ? (uint32_t)(((uint64_t)1 << LK_LANES) - 1) : ((uint32_t)1 << left) - 1;
}

/* The sums of all gates for `blocks` vectors of units, from `unit` on; gates from `with_x` on begin with 0, not with x. */
LK_INLINE void multiply(const lk_recurrent *p, int64_t unit, sums *to, const int gates, const int with_x, const int rows,
                        const int blocks)
{
    vf s[MAX_VECTORS];
    const int64_t block_bytes = p->hidden * gates * LK_VB;
    const char *const r = p->r + unit / LK_LANES * block_bytes;
#pragma GCC unroll 16
    for (int b = 0; b < blocks; b++)
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 16
            for (int g = 0; g < gates; g++) {
                const int64_t first = unit + b * LK_LANES;
                s[(b * rows + i) * gates + g] =
                    g < with_x ? load_lanes(p->x + i * p->x_row + g * p->x_gate + first * LK_ITEM, lanes_from(p, first)) : (vf){};
            }
    for (int64_t k = 0; k < p->hidden; k++) {
        vf h[MAX_ROWS];
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
            h[i] = splat(*(const real *)(p->h + i * p->h_row + k * LK_ITEM));
#pragma GCC unroll 16
        for (int b = 0; b < blocks; b++)
#pragma GCC unroll 16
            for (int g = 0; g < gates; g++) {
                const vf v = *(const vf *)(r + b * block_bytes + (k * gates + g) * LK_VB);
#pragma GCC unroll 16
                for (int i = 0; i < rows; i++)
                    LK_FMA(s[(b * rows + i) * gates + g], h[i], v);
            }
    }
#pragma GCC unroll 16
    for (int i = 0; i < blocks * rows * gates; i++)
        to->vector[i] = s[i];
}

#define MULTIPLY(gates, with_x) \
    static void multiply_##gates##_##with_x(const lk_recurrent *p, int64_t unit, int blocks, sums *to) \
    { \
        enum { max_blocks = gates == 1 ? 8 : gates == 2 ? 4 : 2 }; \
        if (blocks == max_blocks && p->rows == 1) \
            multiply(p, unit, to, gates, with_x, 1, max_blocks); \
        else if (p->rows == 1) \
            multiply(p, unit, to, gates, with_x, 1, 1); \
        else if (p->rows == 2) \
            multiply(p, unit, to, gates, with_x, 2, 1); \
        else if (MAX_ROWS >= 3 && p->rows == 3) \
            multiply(p, unit, to, gates, with_x, MIN(3, MAX_ROWS), 1); \
        else if (MAX_ROWS >= 4) \
            multiply(p, unit, to, gates, with_x, MIN(4, MAX_ROWS), 1); \
    }
MULTIPLY(1, 1)
MULTIPLY(2, 2)
MULTIPLY(3, 2)
MULTIPLY(4, 4)

LK_INLINE vf sigmoid(vf x) { return step_sigmoid(x, 0, (vf){}); }
LK_INLINE vf hyperbolic(vf x) { return step_tanh(x, 0, (vf){}); }

/* The new states of a vector of units of sequence i, from the sums of their gates. */
static void finish(const lk_recurrent *p, int i, int64_t unit, const vf *s)
{
    const uint32_t lanes = lanes_from(p, unit);
    const int64_t at = unit * LK_ITEM;
    char *const y = p->y + i * p->y_row + at, *const state = p->state + i * p->state_row + at;
    const char *const before = p->before + i * p->before_row + at;
    vf result;
    switch (p->cell) {
    case LK_LSTM: {
        const vf c = sigmoid(s[2]) * load_lanes(state, lanes) + sigmoid(s[0]) * hyperbolic(s[3]);
        store_lanes(state, c, lanes);
        result = sigmoid(s[1]) * hyperbolic(c);
        break;
    }
    case LK_GRU: {
        const vf z = sigmoid(s[0]), x = load_lanes(p->x + i * p->x_row + 2 * p->x_gate + at, lanes);
        const vf bias = p->bias ? load_lanes(p->bias + at, lanes) : (vf){};
        result = ((real)1 - z) * hyperbolic(x + sigmoid(s[1]) * (s[2] + bias)) + z * load_lanes(before, lanes);
        break;
    }
    case LK_GRU_GATES:
        store_lanes(state, sigmoid(s[0]), lanes);
        result = sigmoid(s[1]) * load_lanes(before, lanes);
        break;
    case LK_GRU_HIDDEN: {
        const vf z = load_lanes(state, lanes);
        result = ((real)1 - z) * hyperbolic(s[0]) + z * load_lanes(before, lanes);
        break;
    }
    case LK_RNN_TANH:
        result = hyperbolic(s[0]);
        break;
    default:
        result = at_least(s[0], (vf){});
    }
    store_lanes(y, result, lanes);
}

static const struct {
    void (*multiply)(const lk_recurrent *, int64_t, int, sums *);
    int gates, blocks; /* vectors of units in a tile of one sequence */
} cells[LK_CELL_COUNT] = {
    [LK_LSTM] = {multiply_4_4, 4, 2},       [LK_GRU] = {multiply_3_2, 3, 2},      [LK_GRU_GATES] = {multiply_2_2, 2, 4},
    [LK_GRU_HIDDEN] = {multiply_1_1, 1, 8}, [LK_RNN_TANH] = {multiply_1_1, 1, 8}, [LK_RNN_RELU] = {multiply_1_1, 1, 8},
};

void LK_NAME(LK_TYPED(recurrent))(const lk_recurrent *p)
{
    sums s;
    const int gates = cells[p->cell].gates, max_blocks = p->rows == 1 ? cells[p->cell].blocks : 1;
    for (int64_t unit = 0; unit < p->hidden;) {
        const int blocks = p->hidden - unit > (max_blocks - 1) * LK_LANES ? max_blocks : 1;
        cells[p->cell].multiply(p, unit, blocks, &s);
        for (int b = 0; b < blocks; b++, unit += LK_LANES)
            for (int i = 0; i < p->rows; i++)
                finish(p, i, unit, s.vector + (b * p->rows + i) * gates);
    }
}

const lk_kernel LK_ROWS(recurrent)[] = {
    LK_ROW(LK_RECURRENT, LK_TYPED(recurrent), LK_STR(LK_KIND), LK_LANES, MAX_ROWS, 0),
    LK_LAST_ROW,
};
