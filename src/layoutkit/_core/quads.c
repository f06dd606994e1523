/* quads_<rows>x<columns>_<type>: depthwise convolution of integers; see lk_quads in kernels.h.
 *
 *   s[r][j] = bias + sum_g sum_b sum_i x[4g + i][step*j + apart*b] * w[g][b][r][i], i < 4        vectors of channels
 *
 * The numbers of four rows of the input at a column and channel are made to lie side by side, which a lane multiplies
 * and sums in one step: once for each column, for all taps along the width and for two output rows. The register tile is
 * two output rows by COLS columns by four vectors, a whole run of channels, or one row by twice as many columns. It stays
 * in registers until all taps are summed, and there sums become bytes.
 * Edges: rows and columns of padding hold `zero`; of channels whole vectors are summed, whatever is in the last one.
 */
#pragma GCC optimize("fp-contract=off") /* a product and a sum are rounded each, as on every instruction set */
#include "kernels.h"
#include "rounding.h"
#include "vector.h"

#include <math.h>
#include <string.h>

/* Columns of a register tile of two output rows and four vectors; of one row twice as many */
#if LK_VB == 64
#define COLS 2
#else
#define COLS 1
#endif
#define MOST_SUMS (8 * COLS)
/* What is stored: sums of s32, or bytes; those of whole runs, whose products with sums are below 2^31, in one, or as
 * pieces. */
enum { SUMS, ROUNDED, PLAIN, PLAIN_PIECES };
enum { IN_ONE, BY_PIECES, BY_PARTS }; /* how a run of channels is read */
enum { PIECE = 16, PIECES = LK_VB / PIECE, COLUMN = 4 * LK_VB }; /* COLUMN: bytes of a column in the panel */

typedef int8_t bytes __attribute__((vector_size(PIECE), aligned(1), may_alias));
typedef int16_t pairs __attribute__((vector_size(PIECE)));

/* Four vectors of bytes, those of a channel side by side, at `to`: 16 channels. */
LK_INLINE void interleave_piece(char *to, bytes a, bytes b, bytes c, bytes d)
{
    const bytes low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    const bytes high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const pairs low_pairs = {0, 8, 1, 9, 2, 10, 3, 11}, high_pairs = {4, 12, 5, 13, 6, 14, 7, 15};
    const pairs ab[2] = {(pairs)__builtin_shuffle(a, b, low), (pairs)__builtin_shuffle(a, b, high)};
    const pairs cd[2] = {(pairs)__builtin_shuffle(c, d, low), (pairs)__builtin_shuffle(c, d, high)};
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        ((bytes *)to)[2 * half] = (bytes)__builtin_shuffle(ab[half], cd[half], low_pairs);
        ((bytes *)to)[2 * half + 1] = (bytes)__builtin_shuffle(ab[half], cd[half], high_pairs);
    }
}

/* n of 16 channels at p */
LK_INLINE bytes some(const char *p, int n)
{
    bytes v = {};
    memcpy(&v, p, (size_t)n);
    return v;
}

LK_INLINE bytes first_bytes(vf v)
{
    bytes found;
    memcpy(&found, &v, sizeof(found));
    return found;
}

#if LK_VB > 16
/* The same for a whole run of channels. Shuffles of bytes keep within 16 of them: the order of fours before makes that of
 * channels after, and so it is where sums become bytes. */
#if LK_VB == 64
#define FOURS_OF(v) IN_ORDER(v)
#define JOINED(k) \
    _mm512_inserti32x4(_mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(PIECE_OF(k, 0)), PIECE_OF(k, 1), 1), \
                                          PIECE_OF(k, 2), 2), PIECE_OF(k, 3), 3)
#define PUT(i, v) _mm512_store_si512((__m512i *)to + (i), v)
#define SMALLER(a, b) (reals)_mm512_min_ps((__m512)(a), (__m512)(b))
#define LARGER(a, b) (reals)_mm512_max_ps((__m512)(a), (__m512)(b))
#else
#define FOURS_OF(v) _mm256_permutevar8x32_epi32(v, (whole)(vi){0, 2, 4, 6, 1, 3, 5, 7})
#define JOINED(k) _mm256_inserti128_si256(_mm256_castsi128_si256(PIECE_OF(k, 0)), PIECE_OF(k, 1), 1)
#define PUT(i, v) _mm256_store_si256((__m256i *)to + (i), v)
#define SMALLER(a, b) (reals)_mm256_min_ps((__m256)(a), (__m256)(b))
#define LARGER(a, b) (reals)_mm256_max_ps((__m256)(a), (__m256)(b))
#endif
LK_INLINE void interleave_run(char *to, whole a, whole b, whole c, whole d, const whole flip)
{
    a = FOURS_OF(a ^ flip), b = FOURS_OF(b ^ flip), c = FOURS_OF(c ^ flip), d = FOURS_OF(d ^ flip);
    const whole low[2] = {MIXED(unpacklo_epi8, a, b), MIXED(unpacklo_epi8, c, d)};
    const whole high[2] = {MIXED(unpackhi_epi8, a, b), MIXED(unpackhi_epi8, c, d)};
    PUT(0, MIXED(unpacklo_epi16, low[0], low[1]));
    PUT(1, MIXED(unpackhi_epi16, low[0], low[1]));
    PUT(2, MIXED(unpacklo_epi16, high[0], high[1]));
    PUT(3, MIXED(unpackhi_epi16, high[0], high[1]));
}
#endif

/* Columns [first, end) of the panel: four rows of the input side by side. How a run is read: in one, by whole pieces, or
 * by pieces that are in part or in another order. All that is read of d is read before anything is stored. */
LK_INLINE void gather(const lk_quads *d, const vf flip, const int how)
{
    (void)how;
    const int64_t *const column = d->column, *const at = d->at, *const count = d->bytes, first = d->first, end = d->end;
    const int pieces = d->pieces, quads = d->quads;
    const char *const zero = d->zero, *const order = d->order;
    for (int g = 0; g < quads; g++) {
        const char *from[4];
        int64_t there[4]; /* all bits set, or of padding none */
        char *to = d->panel + (g * d->columns + first) * COLUMN;
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            const char *row = d->row[4 * g + k];
            there[k] = -(int64_t)(row != NULL);
            from[k] = row ? row : zero;
        }
#if LK_VB > 16
        if (how == IN_ONE && there[0] & there[1] & there[2] & there[3]) { /* most of all: addresses are sums of two */
            const char *const a = from[0] + at[0], *const b = from[1] + at[0];
            const char *const c = from[2] + at[0], *const e = from[3] + at[0];
            for (int64_t i = first; i < end; i++, to += COLUMN) {
                const int64_t offset = column[i];
#define AT(p) *(const whole *)((p) + offset)
                if (offset != LK_NOWHERE)
                    interleave_run(to, AT(a), AT(b), AT(c), AT(e), (whole)flip);
                else
                    interleave_run(to, *(const whole *)zero, *(const whole *)zero, *(const whole *)zero,
                                   *(const whole *)zero, (whole)flip);
            }
            continue;
        }
#endif
        for (int64_t i = first; i < end; i++, to += COLUMN) {
            const int64_t offset = column[i];
            const char *p[4];
            int64_t inside[4];
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++) {
                inside[k] = offset == LK_NOWHERE ? 0 : there[k];
                p[k] = offset == LK_NOWHERE ? zero : from[k] + (offset & there[k]);
            }
#if LK_VB > 16
            if (how == IN_ONE) {
                const int64_t begin = at[0];
#define ROW(k) *(const whole *)(p[k] + (begin & inside[k]))
                interleave_run(to, ROW(0), ROW(1), ROW(2), ROW(3), (whole)flip);
                continue;
            }
            if (how == BY_PIECES) {
#define PIECE_OF(k, n) *(const __m128i_u *)(p[k] + (at[n] & inside[k]))
                interleave_run(to, JOINED(0), JOINED(1), JOINED(2), JOINED(3), (whole)flip);
                continue;
            }
#endif
            for (int k = 0; k < pieces; k++) {
                const int n = (int)count[k];
                bytes v[4];
#pragma GCC unroll 4
                for (int m = 0; m < 4; m++) {
                    const char *piece = p[m] + (at[k] & inside[m]);
                    v[m] = n == PIECE ? *(const bytes *)piece : some(piece, n);
                    if (order)
                        v[m] = __builtin_shuffle(v[m], *(const bytes *)(order + PIECE * k));
                    v[m] ^= first_bytes(flip);
                }
                interleave_piece(to + 4 * PIECE * k, v[0], v[1], v[2], v[3]);
            }
        }
    }
}

#if LK_VB > 16
/* Sums as they are meant, rounded to integers, in the steps of epilogue_s32_u8 and _s8. `plain`: they can neither be NaN
 * nor beyond 2^31. */
LK_INLINE whole rounded_sums(const vf sums, const reals mul, const reals off, const reals lo, const reals hi,
                             const int plain)
{
    reals x = __builtin_convertvector(sums, reals) * mul;
    if (!plain) {
        x = SMALLER(hi, LARGER(lo, x + off)); /* NaN stays NaN */
        x = (reals)((x == x) & (vi)x);
        x = SMALLER(x, 0x1p30f - (reals){});
    }
    return ROUND(x);
}

/* n numbers, at most a vector */
LK_INLINE reals some_reals(const float *p, const int n)
{
    return n <= 0 ? (reals){} : n >= LK_LANES ? *(const reals *)p : (reals)load_lanes((const char *)p, (1u << n) - 1);
}
#endif

/* The sums of a register tile: `rows` output rows, `cols` columns that begin at x in the panel, nv vectors. */
LK_INLINE void sum(const lk_quads *d, vf *acc, const char *from, const int rows, const int cols, const int nv)
{
    const int64_t step = d->step * COLUMN, apart = d->apart * COLUMN;
    const char *w = d->w;
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) {
        const vf bias = d->bias ? ((const vf *)d->bias)[v] : (vf){};
#pragma GCC unroll 8
        for (int i = 0; i < rows * cols; i++)
            acc[v * rows * cols + i] = bias;
    }
    for (int g = 0; g < d->quads; g++) {
        const char *x = from + g * d->columns * COLUMN;
        for (int b = 0; b < d->kw; b++, x += apart, w += 4 * d->packed_rows * LK_VB) {
            const char *wv = w;
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++, wv += d->packed_rows * LK_VB) {
                vf first = *(const vf *)wv, second = *(const vf *)(rows > 1 ? wv + LK_VB : wv);
                const char *p = x + v * LK_VB;
                LK_PIN(first);
                if (rows > 1)
                    LK_PIN(second);
#pragma GCC unroll 8
                for (int c = 0; c < cols; c++, p += step) {
                    vf xv = *(const vf *)p;
                    LK_PIN(xv);
                    LK_FMA(acc[v * rows * cols + c], xv, first);
                    if (rows > 1)
                        LK_FMA(acc[(v * rows + 1) * cols + c], xv, second);
                }
            }
        }
    }
}

/* Tiles of `cols` columns from column j on, as long as there are whole ones. */
LK_INLINE int64_t tiles(const lk_quads *d, int64_t j, const int rows, const int cols, const int nv, const int how)
{
    const int64_t s_row = d->s_row, s_col = d->s_col, x_col = d->step * COLUMN, stop = d->cols - cols;
    const char *x = d->panel + d->begin * COLUMN + j * x_col;
    char *s = d->s + j * s_col;
    vf acc[MOST_SUMS];
#if LK_VB > 16
    if (how != SUMS) {
        const lk_epilogue *f = d->out;
        const float *const mul = f->mul + f->channel, *const off = f->off ? f->off + f->channel : NULL;
        const float *const limits = f->steps ? (const float *)f->step->numbers : NULL;
        const int n = d->s_bytes, in_one = how == PLAIN || (how == ROUNDED && d->s_whole), plain = how != ROUNDED;
        const int shift = d->out_signed ? 128 : 0; /* bytes of s8 are those of u8 beside 128, with another first bit */
        const whole zero = SAME_16((int16_t)(f->zero + shift)), sign = SAME_16((int16_t)(shift * 257));
        const int64_t *const at = d->s_at;
#define LANES_OF(v) MIN(LK_LANES, n - (v) * LK_LANES)
#define MUL_OF(v) const reals mul_##v = nv > v ? some_reals(mul + v * LK_LANES, LANES_OF(v)) : (reals){}
#define OFF_OF(v) const reals off_##v = nv > v && !plain && off ? some_reals(off + v * LK_LANES, LANES_OF(v)) : (reals){}
        MUL_OF(0);
        MUL_OF(1);
        MUL_OF(2);
        MUL_OF(3);
        OFF_OF(0);
        OFF_OF(1);
        OFF_OF(2);
        OFF_OF(3);
        const reals lo = (limits ? limits[0] : -INFINITY) - (reals){}, hi = (limits ? limits[1] : INFINITY) - (reals){};
        for (; j <= stop; j += cols, x += cols * x_col, s += cols * s_col) {
            sum(d, acc, x, rows, cols, nv);
#pragma GCC unroll 8
            for (int i = 0; i < rows * cols; i++) { /* one loop: gcc would keep the sums of two in memory */
#define INTEGERS(v) \
    (nv > v ? rounded_sums(acc[(nv > v ? v : 0) * rows * cols + i], mul_##v, off_##v, lo, hi, plain) : (whole){})
                char *y = s + i / cols * s_row + i % cols * s_col;
                const bytes_run out =
                    (bytes_run)(saturated(INTEGERS(0), INTEGERS(1), INTEGERS(2), INTEGERS(3), zero) ^ sign);
                const char *from = (const char *)&out;
                if (how == PLAIN || (in_one && n == LK_VB)) {
                    *(bytes_run *)y = out;
                } else if (in_one) {
                    put_some(y, out, n);
                } else {
                    memcpy(y + at[0], from, PIECE);
                    memcpy(y + at[1], from + PIECE, PIECE);
#if LK_VB == 64
                    memcpy(y + at[2], from + 2 * PIECE, PIECE);
                    memcpy(y + at[3], from + 3 * PIECE, PIECE);
#endif
                }
            }
        }
        return j;
    }
#endif
    (void)how;
    for (; j <= stop; j += cols, x += cols * x_col, s += cols * s_col) {
        sum(d, acc, x, rows, cols, nv);
#pragma GCC unroll 8
        for (int i = 0; i < rows * cols; i++) {
            char *y = s + i / cols * s_row + i % cols * s_col;
#pragma GCC unroll 4
            for (int v = 0; v < nv; v++) {
                if (v + 1 == nv && d->lanes)
                    store_lanes(y + d->s_at[v], acc[v * rows * cols + i], d->lanes);
                else
                    *(vf *)(y + d->s_at[v]) = acc[v * rows * cols + i];
            }
        }
    }
    return j;
}

#define TILES(NAME, NV, HOW) \
    static void NAME(const lk_quads *d) \
    { \
        if (d->rows == 2) \
            tiles(d, tiles(d, 0, 2, COLS, NV, HOW), 2, 1, NV, HOW); \
        else \
            tiles(d, tiles(d, 0, 1, 2 * COLS, NV, HOW), 1, 1, NV, HOW); \
    }
TILES(sums_1, 1, SUMS)
TILES(sums_2, 2, SUMS)
TILES(sums_3, 3, SUMS)
TILES(sums_4, 4, SUMS)
#if LK_VB > 16
TILES(rounded_1, 1, ROUNDED)
TILES(rounded_2, 2, ROUNDED)
TILES(rounded_3, 3, ROUNDED)
TILES(rounded_4, 4, ROUNDED)
TILES(plain, 4, PLAIN)
TILES(plain_pieces, 4, PLAIN_PIECES)

/* Whether products with sums of s32 are below 2^31, and nothing else follows. */
LK_INLINE int is_plain(const lk_quads *d)
{
    const lk_epilogue *f = d->out;
    vi large = {};
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) { /* as integers, without the sign, numbers are in the same order */
        const vi bits = (vi)some_reals(f->mul + f->channel + v * LK_LANES, d->s_bytes - v * LK_LANES);
        large |= (bits & 0x7fffffff) > 0x3f000000;
    }
    for (int i = 0; i < LK_LANES; i++)
        large[0] |= large[i];
    return !f->off && !f->steps && !large[0];
}
#endif

LK_INLINE void gather_any(const lk_quads *d, const vf flip)
{
#if LK_VB > 16
    if (d->whole == 1) {
        gather(d, flip, IN_ONE);
        return;
    }
    if (d->whole) {
        gather(d, flip, BY_PIECES);
        return;
    }
#endif
    gather(d, flip, BY_PARTS);
}

LK_INLINE void run(const lk_quads *d)
{
    static const lk_quads_fn of_sums[] = {sums_1, sums_2, sums_3, sums_4};
    if (d->flip)
        gather_any(d, (int32_t)d->flip - (vf){});
    else
        gather_any(d, (vf){});
#if LK_VB > 16
    static const lk_quads_fn of_bytes[] = {rounded_1, rounded_2, rounded_3, rounded_4};
    if (d->out) {
        if (d->s_bytes < LK_VB || !is_plain(d))
            of_bytes[d->vectors - 1](d);
        else if (d->s_whole)
            plain(d);
        else
            plain_pieces(d);
        return;
    }
#endif
    of_sums[d->vectors - 1](d);
}

#if LK_VB == 64
void LK_NAME(LK_TYPED(quads_2x2))(const lk_quads *d) { run(d); }
#else
void LK_NAME(LK_TYPED(quads_2x1))(const lk_quads *d) { run(d); }
#endif

const lk_kernel LK_ROWS(quads)[] = {
#if LK_VB == 64
    LK_ROW(LK_QUADS, LK_TYPED(quads_2x2), LK_STR(LK_KIND), LK_LANES, 2, 2),
#else
    LK_ROW(LK_QUADS, LK_TYPED(quads_2x1), LK_STR(LK_KIND), LK_LANES, 2, 1),
#endif
    LK_LAST_ROW,
};
