/* Where the loops of a nest are at a step, and those whose index has several digits: what panels, fused and joined
 * transposes and runs share. */
#ifndef LAYOUTKIT_LOOPS_H
#define LAYOUTKIT_LOOPS_H

#include "kernels.h"
#include "vector.h"

#include <string.h>

/* Where in a loop an index is: its digits, and the offset of all but the first one. */
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

/* Prefetches rows of the source that a later part of a nest reads, line after line as memory has them, some with each
 * tile: the prefetchers of the hardware join in, which they do not where every row is asked for one line. */
typedef struct {
    const char *src;
    const int64_t *row; /* offsets of rows that are left, from src */
    int64_t rows, bytes; /* how many are left, and how long they are */
    int64_t each;        /* lines that are prefetched with a tile; short rows as a whole */
    const char *at, *end; /* what is left of one row */
} fetcher;

enum { SHORT_ROW_BYTES = 64 };

/* The rest of an earlier fetch is dropped. tiles: with how many the work is shared. */
LK_INLINE void fetch_begin(fetcher *f, const char *src, const int64_t *row, int64_t rows, int64_t bytes, int64_t tiles)
{
    const int64_t lines = bytes <= SHORT_ROW_BYTES ? rows : rows * (bytes / 64 + 1);
    *f = (fetcher){src, row, rows, bytes, (lines + tiles - 1) / tiles, 0, 0};
}

LK_INLINE void fetch_some(fetcher *f)
{
    if (f->bytes <= SHORT_ROW_BYTES) { /* few lines each: without a branch for every one of them */
        const int64_t n = MIN(f->each, f->rows);
        for (int64_t k = 0; k < n; k++) {
            const char *const p = f->src + (f->row[k] == LK_NOWHERE ? 0 : f->row[k]);
            __builtin_prefetch(p, 0, 2);
            __builtin_prefetch(p + f->bytes - 1, 0, 2);
        }
        f->row += n;
        f->rows -= n;
        return;
    }
    for (int64_t k = 0; k < f->each; k++) {
        while (f->at >= f->end) {
            if (!f->rows)
                return;
            const int64_t row = *f->row++;
            f->rows--;
            if (row != LK_NOWHERE) {
                const char *const line = (const char *)((intptr_t)(f->src + row) & -64);
                f->end = f->src + row + f->bytes;
                f->at = line + 64 == f->at ? f->at : line; /* rows may share a line */
            }
        }
        __builtin_prefetch(f->at, 0, 2);
        f->at += 64;
    }
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
