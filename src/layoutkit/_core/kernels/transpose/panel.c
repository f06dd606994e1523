/* Panels: a transpose from memory to memory whose reads and writes are both long runs.
 *
 *   dst[i0*d0 + i1*width] = src[i0*width + i1*s1]        a panel: n1 rows of the source, n0 elements of each
 *
 * Memory is fastest when read row after row, but a register tile needs one cache line of each of its rows. So a panel
 * goes through these steps:
 *   fetch   prefetch the cache lines of the rows, in their order, PREFETCH_LINES lines before they are copied
 *   in      copy them to scratch, with a pitch between rows that uses all sets of the caches
 *   tile    transpose a block of the panel, to the destination directly, or
 *   out     to scratch, and from there to the destination in whole cache lines, whatever its alignment
 * After each block as many lines of the next panel are prefetched and copied in as the block has: so loads from memory,
 * shuffles and stores overlap.
 *
 * The output consists of strings: parts of the panel that are one contiguous run of the destination each. A store to a
 * part of an uncached line stalls the stores behind it for a memory latency. So where the next panel continues the
 * strings (loops in the order of the destination), the last partial line of each string waits until it is complete.
 *
 * Edges: blocks are `cols` columns, within one upper digit, by `rows` rows. The last columns are a block shifted back
 * to end at the edge; the last rows are joined to the block before them. The first panel has nothing to overlap with.
 */
#include "common/stream.h"
#include "loops.h"

#include <string.h>

enum {
    PREFETCH_LINES = 128,
    LINE_BYTES = 64,
    PITCHED_BYTES = 512, /* rows of at least so many bytes get a pitch in scratch, even if they are contiguous */
    SHORT_BYTES = 512,   /* shorter runs of the destination are written directly */
    LONG_BYTES = 8192,   /* runs are written out of scratch when they have grown so long */
};

/* The rows of a panel in the source and in scratch. */
typedef struct {
    int64_t rows, bytes, s1, in1, out_s1, pitch;
} shape;

/* A walk over the lines of the rows of all panels. */
typedef struct {
    const char *row;
    int64_t task, r, b, at, to;
} cursor;

/* Prefetches the next line. The end of a row may touch two lines if the row is not aligned: both. */
LK_INLINE void fetch_line(const cursor *c, const shape *p)
{
    __builtin_prefetch(c->row + c->at, 0, 2);
    if (c->at + LINE_BYTES >= p->bytes)
        __builtin_prefetch(c->row + p->bytes - 1, 0, 2);
}

LK_INLINE void next_line(cursor *c, const shape *p, const lk_nest *nest, const char *src, int64_t end)
{
    c->at += LINE_BYTES;
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

/* Copies up to n lines of panel `task` to scratch, one prefetch per line: many prefetches at once would take the fill
 * buffers that the tile's loads need. */
LK_INLINE void come_in(cursor *in, cursor *fetch, int64_t task, int64_t n, char *to, const shape *p,
                       const lk_nest *nest, const char *src, int64_t end)
{
    for (; n > 0 && in->task == task && task < end; n--) {
        if (fetch->task < end) {
            fetch_line(fetch, p);
            next_line(fetch, p, nest, src, end);
        }
        const char *s = in->row + in->at;
        char *d = to + in->to + in->at;
        if (in->at + LINE_BYTES <= p->bytes)
            memcpy(d, s, LINE_BYTES);
        else
            copy_line_part(d, s, (int)(p->bytes - in->at));
        next_line(in, p, nest, src, end);
    }
}

/* Writes n >= LINE_BYTES bytes of a string from scratch; the LINE_BYTES bytes before s are free. If `carried`, the part
 * of d's first line before d is at the end of `tail`; if `more`, the partial last line is left in `tail` instead. */
LK_INLINE void put(char *d, char *s, int64_t n, char *tail, int carried, int more)
{
    const int64_t before = (intptr_t)d % LINE_BYTES, end = more ? n - ((intptr_t)d + n) % LINE_BYTES : n;
    int64_t k = -before;
    if (carried) {
        memcpy(s - LINE_BYTES, tail, LINE_BYTES);
    } else if (before) {
        k = LINE_BYTES - before < n ? LINE_BYTES - before : n;
        copy_line_part(d, s, (int)k);
    }
    for (; k + LK_VB <= end; k += LK_VB)
        stream_vector(d + k, s + k);
    if (more)
        memcpy(tail, s + n - LINE_BYTES, LINE_BYTES);
    else if (k < n)
        copy_part(d + k, s + k, (int)(n - k));
}

void LK_NAME(panel)(const lk_nest *nest, const char *src, char *dst, int64_t task, int64_t end, char *scratch)
{
    const lk_move *tile = &nest->tile;
    const int64_t w = nest->width, n0 = tile->n0, n1 = tile->n1, run = n1 * w;
    shape p = {tile->valid ? tile->valid : n1, n0 * w, tile->s1, tile->in1, tile->out_s1, 0};
    p.pitch = (p.bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES + LINE_BYTES;
    int64_t pitch = p.pitch;
    if (!p.in1 && p.s1 == p.bytes && p.bytes < PITCHED_BYTES) { /* the rows are one run of memory */
        pitch = p.bytes;
        p.bytes *= p.rows;
        p.rows = 1;
    }
    const int64_t lower = tile->in0 ? tile->in0 : n0, upper = n0 / lower;
    int64_t cols = w < LINE_BYTES ? LINE_BYTES / w : 1, rows = n1;
    if (run <= LINE_BYTES)
        cols *= 1024 / LINE_BYTES;
    else if (!tile->valid)
        rows = w < 2 ? LINE_BYTES : 32;
    if (cols > lower)
        cols = lower;

    const int whole = upper > 1 && tile->out_d0 == run; /* upper digits are one run of the destination */
    const int follow = !whole && tile->d0 == run;       /* columns are one run of the destination */
    const int64_t long_run = upper * run;
    const int one = whole && tile->d0 == long_run; /* the whole panel is */
    const int64_t string = one ? lower * long_run : whole ? long_run : follow ? lower * run : run;
    const int64_t strings = n0 * run / string;
    int64_t slot = whole ? long_run : run; /* pitch of destination rows in scratch */
    int carries = string >= LINE_BYTES && strings <= LK_PANEL_TAILS_BYTES / LINE_BYTES;
    if (carries && !one && !follow) {
        const int64_t padded = (slot + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES + LINE_BYTES;
        if ((whole ? lower : cols) * padded <= LK_PANEL_OUT_BYTES)
            slot = padded;
        else
            carries = 0;
    }

    char *now = scratch, *next = scratch + LK_PANEL_IN_BYTES, *const tails = scratch + 2 * LK_PANEL_IN_BYTES;
    char *const out = tails + LK_PANEL_TAILS_BYTES + LINE_BYTES;
    src += nest->src;
    dst += nest->dst;
    cursor in = {.row = src + offset(nest, nest->s, task), .task = task}, fetch = in;
    for (int i = 0; i < PREFETCH_LINES && fetch.task < end; i++) {
        fetch_line(&fetch, &p);
        next_line(&fetch, &p, nest, src, end);
    }
    come_in(&in, &fetch, task, INT64_MAX, now, &p, nest, src, end);
    int carried = 0;
    for (char *d = dst + offset(nest, nest->d, task), *then; task < end; task++, d = then) {
        then = dst + offset(nest, nest->d, task + 1);
        const int more = carries && task + 1 < end && then == d + string;
        const int aligned = ((intptr_t)d | tile->d0 | tile->out_d0 | run) % LINE_BYTES == 0;
        /* a short run would be little but its ends */
        const int direct = aligned || (!whole && !follow && !carried && !more && run < SHORT_BYTES);
        lk_move m = *tile;
        m.in0 = m.in1 = 0;
        m.s1 = pitch;
        m.n0 = cols;
        m.prefetch_bytes = 0;
        m.stream = aligned;
        m.d0 = direct ? tile->d0 : slot;
        for (int64_t u = 0; u < upper; u++) {
            char *const d_u = d + u * tile->out_d0;
            char *const tail = tails + (carries ? (follow ? u : u * lower) * LINE_BYTES : 0);
            for (int64_t i = 0, first = 0;;) { /* if `follow`: columns from `first` on wait in scratch */
                char *const at = direct ? d_u + i * tile->d0
                                 : whole ? out + i * slot + u * run
                                         : out + (follow ? (i - first) * run : 0);
                for (int64_t j = 0; j < n1; j += m.n1) {
                    m.n1 = n1 - j < rows + rows / 2 ? n1 - j : rows;
                    come_in(&in, &fetch, task + 1, cols * m.n1 * w / LINE_BYTES + 1, next, &p, nest, src, end);
                    m.src = now + (u * lower + i) * w + j * pitch;
                    m.dst = at + j * w;
                    nest->fn(&m);
                }
                const int64_t reached = i + cols;
                const int last = reached == lower;
                if (!direct && follow) {
                    if (last || ((reached - first) * run >= LONG_BYTES && reached + cols <= lower)) {
                        put(d_u + first * run, out, (reached - first) * run, tail, carried || first, more || !last);
                        first = reached;
                    }
                } else if (!direct && !whole) {
                    for (; first < reached; first++)
                        put(d_u + first * tile->d0, out + (first - i) * slot, run,
                            tail + carries * first * LINE_BYTES, carried, more);
                }
                if (last)
                    break;
                i = i + 2 * cols > lower ? lower - cols : i + cols;
            }
        }
        if (!direct && one)
            put(d, out, string, tails, carried, more);
        else if (!direct && whole)
            for (int64_t i = 0; i < lower; i++)
                put(d + i * tile->d0, out + i * slot, string, tails + carries * i * LINE_BYTES, carried, more);
        come_in(&in, &fetch, task + 1, INT64_MAX, next, &p, nest, src, end);
        char *const swap = now;
        now = next;
        next = swap;
        carried = more;
    }
}

const lk_kernel LK_NAME(lk_rows_panel)[] = {
    LK_ROW(LK_PANEL, panel, "x8", LK_VB, 0, 0),
    LK_LAST_ROW,
};
