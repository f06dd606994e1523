/* Bytes of C interleaved rows, two to four, deinterleaved and interleaved a vector of each row at a time.
 *
 * No instruction shuffles the bytes of two vectors, and where gcc cannot compose that of others, it makes scalar code. So
 * groups of C lanes of 16 bytes, which hold 16 elements of each row, are shuffled: vector v has lane v of each group.
 */
#ifndef LAYOUTKIT_BYTES_H
#define LAYOUTKIT_BYTES_H

#include "kernels.h"
#include "vector.h"

#if LK_VB > 16
typedef long long lk_pairs __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef char lk_bytes __attribute__((vector_size(LK_VB)));
#if LK_VB == 64
#define LK_SHUFFLE_BYTES(v, order) ((lk_pairs)_mm512_shuffle_epi8((__m512i)(v), (__m512i)(order)))
#else
#define LK_SHUFFLE_BYTES(v, order) ((lk_pairs)_mm256_shuffle_epi8((__m256i)(v), (__m256i)(order)))
#endif

/* The shuffles: lanes[v][u] takes vector u in, for the lanes of vector v; place[v][u] the bytes of vector u that are in
 * vector v, within lanes (-1: none). */
typedef struct {
    lk_pairs lanes[4][4];
    lk_bytes place[4][4];
} lk_shuffles;

LK_INLINE lk_shuffles lk_shuffles_of(const int together, const int C)
{
    enum { LANES = LK_VB / 16, PAIRS = LK_VB / 8 };
    lk_shuffles s;
    for (int v = 0; v < C; v++) {
        for (int u = 1; u < C; u++)
            for (int i = 0; i < PAIRS; i++) {
                const int lane = together ? v * LANES + i / 2 : i / 2 * C + v;
                const int from = together ? lane % C : lane / LANES;
                const int at = (together ? lane / C : lane % LANES) * 2 + i % 2;
                s.lanes[v][u][i] = from == u ? PAIRS + at : from < u && u > 1 ? i : at;
            }
        for (int u = 0; u < C; u++)
            for (int t = 0; t < LK_VB; t++) {
                const int at = together ? v * 16 + t % 16 : t % 16 * C + v;
                s.place[v][u][t] = together ? (at % C == u ? at / C : -1) : (at / 16 == u ? at % 16 : -1);
            }
    }
    return s;
}

LK_INLINE void lk_deal_lanes(lk_pairs *out, const lk_pairs *in, const lk_shuffles *s, const int C)
{
    for (int v = 0; v < C; v++) {
        out[v] = in[0];
        for (int u = 1; u < C; u++)
            out[v] = __builtin_shuffle(out[v], in[u], s->lanes[v][u]);
    }
}

LK_INLINE void lk_deal_bytes(lk_pairs *out, const lk_pairs *in, const lk_shuffles *s, const int C)
{
    for (int v = 0; v < C; v++) {
        out[v] = LK_SHUFFLE_BYTES(in[0], s->place[v][0]);
        for (int u = 1; u < C; u++)
            out[v] |= LK_SHUFFLE_BYTES(in[u], s->place[v][u]);
    }
}

/* C vectors of memory to one of each row, by lk_shuffles_of(0, C). */
LK_INLINE void lk_take_apart(lk_pairs *row, const lk_pairs *memory, const lk_shuffles *s, const int C)
{
    lk_pairs groups[4];
    lk_deal_lanes(groups, memory, s, C);
    lk_deal_bytes(row, groups, s, C);
}

/* The inverse, by lk_shuffles_of(1, C). */
LK_INLINE void lk_put_together(lk_pairs *memory, const lk_pairs *row, const lk_shuffles *s, const int C)
{
    lk_pairs groups[4];
    lk_deal_bytes(groups, row, s, C);
    lk_deal_lanes(memory, groups, s, C);
}
#endif

#endif
