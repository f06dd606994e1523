/* outer_<type>: sums of outer products, for the gradient of a filter; see lk_outer in outer.h.
 *
 *   C[i][j] += sum over rows r, steps k of A[r][k][i] * B[r][k][j]
 *
 * The register tile, mr rows x nv vectors of C, stays in registers until all steps are summed; then it is added to C,
 * or written over it.
 * Edges: none. A and B are packed with zeros up to whole tiles, and so is C; a tile of one vector has a
 *    micro-kernel of its own.
 */
#include "common/vector.h"
#include "outer.h"

/* As many sums as hide the latency of two FMAs a cycle. Channels are mostly multiples of 8. */
enum { MR = LK_VB == 64 ? 8 : 6, MAX_NV = 2 };

LK_INLINE vf splat(real x) { return x - (vf){}; }

LK_INLINE void tile(const lk_outer *g, const int nv)
{
    vf acc[MR * MAX_NV];
#pragma GCC unroll 32
    for (int i = 0; i < MR * nv; i++)
        acc[i] = (vf){};
    const int64_t a_step = g->a_step, b_step = g->b_step, steps = g->steps, next_step = g->next_step;
    const char *next = g->next;
    for (int64_t r = 0; r < g->rows; r++) {
        const char *a = g->a + g->a_row[r], *b = g->b + g->b_row[r];
        for (int64_t k = 0; k < steps; k++, a += a_step, b += b_step, next += next_step) {
            vf bv[MAX_NV];
            __builtin_prefetch(next, 0, 2);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) {
                bv[j] = *(const vf *)(b + j * LK_VB);
                LK_PIN(bv[j]);
            }
#pragma GCC unroll 16
            for (int i = 0; i < MR; i++) {
                const vf x = splat(((const real *)a)[i]);
#pragma GCC unroll 4
                for (int j = 0; j < nv; j++)
                    LK_FMA(acc[i * nv + j], x, bv[j]);
            }
        }
    }
    char *c = g->c;
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++, c += g->c_row)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            if (g->accumulate)
                acc[i * nv + j] += *(vf *)(c + j * LK_VB);
            *(vf *)(c + j * LK_VB) = acc[i * nv + j];
        }
}

void LK_NAME(LK_TYPED(outer))(const lk_outer *g)
{
    if (g->vectors > 1)
        tile(g, 2);
    else
        tile(g, 1);
}

const lk_kernel LK_ROWS(outer)[] = {
    LK_ROW(LK_OUTER, LK_TYPED(outer), LK_STR(LK_REAL), LK_LANES, MR, MAX_NV * LK_LANES, LK_TILE(LK_STR(LK_REAL))),
    LK_LAST_ROW,
};
