/* gemm_32x32_<type> on a tile unit: lk_gemm of gemm.h, in 2 x 2 tiles of 16 x 16 sums.
 *
 *   C[i][j] (+)= sum_t sum_q sum_k A[t][q][i][k] * B[t][q][k][j]
 *
 * A step multiplies 16 units of k: tiles of A and of B are loaded from where they are, if rows of A are equally far apart
 * and none of them crosses a cache line, which takes a load six times as long; else A of some steps is copied first. Sums
 * leave the tiles once, or once for each chunk, for a buffer in L1, from where they end as vectors.
 * Edges: the remainder of K has two tiles of its own, configured to its units; if blocks have different remainders,
 *    the other one is filled up with zeros, in A and in B. Rows in the padding are zeros; those that a tile has too many
 *    hold anything, and their sums are not used. They are loaded with the others where memory goes on (`reads_on`).
 * A thread keeps the tiles configured between `enter` and `leave` of the row.
 */
#pragma GCC optimize("fp-contract=off")
#include "common/vector.h"
#include "gemm.h"
#include "peak/peak.h"
#include "rounding.h"
#include "tiles.h"

#include <stddef.h>

#if LK_INTEGERS
#define TILE_DOT TILE_U8S8
#define TILE_PEAK u8s8_tiles
typedef uint32_t adding __attribute__((vector_size(LK_VB), aligned(4), may_alias)); /* sums wrap around */
#else
#define TILE_DOT TILE_BF16
#define TILE_PEAK bf16_tiles
typedef vf adding;
#endif
#include "gemm_tiles_sums.inc"

enum { STAGED = 8 * LINE }; /* bytes of a row of A */

/* At most 16 rows of A. */
typedef struct {
    const int64_t *row;
    int rows;
    uint32_t all;    /* a bit for each */
    int64_t pitch;   /* between 16 of them; LK_NOWHERE: they must be copied */
    char *copy;
} a_rows;

static a_rows rows_from(const lk_gemm *g, int first, char *copy)
{
    a_rows r = {.row = g->row + first, .rows = MIN(g->rows - first, TILE_ROWS), .pitch = LK_NOWHERE, .copy = copy};
    r.all = (1u << r.rows) - 1;
    if ((r.rows == TILE_ROWS || g->reads_on) && !(LK_INTEGERS && g->flip)) {
        const int64_t pitch = r.rows > 1 ? r.row[1] - r.row[0] : 0; /* a single row is read again */
        const uint32_t steps = r.all >> 1; /* from a row to the next */
        const __mmask8 low = (__mmask8)steps, high = (__mmask8)(steps >> 7);
        const __m512i first_steps = _mm512_sub_epi64(_mm512_maskz_loadu_epi64(low, r.row + 1), _mm512_maskz_loadu_epi64(low, r.row));
        const __m512i last_steps =
            _mm512_sub_epi64(_mm512_maskz_loadu_epi64(high, r.row + 8), _mm512_maskz_loadu_epi64(high, r.row + 7));
        if (!(_mm512_mask_cmpneq_epi64_mask(low, first_steps, _mm512_set1_epi64(pitch))
              | _mm512_mask_cmpneq_epi64_mask(high, last_steps, _mm512_set1_epi64(pitch))))
            r.pitch = pitch;
    }
    return r;
}

/* Whether a tile load may read `units` of each row from p on: no row then crosses a cache line. */
LK_INLINE int in_lines(const a_rows *r, const char *p, int units)
{
    const int within = units > UNITS / 2 ? LINE : units > UNITS / 4 ? LINE / 2 : LINE / 4;
    return r->pitch != LK_NOWHERE && !(((uintptr_t)p | (uintptr_t)r->pitch) % within);
}

/* Copies units of the rows from a on, up to STAGED bytes of each, those in the padding as `zero`, which of reals is 0. Not
 * inline: GCC would take apart masks of all rows before its loops. */
static __attribute__((noinline)) const char *staged(const a_rows *r, const lk_gemm *g, uint32_t mask, const char *a,
                                                    int units)
{
    const __m512i flip = _mm512_set1_epi32((int)g->flip);
    const __mmask16 some = (__mmask16)((1u << units % UNITS) - 1);
    TILES_FENCE();
    for (int i = 0; i < r->rows; i++) {
        const int inside = mask >> i & 1;
        const char *from = inside ? a + r->row[i] : g->zero;
        __m512i *to = (__m512i *)(r->copy + i * STAGED), *const end = to + units / UNITS;
        if (LK_INTEGERS && g->flip)
            for (; to < end; to++, from += LINE)
                *to = _mm512_xor_si512(_mm512_loadu_si512(from), flip);
        else if (LK_INTEGERS || inside)
            for (; to < end; to++, from += LINE)
                *to = _mm512_loadu_si512(from);
        else
            for (; to < end; to++)
                *to = _mm512_setzero_si512();
        if (some)
            *to = _mm512_maskz_xor_epi32(some, _mm512_maskz_loadu_epi32(LK_INTEGERS || inside ? some : 0, from),
                                         LK_INTEGERS ? flip : _mm512_setzero_si512());
    }
    TILES_FENCE();
    return r->copy;
}

/* One step of the 2 x 2 tiles; where the remainder of K has two tiles, the others are loaded twice. Each load of the
 * second row of tiles finds its lines of B in L1. */
#define STEP_OF_FOUR() \
    do { \
        TILE_LOAD(4, a0, pitch0); \
        TILE_LOAD(5, b, b_pitch); \
        TILE_DOT(0, 4, 5); \
        if (two_cols) { \
            TILE_LOAD(7, b + LINE, b_pitch); \
            TILE_DOT(1, 4, 7); \
        } \
        if (two_rows) { \
            TILE_LOAD(6, a1, pitch1); \
            TILE_DOT(2, 6, 5); \
            if (two_cols) \
                TILE_DOT(3, 6, 7); \
        } \
    } while (0)
#define STEP(A, B) \
    do { \
        TILE_LOAD(A, a0, pitch0); \
        TILE_LOAD(B, b, b_pitch); \
        TILE_DOT(0, A, B); \
        if (two_rows) { \
            TILE_LOAD(A, a1, pitch1); \
            TILE_DOT(2, A, B); \
        } \
        if (two_cols) { \
            TILE_LOAD(B, b + LINE, b_pitch); \
            if (two_rows) { \
                TILE_DOT(3, A, B); \
                TILE_LOAD(A, a0, pitch0); \
            } \
            TILE_DOT(1, A, B); \
        } \
    } while (0)

typedef struct {
    char a[2][TILE_ROWS][STAGED], b[TILE_ROWS][2 * LINE];
} __attribute__((aligned(LINE))) copies;

/* The units of a chunk after n more, which begin another chunk if it is complete. */
LK_INLINE int64_t count_units(int64_t in_chunk, int n, tile_sums *s, const lk_gemm *g, const int two_rows, const int two_cols)
{
    if (LK_INTEGERS) /* their sums have no chunks */
        return 0;
    if (in_chunk >= g->chunk) {
        end_chunk(s, g->rows, two_rows, two_cols);
        in_chunk = 0;
    }
    return in_chunk + n;
}

/* Rows of B of a step that has too few units for a tile, with zeros after them. */
static __attribute__((noinline)) const char *b_filled(copies *s, const char *b, int64_t pitch, int units, int two_cols)
{
    for (int k = 0; k < TILE_ROWS; k++)
        for (int v = 0; v <= two_cols; v++)
            ((__m512i *)s->b[k])[v] = k < units ? _mm512_loadu_si512(b + k * pitch + v * LINE) : _mm512_setzero_si512();
    TILES_FENCE();
    return s->b[0];
}

/* All sums; `left`: the units that two tiles are configured for, 0: none is. */
LK_INLINE void multiply(const lk_gemm *g, tile_sums *s, const int two_rows, const int two_cols, const int left)
{
    copies copied;
    const a_rows upper = rows_from(g, 0, copied.a[0][0]);
    const a_rows lower = two_rows ? rows_from(g, TILE_ROWS, copied.a[1][0]) : (a_rows){0};
    const int64_t ldb = 4 * g->ldb, of_tap = (g->blocks - 1) * g->kb + g->kb_last;
    const char *b = g->b, *fetch = g->to_prefetch, *const fetch_end = fetch + g->to_prefetch_bytes;
    int64_t in_chunk = 0;
    for (int64_t t = 0; t < g->taps; t++) {
        const uint32_t mask = g->mask ? g->mask[t] : ~0u, mask0 = mask & upper.all, mask1 = mask >> TILE_ROWS & lower.all;
        if (g->b_tap)
            b = g->b + 4 * g->b_tap[t];
        if (!LK_INTEGERS && !(mask0 | mask1)) { /* all rows are in the padding */
            b += of_tap * ldb;
            continue;
        }
        for (int64_t q = 0; q < g->blocks; q++) {
            const int64_t count = q + 1 < g->blocks ? g->kb : g->kb_last;
            const char *a = g->a + g->tap[t] + q * g->block_stride;
            const int direct0 = mask0 == upper.all && in_lines(&upper, a + upper.row[0], UNITS);
            const int direct1 = two_rows && mask1 == lower.all && in_lines(&lower, a + lower.row[0], UNITS);
            int64_t pitch0 = direct0 ? upper.pitch : STAGED, pitch1 = direct1 ? lower.pitch : STAGED, b_pitch = ldb;
            int64_t k = 0;
            while (k + UNITS <= count) {
                const int steps = (int)MIN(STAGED / LINE, (count - k) / UNITS);
                const char *a0 = direct0 ? a + upper.row[0] : staged(&upper, g, mask0, a, UNITS * steps), *a1 = 0;
                if (two_rows)
                    a1 = direct1 ? a + lower.row[0] : staged(&lower, g, mask1, a, UNITS * steps);
                for (int i = 0; i < steps; i++, a0 += LINE, a1 += LINE, b += UNITS * ldb) {
                    in_chunk = count_units(in_chunk, UNITS, s, g, two_rows, two_cols);
                    if (left)
                        STEP(4, 5);
                    else
                        STEP_OF_FOUR();
                    if (fetch < fetch_end) {
                        for (int line = 0; line < 4; line++)
                            __builtin_prefetch(fetch + line * LINE, 0, 2);
                        fetch += 4 * LINE;
                    }
                }
                k += UNITS * steps;
                a += LINE * steps;
            }
            if (k == count)
                continue;
            const int units = (int)(count - k), exact = units == left;
            pitch0 = pitch1 = STAGED;
            const char *const b_left = b, *a0 = a + upper.row[0], *a1 = two_rows ? a + lower.row[0] : 0;
            if (exact && mask0 == upper.all && in_lines(&upper, a0, units))
                pitch0 = upper.pitch;
            else
                a0 = staged(&upper, g, mask0, a, units);
            if (two_rows && exact && mask1 == lower.all && in_lines(&lower, a1, units))
                pitch1 = lower.pitch;
            else if (two_rows)
                a1 = staged(&lower, g, mask1, a, units);
            in_chunk = count_units(in_chunk, units, s, g, two_rows, two_cols);
            if (exact)
                STEP(6, 7);
            else {
                b = b_filled(&copied, b_left, ldb, units, two_cols);
                b_pitch = sizeof copied.b[0];
                STEP(4, 5);
            }
            b = b_left + units * ldb;
        }
    }
    store_tiles(s, two_rows, two_cols);
}

void LK_NAME(LK_TYPED(gemm_32x32))(const lk_gemm *g)
{
    tile_sums s;
    const int of_blocks = (int)((g->blocks > 1 ? g->kb : g->kb_last) % UNITS);
    const int wanted = of_blocks ? of_blocks : (int)(g->kb_last % UNITS);
    const int two_cols = g->cols > TILE_ROWS;
    s.chunks = 0;
    if (left_units != wanted)
        configure(wanted);
    zero_tiles();
    if (g->rows > TILE_ROWS && two_cols && !wanted)
        multiply(g, &s, 1, 1, 0);
    else if (g->rows > TILE_ROWS && two_cols)
        multiply(g, &s, 1, 1, wanted);
    else if (g->rows > TILE_ROWS)
        multiply(g, &s, 1, 0, wanted);
    else
        multiply(g, &s, 0, two_cols, wanted);
    end(g, &s);
}

/* peak_<type>_tiles: products of tiles and nothing else. */
double LK_NAME(LK_PASTE(peak_, TILE_PEAK))(int64_t n)
{
    const int configured = left_units;
    if (configured < 0)
        enter();
    TILE_ZERO(4);
    TILE_ZERO(5);
    for (int64_t k = 0; k < n; k++) {
        TILE_DOT(0, 4, 5);
        TILE_DOT(1, 4, 5);
        TILE_DOT(2, 4, 5);
        TILE_DOT(3, 4, 5);
    }
    if (configured < 0)
        leave();
    return 4.0 * n * 2 * TILE_ROWS * TILE_ROWS * UNITS * LK_KR;
}

/* Cycles are those of LK_TILE: of two multiplications of vectors at the rate of tiles, 0.044 ns. On an Emerald Rapids a call
 * took 100 ns and 39 ns a step, where the products alone take 23; and 85 or more where rows of A are staged. */
static const lk_tile tile = {
    .peak = LK_STR(TILE_PEAK), .lane_flops = 92e9, .k_tile = UNITS * LK_KR, .alignment = 1, .tile_cycles = 1000,
    .row_cycles = 40, .load_cycles = 1.4, .pointer_cycles = 70, .rows_at_once = TILE_ROWS,
};
const lk_kernel LK_ROWS(gemm_tiles)[] = {
    LK_ROW(LK_GEMM, LK_TYPED(gemm_32x32), LK_STR(LK_KIND), LK_LANES, MR, NR, .tile = &tile, .enter = enter, .leave = leave),
    LK_ROW(LK_PEAK, LK_PASTE(peak_, TILE_PEAK), LK_STR(TILE_PEAK), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
