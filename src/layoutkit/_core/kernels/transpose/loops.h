/* Positions in the loops of a nest, and in loops whose index has several digits; for panels, fused and joined transposes,
 * and runs. */
#ifndef LAYOUTKIT_LOOPS_H
#define LAYOUTKIT_LOOPS_H

#include "common/vector.h"
#include "transpose.h"

#include <string.h>

enum { MAX_GAP_BYTES = 64, MAX_ROW_BYTES = 2048, MIN_TOGETHER_BYTES = 2048, MAX_TOGETHER_BYTES = 256 << 10 };

/* A position in a loop: the digits of its index, and the offset of all but the first one. */
typedef struct {
    int64_t at[LK_MAX_FUSED], upper;
} walk;

LK_INLINE walk walk_to(const lk_fused_loop *l, int64_t index)
{
    walk w = {.upper = 0};
    for (int k = 0; k < l->digits; k++) {
        w.at[k] = index % l->n[k];
        w.upper += k ? w.at[k] * l->step[k] : 0;
        index /= l->n[k];
    }
    return w;
}

/* The offset of the index, or LK_NOWHERE. */
LK_INLINE int64_t walk_offset(const lk_fused_loop *l, const walk *w)
{
    const int64_t first = l->table ? l->table[w->at[0]] : w->at[0] * l->step[0];
    return first == LK_NOWHERE ? LK_NOWHERE : w->upper + first;
}

/* Goes on by n indices, at most to the next value of the second digit. After the last index comes the first one. */
LK_INLINE void walk_by(const lk_fused_loop *l, walk *w, int64_t n)
{
    w->at[0] += n;
    for (int k = 0; w->at[k] == l->n[k]; k++) {
        w->upper -= k ? w->at[k] * l->step[k] : 0;
        w->at[k] = 0;
        if (k + 1 == l->digits)
            break;
        w->at[k + 1]++;
        w->upper += l->step[k + 1];
    }
}

/* Writes the offsets of the next `count` indices. */
LK_INLINE void walk_on(const lk_fused_loop *l, walk *w, int64_t *offset, int64_t count)
{
    while (count) {
        const int64_t run = MIN(count, l->n[0] - w->at[0]), step = l->step[0];
        if (l->table)
            for (int64_t i = w->at[0]; i < w->at[0] + run; i++)
                *offset++ = l->table[i] == LK_NOWHERE ? LK_NOWHERE : w->upper + l->table[i];
        else
            for (int64_t i = w->at[0]; i < w->at[0] + run; i++)
                *offset++ = w->upper + i * step;
        count -= run;
        walk_by(l, w, run);
    }
}

/* Prefetches the source of a later part of a nest. Adjacent rows are prefetched line after line, some lines with each
 * tile, so that the hardware's prefetchers join in. Of other rows a tile prefetches those parts that a later tile reads.
 */
typedef struct {
    const char *at, *end; /* the rest of adjacent rows */
    int64_t each;         /* lines with each tile */
    const char *rows;     /* of other rows: the address of a later tile; else NULL */
} fetcher;

/* The bytes that `rows` rows of `bytes` bytes at from[r] span if they are adjacent but for small gaps; 0: they are not,
 * or they are so long that it does not matter. */
LK_INLINE int64_t together(const int64_t *from, int64_t rows, int64_t bytes)
{
    const int64_t step = rows > 1 ? from[1] - from[0] : 0;
    if (bytes > MAX_ROW_BYTES || step < bytes || step > bytes + MAX_GAP_BYTES || rows * step < MIN_TOGETHER_BYTES
        || rows * step > MAX_TOGETHER_BYTES)
        return 0;
    for (int64_t r = 1; r < rows; r++)
        if (from[r - 1] == LK_NOWHERE || from[r] != from[r - 1] + step)
            return 0;
    return rows * step;
}

/* Begins to prefetch `bytes` bytes from `at` on, during a number of tiles. */
LK_INLINE void fetch_begin(fetcher *f, const char *at, int64_t bytes, int64_t tiles)
{
    f->at = (const char *)((intptr_t)at & -64);
    f->end = at + bytes;
    f->each = (bytes / 64 + tiles) / tiles;
}

LK_INLINE void fetch_some(fetcher *f)
{
    const char *at = f->at;
    const char *const end = MIN(f->end, at + 64 * f->each);
    for (; at < end; at += 64)
        __builtin_prefetch(at, 0, 2);
    f->at = at;
}

/* Fills `bytes` of scratch with pad elements, if rows may be pads. */
LK_INLINE const char *pads_in(char *scratch, const lk_fused *f, int64_t bytes)
{
    for (int64_t i = 0; f->rows.table && i < bytes; i += 64)
        memcpy(scratch + i, f->pad, 64);
    return scratch;
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
