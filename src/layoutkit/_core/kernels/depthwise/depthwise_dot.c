/* depthwise_dot_<rows>x<columns>_<type>: depthwise convolution of integers; see lk_depthwise_dot in depthwise_dot.h.
 *
 *   s[r][j] = bias + sum_g sum_b sum_i x[4g + i][step*j + apart*b] * w[g][b][r][i], i < 4        vectors of channels
 *
 * The numbers of four rows of the input at a column and channel are made to lie side by side, which a lane multiplies
 * and sums in one step: once for each column, for all taps along the width and for two output rows. Shuffles of bytes keep
 * within 16 of them, and so the four vectors of a run have its channels by fours, of every 16 in turn; the packs that make
 * bytes of four vectors of sums put them in order again.
 * Where sums become bytes, the register tile is one or two output rows by COLS columns of one vector, beside the taps of a
 * row; one vector after another is summed and packed with those before. Else it is half as many columns of all four.
 * With 32 registers the usual rows, of three taps, need no panel: depthwise_dot_flow.inc.
 * Edges: rows and columns of padding hold `zero`; whole vectors are summed, whatever is in their lanes. The last columns
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
enum { IN_ONE, BY_PIECES, BY_PARTS }; /* how a run of channels is read */
enum { PIECE = 16, PIECES = LK_VB / PIECE, COLUMN = 4 * LK_VB }; /* COLUMN: bytes of a column in the panel */

typedef int8_t bytes __attribute__((vector_size(PIECE), aligned(1), may_alias));
typedef int16_t pairs __attribute__((vector_size(PIECE)));

/* Four vectors of bytes, those of a channel side by side, at `to`: 16 channels, by fours. */
LK_INLINE void interleave_piece(char *to, bytes a, bytes b, bytes c, bytes d)
{
    const bytes low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    const bytes high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const pairs low_pairs = {0, 8, 1, 9, 2, 10, 3, 11}, high_pairs = {4, 12, 5, 13, 6, 14, 7, 15};
    const pairs ab[2] = {(pairs)__builtin_shuffle(a, b, low), (pairs)__builtin_shuffle(a, b, high)};
    const pairs cd[2] = {(pairs)__builtin_shuffle(c, d, low), (pairs)__builtin_shuffle(c, d, high)};
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        *(bytes *)(to + 2 * half * LK_VB) = (bytes)__builtin_shuffle(ab[half], cd[half], low_pairs);
        *(bytes *)(to + (2 * half + 1) * LK_VB) = (bytes)__builtin_shuffle(ab[half], cd[half], high_pairs);
    }
}

/* n of 16 channels at p */
LK_INLINE bytes some(const char *p, int n)
{
#if LK_VB == 64
    return (bytes)_mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), p);
#else
    bytes v = {};
    char *to = (char *)&v;
    if (n >= 8) { /* two that overlap: a copy of n bytes would be a call */
        memcpy(to, p, 8);
        memcpy(to + n - 8, p + n - 8, 8);
    } else if (n >= 4) {
        memcpy(to, p, 4);
        memcpy(to + n - 4, p + n - 4, 4);
    } else {
        for (int i = 0; i < n; i++)
            to[i] = p[i];
    }
    return v;
#endif
}

LK_INLINE bytes first_bytes(vf v)
{
    bytes found;
    memcpy(&found, &v, sizeof(found));
    return found;
}

#if LK_VB > 16
/* The same for a whole run of channels */
#define HALF(k, n) _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE_OF(k, n)), PIECE_OF(k, (n) + 1), 1)
#if LK_VB == 64
#define JOINED(k) \
    _mm512_inserti64x4(_mm512_castsi256_si512(HALF(k, 0)), HALF(k, 2), 1)
#define PUT(i, v) _mm512_store_si512((__m512i *)to + (i), v)
#else
#define JOINED(k) HALF(k, 0)
#define PUT(i, v) _mm256_store_si256((__m256i *)to + (i), v)
#endif
LK_INLINE void interleave_run(char *to, whole a, whole b, whole c, whole d, const whole flip)
{
    a ^= flip, b ^= flip, c ^= flip, d ^= flip;
    const whole low[2] = {MIXED(unpacklo_epi8, a, b), MIXED(unpacklo_epi8, c, d)};
    const whole high[2] = {MIXED(unpackhi_epi8, a, b), MIXED(unpackhi_epi8, c, d)};
    PUT(0, MIXED(unpacklo_epi16, low[0], low[1]));
    PUT(1, MIXED(unpackhi_epi16, low[0], low[1]));
    PUT(2, MIXED(unpacklo_epi16, high[0], high[1]));
    PUT(3, MIXED(unpackhi_epi16, high[0], high[1]));
}
#endif

/* Four rows of the input that come to lie side by side. */
typedef struct {
    const char *from[4]; /* `zero`, of a row in the padding */
    int64_t there[4];    /* all bits set, or of padding none */
} four_rows;

LK_INLINE four_rows four_rows_of(const lk_depthwise_dot *d, const int quad, const char *zero)
{
    four_rows r;
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        const char *row = d->row[4 * quad + k];
        r.there[k] = -(int64_t)(row != NULL);
        r.from[k] = row ? row : zero;
    }
    return r;
}

#if LK_VB > 16
/* Columns [first, end) of the panel: four rows of the input side by side. A run of channels is one run of the input. */
LK_INLINE void gather_in_one(const lk_depthwise_dot *d, const int64_t first, const int64_t end, const whole flip)
{
    const int64_t *const column = d->column, begin = d->at[0];
    const char *const zero = d->zero;
    const int quads = d->quads;
    for (int g = 0; g < quads; g++) {
        const four_rows r = four_rows_of(d, g, zero);
        const int64_t all = r.there[0] & r.there[1] & r.there[2] & r.there[3];
        char *to = d->panel + (g * d->columns + first) * COLUMN;
        for (int64_t i = first; i < end; i++, to += COLUMN) {
            const int64_t offset = (int64_t)((uint64_t)column[i] + (uint64_t)begin); /* nowhere wraps around */
#define AT(k) *(const whole *)(r.from[k] + offset)
#define ROW(k) *(const whole *)(r.there[k] ? r.from[k] + offset : zero)
            if (column[i] == LK_NOWHERE)
                interleave_run(to, *(const whole *)zero, *(const whole *)zero, *(const whole *)zero, *(const whole *)zero,
                               flip);
            else if (all) /* most of all: addresses are sums of two */
                interleave_run(to, AT(0), AT(1), AT(2), AT(3), flip);
            else
                interleave_run(to, ROW(0), ROW(1), ROW(2), ROW(3), flip);
        }
    }
}

/* The same of a run whose pieces are whole, and anywhere. */
LK_INLINE void gather_pieces(const lk_depthwise_dot *d, const int64_t first, const int64_t end, const whole flip)
{
    const int64_t *const column = d->column;
    const char *const zero = d->zero;
    const int segments = d->segments, quads = d->quads;
    int64_t begin[PIECES]; /* of each piece */
    int segment[PIECES];
#pragma GCC unroll 4
    for (int n = 0; n < PIECES; n++) {
        begin[n] = d->at[n];
        segment[n] = n * segments / PIECES;
    }
    for (int g = 0; g < quads; g++) {
        const four_rows r = four_rows_of(d, g, zero);
        const int64_t all = r.there[0] & r.there[1] & r.there[2] & r.there[3];
        char *to = d->panel + (g * d->columns + first) * COLUMN;
        for (int64_t i = first; i < end; i++, to += COLUMN) {
            int64_t offset[PIECES], inside[PIECES], every = -1, any = 0;
#pragma GCC unroll 4
            for (int n = 0; n < PIECES; n++) {
                const int64_t found = column[i * segments + segment[n]];
                offset[n] = (int64_t)((uint64_t)found + (uint64_t)begin[n]);
                inside[n] = -(int64_t)(found != LK_NOWHERE);
                every &= inside[n], any |= inside[n];
            }
#define PIECE_OF(k, n) *(const __m128i_u *)(r.from[k] + offset[n])
            if (every & all) {
                interleave_run(to, JOINED(0), JOINED(1), JOINED(2), JOINED(3), flip);
                continue;
            }
#undef PIECE_OF
#define PIECE_OF(k, n) *(const __m128i_u *)(r.from[k] + (offset[n] & r.there[k]))
            if (every) {
                interleave_run(to, JOINED(0), JOINED(1), JOINED(2), JOINED(3), flip);
                continue;
            }
            if (!any) {
                const whole padding = *(const whole *)zero;
                interleave_run(to, padding, padding, padding, padding, flip);
                continue;
            }
#undef PIECE_OF
#define PIECE_OF(k, n) *(const __m128i_u *)(inside[n] & r.there[k] ? r.from[k] + offset[n] : zero)
            interleave_run(to, JOINED(0), JOINED(1), JOINED(2), JOINED(3), flip);
        }
    }
}
#endif

/* The same of a run whose pieces are in part, or in another order. */
LK_INLINE void gather_parts(const lk_depthwise_dot *d, const int64_t first, const int64_t end, const bytes flip)
{
    const int64_t *const column = d->column, *const at = d->at, *const count = d->bytes;
    const char *const zero = d->zero, *const order = d->order;
    const int pieces = d->pieces, quads = d->quads;
    for (int g = 0; g < quads; g++) {
        const four_rows r = four_rows_of(d, g, zero);
        char *to = d->panel + (g * d->columns + first) * COLUMN;
        for (int64_t i = first; i < end; i++, to += COLUMN) {
            const int64_t offset = column[i];
            for (int k = 0; k < pieces; k++) {
                const int n = (int)count[k];
                bytes v[4];
#pragma GCC unroll 4
                for (int m = 0; m < 4; m++) {
                    const char *piece = offset != LK_NOWHERE && r.there[m] ? r.from[m] + offset + at[k] : zero;
                    v[m] = n == PIECE ? *(const bytes *)piece : some(piece, n);
                    if (order)
                        v[m] = __builtin_shuffle(v[m], *(const bytes *)(order + PIECE * k));
                    v[m] ^= flip;
                }
                interleave_piece(to + PIECE * k, v[0], v[1], v[2], v[3]);
            }
        }
    }
}

/* The columns of a run that is read in such a way. */
LK_INLINE void gather(const lk_depthwise_dot *d, const int64_t first, const int64_t end, const vf flip, const int how)
{
    if (how == BY_PARTS)
        gather_parts(d, first, end, first_bytes(flip));
#if LK_VB > 16
    else if (how == IN_ONE)
        gather_in_one(d, first, end, (whole)flip);
    else
        gather_pieces(d, first, end, (whole)flip);
#endif
}

/* The sums of a register tile: `rows` output rows, `cols` columns that begin at x in the panel, vectors [v, end). With
 * `step` it is a single quad of three taps a row, neighbours, and outputs so many columns apart: what is read is read
 * once. */
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

/* Four vectors of sums with the channels in their order */
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

/* A tile's sums are stored. */
LK_INLINE void put_sums(const lk_depthwise_dot *d, const char *x, char *s, const int rows, const int cols)
{
    vf acc[4 * COLS];
    sum(d, acc, x, rows, cols, 0, 4, 0);
#pragma GCC unroll 8
    for (int i = 0; i < rows * cols; i++) {
        char *y = s + i / cols * d->s_row + i % cols * d->s_col;
        vf found[4];
        in_order(found, acc[i], acc[rows * cols + i], acc[2 * rows * cols + i], acc[3 * rows * cols + i]);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            if (v + 1 == d->vectors && d->lanes)
                store_lanes(y + d->s_at[v], found[v], d->lanes);
            else if (v < d->vectors)
                *(vf *)(y + d->s_at[v]) = found[v];
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

/* A pixel's bytes are stored. */
LK_INLINE void put_pixel(const lk_depthwise_dot *d, char *y, const whole v)
{
    const int64_t *const at = d->s_at;
    if (d->s_whole && d->s_bytes == LK_VB) {
        *(bytes_run *)y = (bytes_run)v;
    } else if (d->s_whole) {
        put_some(y, (bytes_run)v, d->s_bytes);
    } else {
        PUT_TWO(v, 0)
#if LK_VB == 64
        PUT_TWO(v, 2)
#endif
    }
}

/* A tile's bytes are stored. */
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

typedef void gather_fn(const lk_depthwise_dot *, int64_t first, int64_t end);
#define GATHER(NAME, HOW) \
    static void NAME(const lk_depthwise_dot *d, int64_t first, int64_t end) { gather(d, first, end, (vf){}, HOW); } \
    static void NAME##_flipped(const lk_depthwise_dot *d, int64_t first, int64_t end) \
    { \
        gather(d, first, end, (int32_t)d->flip - (vf){}, HOW); \
    }
GATHER(by_parts, BY_PARTS)
#if LK_VB > 16
GATHER(in_one, IN_ONE)
GATHER(by_pieces, BY_PIECES)
#endif

/* Tiles of `cols` columns, the last one from where it ends with the row; 0: they are fewer. What a tile reads is gathered
 * just before it. */
LK_INLINE int tiles(const lk_depthwise_dot *given, gather_fn *fill, const int rows, const int cols, const int step,
                    const int as_bytes)
{
    const lk_depthwise_dot copy = *given, *const d = &copy; /* which no store changes */
    const int64_t x_col = d->step * COLUMN, reach = d->begin + (d->kw - 1) * d->apart + 1;
    const char *const x = d->panel + d->begin * COLUMN;
    int64_t first = d->first;
    if (d->cols < cols)
        return 0;
    for (int64_t j = 0; j < d->cols; j += cols) {
        j = MIN(j, d->cols - cols);
        const int64_t end = j + cols == d->cols ? d->end : (j + cols - 1) * d->step + reach;
        if (end > first) {
            fill(given, first, end);
            first = end;
        }
        if (as_bytes)
            put_bytes(d, x + j * x_col, d->s + j * d->s_col, rows, cols, step);
        else
            put_sums(d, x + j * x_col, d->s + j * d->s_col, rows, cols);
    }
    return 1;
}

typedef int tiles_fn(const lk_depthwise_dot *, gather_fn *);
#define TILES(NAME, ROWS, COLUMNS, STEP, AS_BYTES) \
    static int NAME(const lk_depthwise_dot *d, gather_fn *fill) \
    { \
        return tiles(d, fill, ROWS, COLUMNS, STEP, AS_BYTES); \
    }
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
    if (d->whole)
        fill = d->whole == 1 ? (d->flip ? in_one_flipped : in_one) : d->flip ? by_pieces_flipped : by_pieces;
    if (d->out) {
        const int near = d->kw == 3 && d->apart == 1 && d->quads == 1 ? (int)d->step : 0;
        wide = two ? bytes_2 : bytes_1, narrow = two ? bytes_2x1 : bytes_1x1;
#if LK_VB == 64
        if (d->whole && near == 3 - d->packed_rows) {
            static const lk_depthwise_dot_fn flows[][2] = {{flow_in_one, flow_in_one_flipped},
                                                   {flow_by_pieces, flow_by_pieces_flipped},
                                                   {flow_of_several, flow_of_several_flipped}};
            flows[d->whole == 1 ? 0 : d->segments == 1 ? 1 : 2][d->flip != 0](d);
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
    if (!wide(d, fill))
        narrow(d, fill);
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
