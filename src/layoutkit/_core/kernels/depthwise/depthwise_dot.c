/* depthwise_dot_<rows>x<columns>_<type>: depthwise convolution of integers; see lk_depthwise_dot in depthwise_dot.h.
 *
 *   s[r][j] = bias + sum_g sum_b sum_i x[4g + i][step*j + apart*b] * w[g][b][r][i], i < 4        vectors of channels
 *
 * The panel has the numbers of four rows of the input at a column and channel side by side, which a lane multiplies and
 * sums in one step: each column is packed once for all taps along the width and for two output rows. Shuffles of bytes
 * work within 16 of them, so vector v of four has channels 4v .. 4v + 3 of every 16; packing sums to bytes restores the
 * order.
 * Where sums become bytes, the register tile is one or two output rows by COLS columns of one vector, beside the taps of a
 * row; one vector after another is summed and packed with those before. Else it is half as many columns of all four.
 * With 32 registers the usual rows, of three taps, need no panel: depthwise_dot_flow.inc.
 * Edges: rows and columns of padding hold `zero`; whole vectors are summed, unused lanes too. The last columns
 * are a tile that begins earlier, or where there are fewer, single.
 */
#pragma GCC optimize("fp-contract=off") /* a product and a sum are rounded each, as on every instruction set */
#include "common/vector.h"
#include "gemm/rounding.h"
#include "depthwise_dot.h"

#include <string.h>

#if LK_VB == 64
#define COLS 4
#else
#define COLS 2
#endif
enum { PIECE = 16, PIECES = LK_VB / PIECE, COLUMN = 4 * LK_VB }; /* COLUMN: bytes of a column in the panel */

typedef int8_t bytes __attribute__((vector_size(PIECE), aligned(1), may_alias));
typedef int16_t pairs __attribute__((vector_size(PIECE)));

#include "depthwise_dot_gather.inc"

/* The sums of a register tile: `rows` output rows, `cols` columns that begin at x in the panel, vectors [v, end). With
 * `step` it is a single quad of three taps a row, neighbours, and outputs `step` columns apart: each vector is
 * loaded once. */
LK_INLINE void sum(const lk_depthwise_dot *d, vf *acc, const char *x, const int rows, const int cols, const int v,
                   const int end, const int step)
{
    const int64_t stepped = d->step * COLUMN, apart = d->apart * COLUMN;
    const int64_t w_vector = d->packed_rows * LK_VB;
    const int kw = d->kw, tile = rows * cols;
    const char *w = d->w;
#pragma GCC unroll 4
    for (int n = v; n < end; n++) {
        const vf bias = d->bias ? ((const vf *)d->bias)[n] : (vf){};
#pragma GCC unroll 8
        for (int i = 0; i < tile; i++)
            acc[(n - v) * tile + i] = bias;
    }
    if (step) {
        vf wv[3][2];
#pragma GCC unroll 3
        for (int b = 0; b < 3; b++) {
            wv[b][0] = *(const vf *)(w + (4 * b + v) * w_vector);
            wv[b][1] = *(const vf *)(w + (4 * b + v) * w_vector + (rows - 1) * LK_VB);
        }
#pragma GCC unroll 16
        for (int i = 0; i < (cols - 1) * step + 3; i++) {
            vf xv = *(const vf *)(x + i * COLUMN + v * LK_VB);
            LK_PIN(xv);
#pragma GCC unroll 8
            for (int c = cols - 1; c >= 0; c--) /* those that began last first: the sums of a column take turns */
#pragma GCC unroll 2
                for (int r = 0; r < rows; r++)
                    if (i >= c * step && i - c * step < 3)
                        LK_FMA(acc[r * cols + c], xv, wv[i - c * step][r]);
        }
        return;
    }
    for (int g = 0; g < d->quads; g++, x += d->columns * COLUMN) {
        const char *tap = x;
        for (int b = 0; b < kw; b++, tap += apart, w += 4 * w_vector) {
#pragma GCC unroll 4
            for (int n = v; n < end; n++) {
                vf first = *(const vf *)(w + n * w_vector), second = *(const vf *)(w + n * w_vector + (rows - 1) * LK_VB);
                const char *p = tap + n * LK_VB;
                LK_PIN(first);
                if (rows > 1)
                    LK_PIN(second);
#pragma GCC unroll 8
                for (int c = 0; c < cols; c++, p += stepped) {
                    vf xv = *(const vf *)p;
                    LK_PIN(xv);
                    LK_FMA(acc[(n - v) * tile + c], xv, first);
                    if (rows > 1)
                        LK_FMA(acc[(n - v) * tile + cols + c], xv, second);
                }
            }
        }
    }
}

/* Four vectors of sums, their channels in order. */
LK_INLINE void in_order(vf *y, const vf a, const vf b, const vf c, const vf d)
{
#if LK_VB == 64
#define FOURS(x, y, n) (vf)_mm512_shuffle_i32x4((__m512i)(x), (__m512i)(y), n)
    const vf ab[2] = {FOURS(a, b, 0x44), FOURS(a, b, 0xee)}, cd[2] = {FOURS(c, d, 0x44), FOURS(c, d, 0xee)};
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++)
        y[k] = k % 2 ? FOURS(ab[k / 2], cd[k / 2], 0xdd) : FOURS(ab[k / 2], cd[k / 2], 0x88);
#elif LK_VB == 32
#define FOURS(x, y, n) (vf)_mm256_permute2x128_si256((__m256i)(x), (__m256i)(y), n)
    y[0] = FOURS(a, b, 0x20), y[1] = FOURS(c, d, 0x20), y[2] = FOURS(a, b, 0x31), y[3] = FOURS(c, d, 0x31);
#else
    y[0] = a, y[1] = b, y[2] = c, y[3] = d;
#endif
}

/* Computes a tile, and stores its sums. */
LK_INLINE void put_sums(const lk_depthwise_dot *d, const char *x, char *s, const int rows, const int cols)
{
    vf acc[4 * COLS];
    sum(d, acc, x, rows, cols, 0, 4, 0);
#pragma GCC unroll 8
    for (int i = 0; i < rows * cols; i++) {
        char *y = s + i / cols * d->s_row + i % cols * d->s_col;
        vf ordered[4];
        in_order(ordered, acc[i], acc[rows * cols + i], acc[2 * rows * cols + i], acc[3 * rows * cols + i]);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            if (v + 1 == d->vectors && d->lanes)
                store_lanes(y + d->s_at[v], ordered[v], d->lanes);
            else if (v < d->vectors)
                *(vf *)(y + d->s_at[v]) = ordered[v];
        }
    }
}

#if LK_VB > 16
/* The bytes of four vectors of sums of s16, low and high of two each */
LK_INLINE whole packed_bytes(const lk_rounding *out, whole low, const whole high)
{
    if (out->shifts) {
        const whole zero = SAME_16((int16_t)out->zero), sign = SAME_16((int16_t)(out->sign * 257));
        low = MIXED(packus_epi16, MIXED(adds_epi16, low, zero), MIXED(adds_epi16, high, zero));
        return MIXED(min_epu8, MIXED(max_epu8, low, *(const whole *)out->least), *(const whole *)out->most) ^ sign;
    }
    return out->sign ? MIXED(packs_epi16, low, high) : MIXED(packus_epi16, low, high);
}

#if LK_VB == 64
#define PART(v, k) _mm512_extracti32x4_epi32(v, k)
#define TWO_PARTS(v, k) _mm512_extracti64x4_epi64(v, (k) / 2)
#else
#define PART(v, k) _mm256_extracti128_si256(v, k)
#define TWO_PARTS(v, k) (v)
#endif
#define PUT_PART(v, k) _mm_storeu_si128((__m128i *)(y + at[k]), PART(v, k))
#define PUT_TWO(v, k) \
    if (at[(k) + 1] == at[k] + PIECE) { \
        _mm256_storeu_si256((__m256i *)(y + at[k]), TWO_PARTS(v, k)); \
    } else { \
        PUT_PART(v, k); \
        PUT_PART(v, (k) + 1); \
    }

/* The first n bytes of a piece */
LK_INLINE void put_piece(char *y, const __m128i v, const int64_t n)
{
#if LK_VB == 64
    _mm_mask_storeu_epi8(y, (__mmask16)((1u << n) - 1), v);
#else
    memcpy(y, &v, (size_t)n);
#endif
}

/* Stores the bytes of a pixel. */
LK_INLINE void put_pixel(const lk_depthwise_dot *d, char *y, const whole v)
{
    const int64_t *const at = d->s_at;
    if (d->s_whole && d->s_bytes == LK_VB) {
        *(bytes_run *)y = (bytes_run)v;
    } else if (d->s_whole) {
        put_some(y, (bytes_run)v, d->s_bytes);
    } else if (d->s_bytes < LK_VB) {
        put_piece(y + at[0], PART(v, 0), d->s_size[0]);
        put_piece(y + at[1], PART(v, 1), d->s_size[1]);
#if LK_VB == 64
        put_piece(y + at[2], PART(v, 2), d->s_size[2]);
        put_piece(y + at[3], PART(v, 3), d->s_size[3]);
#endif
    } else {
        PUT_TWO(v, 0)
#if LK_VB == 64
        PUT_TWO(v, 2)
#endif
    }
}

/* Computes a tile, and stores bytes. */
LK_INLINE void put_bytes(const lk_depthwise_dot *d, const char *x, char *s, const int rows, const int cols,
                         const int step)
{
    const lk_rounding *const out = d->out;
    whole before[2 * COLS], low[2 * COLS];
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        vf acc[2 * COLS];
        sum(d, acc, x, rows, cols, v, v + 1, step);
        const reals mul = ((const reals *)out->mul)[v], off = ((const reals *)out->off)[v];
        reals product[2 * COLS];
#pragma GCC unroll 8
        for (int i = 0; i < rows * cols; i++)
            product[i] = __builtin_convertvector(acc[i], reals) * mul;
        if (out->adds) {
#pragma GCC unroll 8
            for (int i = 0; i < rows * cols; i++)
                product[i] += off;
        }
#pragma GCC unroll 8
        for (int i = 0; i < rows * cols; i++) {
            const whole number = ROUND(product[i]);
            if (v % 2 == 0)
                before[i] = number;
            else if (v == 1)
                low[i] = MIXED(packs_epi32, before[i], number);
            else
                before[i] = MIXED(packs_epi32, before[i], number);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows * cols; i++)
        put_pixel(d, s + i / cols * d->s_row + i % cols * d->s_col, packed_bytes(out, low[i], before[i]));
}

#if LK_VB == 64
#include "depthwise_dot_flow.inc"
#endif
#else
#define put_bytes(d, x, s, rows, cols, step) ((void)(step))
#endif

/* Tiles of `cols` columns, the last one from where it ends with the row; 0: they are fewer. */
LK_INLINE int tiles(const lk_depthwise_dot *args, const int rows, const int cols, const int step, const int as_bytes)
{
    const lk_depthwise_dot copy = *args, *const d = &copy; /* which no store changes */
    const int64_t x_col = d->step * COLUMN;
    const char *const x = d->panel + d->begin * COLUMN;
    if (d->cols < cols)
        return 0;
    for (int64_t j = 0; j < d->cols; j += cols) {
        j = MIN(j, d->cols - cols);
        if (as_bytes)
            put_bytes(d, x + j * x_col, d->s + j * d->s_col, rows, cols, step);
        else
            put_sums(d, x + j * x_col, d->s + j * d->s_col, rows, cols);
    }
    return 1;
}

typedef int tiles_fn(const lk_depthwise_dot *);
#define TILES(NAME, ROWS, COLUMNS, STEP, AS_BYTES) \
    static int NAME(const lk_depthwise_dot *d) { return tiles(d, ROWS, COLUMNS, STEP, AS_BYTES); }
TILES(sums_1, 1, COLS, 0, 0)
TILES(sums_2, 2, COLS / 2, 0, 0)
TILES(sums_1x1, 1, 1, 0, 0)
TILES(sums_2x1, 2, 1, 0, 0)
#if LK_VB > 16
TILES(bytes_1, 1, COLS, 0, 1)
TILES(bytes_2, 2, COLS, 0, 1)
TILES(bytes_1x1, 1, 1, 0, 1)
TILES(bytes_2x1, 2, 1, 0, 1)
#endif
#if LK_VB == 32
TILES(bytes_1s1, 1, COLS, 1, 1)
TILES(bytes_2s1, 2, COLS, 1, 1)
TILES(bytes_1s2, 1, COLS, 2, 1)
#endif

LK_INLINE void run(const lk_depthwise_dot *d)
{
    const int two = d->rows == 2;
    gather_fn *fill = d->flip ? by_parts_flipped : by_parts;
    tiles_fn *wide = two ? sums_2 : sums_1, *narrow = two ? sums_2x1 : sums_1x1;
#if LK_VB > 16
    if (d->reading != LK_READ_PARTS)
        fill = d->reading == LK_READ_RUN ? (d->flip ? in_one_flipped : in_one) : d->flip ? by_pieces_flipped : by_pieces;
    if (d->out) {
        const int near = d->kw == 3 && d->apart == 1 && d->quads == 1 ? (int)d->step : 0;
        wide = two ? bytes_2 : bytes_1, narrow = two ? bytes_2x1 : bytes_1x1;
#if LK_VB == 64
        if (d->reading != LK_READ_PARTS && near == 3 - d->packed_rows) {
            run_flow(d);
            return;
        }
#else
        if (near == 1)
            wide = two ? bytes_2s1 : bytes_1s1;
        else if (near == 2 && !two)
            wide = bytes_1s2;
#endif
    }
#endif
    fill(d);
    if (!wide(d))
        narrow(d);
}

#if LK_VB == 64
void LK_NAME(LK_TYPED(depthwise_dot_2x4))(const lk_depthwise_dot *d) { run(d); }
#else
void LK_NAME(LK_TYPED(depthwise_dot_2x2))(const lk_depthwise_dot *d) { run(d); }
#endif

const lk_kernel LK_ROWS(depthwise_dot)[] = {
#if LK_VB == 64
    LK_ROW(LK_DEPTHWISE_DOT, LK_TYPED(depthwise_dot_2x4), LK_STR(LK_KIND), LK_LANES, 2, 4, LK_TILE(LK_STR(LK_KIND))),
#else
    LK_ROW(LK_DEPTHWISE_DOT, LK_TYPED(depthwise_dot_2x2), LK_STR(LK_KIND), LK_LANES, 2, 2, LK_TILE(LK_STR(LK_KIND))),
#endif
    LK_LAST_ROW,
};
