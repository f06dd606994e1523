/* gemm_groups_<mr>x<nr>_u8s8: products in groups of 4, 8 or 16 channels; see gemm_groups.h.
 *
 *   C[i][g][j] = bias + sum_t sum_u A[t][i][g][u] * B[t][g][u][j]        u: units of four of a group g
 *
 * A vector of A has the units of all groups side by side, and is multiplied as it is: each lane sums what its unit adds to
 * output j of its group, for each j in a register of its own, of which there are `own` = 4 kb. At last the lanes of a group
 * are added up, and four vectors are left, a column in each lane. Within 16 columns these are in an order of their own,
 * which the shuffle of bytes restores.
 * The register tile is as many rows as there are registers for eight outputs (four, where groups have one unit); taller tiles
 * are several of them, groups of 16 channels take two rounds.
 * Edges: fewer columns are as many bytes of A; the unused lanes sum zeros. Fewer rows have functions of their own.
 */
#pragma GCC optimize("fp-contract=off") /* a product and a sum are rounded each, as on every instruction set */
#include "common/vector.h"
#include "gemm_groups.h"
#include "rounding.h"

#include <string.h>

#if LK_VB == 64
enum { TALL = 6, LOW = 3 }; /* rows at once, where groups have one unit, and more */
#else
enum { TALL = 2, LOW = 1 };
#endif
enum { PIECE = 16, NR = 4 * LK_LANES, MAX_SUMS = 24 }; /* PIECE: columns that four lanes of four vectors are */

#if LK_VB == 64
#define SHUFFLED(a, b, n) (vf)_mm512_shuffle_ps((__m512)(a), (__m512)(b), n)
#elif LK_VB == 32
#define SHUFFLED(a, b, n) (vf)_mm256_shuffle_ps((__m256)(a), (__m256)(b), n)
#else
#define SHUFFLED(a, b, n) \
    __builtin_shuffle(a, b, ((vi){(n) & 3, (n) >> 2 & 3, ((n) >> 4 & 3) + 4, ((n) >> 6 & 3) + 4}))
#endif

/* Sums of neighbouring lanes, those of a before those of b in every four */
LK_INLINE vf pairs_of(const vf a, const vf b) { return SHUFFLED(a, b, 0x88) + SHUFFLED(a, b, 0xdd); }

/* The column in 16 of lane s of every four of vector m, where groups have so many units */
LK_INLINE int column_of(const int units, const int m, const int s)
{
    return units == 1 ? 4 * s + m : units == 2 ? 8 * (s % 2) + 2 * m + s / 2 : 4 * m + s;
}

/* The first n bytes, the rest is 0 */
LK_INLINE vf load_some(const char *p, const int n)
{
#if LK_VB == 64
    return (vf)_mm512_maskz_loadu_epi8(~(__mmask64)0 >> (64 - n), p);
#else
    vf v = {};
    if (n == LK_VB)
        return *(const vf *)p;
    memcpy(&v, p, (size_t)n);
    return v;
#endif
}

/* Outputs [first, first + own) of the groups, of `rows` rows from row i on. */
LK_INLINE void sum(const lk_gemm *g, vf *acc, const int i, const int rows, const int units, const int first, const int own)
{
    const char *const a = g->a, *const zero = g->zero, *b = g->b + first * LK_VB;
    const int64_t *const row = g->row + i;
    const vf flip = (int32_t)g->flip - (vf){};
    const int n = MIN(g->cols, NR);
#pragma GCC unroll 32
    for (int k = 0; k < rows * own; k++)
        acc[k] = (vf){};
    for (int64_t t = 0; t < g->taps; t++, b += 4 * units * LK_VB) {
        const char *const tap = a + g->tap[t];
        const uint32_t mask = g->mask ? g->mask[t] >> i : ~0u;
        if (own == 4) { /* the weights stay in registers */
            vf w[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                w[j] = *(const vf *)(b + j * LK_VB);
                LK_PIN(w[j]);
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                vf x = load_some(mask >> r & 1 ? tap + row[r] : zero, n) ^ flip;
                LK_PIN(x);
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++)
                    LK_FMA(acc[4 * r + j], x, w[j]);
            }
        } else { /* the pixels do */
            vf x[LOW];
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                x[r] = load_some(mask >> r & 1 ? tap + row[r] : zero, n) ^ flip;
                LK_PIN(x[r]);
            }
#pragma GCC unroll 8
            for (int j = 0; j < own; j++) {
                vf w = *(const vf *)(b + j * LK_VB);
                LK_PIN(w);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    LK_FMA(acc[own * r + j], x[r], w);
            }
        }
    }
}

/* The four vectors of a row, without its bias, of the sums of a round; of two, where units are four: two of them. */
LK_INLINE void added_up(const vf *acc, vf *y, const int units)
{
    if (units == 1) {
        y[0] = acc[0], y[1] = acc[1], y[2] = acc[2], y[3] = acc[3];
    } else if (units == 2) {
        y[0] = pairs_of(acc[0], acc[1]), y[1] = pairs_of(acc[2], acc[3]);
        y[2] = pairs_of(acc[4], acc[5]), y[3] = pairs_of(acc[6], acc[7]);
    } else {
        y[0] = pairs_of(pairs_of(acc[0], acc[1]), pairs_of(acc[2], acc[3]));
        y[1] = pairs_of(pairs_of(acc[4], acc[5]), pairs_of(acc[6], acc[7]));
    }
}

/* Stores all sums of a row in the order of columns. */
LK_INLINE void put_in_order(int32_t *c, const vf a, const vf b, const vf d, const vf e, const int units)
{
    const vf y[4] = {a, b, d, e};
    for (int l = 0; l < LK_LANES; l++)
#pragma GCC unroll 4
        for (int m = 0; m < 4; m++)
            c[PIECE * (l / 4) + column_of(units, m, l % 4)] = y[m][l];
}
#define PUT(UNITS) \
    static __attribute__((noinline)) void put_##UNITS(int32_t *c, vf a, vf b, vf d, vf e) \
    { \
        put_in_order(c, a, b, d, e, UNITS); \
    }
PUT(1)
PUT(2)
PUT(4)

/* Stores a row: bytes, or all sums. */
LK_INLINE void put_row_of(const lk_gemm *g, char *c, const vf *sums, const int units)
{
    static const _Alignas(64) vf none[4];
    const vf *const bias = g->bias_col ? g->bias_col : none;
    const vf y[4] = {sums[0] + bias[0], sums[1] + bias[1], sums[2] + bias[2], sums[3] + bias[3]};
#if LK_VB > 16
    if (g->out) {
        const lk_rounding *const out = g->out;
        const whole zero = SAME_16((int16_t)out->zero), sign = SAME_16((int16_t)(out->sign * 257));
        const whole bytes = bytes_of(y, out, zero, sign, 4, 4, units);
        if (out->apart) /* only as many vectors as there are columns for have a place */
            for (int m = 0; m * LK_LANES < g->cols; m++)
                memcpy(c + g->c_col[m], (const char *)&bytes + m * LK_LANES, LK_LANES);
        else
            store_bytes(c, g->c_col, bytes, out, MIN(g->cols, NR), 4);
        return;
    }
#endif
    (units == 1 ? put_1 : units == 2 ? put_2 : put_4)((int32_t *)c, y[0], y[1], y[2], y[3]);
}

LK_INLINE void tile(const lk_gemm *g, const int i, const int rows, const int units)
{
    const int own = units == 1 ? 4 : 8;
    vf acc[MAX_SUMS], y[LOW][4], ends[4];
    if (units == 4) {
        sum(g, acc, i, rows, units, 0, own);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            added_up(acc + own * r, y[r], units);
        sum(g, acc, i, rows, units, own, own);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            added_up(acc + own * r, y[r] + 2, units);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            put_row_of(g, g->c + g->c_row[i + r], y[r], units);
        return;
    }
    sum(g, acc, i, rows, units, 0, own);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        added_up(acc + own * r, ends, units);
        put_row_of(g, g->c + g->c_row[i + r], ends, units);
    }
}

typedef void tile_fn(const lk_gemm *, int i);
#define TILE(ROWS, UNITS) \
    static void tile_##ROWS##_##UNITS(const lk_gemm *g, int i) { tile(g, i, ROWS, UNITS); }
#define TILES(X) X(1, 1) X(2, 1) X(1, 2) X(1, 4)
#if LK_VB == 64
#define MORE(X) X(3, 1) X(4, 1) X(5, 1) X(6, 1) X(2, 2) X(3, 2) X(2, 4) X(3, 4)
#else
#define MORE(X)
#endif
TILES(TILE)
MORE(TILE)
#define ENTRY(ROWS, UNITS) [UNITS / 2][ROWS - 1] = tile_##ROWS##_##UNITS,
static tile_fn *const tiles[3][TALL] = {TILES(ENTRY) MORE(ENTRY)};

#define NAME LK_PASTE(LK_PASTE(gemm_groups_, LK_PASTE(LK_MR, x)), LK_PASTE(LK_NR, _u8s8))
#if LK_VB == 64
#define LK_MR 6
#define LK_NR 64
#elif LK_VB == 32
#define LK_MR 4
#define LK_NR 32
#else
#define LK_MR 4
#define LK_NR 16
#endif
void LK_NAME(NAME)(const lk_gemm *g)
{
    const int most = g->kb == 1 ? TALL : LOW;
    for (int i = 0; i < g->rows; i += most)
        tiles[g->kb / 2][MIN(most, g->rows - i) - 1](g, i);
}

const lk_kernel LK_ROWS(gemm_groups)[] = {
    LK_ROW(LK_GEMM_GROUPS, NAME, "u8s8", LK_LANES, LK_MR, LK_NR, LK_TILE("u8s8")),
    LK_LAST_ROW,
};
