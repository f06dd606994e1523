/* Runs of the source that follow one another in the destination, of equal or of given sizes.
 *
 *   dst[to(j) + k] = src[from(j) + k]     k < size(j), bytes; to(j) is the sum of the sizes before it
 *
 * Short runs are joined in a buffer that stays in L1; of long ones whole aligned vectors of the destination are loaded
 * from the source directly. So only the two ends of all runs are stores of partial lines. The lines of
 * runs that are at least AHEAD_BYTES ahead are prefetched.
 */
#include "common/lines.h"
#include "loops.h"

enum { AHEAD_BYTES = 8192, MAX_FETCHED_BYTES = 4096, LONG_BYTES = 1024 };

/* Appends a run of n bytes. */
LK_INLINE void append(buffer *b, const char *s, int64_t n)
{
    char *const d = b->at + b->fill;
    for (int64_t k = 0; k + LK_VB <= n; k += LK_VB)
        memcpy(d + k, s + k, LK_VB);
    if (n >= LK_VB)
        memcpy(d + n - LK_VB, s + n - LK_VB, LK_VB);
    else
        copy_part(d, s, (int)n);
    b->fill += n;
    if (b->fill >= BUFFER_BYTES)
        put_lines(b);
}

/* Appends a long run; its ends, which share lines with other runs, go through the buffer. */
LK_INLINE void append_long(buffer *b, const char *s, int64_t n)
{
    int64_t k = 0;
    put_lines(b);
    if (b->fill) {
        k = LINE_BYTES - b->fill;
        copy_line_part(b->at + b->fill, s, (int)k);
        b->fill = LINE_BYTES;
        put_lines(b);
    }
    for (; k + LINE_BYTES <= n; k += LINE_BYTES, b->line += LINE_BYTES)
        for (int v = 0; v < LINE_BYTES; v += LK_VB)
            stream_vector(b->line + v, s + k + v);
    copy_line_part(b->at, s + k, (int)(n - k));
    b->fill = n - k;
}

/* Appends n bytes of pad elements. */
LK_INLINE void append_pads(buffer *b, const char *pad, int64_t n)
{
    for (; n > LINE_BYTES; n -= LINE_BYTES)
        append(b, pad, LINE_BYTES);
    append(b, pad, n);
}

void LK_NAME(runs_x8)(const lk_nest *nest, const lk_fused *f, const char *src, char *dst, int64_t task, int64_t end,
                      char *scratch)
{
    const int64_t run = f->columns.count, rows = f->rows.count, units = (rows + f->unit - 1) / f->unit;
    const int64_t mean = f->sizes ? (f->period + f->rows.n[0] - 1) / f->rows.n[0] : run, ahead = AHEAD_BYTES / mean + 1;
    buffer b = {.at = scratch};
    while (task < end) {
        const int64_t unit = task % units, step = task / units, last = MIN(units, unit + end - task);
        const int64_t first = unit * f->unit, stop = MIN(rows, last * f->unit);
        const char *const s = src + nest->src + offset(nest, nest->s, step);
        char *const d = dst + nest->dst + offset(nest, nest->d, step);
        go_to(&b, d + (f->sizes ? first / f->rows.n[0] * f->period : first * run));
        walk w = walk_to(&f->rows, first), later = walk_to(&f->rows, MIN(first + ahead, rows - 1));
        for (int64_t j = first; j < stop; j++) {
            const int64_t at = walk_offset(&f->rows, &w), then = walk_offset(&f->rows, &later);
            const int64_t n = f->sizes ? f->sizes[w.at[0]] : run;
            if (then != LK_NOWHERE) {
                for (int64_t k = 0; k < MIN(n, MAX_FETCHED_BYTES); k += LINE_BYTES)
                    __builtin_prefetch(s + then + k, 0, 2);
                __builtin_prefetch(s + then + n - 1, 0, 2);
            }
            if (at == LK_NOWHERE)
                append_pads(&b, f->pad, n);
            else if (n < LONG_BYTES)
                append(&b, s + at, n);
            else
                append_long(&b, s + at, n);
            walk_by(&f->rows, &w, 1);
            walk_by(&f->rows, &later, 1); /* past the end it starts over, which is harmless */
        }
        task += last - unit;
    }
    put_rest(&b);
}

const lk_kernel LK_NAME(lk_rows_runs)[] = {LK_ROW(LK_RUNS, runs_x8, "x8", LK_VB, 0, 0), LK_LAST_ROW};
