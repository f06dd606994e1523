/* gemm_<mr>x<nr>_<type>: the micro-kernel of most convolutions and products of matrices; see lk_gemm in gemm.h.
 *
 *   C[i][j] = (residual[i][j] +) sum_t sum_q sum_k A[t][q][i][k] * B[t][q][k][j]
 *
 * The register tile, mr rows x nv vectors of C, stays in registers until all taps are summed; long sums are taken in
 * chunks, and added up on the stack. Row pointers are kept there too and read once per 4 k, so there may be more rows than
 * general registers at no cost. Where all rows read all taps, one loop goes through the offsets of all steps: a loop for
 * each tap, of few steps, would end too often.
 * Edges: fewer rows than mr or vectors than nv have micro-kernels of their own; a partial last vector is stored by a
 *    mask, without AVX-512 in parts.
 */
#if LK_KR == 4
#pragma GCC optimize("fp-contract=off") /* a product and a sum are rounded each, as on every instruction set */
#endif
#include "common/vector.h"
#include "gemm.h"
#if LK_KR > 1
#include "rounding.h"
#endif

#include <math.h>
#include <string.h>

#if LK_KR == 4 && LK_VB < 32 /* a step is of many instructions */
#define LK_UNROLL 1
enum { ENDS_BY_ROWS = 0 };
#else
#define LK_UNROLL 4
enum { ENDS_BY_ROWS = 1 };
#endif
#define MAX_MR 12
#define MAX_NV 4

LK_INLINE vf splat(real x) { return x - (vf){}; }

/* An element of A; a unit is aligned only to its numbers. */
typedef real a_unit __attribute__((aligned(LK_ITEM / LK_KR), may_alias));

/* One in every lane. */
LK_INLINE vf spread(const char *a, const vf flip)
{
#if LK_KR == 4
    vf v = splat(*(const a_unit *)a);
    LK_PIN(v); /* gcc would flip it in a general register, which takes longer to get from there to a vector */
    return v ^ flip;
#else
    (void)flip;
    return splat(*(const a_unit *)a);
#endif
}

/* Whether tiles of so many vectors leave it to the multiplication to spread an element of A. On Zen 4 a broadcast
 * into a register of 64 bytes adds a third to the time of the multiplication after it, and pays only where others
 * use it again. Of bytes A is the operand that cannot be in memory. */
#if LK_VB == 64 && LK_KR != 4
#define SPREADS(nv) ((nv) == 1)
#if LK_BITS == 64
#define TO_LANES "%{1to8%}"
#else
#define TO_LANES "%{1to16%}"
#endif
/* acc += the element at `a` * b, as LK_FMA does it. */
#define FMA_SPREAD(acc, a, b) \
    __asm__ volatile(LK_FMA_NAME " %2" TO_LANES ", %1, %0" : "+v"(acc) : "v"(b), "m"(*(const a_unit *)(a)))
#else
#define SPREADS(nv) ((void)(nv), 0)
#define FMA_SPREAD(acc, a, b) ((void)(acc), (void)(a), (void)(b))
#endif

/* How many vectors of B a step holds in registers. Of 4 rows x 3 vectors without AVX-512 it reads the third from memory: 12
 * sums, three vectors of B and an element of A would take all 16 registers, and gcc would spill a sum. */
#define HELD(nv) (LK_VB == 32 && (nv) == 3 ? 2 : (nv))

LK_INLINE void step(vf *acc, const char *const *p, int64_t k, const real *b, const int mr, const int nv, const vf flip)
{
    vf bv[MAX_NV];
#pragma GCC unroll 8
    for (int j = 0; j < HELD(nv); j++) {
        bv[j] = *(const vf *)(b + j * LK_LANES);
        if (LK_VB == 64)
            LK_PIN(bv[j]); /* gcc would load it again for every row of a low tile */
    }
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++) {
        if (SPREADS(nv)) {
            FMA_SPREAD(acc[i], p[i] + k, bv[0]);
            continue;
        }
        vf a = spread(p[i] + k, flip);
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++) {
            if (j < HELD(nv))
                LK_FMA(acc[i * nv + j], a, bv[j]);
            else
                LK_FMA_AT(acc[i * nv + j], a, b + j * LK_LANES);
        }
    }
}

#include "gemm_ends.inc"

/* Prefetches a row of C that is written soon, and of the residual that is added to it. */
LK_INLINE void prefetch_row(const lk_gemm *g, const int64_t *row, const int nv)
{
#pragma GCC unroll 8
    for (int j = 0; j < nv; j++)
        __builtin_prefetch(g->next_c + *row + g->c_col[j], 1, 3);
    if (g->residual_offset)
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            __builtin_prefetch(g->next_c + *row + g->residual_offset + g->c_col[j], 0, 3);
}

/* All of them at once, for short sums. */
LK_INLINE void prefetch_rows(const lk_gemm *g, const int mr, const int nv)
{
    if (g->next_c_row)
#pragma GCC unroll 32
        for (int i = 0; i < mr; i++)
            prefetch_row(g, g->next_c_row + i, nv);
}

/* Where a sum of chunks is, in steps. */
typedef struct {
    int64_t left;   /* in this chunk */
    int64_t behind; /* in the period, after this chunk */
    int due;        /* a chunk has ended, and is not yet in the total */
} chunks;

LK_INLINE void next_chunk(chunks *s, const lk_gemm *g)
{
    if (!s->behind)
        s->behind = g->period;
    s->left = MIN(g->chunk, s->behind);
    s->behind -= s->left;
}

/* Goes n steps on; none of them begins another chunk but where they are left out. */
LK_INLINE void go_on(chunks *s, const lk_gemm *g, int64_t n)
{
    for (; n >= s->left; s->due = 1) {
        n -= s->left;
        next_chunk(s, g);
    }
    s->left -= n;
}

/* The totals of a tile. In memory: gcc would make 24 variables of them, and allocate registers for those as well. */
#define TOTAL(name) \
    vf name##_array[MAX_MR * 2] __attribute__((aligned(LK_VB))); \
    vf *name = name##_array; \
    LK_PIN_ADDRESS(name)

/* Adds the sums of a chunk to the totals. */
LK_INLINE void add_up(vf *acc, vf *total, const int mr, const int nv)
{
#pragma GCC unroll 32
    for (int i = 0; i < mr * nv; i++) {
        total[i] += acc[i];
        acc[i] = (vf){};
    }
}

/* Whether the sums of a tile go by chunks. */
LK_INLINE int by_chunks(const lk_gemm *g, int64_t steps) { return LK_KR != 4 && (g->resume || steps > g->chunk); }

/* Whether there are totals: of chunks, or for the one variant of end_rows that does everything. */
LK_INLINE int has_totals(const lk_gemm *g, const int chunked, const int tail)
{
    const int for_parts = tail && (!STORES_PARTS(SUMS) || g->accumulate);
    return chunked || (!ROUNDS && !NARROWS(g) && (for_parts || g->positive));
}

/* The initial value of each sum: the bias, or 0; and of its total, if there is one: 0, the residual, or what C holds. */
LK_INLINE void begin(vf *acc, vf *total, const int adds, const int chunked, const lk_gemm *g, const int tail, const int mr,
                     const int nv)
{
    const vf zero = splat(g->positive ? (real)0 : (real)-0.0);
    const real *const bias_row = g->resume ? NULL : g->bias_row;
    const vf *const bias_col = g->resume ? NULL : g->bias_col;
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (int j = 0; j < nv; j++)
            acc[i * nv + j] = bias_row ? splat(bias_row[i]) : bias_col ? bias_col[j] : (vf){};
    if (LK_INTEGERS && bias_row && bias_col)
#pragma GCC unroll 32
        for (int i = 0; i < mr; i++)
#pragma GCC unroll 8
            for (int j = 0; j < nv; j++)
                acc[i * nv + j] += bias_col[j];
    if (g->resume || (adds && begins_with_residual(g, chunked)))
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nv; j++) {
                const char *const c = g->c + g->c_row[i] + g->c_col[j] + (g->resume ? 0 : g->residual_offset);
                total[i * nv + j] = tail && j == nv - 1 ? load_lanes(c, (1u << tail) - 1) : *(const vf *)c;
                if (!g->resume && LK_KR != 4)
                    total[i * nv + j] += zero;
            }
    else if (adds)
#pragma GCC unroll 32
        for (int i = 0; i < mr * nv; i++)
            total[i] = zero;
    if (LK_KR == 4 && g->resume)
#pragma GCC unroll 32
        for (int i = 0; i < mr * nv; i++)
            acc[i] = total[i];
}

#if LK_KR == 1
/* A step on row b: gcc would compute its address once for each vector. */
LK_INLINE void step_at(vf *acc, const char *const *p, int64_t k, const real *b, const int mr, const int nv)
{
    LK_PIN_ADDRESS(b);
    step(acc, p, LK_ITEM * k, b, mr, nv, (vf){});
}

/* One tap and one block, no row in the padding, rows of B at b_row. */
LK_INLINE void micro_kernel_by_rows(const lk_gemm *g, const int mr, const int nv)
{
    const int tail = g->cols % LK_LANES;
    const int64_t stop = g->kb_last;
    const int chunked = by_chunks(g, stop), adds = has_totals(g, chunked, tail);
    const int64_t *row = g->b_row;
    const real *const b = (const real *)g->b, *bu[END_STEPS];
    vf acc[MAX_MR * 2];
    TOTAL(total);
    const char *p[MAX_MR];
    chunks sum = {0};
    int64_t k = 0;
    if (LK_VB == 64) /* as in micro_kernel */
        prefetch_rows(g, mr, nv);
    begin(acc, total, adds, chunked, g, tail, mr, nv);
    next_chunk(&sum, g);
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++)
        p[i] = g->a + g->row[i] + g->tap[0];
    for (;;) {
        const int64_t part = chunked ? MIN(stop, k + sum.left) : stop;
        const int last = LK_VB == 64 && part == stop && ends_by_rows(g, tail, part - k, mr, nv);
        const int64_t unrolled = part - (last ? END_STEPS : 0);
        for (; (unrolled - k) % LK_UNROLL; k++)
            step_at(acc, p, k, b + *row++, mr, nv);
        for (; k < unrolled; k += LK_UNROLL, row += LK_UNROLL) {
            __asm__ volatile("" : "+r"(k)); /* as in micro_kernel */
#pragma GCC unroll 4
            for (int u = 0; u < LK_UNROLL; u++)
                step_at(acc, p, k + u, b + row[u], mr, nv);
        }
        if (last) {
#pragma GCC unroll 4
            for (int u = 0; u < END_STEPS; u++) {
                bu[u] = b + row[u];
                LK_PIN_ADDRESS(bu[u]);
            }
            last_steps(acc, total, adds, chunked, g, p, LK_ITEM * k, bu, tail, mr, nv, (vf){});
            return;
        }
        if (k == stop)
            break;
        add_up(acc, total, mr, nv);
        next_chunk(&sum, g);
    }
    end(acc, total, adds, chunked, g, mr, nv);
}
#endif

/* Points p to rows of A that are all inside the input. */
LK_INLINE void point_to_rows(const char **p, const lk_gemm *g, const int mr)
{
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++)
        p[i] = g->a + g->row[i];
}

/* The same at k, where those that `mask` leaves out are zeros. */
LK_INLINE void point_to_masked_rows(const char **p, const lk_gemm *g, const uint32_t mask, const int64_t k, const int mr)
{
    const char *const zero = (const char *)g->zero - k;
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++) /* no branch */
        p[i] = zero + (-(int64_t)(mask >> (32 - mr + i) & 1) & (g->a + g->row[i] - zero));
}

/* The position in B, and what is prefetched meanwhile: the next filter, or rows of A, and rows of C. */
typedef struct {
    const real *b;
    int64_t ldb;
    const char *fetch, *fetch_end;
    int64_t fetch_bytes; /* at a time, whole lines: evenly spread, so that they do not hold up loads of B */
    const int64_t *next, *next_end;
} reader;

/* The reader of a sum of so many steps, which prefetches `mr` rows of C from `next` on, unless that is NULL. */
LK_INLINE reader reader_of(const lk_gemm *g, const int64_t steps, const int64_t *next, const int mr)
{
    reader r = {.b = (const real *)g->b, .ldb = g->ldb, .next = next, .next_end = next ? next + mr : NULL,
                .fetch = g->to_prefetch, .fetch_end = g->to_prefetch + g->to_prefetch_bytes, .fetch_bytes = 64};
    if (g->to_prefetch_bytes > 64)
        r.fetch_bytes = (g->to_prefetch_bytes / (64 * (steps / LK_UNROLL + 1)) + 1) * 64;
    return r;
}

/* Prefetches a part of what comes next. */
LK_INLINE void prefetch_on(reader *r, const lk_gemm *g, const int nv)
{
    for (const char *stop = MIN(r->fetch + r->fetch_bytes, r->fetch_end); r->fetch < stop; r->fetch += 64)
        __builtin_prefetch(r->fetch, 0, 2);
    if (r->next < r->next_end)
        prefetch_row(g, r->next++, nv);
}

/* Steps from k to `end`, LK_UNROLL at a time; returns `end`. */
LK_INLINE int64_t unrolled_steps(vf *acc, const char *const *p, int64_t k, const int64_t end, reader *r, const lk_gemm *g,
                                 const int mr, const int nv, const vf flip)
{
    for (; k < end; k += LK_ITEM * LK_UNROLL) {
        /* keeps gcc from making mr induction variables of mr stack slots */
        __asm__ volatile("" : "+r"(k));
#pragma GCC unroll 4
        for (int u = 0; u < LK_UNROLL; u++) {
            const real *bu = r->b + u * r->ldb;
            if (LK_VB == 64)
                LK_PIN_ADDRESS(bu);
            step(acc, p, k + LK_ITEM * u, bu, mr, nv, flip);
        }
        r->b += LK_UNROLL * r->ldb;
        prefetch_on(r, g, nv);
    }
    return k;
}

/* The last steps, whose rows of B are at b. */
LK_INLINE void end_steps(vf *acc, const vf *total, const int adds, const int chunked, const lk_gemm *g, const char *const *p,
                         const int64_t k, const real *b, const int64_t ldb, const int tail, const int mr, const int nv,
                         const vf flip)
{
    const real *bu[END_STEPS];
#pragma GCC unroll 4
    for (int u = 0; u < END_STEPS; u++) {
        bu[u] = b + u * ldb;
        LK_PIN_ADDRESS(bu[u]);
    }
    last_steps(acc, total, adds, chunked, g, p, k, bu, tail, mr, nv, flip);
}

LK_INLINE void micro_kernel(const lk_gemm *g, const int mr, const int nv, const int flips)
{
    const int tail = g->cols % LK_LANES;
#if LK_KR == 4
    const vf flip = splat(flips ? (real)g->flip : 0);
#else
    const vf flip = {};
#endif
    vf acc[MAX_MR * 2]; /* a constant size: gcc keeps variable-length arrays in memory */
    TOTAL(total);
    const int64_t of_tap = (g->blocks - 1) * g->kb + g->kb_last;
    const int chunked = by_chunks(g, g->taps * of_tap), adds = has_totals(g, chunked, tail);
    /* the tap whose last steps end_rows does; -1: none */
    const int64_t last_tap = ends_by_rows(g, tail, g->kb_last, mr, nv) ? g->taps - 1 : -1;
    /* whether there are LK_UNROLL steps for every row that is prefetched; those of shorter vectors take so long that the
     * hardware keeps up */
    const int long_sum = LK_VB < 64 || g->taps * of_tap >= LK_UNROLL * mr;
    chunks sum = {0};
    if (!long_sum)
        prefetch_rows(g, mr, nv);
    begin(acc, total, adds, chunked, g, tail, mr, nv);
    next_chunk(&sum, g);
    reader r = reader_of(g, g->taps * of_tap, long_sum ? g->next_c_row : NULL, mr);
    const char *p[MAX_MR];
    int inside = 0; /* p points to rows that are all inside the input: valid for every tap and block */
    for (int64_t t = 0; t < g->taps; t++) {
        const uint32_t mask = g->mask ? g->mask[t] << (32 - mr) : ~0u << (32 - mr);
        if (!mask && (LK_KR != 4 || g->leaves_out)) { /* every row is in the padding */
            r.b += of_tap * r.ldb;
            if (chunked)
                go_on(&sum, g, of_tap);
            continue;
        }
        if (g->b_tap)
            r.b = (const real *)g->b + g->b_tap[t];
        for (int64_t q = 0; q < g->blocks; q++) {
            int64_t k = g->tap[t] + q * g->block_stride;
            if (mask == ~0u << (32 - mr)) {
                if (!inside)
                    point_to_rows(p, g, mr);
                inside = 1;
            } else {
                inside = 0;
                point_to_masked_rows(p, g, mask, k, mr);
            }
            const int64_t stop = k + LK_ITEM * (q + 1 < g->blocks ? g->kb : g->kb_last);
            do {
                int64_t part = stop; /* the end of what is of one chunk */
                if (chunked) {
                    if (sum.due)
                        add_up(acc, total, mr, nv);
                    sum.due = 0;
                    part = MIN(stop, k + LK_ITEM * sum.left);
                    go_on(&sum, g, (part - k) / LK_ITEM);
                }
                const int last = t == last_tap && q + 1 == g->blocks && part == stop && part - k >= LK_ITEM * END_STEPS;
                const int64_t unrolled = part - LK_ITEM * (last ? END_STEPS : 0);
                for (; (unrolled - k) % (LK_ITEM * LK_UNROLL); k += LK_ITEM, r.b += r.ldb)
                    step(acc, p, k, r.b, mr, nv, flip);
                k = unrolled_steps(acc, p, k, unrolled, &r, g, mr, nv, flip);
                if (last) {
                    end_steps(acc, total, adds, chunked, g, p, k, r.b, r.ldb, tail, mr, nv, flip);
                    return;
                }
            } while (k < stop);
        }
    }
    end(acc, total, adds, chunked, g, mr, nv);
}

#if LK_KR != 4 /* bytes gain nothing: their steps take longer */
/* The offsets of a run of k. */
enum { MAX_RUN = 256 };
#define RUN_4(k) LK_ITEM *(k), LK_ITEM *((k) + 1), LK_ITEM *((k) + 2), LK_ITEM *((k) + 3)
#define RUN_16(k) RUN_4(k), RUN_4((k) + 4), RUN_4((k) + 8), RUN_4((k) + 12)
#define RUN_64(k) RUN_16(k), RUN_16((k) + 16), RUN_16((k) + 32), RUN_16((k) + 48)
static const int64_t run_of_k[MAX_RUN] = {RUN_64(0), RUN_64(64), RUN_64(128), RUN_64(192)};

/* Whether every row reads every step, at an offset that `step` or `run_of_k` lists, and chunks follow one another evenly. */
LK_INLINE int is_flat(const lk_gemm *g)
{
    const int64_t steps = g->taps * g->kb_last;
    if (g->b_tap || g->blocks > 1 || g->resume || (g->taps > 1 ? !g->step : steps > MAX_RUN))
        return 0;
    if (steps > g->chunk && steps > g->period && g->period % g->chunk)
        return 0;
    uint32_t read = ~0u;
    for (int64_t t = 0; g->mask && t < g->taps; t++)
        read &= g->mask[t];
    return !(~read << (32 - g->rows));
}

/* All steps of all taps in one loop. */
LK_INLINE void micro_kernel_flat(const lk_gemm *g, const int mr, const int nv)
{
    const int tail = g->cols % LK_LANES;
    const int64_t steps = g->taps * g->kb_last;
    const int chunked = by_chunks(g, steps), adds = has_totals(g, chunked, tail);
    const int by_rows = ends_by_rows(g, tail, g->kb_last, mr, nv);
    const int long_sum = steps >= LK_UNROLL * mr; /* as in micro_kernel */
    /* of vectors of half a line the hardware finds the next rows of C itself, and prefetches delay the loads behind them */
    reader r = reader_of(g, steps, LK_VB == 64 && long_sum ? g->next_c_row : NULL, mr);
    const int64_t *at = g->taps > 1 ? g->step : run_of_k, *const stop = at + steps;
    vf acc[MAX_MR * 2];
    TOTAL(total);
    const char *p[MAX_MR];
    if (LK_VB == 64 && !long_sum)
        prefetch_rows(g, mr, nv);
    begin(acc, total, adds, chunked, g, tail, mr, nv);
    point_to_rows(p, g, mr);
#pragma GCC unroll 32
    for (int i = 0; i < mr; i++)
        p[i] += g->taps > 1 ? 0 : g->tap[0];
    for (;;) {
        const int64_t *const part = chunked ? MIN(stop, at + g->chunk) : stop;
        const int last = by_rows && part == stop && part - at >= END_STEPS;
        const int64_t *const unrolled = part - (last ? END_STEPS : 0);
        for (; (unrolled - at) % LK_UNROLL; at++, r.b += r.ldb)
            step(acc, p, *at, r.b, mr, nv, (vf){});
        for (; at < unrolled; at += LK_UNROLL) {
#pragma GCC unroll 4
            for (int u = 0; u < LK_UNROLL; u++, r.b += r.ldb) {
                LK_PIN_ADDRESS(r.b); /* gcc would keep each u * ldb on the stack */
                step(acc, p, at[u], r.b, mr, nv, (vf){});
            }
            prefetch_on(&r, g, nv);
        }
        if (last) {
            end_steps(acc, total, adds, chunked, g, p, *at, r.b, r.ldb, tail, mr, nv, (vf){});
            return;
        }
        if (at == stop)
            break;
        add_up(acc, total, mr, nv);
    }
    end(acc, total, adds, chunked, g, mr, nv);
}
#endif

/* One function for each size of a tile, rows x vectors, and each variant: in larger ones gcc 12 allocates registers
 * worse, and takes much longer. Where each unit of A is multiplied once, to flip it would take a tenth of the time. */
#define TILE(MR, NV) \
    static void tile_##MR##x##NV(const lk_gemm *g) \
    { \
        if (LK_KR == 4 && LK_VB == 64 && NV == 1 && !g->flip) \
            micro_kernel(g, MR, NV, 0); \
        else \
            micro_kernel(g, MR, NV, LK_KR == 4); \
    }
#define FLAT_TILE(MR, NV) \
    static void flat_tile_##MR##x##NV(const lk_gemm *g) { micro_kernel_flat(g, MR, NV); }
#define TILE_BY_ROWS(MR, NV) \
    static void tile_by_rows_##MR##x##NV(const lk_gemm *g) { micro_kernel_by_rows(g, MR, NV); }
#define SIZES_4(X, NV) X(1, NV) X(2, NV) X(3, NV) X(4, NV)
#define SIZES_6(X, NV) SIZES_4(X, NV) X(5, NV) X(6, NV)
#define SIZES_12(X, NV) SIZES_6(X, NV) X(7, NV) X(8, NV) X(9, NV) X(10, NV) X(11, NV) X(12, NV)
#if LK_VB == 64 && LK_BITS == 64
#define SIZES(X) SIZES_6(X, 1) SIZES_6(X, 2) SIZES_6(X, 3) SIZES_6(X, 4)
#elif LK_VB == 64
#define SIZES(X) SIZES_12(X, 1) SIZES_12(X, 2) SIZES_6(X, 3) SIZES_6(X, 4)
#elif LK_VB == 32
#define SIZES(X) SIZES_6(X, 1) SIZES_6(X, 2) SIZES_4(X, 3)
#else
#define SIZES(X) SIZES_6(X, 1) SIZES_6(X, 2)
#endif
/* The sizes of most tiles of large images: only these have a flat variant. */
#if LK_VB == 64 && LK_BITS == 64
#define FLAT_SIZES(X) X(6, 1) X(6, 2) X(6, 3) X(6, 4)
#elif LK_VB == 64
#define FLAT_SIZES(X) X(12, 1) X(12, 2) X(6, 3) X(6, 4)
#elif LK_VB == 32
#define FLAT_SIZES(X) X(6, 1) X(6, 2) X(4, 3)
#else
#define FLAT_SIZES(X) X(6, 1) X(6, 2)
#endif
SIZES(TILE)
enum { ANY, BY_ROWS, FLAT };
#if LK_KR != 4
FLAT_SIZES(FLAT_TILE)
#define FLAT_ENTRY(MR, NV) [FLAT][NV - 1][MR - 1] = flat_tile_##MR##x##NV,
#else
#define FLAT_ENTRY(MR, NV)
#endif
#if LK_KR == 1
SIZES(TILE_BY_ROWS)
#define ENTRY(MR, NV) [ANY][NV - 1][MR - 1] = tile_##MR##x##NV, [BY_ROWS][NV - 1][MR - 1] = tile_by_rows_##MR##x##NV,
#else
#define ENTRY(MR, NV) [ANY][NV - 1][MR - 1] = tile_##MR##x##NV,
#endif
static const lk_gemm_fn tiles[FLAT + 1][4][12] = {SIZES(ENTRY) FLAT_SIZES(FLAT_ENTRY)};

/* The register tiles: rows x columns. */
#if LK_VB == 64 && LK_BITS == 64
#define TILES(X) X(6, 32)
#elif LK_VB == 64
#define TILES(X) X(12, 32) X(6, 64)
#elif LK_VB == 32 && LK_BITS == 64
#define TILES(X) X(4, 12) X(6, 8)
#elif LK_VB == 32 && LK_KR == 4 && !defined(__AVXVNNI__)
#define TILES(X) X(4, 16)
#elif LK_VB == 32 && LK_KR == 4
#define TILES(X) X(6, 16)
#elif LK_VB == 32
#define TILES(X) X(4, 24) X(6, 16)
#elif LK_BITS == 64
#define TILES(X) X(6, 4)
#else
#define TILES(X) X(6, 8)
#endif

LK_INLINE void multiply(const lk_gemm *g)
{
    const int vectors = (g->cols + LK_LANES - 1) / LK_LANES - 1, rows = g->rows - 1;
#if LK_KR != 4
    if (!g->b_row && tiles[FLAT][vectors][rows] && is_flat(g)) {
        tiles[FLAT][vectors][rows](g);
        return;
    }
#endif
    tiles[g->b_row ? BY_ROWS : ANY][vectors][rows](g);
}
#define KERNEL(MR, NR) \
    void LK_NAME(LK_TYPED(gemm_##MR##x##NR))(const lk_gemm *g) { multiply(g); }
TILES(KERNEL)

#define TILE_ROW(MR, NR) LK_ROW(LK_GEMM, LK_TYPED(gemm_##MR##x##NR), LK_STR(LK_KIND), LK_LANES, MR, NR, LK_TILE(LK_STR(LK_KIND))),
const lk_kernel LK_ROWS(gemm)[] = {TILES(TILE_ROW) LK_LAST_ROW};
