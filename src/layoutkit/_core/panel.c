/* Panels: a transpose from memory to memory whose reads and writes both come in long runs.
 *
 *   dst[i0*d0 + i1*width] = src[i0*width + i1*s1]        a panel: n1 rows of the source, n0 elements of each
 *
 * What memory likes, one row after another, is not what a tile wants, a line of each of its rows. So there are steps:
 *   fetch   the lines of the rows, one after another, AHEAD lines before
 *   in      they are copied to scratch, where rows lie at a pitch that fills all sets of the caches
 *   leaf    a block of the panel that is in, to the destination, or
 *   out     to scratch from which whole destination rows are streamed, whatever their alignment
 * After each block as many lines of the next panel are fetched and come in as the block had: loads from memory, shuffles
 * and stores overlap.
 *
 * Regions: blocks of `cols` columns, within one upper digit, and `rows` rows; the last columns are a block shifted back
 * to end at the edge, the last rows join the block before them. The first panel comes in with nothing to overlap.
 */
#include "kernels.h"
#include "stream.h"
#include "vector.h"

#include <string.h>

enum { AHEAD = 128, LINE = 64, PITCHED = 512, SHORT = 512 };

/* The rows of a panel in the source and in scratch. */
typedef struct {
    int64_t rows, bytes, s1, in1, out_s1, pitch;
} shape;

/* A walk over the lines of the rows of all panels. */
typedef struct {
    const char *row;
    int64_t task, r, b, at, to;
} cursor;

LK_INLINE int64_t offset(const lk_nest *nest, const int64_t *step, int64_t task)
{
    int64_t sum = 0;
    for (int i = nest->loops - 1; i >= 0; i--) {
        sum += task % nest->n[i] * step[i];
        task /= nest->n[i];
    }
    return sum;
}

LK_INLINE void next_line(cursor *c, const shape *p, const lk_nest *nest, const char *src, int64_t end)
{
    c->at += LINE;
    if (c->at < p->bytes)
        return;
    c->at = 0;
    c->to += p->pitch;
    c->row += p->s1;
    if (++c->r < p->rows) {
        if (++c->b == p->in1) {
            c->b = 0;
            c->row += p->out_s1 - p->in1 * p->s1;
        }
        return;
    }
    c->r = c->b = c->to = 0;
    if (++c->task < end)
        c->row = src + offset(nest, nest->s, c->task);
}

/* Up to n lines of panel `task` to scratch, one by one: fetches that follow one another closely take the place of the
 * leaf's loads in what the core keeps track of. */
LK_INLINE void come_in(cursor *in, cursor *fetch, int64_t task, int64_t n, char *to, const shape *p, const lk_nest *nest,
                       const char *src, int64_t end)
{
    for (; n > 0 && in->task == task && task < end; n--) {
        if (fetch->task < end) {
            __builtin_prefetch(fetch->row + fetch->at);
            next_line(fetch, p, nest, src, end);
        }
        const char *s = in->row + in->at;
        char *d = to + in->to + in->at;
        if (in->at + LINE <= p->bytes)
            memcpy(d, s, LINE);
        else
            copy_line_part(d, s, (int)(p->bytes - in->at));
        next_line(in, p, nest, src, end);
    }
}

void LK_NAME(panel)(const lk_nest *nest, const char *src, char *dst, int64_t task, int64_t end, char *scratch)
{
    const lk_move *leaf = &nest->leaf;
    const int64_t w = nest->width, n0 = leaf->n0, n1 = leaf->n1, run = n1 * w;
    shape p = {leaf->valid ? leaf->valid : n1, n0 * w, leaf->s1, leaf->in1, leaf->out_s1, 0};
    p.pitch = (p.bytes + LINE - 1) / LINE * LINE + LINE;
    int64_t pitch = p.pitch;
    if (!p.in1 && p.s1 == p.bytes && p.bytes < PITCHED) { /* one run of memory */
        pitch = p.bytes;
        p.bytes *= p.rows;
        p.rows = 1;
    }
    const int64_t lower = leaf->in0 ? leaf->in0 : n0, upper = n0 / lower;
    int64_t cols = w < LINE ? LINE / w : 1, rows = n1;
    if (run <= LINE)
        cols *= 1024 / LINE;
    else if (!leaf->valid)
        rows = w < 2 ? LINE : 32;
    if (cols > lower)
        cols = lower;

    char *now = scratch, *next = scratch + LK_PANEL_IN, *const out = scratch + 2 * LK_PANEL_IN;
    src += nest->src;
    dst += nest->dst;
    cursor in = {.row = src + offset(nest, nest->s, task), .task = task}, fetch = in;
    for (int i = 0; i < AHEAD && fetch.task < end; i++) {
        __builtin_prefetch(fetch.row + fetch.at);
        next_line(&fetch, &p, nest, src, end);
    }
    come_in(&in, &fetch, task, INT64_MAX, now, &p, nest, src, end);
    for (; task < end; task++) {
        char *const d = dst + offset(nest, nest->d, task);
        const int aligned = ((intptr_t)d | leaf->d0 | leaf->out_d0 | run) % LINE == 0;
        const int whole = !aligned && upper > 1 && leaf->out_d0 == run; /* upper digits are one run of the destination */
        const int follow = !whole && leaf->d0 == run;                   /* columns are */
        const int direct = aligned || (!whole && !follow && run < SHORT); /* of a short run the ends would be most */
        const int64_t long_run = upper * run;
        lk_move m = *leaf;
        m.in0 = m.in1 = 0;
        m.s1 = pitch;
        m.n0 = cols;
        m.ahead = 0;
        m.stream = aligned;
        m.d0 = direct ? leaf->d0 : whole ? long_run : run;
        for (int64_t u = 0; u < upper; u++) {
            for (int64_t i = 0;;) {
                char *const to = d + u * leaf->out_d0 + i * leaf->d0;
                char *const at = direct ? to : whole ? out + i * long_run + u * run : out;
                for (int64_t j = 0; j < n1; j += m.n1) {
                    m.n1 = n1 - j < rows + rows / 2 ? n1 - j : rows;
                    come_in(&in, &fetch, task + 1, cols * m.n1 * w / LINE + 1, next, &p, nest, src, end);
                    m.src = now + (u * lower + i) * w + j * pitch;
                    m.dst = at + j * w;
                    nest->fn(&m);
                }
                if (!direct && follow)
                    stream_run(to, out, cols * run);
                else if (!direct && !whole)
                    for (int64_t c = 0; c < cols; c++)
                        stream_run(to + c * leaf->d0, out + c * run, run);
                if (i + cols == lower)
                    break;
                i = i + 2 * cols > lower ? lower - cols : i + cols;
            }
        }
        if (whole && leaf->d0 == long_run)
            stream_run(d, out, lower * long_run);
        else if (whole)
            for (int64_t i = 0; i < lower; i++)
                stream_run(d + i * leaf->d0, out + i * long_run, long_run);
        come_in(&in, &fetch, task + 1, INT64_MAX, next, &p, nest, src, end);
        char *const swap = now;
        now = next;
        next = swap;
    }
}

const lk_kernel LK_NAME(lk_rows_panel)[] = {
    LK_ROW(LK_PANEL, panel, 8, 0, 0),
    LK_LAST_ROW,
};
