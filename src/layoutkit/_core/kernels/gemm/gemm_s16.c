/* gemm_<mr>x<nr>_s16: the micro-kernel of Winograd on integers; see lk_gemm_s16 in gemm_s16.h.
 *
 *   C[i][j] (+)= sum_k A[i][2k] * B[k][j][0] + A[i][2k + 1] * B[k][j][1]      of s16, in s32 that wrap around
 *
 * Sums stay in registers; rows of A are addressed from every third one.
 * Edges: fewer rows or vectors than a tile has micro-kernels of their own.
 */
#include "common/vector.h"
#include "gemm_s16.h"

#define UNROLL 2
#define MAX_MR 12
#define MAX_NV 2

typedef real a_unit __attribute__((aligned(2), may_alias));

LK_INLINE void step(vf *acc, const char *const *p, int64_t row, const real *b, const int u, const int mr, const int nv)
{
    vf bv[MAX_NV];
#pragma GCC unroll 2
    for (int j = 0; j < nv; j++) {
        bv[j] = *(const vf *)(b + j * LK_LANES);
        LK_PIN(bv[j]);
    }
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++) {
        const vf a = *(const a_unit *)(p[i / 3] + i % 3 * row + LK_ITEM * u) - (vf){};
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++)
            LK_FMA(acc[i * nv + j], a, bv[j]);
    }
}

LK_INLINE void micro_kernel(const lk_gemm_s16 *g, const int mr, const int nv)
{
    const int64_t row = g->a_row, ldb = g->ldb;
    const real *b = (const real *)g->b;
    const char *fetch = g->to_prefetch, *const fetch_end = fetch + g->to_prefetch_bytes, *p[MAX_MR / 3];
    vf acc[MAX_MR * MAX_NV];
#pragma GCC unroll 24
    for (int i = 0; i < mr * nv; i++)
        acc[i] = (vf){};
#pragma GCC unroll 4
    for (int i = 0; i < mr; i += 3)
        p[i / 3] = g->a + i * row;
    int64_t k = g->steps;
    for (; k >= UNROLL; k -= UNROLL) {
#pragma GCC unroll 4
        for (int u = 0; u < UNROLL; u++)
            step(acc, p, row, b + u * ldb, u, mr, nv);
        b += UNROLL * ldb;
#pragma GCC unroll 4
        for (int i = 0; i < mr; i += 3)
            p[i / 3] += LK_ITEM * UNROLL;
        if (fetch < fetch_end) {
            for (int u = 0; u < 2 * UNROLL; u++)
                __builtin_prefetch(fetch + 64 * u, 0, 2);
            fetch += 128 * UNROLL;
        }
    }
    for (; k > 0; k--) {
        step(acc, p, row, b, 0, mr, nv);
        b += ldb;
#pragma GCC unroll 4
        for (int i = 0; i < mr; i += 3)
            p[i / 3] += LK_ITEM;
    }
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 2
        for (int j = 0; j < nv; j++) {
            vu *const c = (vu *)(g->c + i * g->c_row) + j;
            *c = (vu)acc[i * nv + j] + (g->accumulate ? *c : (vu){});
        }
}

#define SIZE(MR, NV) \
    static void tile_##MR##x##NV(const lk_gemm_s16 *g) { micro_kernel(g, MR, NV); }
#define ENTRY(MR, NV) [NV - 1][MR - 1] = tile_##MR##x##NV,
#if LK_VB == 64
#define MR 12
#define NR 32
#define SIZES(X, NV) \
    X(1, NV) X(2, NV) X(3, NV) X(4, NV) X(5, NV) X(6, NV) X(7, NV) X(8, NV) X(9, NV) X(10, NV) X(11, NV) X(12, NV)
#else
#define MR 6
#define NR 16
#define SIZES(X, NV) X(1, NV) X(2, NV) X(3, NV) X(4, NV) X(5, NV) X(6, NV)
#endif
SIZES(SIZE, 1)
SIZES(SIZE, 2)
static const lk_gemm_s16_fn tiles[MAX_NV][MAX_MR] = {SIZES(ENTRY, 1) SIZES(ENTRY, 2)};

#define NAME LK_PASTE(LK_PASTE(gemm_, MR), LK_PASTE(x, LK_PASTE(NR, _s16)))
void LK_NAME(NAME)(const lk_gemm_s16 *g) { tiles[(g->cols + LK_LANES - 1) / LK_LANES - 1][g->rows - 1](g); }

const lk_kernel LK_ROWS(gemm_s16)[] = {
    LK_ROW(LK_GEMM_S16, NAME, "s16", LK_LANES, MR, NR, LK_TILE("s16", .strided_a = 1)),
    LK_LAST_ROW,
};
