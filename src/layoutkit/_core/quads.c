/* quads_<rows>x<columns>_<type>: depthwise convolution of integers; see lk_quads in kernels.h.
 *
 *   s[r][j] = bias + sum_g sum_b sum_i x[4g + i][step*j + apart*b] * w[g][b][r][i], i < 4        vectors of channels
 *
 * The numbers of four rows of the input at a column and channel are made to lie side by side, which a lane multiplies and
 * sums in one step: once for each column, for all taps along the width and for two output rows. The register tile is two
 * output rows by COLS columns by four vectors, a whole run of channels, or one row by twice as many columns. It stays in
 * registers until all taps are summed, and there sums become bytes.
 * Edges: rows and columns of padding hold `zero`; of channels whole vectors are summed, whatever is in the last one.
 */
#pragma GCC optimize("fp-contract=off") /* a product and a sum are rounded each, as on every instruction set */
#include "kernels.h"
#include "vector.h"

#include <string.h>

/* Columns of a register tile of two output rows and four vectors; of one row twice as many */
#if LK_VB == 64
#define COLS 2
#else
#define COLS 1
#endif
#define MOST_SUMS (8 * COLS)
enum { SUMS, ROUNDED, PLAIN }; /* what is stored: sums of s32, or bytes */
enum { PIECE = 16, PIECES = LK_VB / PIECE, COLUMN = 4 * LK_VB }; /* COLUMN: bytes of a column in the panel */

typedef int8_t bytes __attribute__((vector_size(PIECE), aligned(1), may_alias));
typedef int16_t pairs __attribute__((vector_size(PIECE)));

/* Four vectors of bytes, those of a channel side by side, at `to`: 16 channels. */
LK_INLINE void interleave_piece(char *to, bytes a, bytes b, bytes c, bytes d)
{
#define LOW (bytes){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define HIGH (bytes){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}
    const pairs ab[2] = {(pairs)__builtin_shuffle(a, b, LOW), (pairs)__builtin_shuffle(a, b, HIGH)};
    const pairs cd[2] = {(pairs)__builtin_shuffle(c, d, LOW), (pairs)__builtin_shuffle(c, d, HIGH)};
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        ((bytes *)to)[2 * half] = (bytes)__builtin_shuffle(ab[half], cd[half], (pairs){0, 8, 1, 9, 2, 10, 3, 11});
        ((bytes *)to)[2 * half + 1] = (bytes)__builtin_shuffle(ab[half], cd[half], (pairs){4, 12, 5, 13, 6, 14, 7, 15});
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
typedef int8_t bytes_run __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef float reals __attribute__((vector_size(LK_VB), aligned(4), may_alias));
#if LK_VB == 64
typedef __m512i whole;
#define FOURS (vi){0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15}
#define LOADED(i) _mm512_permutexvar_epi32((whole)FOURS, (whole)(*(const vf *)p[i] ^ flip))
#define IN_ORDER(v) _mm512_permutexvar_epi32((whole)FOURS, v)
#define MIXED(name, a, b) _mm512_##name(a, b)
#define PUT(i, v) _mm512_store_si512((whole *)to + (i), v)
#define ROUND(v) _mm512_cvtps_epi32((__m512)(v))
#define SMALLER(a, b) (reals)_mm512_min_ps((__m512)(a), (__m512)(b))
#define LARGER(a, b) (reals)_mm512_max_ps((__m512)(a), (__m512)(b))
#define SAME_16(n) _mm512_set1_epi16(n)
#else
typedef __m256i whole;
#define LOADED(i) _mm256_permutevar8x32_epi32((whole)(*(const vf *)p[i] ^ flip), (whole)(vi){0, 2, 4, 6, 1, 3, 5, 7})
#define IN_ORDER(v) _mm256_permutevar8x32_epi32(v, (whole)(vi){0, 4, 1, 5, 2, 6, 3, 7})
#define MIXED(name, a, b) _mm256_##name(a, b)
#define PUT(i, v) _mm256_store_si256((whole *)to + (i), v)
#define ROUND(v) _mm256_cvtps_epi32((__m256)(v))
#define SMALLER(a, b) (reals)_mm256_min_ps((__m256)(a), (__m256)(b))
#define LARGER(a, b) (reals)_mm256_max_ps((__m256)(a), (__m256)(b))
#define SAME_16(n) _mm256_set1_epi16(n)
#endif
LK_INLINE void interleave_run(char *to, const char *const *p, const vf flip)
{
    const whole a = LOADED(0), b = LOADED(1), c = LOADED(2), d = LOADED(3);
    const whole low[2] = {MIXED(unpacklo_epi8, a, b), MIXED(unpacklo_epi8, c, d)};
    const whole high[2] = {MIXED(unpackhi_epi8, a, b), MIXED(unpackhi_epi8, c, d)};
    PUT(0, MIXED(unpacklo_epi16, low[0], low[1]));
    PUT(1, MIXED(unpackhi_epi16, low[0], low[1]));
    PUT(2, MIXED(unpacklo_epi16, high[0], high[1]));
    PUT(3, MIXED(unpackhi_epi16, high[0], high[1]));
}

/* NaN stays NaN. */
LK_INLINE reals limited(reals x, const float *limits)
{
    return SMALLER(limits[1] - (reals){}, LARGER(limits[0] - (reals){}, x));
}
#endif

/* Columns [first, end) of the panel: four rows of the input side by side. */
LK_INLINE void gather(const lk_quads *d, const vf flip)
{
    for (int g = 0; g < d->quads; g++) {
        const char *from[4];
        int64_t there[4]; /* all bits set, or of padding none */
        char *to = d->panel + (g * d->columns + d->first) * COLUMN;
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            there[k] = -(int64_t)(d->row[4 * g + k] != NULL);
            from[k] = d->row[4 * g + k] ? d->row[4 * g + k] : d->zero;
        }
        for (int64_t i = d->first; i < d->end; i++, to += COLUMN) {
            const int64_t column = d->column[i];
            const int inside = column != LK_NOWHERE;
#if LK_VB > 16
            if (d->whole) {
                const char *p[4];
#pragma GCC unroll 4
                for (int k = 0; k < 4; k++)
                    p[k] = inside ? from[k] + ((column + d->at[0]) & there[k]) : d->zero;
                interleave_run(to, p, flip);
                continue;
            }
#endif
            for (int k = 0; k < d->pieces; k++) {
                const int n = (int)d->bytes[k];
                bytes v[4];
#pragma GCC unroll 4
                for (int m = 0; m < 4; m++) {
                    const char *p = inside ? from[m] + ((column + d->at[k]) & there[m]) : d->zero;
                    v[m] = n == PIECE ? *(const bytes *)p : some(p, n);
                    if (d->order)
                        v[m] = __builtin_shuffle(v[m], *(const bytes *)(d->order + PIECE * k));
                    v[m] ^= (bytes)first_bytes(flip);
                }
                interleave_piece(to + 4 * PIECE * k, v[0], v[1], v[2], v[3]);
            }
        }
    }
}

#if LK_VB > 16
/* Sums of vector v as they are meant, rounded to integers, in the steps of epilogue_s32_u8 and _s8. `plain`: they can
 * neither be NaN nor beyond 2^31. */
LK_INLINE whole rounded_sums(const lk_epilogue *f, const vf sums, const int v, const int plain)
{
    reals x = __builtin_convertvector(sums, reals) * ((const reals *)(f->mul + f->channel))[v];
    if (!plain) {
        if (f->off)
            x = x + ((const reals *)(f->off + f->channel))[v];
        if (f->steps)
            x = limited(x, (const float *)f->step->numbers);
        x = (reals)((x == x) & (vi)x);
        x = SMALLER(x, 0x1p30f - (reals){});
    }
    return ROUND(x);
}

/* A whole run of channels, of four vectors of sums, as bytes. */
LK_INLINE void put_rounded(const lk_quads *d, char *y, vf a, vf b, vf e, vf g, const int plain)
{
    const lk_epilogue *f = d->out;
    const whole zero = SAME_16((int16_t)f->zero);
    const whole low = MIXED(adds_epi16, MIXED(packs_epi32, rounded_sums(f, a, 0, plain), rounded_sums(f, b, 1, plain)), zero);
    const whole high = MIXED(adds_epi16, MIXED(packs_epi32, rounded_sums(f, e, 2, plain), rounded_sums(f, g, 3, plain)), zero);
    const whole q = d->out_signed ? MIXED(packs_epi16, low, high) : MIXED(packus_epi16, low, high);
    const bytes_run out = (bytes_run)IN_ORDER(q);
    if (d->s_whole) {
        *(bytes_run *)y = out;
        return;
    }
    const char *from = (const char *)&out;
    memcpy(y + d->s_at[0], from, PIECE);
    memcpy(y + d->s_at[1], from + PIECE, PIECE);
#if LK_VB == 64
    memcpy(y + d->s_at[2], from + 2 * PIECE, PIECE);
    memcpy(y + d->s_at[3], from + 3 * PIECE, PIECE);
#endif
}
#endif

/* Sums of `rows` output rows, `cols` columns from column j on, nv vectors. */
LK_INLINE void tile(const lk_quads *d, const int64_t j, const int rows, const int cols, const int nv, const int how)
{
    (void)how;
    const int64_t step = d->step * COLUMN, apart = d->apart * COLUMN;
    const char *w = d->w;
    vf acc[MOST_SUMS];
#pragma GCC unroll 4
    for (int v = 0; v < nv; v++) {
        const vf bias = d->bias ? ((const vf *)d->bias)[v] : (vf){};
#pragma GCC unroll 8
        for (int i = 0; i < rows * cols; i++)
            acc[v * rows * cols + i] = bias;
    }
    for (int g = 0; g < d->quads; g++) {
        const char *x = d->panel + (g * d->columns + d->begin) * COLUMN + j * step;
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
#pragma GCC unroll 8
    for (int i = 0; i < rows * cols; i++) { /* one loop: gcc would keep the sums of two in memory */
        char *s = d->s + i / cols * d->s_row + (j + i % cols) * d->s_col;
#if LK_VB > 16
        if (how != SUMS) {
            const int all = rows * cols;
            put_rounded(d, s, acc[i], acc[i + all], acc[i + 2 * all], acc[i + 3 * all], how == PLAIN);
            continue;
        }
#endif
#pragma GCC unroll 4
        for (int v = 0; v < nv; v++) {
            if (v + 1 == nv && d->lanes)
                store_lanes(s + d->s_at[v], acc[v * rows * cols + i], d->lanes);
            else
                *(vf *)(s + d->s_at[v]) = acc[v * rows * cols + i];
        }
    }
}

#define TILES(NAME, NV, HOW) \
    static void NAME(const lk_quads *d) \
    { \
        int64_t j = 0; \
        if (d->rows == 2) { \
            for (; j <= d->cols - COLS; j += COLS) \
                tile(d, j, 2, COLS, NV, HOW); \
            for (; j < d->cols; j++) \
                tile(d, j, 2, 1, NV, HOW); \
        } else { \
            for (; j <= d->cols - 2 * COLS; j += 2 * COLS) \
                tile(d, j, 1, 2 * COLS, NV, HOW); \
            for (; j < d->cols; j++) \
                tile(d, j, 1, 1, NV, HOW); \
        } \
    }
TILES(sums_1, 1, SUMS)
TILES(sums_2, 2, SUMS)
TILES(sums_3, 3, SUMS)
TILES(sums_4, 4, SUMS)
#if LK_VB > 16
TILES(rounded, 4, ROUNDED)
TILES(rounded_plain, 4, PLAIN)

/* Whether products with sums of s32 are below 2^31, and nothing else follows. */
LK_INLINE int is_plain(const lk_epilogue *f)
{
    vi large = {};
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) /* as integers, without the sign, numbers are in the same order */
        large |= (((const vi *)(f->mul + f->channel))[v] & 0x7fffffff) > 0x3f000000;
    for (int i = 0; i < LK_LANES; i++)
        large[0] |= large[i];
    return !f->off && !f->steps && !large[0];
}
#endif

LK_INLINE void run(const lk_quads *d)
{
    static const lk_quads_fn of_vectors[] = {sums_1, sums_2, sums_3, sums_4};
    if (d->flip)
        gather(d, (int32_t)d->flip - (vf){});
    else
        gather(d, (vf){});
#if LK_VB > 16
    if (d->out) {
        is_plain(d->out) ? rounded_plain(d) : rounded(d);
        return;
    }
#endif
    of_vectors[d->vectors - 1](d);
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
