/* gemm_32x32_bf16x<n> on a tile unit: lk_gemm of gemm.h for numbers of f32, each the sum of n components of bf16.
 *
 *   C[i][j] (+)= sum_k sum over p + q < n of A[p][i][k] * B[q][k][j],   x[0] + x[1] + .. = x
 *
 * A component has 8 of the 24 bits of a number: three of them are the number itself, unless one would be denormal and counts
 * as 0. The smaller products of components are left out: of three components six products are summed, and what is left out is
 * at most 2^-23 of |a b| (and 2^-32); of two, three products, and 3 * 2^-16.
 * A step multiplies 32 k: A has a line of 64 bytes for each component of them, B 16 rows of 32 columns. In a line, and down
 * a column of B, k and k + 16 are a pair.
 * Edges: K is filled up with zeros to whole steps. Rows that a tile has too many are read, their sums are not used.
 */
#pragma GCC optimize("fp-contract=off")
#include "common/vector.h"
#include "gemm.h"
#include "rounding.h"
#include "tiles.h"

typedef vf adding;
#include "gemm_tiles_sums.inc"

enum { STEP_K = 2 * UNITS, A_STEP = LK_COMPONENTS * LINE, B_ROW = 2 * LINE, B_COMPONENT = UNITS * B_ROW, B_STEP = LK_COMPONENTS * B_COMPONENT };
enum { FETCHED = 8 }; /* lines of the next panel, by each step */

#define LOAD_A(p) \
    do { \
        TILE_LOAD(4, a0 + (p) * LINE, pitch); \
        if (two_rows) \
            TILE_LOAD(6, a1 + (p) * LINE, pitch); \
    } while (0)
#define LOAD_B(q) \
    do { \
        TILE_LOAD(5, b + (q) * B_COMPONENT, B_ROW); \
        if (two_cols) \
            TILE_LOAD(7, b + (q) * B_COMPONENT + LINE, B_ROW); \
    } while (0)
#define PRODUCTS() \
    do { \
        TILE_BF16(0, 4, 5); \
        if (two_cols) \
            TILE_BF16(1, 4, 7); \
        if (two_rows) \
            TILE_BF16(2, 6, 5); \
        if (two_rows && two_cols) \
            TILE_BF16(3, 6, 7); \
    } while (0)

LK_INLINE void multiply(const lk_gemm *g, tile_sums *s, const int two_rows, const int two_cols)
{
    const int64_t pitch = g->rows > 1 ? g->row[1] - g->row[0] : 0;
    const char *a0 = g->a + g->tap[0] + g->row[0], *a1 = a0 + TILE_ROWS * pitch, *b = g->b;
    const char *fetch = g->to_prefetch, *const fetch_end = fetch + g->to_prefetch_bytes;
    int64_t in_chunk = 0;
    for (int64_t k = 0; k < g->kb_last; k += UNITS, a0 += A_STEP, a1 += A_STEP, b += B_STEP) {
        if (in_chunk >= g->chunk) {
            end_chunk(s, g->rows, two_rows, two_cols);
            in_chunk = 0;
        }
        in_chunk += UNITS;
        LOAD_A(0);
#if LK_COMPONENTS == 3
        LOAD_B(2);
        PRODUCTS();
#endif
        LOAD_B(1);
        PRODUCTS();
        LOAD_B(0);
        PRODUCTS();
#if LK_COMPONENTS == 3
        LOAD_A(2);
        PRODUCTS();
#endif
        LOAD_A(1);
        PRODUCTS();
#if LK_COMPONENTS == 3
        LOAD_B(1);
        PRODUCTS();
#endif
        for (int line = 0; line < FETCHED && fetch < fetch_end; line++, fetch += LINE)
            __builtin_prefetch(fetch, 0, 2);
    }
    store_tiles(s, two_rows, two_cols);
}

void LK_NAME(LK_TYPED(gemm_32x32))(const lk_gemm *g)
{
    tile_sums s;
    const int two_cols = g->cols > TILE_ROWS;
    s.chunks = 0;
    if (left_units)
        configure(0);
    TILES_FENCE();
    zero_tiles();
    if (g->rows > TILE_ROWS && two_cols)
        multiply(g, &s, 1, 1);
    else if (g->rows > TILE_ROWS)
        multiply(g, &s, 1, 0);
    else
        multiply(g, &s, 0, two_cols);
    TILES_FENCE();
    end(g, &s);
}

/* Rounds to bf16, halves away from 0. */
LK_INLINE __m512i rounded(__m512i x)
{
    return _mm512_and_si512(_mm512_add_epi32(x, _mm512_set1_epi32(0x8000)), _mm512_set1_epi32((int)0xffff0000));
}

/* The components of each number, in the upper halves of lanes. Of Inf and NaN all but the first are 0. */
LK_INLINE void components_of(__m512 x, __m512i *component)
{
    const __m512i bits = _mm512_castps_si512(x), size = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __mmask16 large = _mm512_cmpge_epu32_mask(size, _mm512_set1_epi32(0x7f7f8000)); /* rounded, it would be Inf */
    component[0] = rounded(bits);
    __mmask16 finite = 0xffff;
    if (__builtin_expect(large, 0)) {
        finite = _mm512_cmplt_epu32_mask(size, _mm512_set1_epi32(0x7f800000));
        const __mmask16 nan = _mm512_cmpgt_epu32_mask(size, _mm512_set1_epi32(0x7f800000));
        component[0] = _mm512_mask_and_epi32(component[0], large, bits, _mm512_set1_epi32((int)0xffff0000));
        component[0] = _mm512_mask_or_epi32(component[0], nan, component[0], _mm512_set1_epi32(0x00400000));
    }
    for (int p = 1; p < LK_COMPONENTS; p++) {
        x = _mm512_maskz_sub_ps(finite, x, _mm512_castsi512_ps(component[p - 1]));
        component[p] = rounded(_mm512_castps_si512(x)); /* the last of three has no bits that are lost */
    }
}

/* The lines of 32 numbers, lo and hi, whose pairs are in one lane. */
LK_INLINE void split_step(char *to, int64_t component_bytes, __m512 lo, __m512 hi)
{
    __m512i low[LK_COMPONENTS], high[LK_COMPONENTS];
    components_of(lo, low);
    components_of(hi, high);
    for (int p = 0; p < LK_COMPONENTS; p++)
        _mm512_storeu_si512(to + p * component_bytes, _mm512_or_si512(high[p], _mm512_srli_epi32(low[p], 16)));
}

LK_INLINE __m512 first_of(const float *from, int64_t n)
{
    return _mm512_maskz_loadu_ps((__mmask16)(n >= 16 ? 0xffff : n > 0 ? (1u << n) - 1 : 0), from);
}

/* A row of A: k numbers of f32. */
static void split_row(char *to, const char *from, int64_t k)
{
    const float *x = (const float *)from;
    for (; k >= STEP_K; k -= STEP_K, x += STEP_K, to += A_STEP)
        split_step(to, LINE, _mm512_loadu_ps(x), _mm512_loadu_ps(x + UNITS));
    if (k)
        split_step(to, LINE, first_of(x, k), k > UNITS ? first_of(x + UNITS, k - UNITS) : _mm512_setzero_ps());
}

/* A panel of B: k rows of 32 columns of f32. */
static void split_panel(char *to, const char *from, int64_t k)
{
    const float *x = (const float *)from;
    for (int64_t first = 0; first < k; first += STEP_K, to += B_STEP)
        for (int row = 0; row < UNITS; row++)
            for (int half = 0; half < 2; half++) {
                const int64_t lo = first + row, hi = lo + UNITS;
                const __m512 none = _mm512_setzero_ps();
                split_step(to + row * B_ROW + half * LINE, B_COMPONENT,
                           lo < k ? _mm512_loadu_ps(x + lo * NR + half * LK_LANES) : none,
                           hi < k ? _mm512_loadu_ps(x + hi * NR + half * LK_LANES) : none);
            }
}

/* Cycles are those of LK_TILE: of two multiplications of vectors at the rate of tiles, 0.044 ns, for each product of components. */
enum { PRODUCTS_OF_STEP = LK_COMPONENTS * (LK_COMPONENTS + 1) / 2 };
static const lk_tile tile = {
    .peak = "bf16_tiles", .lane_flops = 92e9 / PRODUCTS_OF_STEP, .k_tile = STEP_K, .fills_k = 1, .strided_a = 1,
    .alignment = LINE, .tile_cycles = 1000.0 / PRODUCTS_OF_STEP, .row_cycles = 40.0 / PRODUCTS_OF_STEP,
    .load_cycles = 1.6 * LK_COMPONENTS / PRODUCTS_OF_STEP, .pointer_cycles = 0, .rows_at_once = TILE_ROWS,
    .components = LK_COMPONENTS, .split_row = split_row, .split_panel = split_panel,
};
const lk_kernel LK_ROWS(gemm_bf16x)[] = {
    LK_ROW(LK_GEMM, LK_TYPED(gemm_32x32), LK_STR(LK_KIND), LK_LANES, MR, NR, .tile = &tile, .enter = enter, .leave = leave),
    LK_LAST_ROW,
};
