/* Where the loops of a nest are at a step, and those whose index has several digits: what panels, fused and joined
 * transposes and runs share. */
#ifndef LAYOUTKIT_LOOPS_H
#define LAYOUTKIT_LOOPS_H

#include "kernels.h"
#include "vector.h"

/* Where in a loop an index is. */
typedef struct {
    int64_t at[LK_MAX_FUSED], offset;
} walk;

LK_INLINE walk walk_to(const lk_fused_loop *l, int64_t index)
{
    walk w = {.offset = 0};
    for (int k = 0; k < l->digits; k++) {
        w.at[k] = index % l->n[k];
        w.offset += w.at[k] * l->step[k];
        index /= l->n[k];
    }
    return w;
}

/* Goes to the next index. */
LK_INLINE void walk_next(const lk_fused_loop *l, walk *w)
{
    w->offset += l->step[0];
    if (__builtin_expect(++w->at[0] < l->n[0], 1))
        return;
    for (int k = 0; w->at[k] == l->n[k]; k++) {
        w->offset -= w->at[k] * l->step[k];
        w->at[k] = 0;
        if (k + 1 == l->digits)
            break;
        w->at[k + 1]++;
        w->offset += l->step[k + 1];
    }
}

/* Writes the offsets of the next `count` indices. */
LK_INLINE void walk_on(const lk_fused_loop *l, walk *w, int64_t *offset, int64_t count)
{
    while (count) {
        const int64_t run = MIN(count, l->n[0] - w->at[0]), step = l->step[0];
        for (int64_t i = 0; i < run; i++)
            *offset++ = w->offset + i * step;
        count -= run;
        w->at[0] += run - 1;
        w->offset += (run - 1) * step;
        walk_next(l, w);
    }
}

/* The offset of a step of a nest's loops on the side of `by`. */
LK_INLINE int64_t offset(const lk_nest *nest, const int64_t *by, int64_t step)
{
    int64_t sum = 0;
    for (int i = nest->loops - 1; i >= 0; i--) {
        sum += step % nest->n[i] * by[i];
        step /= nest->n[i];
    }
    return sum;
}

#endif
