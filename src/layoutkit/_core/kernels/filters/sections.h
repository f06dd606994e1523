/* Recursions of the second order across rows: LK_WEIGH_SECTIONS of filters.h.
 * Edges: the end of a row is loaded and stored by its elements, as states are read and written. */
#ifndef LAYOUTKIT_SECTIONS_H
#define LAYOUTKIT_SECTIONS_H

#include "filters.h"
#include "reals.h"

/* `taps` sections; what stores do not change is in registers, as far as these go. */
LK_INLINE void sections_of(const lk_combine *p, const int taps)
{
    const char *const now = p->x[0], *const before = p->x[1], *const added = p->x[2 + 2 * taps];
    const char *last[3];
    char *second[3], *const y = p->y;
    vf w[3][4];
    for (int k = 0; k < taps; k++) {
        last[k] = p->x[2 + 2 * k], second[k] = (char *)p->x[3 + 2 * k];
        for (int t = 0; t < 4; t++)
            w[k][t] = ((const real *)p->weight)[4 * k + t] - (vf){};
    }
#define SECTIONS_AT(i, n) \
    { \
        const int64_t at = (i) * LK_ITEM; \
        const vf a = load_some(now + at, n, LK_OWN), b = load_some(before + at, n, LK_OWN); \
        vf sum = added ? load_some(added + at, n, LK_OWN) : (vf){}; \
        _Pragma("GCC unroll 3") for (int k = 0; k < taps; k++) \
        { \
            const vf c = load_some(last[k] + at, n, LK_OWN), d = load_some(second[k] + at, n, LK_OWN); \
            const vf state = fused(w[k][2], c, fused(w[k][3], d, fused(w[k][1], b, w[k][0] * a))); \
            store_some(second[k] + at, state, n, LK_OWN); \
            sum += state; \
        } \
        store_some(y + at, sum, n, LK_OWN); \
    }
    int64_t i = 0;
    for (; i <= p->count - LK_LANES; i += LK_LANES)
        SECTIONS_AT(i, LK_LANES)
    if (i < p->count)
        SECTIONS_AT(i, (int)(p->count - i))
#undef SECTIONS_AT
}

static __attribute__((noinline)) void weigh_sections(const lk_combine *p)
{
    if (p->taps == 1)
        sections_of(p, 1);
    else if (p->taps == 2)
        sections_of(p, 2);
    else
        sections_of(p, 3);
}

#endif
