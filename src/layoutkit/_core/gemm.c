/* gemm_<mr>x<nr>_<type>: the micro-kernel that computes almost everything; see lk_gemm in kernels.h.
 *
 *   C[i][j] (+)= sum_t sum_q sum_k A[t][q][i][k] * B[t][q][k][j]
 *
 * The register tile, mr rows x nv vectors of C, stays in registers until all taps are summed. Row pointers are kept on
 * the stack and read once per 4 k, so there may be more rows than general registers at no cost.
 * Edges: fewer rows than mr or vectors than nv have micro-kernels of their own; a partial last vector is stored by
 *    masks.
 */
#include "kernels.h"
#include "vector.h"

#include <string.h>

#define LK_UNROLL 4
#define MAX_MR 12
#define MAX_NV 4

LK_INLINE vf splat(real x) { return x - (vf){}; }

/* Stores one vector of C in the cases that need care: a partial vector, halves, accumulation. */
static __attribute__((noinline)) void store(char *c, vf v, const int64_t *col, int tail, const lk_gemm *g)
{
    if (g->accumulate) {
        v += tail ? load_lanes(c + col[0], (1u << tail) - 1) : *(const vf *)(c + col[0]);
        if (g->clip)
            v = between_limits(v, g->clip);
    }
    if (tail) {
        store_lanes(c + col[0], v, (1u << tail) - 1);
    } else if (g->c_split) {
        memcpy(c + col[0], &v, LK_VB / 2);
        memcpy(c + col[1], (const char *)&v + LK_VB / 2, LK_VB / 2);
    } else {
        *(vf *)(c + col[0]) = v;
    }
}

LK_INLINE void step(vf *acc, const char *const *p, int64_t k, const real *b, const int mr, const int nv)
{
    vf bv[MAX_NV];
#pragma GCC unroll 8
    for (int j = 0; j < nv; j++)
        bv[j] = *(const vf *)(b + j * LK_LANES);
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++) {
        vf a = splat(*(const real *)(p[i] + k));
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++) {
            LK_FMA(acc[i * nv + j], a, bv[j]);
        }
    }
}

/* The last LK_UNROLL steps, row by row, each row stored as soon as it is complete. Stores among multiplications cost
 * nothing, but a run of more than a dozen delays the stores of the next tile (24 in a row: 35 cycles on Zen 5). */
LK_INLINE void end_rows(vf *acc, const lk_gemm *g, const char *const *p, int64_t k, const real *b, const int mr,
                        const int nv, const int clip)
{
    const int kept = LK_VB == 64 && nv <= 2 ? 2 : 1; /* rows of B that fit in registers */
    const real *const limit = (const real *)g->clip;
    const vf lo = clip ? splat(limit[0]) : (vf){}, hi = clip ? splat(limit[1]) : (vf){};
    const int64_t *const row = g->c_row;
    const real *bu[LK_UNROLL];
    int64_t col[MAX_NV];
    vf bv[2 * MAX_NV];
#pragma GCC unroll 4
    for (int u = 0; u < LK_UNROLL; u++) {
        bu[u] = b + u * g->ldb;
        LK_PIN_ADDRESS(bu[u]);
    }
#pragma GCC unroll 8
    for (int j = 0; j < nv; j++) {
        col[j] = g->c_col[j];
        LK_PIN_ADDRESS(col[j]);
    }
#pragma GCC unroll 16
    for (int j = 0; j < kept * nv; j++)
        bv[j] = *(const vf *)(bu[j / nv] + j % nv * LK_LANES);
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++) {
        const char *pi = p[i] + k;
        char *c = g->c + row[i];
        LK_PIN_ADDRESS(pi);
        LK_PIN_ADDRESS(c);
#pragma GCC unroll 4
        for (int u = 0; u < LK_UNROLL; u++) {
            const vf a = splat(*(const real *)(pi + LK_ITEM * u));
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++) {
                if (u < kept)
                    LK_FMA(acc[i * nv + j], a, bv[u * nv + j]);
                else
                    LK_FMA_AT(acc[i * nv + j], a, bu[u] + j * LK_LANES);
            }
        }
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            *(vf *)(c + col[j]) = clip ? clipped(acc[i * nv + j], lo, hi) : acc[i * nv + j];
    }
}

/* The initial value of each sum: the bias, 0, or what C holds. */
LK_INLINE void begin(vf *acc, const lk_gemm *g, const int tail, const int mr, const int nv)
{
    if (g->resume)
#pragma GCC unroll 32
        for (int i = 0; i < mr; i++) {
            const char *c = g->c + g->c_row[i];
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++)
                acc[i * nv + j] = tail && j == nv - 1 ? load_lanes(c + g->c_col[j], (1u << tail) - 1)
                                                      : *(const vf *)(c + g->c_col[j]);
        }
    else
#pragma GCC unroll 32
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++)
                acc[i * nv + j] = g->bias_row   ? splat(((const real *)g->bias_row)[i])
                                  : g->bias_col ? ((const vf *)g->bias_col)[j]
                                                : (vf){};
}

/* Everything after the sums: signs of zero, pads, clip, accumulation, stores. */
LK_INLINE void end(vf *acc, const lk_gemm *g, const int tail, const int mr, const int nv)
{
    if (g->positive)
#pragma GCC unroll 32
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++)
                acc[i * nv + j] = positive_zeros(acc[i * nv + j]);
    if (g->pads)
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            if (g->cols - g->pads < (j + 1) * LK_LANES)
#pragma GCC unroll 32
                for (int i = 0; i < mr; i++)
                    acc[i * nv + j] = first_lanes(acc[i * nv + j], g->cols - g->pads - j * LK_LANES);
    if (g->clip && !g->accumulate)
#pragma GCC unroll 32
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++)
                acc[i * nv + j] = between_limits(acc[i * nv + j], g->clip);
    if (!g->c_split) {
#pragma GCC unroll 32
        for (int i = 0; i < mr; i++) {
            char *c = g->c + g->c_row[i];
            vf *const last = &acc[i * nv + nv - 1];
            if (g->accumulate)
#pragma GCC unroll 8
                for (int j = 0; j < nv - 1; j++) {
                    acc[i * nv + j] += *(vf *)(c + g->c_col[j]);
                    if (g->clip)
                        acc[i * nv + j] = between_limits(acc[i * nv + j], g->clip);
                }
#pragma GCC unroll 8
            for (int j = 0; j < nv - 1; j++)
                *(vf *)(c + g->c_col[j]) = acc[i * nv + j];
            if (g->accumulate && !tail) {
                *last += *(vf *)(c + g->c_col[nv - 1]);
                if (g->clip)
                    *last = between_limits(*last, g->clip);
            }
            if (tail && (g->accumulate || LK_VB < 64))
                store(c, *last, g->c_col + nv - 1, tail, g);
            else if (tail)
                store_lanes(c + g->c_col[nv - 1], *last, (1u << tail) - 1);
            else
                *(vf *)(c + g->c_col[nv - 1]) = *last;
        }
        return;
    }
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++) {
        char *c = g->c + g->c_row[i];
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            store(c, acc[i * nv + j], g->c_col + 2 * j, j == nv - 1 ? tail : 0, g);
    }
}

/* One tap and one block, no row in the padding, rows of B at b_row. */
LK_INLINE void micro_kernel_by_rows(const lk_gemm *g, const int mr, const int nv)
{
    const int tail = g->cols % LK_LANES;
    const int64_t stop = g->kb_last;
    const real *const b = (const real *)g->b;
    vf acc[MAX_MR * 2];
    const char *p[MAX_MR];
    int64_t k = 0;
    begin(acc, g, tail, mr, nv);
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++)
        p[i] = g->a + g->row[i] + g->tap[0];
    for (; k <= stop - LK_UNROLL; k += LK_UNROLL) {
        __asm__ volatile("" : "+r"(k)); /* as in micro_kernel */
#pragma GCC unroll 4
        for (int u = 0; u < LK_UNROLL; u++)
            step(acc, p, LK_ITEM * (k + u), b + g->b_row[k + u], mr, nv);
    }
    for (; k < stop; k++)
        step(acc, p, LK_ITEM * k, b + g->b_row[k], mr, nv);
    end(acc, g, tail, mr, nv);
}

LK_INLINE void micro_kernel(const lk_gemm *g, const int mr, const int nv)
{
    const int tail = g->cols % LK_LANES;
    /* the tap whose last steps end_rows does; -1: none */
    const int64_t last_tap =
        g->accumulate || g->c_split || g->positive || tail || g->pads || g->kb_last < LK_UNROLL ? -1 : g->taps - 1;
    vf acc[MAX_MR * 2]; /* a constant size: gcc keeps variable-length arrays in memory */
    begin(acc, g, tail, mr, nv);
    const real *b = (const real *)g->b;
    const int64_t ldb = g->ldb;
    const char *fetch = g->to_prefetch, *const fetch_end = fetch + g->to_prefetch_bytes;
    const int64_t *next = g->next_c_row, *const next_end = next ? next + mr : NULL;
    const char *p[MAX_MR];
    int inside = 0; /* p points to rows that are all inside the input: valid for every tap and block */
    for (int64_t t = 0; t < g->taps; t++) {
        const uint32_t mask = g->mask ? g->mask[t] << (32 - mr) : ~0u << (32 - mr);
        if (!mask) { /* every row is in the padding */
            b += ((g->blocks - 1) * g->kb + g->kb_last) * ldb;
            continue;
        }
        if (g->b_tap)
            b = (const real *)g->b + g->b_tap[t];
        for (int64_t q = 0; q < g->blocks; q++) {
            int64_t k = g->tap[t] + q * g->block_stride;
            if (mask == ~0u << (32 - mr)) {
                if (!inside)
#pragma GCC unroll 32
                    for (int i = 0; i < mr; i++)
                        p[i] = g->a + g->row[i];
                inside = 1;
            } else {
                const char *const zero = (const char *)g->zero - k;
                inside = 0;
#pragma GCC unroll 32
                for (int i = 0; i < mr; i++) /* no branch */
                    p[i] = zero + (-(int64_t)(mask >> (32 - mr + i) & 1) & (g->a + g->row[i] - zero));
            }
            const int64_t stop = k + LK_ITEM * (q + 1 < g->blocks ? g->kb : g->kb_last);
            const int last = t == last_tap && q + 1 == g->blocks;
            if (last) /* the remainder of the unrolled loop goes first */
                for (; (stop - k) % (LK_ITEM * LK_UNROLL); k += LK_ITEM, b += ldb)
                    step(acc, p, k, b, mr, nv);
            const int64_t end = stop - LK_ITEM * (last ? 2 * LK_UNROLL : LK_UNROLL);
            for (; k <= end; k += LK_ITEM * LK_UNROLL) {
                /* keeps gcc from making mr induction variables of mr stack slots */
                __asm__ volatile("" : "+r"(k));
#pragma GCC unroll 4
                for (int u = 0; u < LK_UNROLL; u++)
                    step(acc, p, k + LK_ITEM * u, b + u * ldb, mr, nv);
                b += LK_UNROLL * ldb;
                if (fetch < fetch_end) {
                    for (int u = 0; u < 2 * LK_UNROLL; u++)
                        __builtin_prefetch(fetch + 64 * u, 0, 2);
                    fetch += 128 * LK_UNROLL;
                }
                if (next < next_end) {
#pragma GCC unroll 8
                    for (int j = 0; j < nv; j++)
                        __builtin_prefetch(g->next_c + *next + g->c_col[j], 1, 3);
                    next++;
                }
            }
            if (last) {
                if (g->clip)
                    end_rows(acc, g, p, k, b, mr, nv, 1);
                else
                    end_rows(acc, g, p, k, b, mr, nv, 0);
                return;
            }
            for (; k < stop; k += LK_ITEM, b += ldb)
                step(acc, p, k, b, mr, nv);
        }
    }
    end(acc, g, tail, mr, nv);
}

/* One function for each size of a tile, rows x vectors, and each variant: in larger ones gcc 12 allocates registers
 * worse, and takes much longer. */
#define TILE(MR, NV) \
    static void tile_##MR##x##NV(const lk_gemm *g) { micro_kernel(g, MR, NV); } \
    static void tile_by_rows_##MR##x##NV(const lk_gemm *g) { micro_kernel_by_rows(g, MR, NV); }
#define SIZES_4(X, NV) X(1, NV) X(2, NV) X(3, NV) X(4, NV)
#define SIZES_6(X, NV) SIZES_4(X, NV) X(5, NV) X(6, NV)
#define SIZES_12(X, NV) SIZES_6(X, NV) X(7, NV) X(8, NV) X(9, NV) X(10, NV) X(11, NV) X(12, NV)
#if LK_VB == 64
#define SIZES(X) SIZES_12(X, 1) SIZES_12(X, 2) SIZES_6(X, 3) SIZES_6(X, 4)
#elif LK_VB == 32
#define SIZES(X) SIZES_6(X, 1) SIZES_6(X, 2) SIZES_4(X, 3)
#else
#define SIZES(X) SIZES_6(X, 1) SIZES_6(X, 2)
#endif
SIZES(TILE)

#define ENTRY(MR, NV) [0][NV - 1][MR - 1] = tile_##MR##x##NV, [1][NV - 1][MR - 1] = tile_by_rows_##MR##x##NV,
static const lk_gemm_fn tiles[2][4][12] = {SIZES(ENTRY)};

/* The register tiles: rows x columns. */
#if LK_VB == 64 && LK_BITS == 64
#define TILES(X) X(gemm_12x16_f64, 12, 16) X(gemm_6x32_f64, 6, 32)
#elif LK_VB == 64
#define TILES(X) X(gemm_12x32_f32, 12, 32) X(gemm_6x64_f32, 6, 64)
#elif LK_VB == 32 && LK_BITS == 64
#define TILES(X) X(gemm_4x12_f64, 4, 12) X(gemm_6x8_f64, 6, 8)
#elif LK_VB == 32
#define TILES(X) X(gemm_4x24_f32, 4, 24) X(gemm_6x16_f32, 6, 16)
#elif LK_BITS == 64
#define TILES(X) X(gemm_6x4_f64, 6, 4)
#else
#define TILES(X) X(gemm_6x8_f32, 6, 8)
#endif

#define KERNEL(STEM, MR, NR) \
    void LK_NAME(STEM)(const lk_gemm *g) \
    { \
        tiles[g->b_row != 0][(g->cols + LK_LANES - 1) / LK_LANES - 1][g->rows - 1](g); \
    }
TILES(KERNEL)

#define TILE_ROW(STEM, MR, NR) LK_ROW(LK_GEMM, STEM, LK_STR(LK_REAL), LK_LANES, MR, NR),
const lk_kernel LK_ROWS(gemm)[] = {TILES(TILE_ROW) LK_LAST_ROW};
