/* quads_<rows>x<columns>_<type>: depthwise convolution of integers; see lk_quads in kernels.h.
 *
 *   s[r][j] = bias + sum_g sum_b sum_i x[4g + i][step*j + apart*b] * w[g][b][r][i], i < 4        vectors of channels
 *
 * The numbers of four rows of the input at a column and channel are made to lie side by side, which a lane multiplies and
 * sums in one step: once for each column, for all taps along the width and for two output rows. The register tile is two
 * output rows by up to COLS columns; it stays in registers until all taps are summed.
 * Edges: rows and columns of padding hold `zero`; of channels whole vectors are summed, whatever is in the last one.
 */
#include "kernels.h"
#include "vector.h"

#include <string.h>

#if LK_VB == 64
#define COLS 8
#else
#define COLS 4
#endif
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

/* n of 16 channels at p, in the order that is given */
LK_INLINE bytes piece(const char *p, int n, const char *order)
{
    bytes v = {};
    if (n == PIECE)
        v = *(const bytes *)p;
    else
        memcpy(&v, p, (size_t)n);
    return order ? __builtin_shuffle(v, *(const bytes *)order) : v;
}

#if LK_VB > 16
/* The same for a whole run of channels. Shuffles of bytes keep within 16 of them: the order of fours before makes that of
 * channels after. */
LK_INLINE void interleave_run(char *to, const char *const *p, const vf flip)
{
#if LK_VB == 64
    const vi fours = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const __m512i order = (__m512i)fours;
#define LOADED(i) _mm512_permutexvar_epi32(order, (__m512i)(*(const vf *)p[i] ^ flip))
#define MIXED(name, a, b) _mm512_##name(a, b)
    __m512i *const out = (__m512i *)to;
#define PUT(i, v) _mm512_store_si512(out + (i), v)
    typedef __m512i whole;
#else
    const vi fours = {0, 2, 4, 6, 1, 3, 5, 7};
    const __m256i order = (__m256i)fours;
#define LOADED(i) _mm256_permutevar8x32_epi32((__m256i)(*(const vf *)p[i] ^ flip), order)
#define MIXED(name, a, b) _mm256_##name(a, b)
    __m256i *const out = (__m256i *)to;
#define PUT(i, v) _mm256_store_si256(out + (i), v)
    typedef __m256i whole;
#endif
    const whole a = LOADED(0), b = LOADED(1), c = LOADED(2), d = LOADED(3);
    const whole low[2] = {MIXED(unpacklo_epi8, a, b), MIXED(unpacklo_epi8, c, d)};
    const whole high[2] = {MIXED(unpackhi_epi8, a, b), MIXED(unpackhi_epi8, c, d)};
    PUT(0, MIXED(unpacklo_epi16, low[0], low[1]));
    PUT(1, MIXED(unpackhi_epi16, low[0], low[1]));
    PUT(2, MIXED(unpacklo_epi16, high[0], high[1]));
    PUT(3, MIXED(unpackhi_epi16, high[0], high[1]));
}
#endif

/* Columns [first, end) of the panel: four rows of the input side by side. */
static void gather(const lk_quads *d)
{
    const vf flip = (int32_t)d->flip - (vf){};
    for (int g = 0; g < d->quads; g++) {
        const char *const *row = d->row + 4 * g;
        char *to = d->panel + (g * d->columns + d->first) * COLUMN;
        for (int64_t i = d->first; i < d->end; i++, to += COLUMN) {
            const int64_t column = d->column[i];
            const char *p[4];
#pragma GCC unroll 4
            for (int k = 0; k < 4; k++)
                p[k] = column == LK_NOWHERE || !row[k] ? NULL : row[k] + column;
#if LK_VB > 16
            if (d->whole) {
#pragma GCC unroll 4
                for (int k = 0; k < 4; k++)
                    p[k] = p[k] ? p[k] + d->at[0] : d->zero;
                interleave_run(to, p, flip);
                continue;
            }
#endif
            for (int k = 0; k < d->pieces; k++) {
                bytes v[4];
#pragma GCC unroll 4
                for (int m = 0; m < 4; m++) {
                    const char *order = d->order ? d->order + PIECE * k : NULL;
                    v[m] = p[m] ? piece(p[m] + d->at[k], d->bytes[k], order) : *(const bytes *)d->zero;
                    v[m] ^= (int8_t)d->flip;
                }
                interleave_piece(to + 4 * PIECE * k, v[0], v[1], v[2], v[3]);
            }
        }
    }
}

LK_INLINE void tile(const lk_quads *d, const int rows, const int cols)
{
    const int64_t step = d->step * COLUMN, apart = d->apart * COLUMN;
    const char *w = d->w;
    for (int v = 0; v < d->vectors; v++) {
        vf acc[2][COLS];
        const vf bias = d->bias ? ((const vf *)d->bias)[v] : (vf){};
#pragma GCC unroll 8
        for (int j = 0; j < cols; j++)
            acc[0][j] = acc[1][j] = bias;
        for (int g = 0; g < d->quads; g++) {
            const char *x = d->panel + (g * d->columns + d->begin) * COLUMN + v * LK_VB;
            for (int b = 0; b < d->kw; b++, x += apart, w += d->packed_rows * LK_VB) {
                vf wv[2] = {*(const vf *)w, *(const vf *)(rows > 1 ? w + LK_VB : w)};
                const char *p = x;
                LK_PIN(wv[0]);
                LK_PIN(wv[1]);
#pragma GCC unroll 8
                for (int j = 0; j < cols; j++, p += step) {
                    vf xv = *(const vf *)p;
                    LK_PIN(xv);
#pragma GCC unroll 2
                    for (int r = 0; r < rows; r++)
                        LK_FMA(acc[r][j], xv, wv[r]);
                }
            }
        }
        const int last = v + 1 == d->vectors && d->lanes;
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) {
            char *s = d->s + d->s_at[v] + r * d->s_row;
#pragma GCC unroll 8
            for (int j = 0; j < cols; j++, s += d->s_col) {
                if (last)
                    store_lanes(s, acc[r][j], d->lanes);
                else
                    *(vf *)s = acc[r][j];
            }
        }
    }
}

#define CASE(C) \
    case C: d->rows == 2 ? tile(d, 2, C) : tile(d, 1, C); break;
LK_INLINE void run(const lk_quads *d)
{
    gather(d);
    switch (d->cols) {
        CASE(1) CASE(2) CASE(3) CASE(4)
#if COLS == 8
        CASE(5) CASE(6) CASE(7) CASE(8)
#endif
    }
}

#if LK_VB == 64
void LK_NAME(LK_TYPED(quads_2x8))(const lk_quads *d) { run(d); }
#else
void LK_NAME(LK_TYPED(quads_2x4))(const lk_quads *d) { run(d); }
#endif

const lk_kernel LK_ROWS(quads)[] = {
#if LK_VB == 64
    LK_ROW(LK_QUADS, LK_TYPED(quads_2x8), LK_STR(LK_KIND), LK_LANES, 2, 8),
#else
    LK_ROW(LK_QUADS, LK_TYPED(quads_2x4), LK_STR(LK_KIND), LK_LANES, 2, 4),
#endif
    LK_LAST_ROW,
};
