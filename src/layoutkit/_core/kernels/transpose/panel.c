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

/* The positions in the source: lines are copied at one, and prefetched at the other. */
typedef struct {
    cursor in, fetch;
    shape rows;
    const lk_nest *nest;
    const char *src;
    int64_t end; /* of the tasks */
} reader;

/* Copies up to n lines of panel `task` to scratch, one prefetch per line: many prefetches at once would take the fill
 * buffers that the tile's loads need. */
LK_INLINE void come_in(reader *r, int64_t task, int64_t n, char *to)
{
    for (; n > 0 && r->in.task == task && task < r->end; n--) {
        if (r->fetch.task < r->end) {
            fetch_line(&r->fetch, &r->rows);
            next_line(&r->fetch, &r->rows, r->nest, r->src, r->end);
        }
        const char *s = r->in.row + r->in.at;
        char *d = to + r->in.to + r->in.at;
        if (r->in.at + LINE_BYTES <= r->rows.bytes)
            memcpy(d, s, LINE_BYTES);
        else
            copy_line_part(d, s, (int)(r->rows.bytes - r->in.at));
        next_line(&r->in, &r->rows, r->nest, r->src, r->end);
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

/* The geometry of panels in scratch: blocks, and strings of the destination. */
typedef struct {
    int64_t lower, upper; /* digits of the columns */
    int64_t cols, rows;   /* of a block */
    int64_t pitch;        /* of source rows in scratch */
    int64_t run, slot;    /* bytes of a destination row, and its pitch in scratch */
    int64_t string;       /* bytes */
    int whole;            /* upper digits are one run of the destination */
    int follow;           /* columns are */
    int one;              /* the whole panel is */
    int carries;          /* partial lines of strings wait for the next panel */
} blocking;

static blocking blocking_of(const lk_move *tile, const int64_t w, const int64_t pitch)
{
    const int64_t n0 = tile->n0, n1 = tile->n1, run = n1 * w, lower = tile->in0 ? tile->in0 : n0, upper = n0 / lower;
    int64_t cols = w < LINE_BYTES ? LINE_BYTES / w : 1, rows = n1;
    if (run <= LINE_BYTES)
        cols *= 1024 / LINE_BYTES;
    else if (!tile->valid)
        rows = w < 2 ? LINE_BYTES : 32;
    if (cols > lower)
        cols = lower;

    const int whole = upper > 1 && tile->out_d0 == run, follow = !whole && tile->d0 == run;
    const int64_t long_run = upper * run;
    const int one = whole && tile->d0 == long_run;
    const int64_t string = one ? lower * long_run : whole ? long_run : follow ? lower * run : run;
    const int64_t strings = n0 * run / string;
    int64_t slot = whole ? long_run : run;
    int carries = string >= LINE_BYTES && strings <= LK_PANEL_TAILS_BYTES / LINE_BYTES;
    if (carries && !one && !follow) {
        const int64_t padded = (slot + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES + LINE_BYTES;
        if ((whole ? lower : cols) * padded <= LK_PANEL_OUT_BYTES)
            slot = padded;
        else
            carries = 0;
    }
    return (blocking){lower, upper, cols, rows, pitch, run, slot, string, whole, follow, one, carries};
}

/* The panel in scratch, and the next one. */
typedef struct {
    int64_t task;
    char *d;                   /* destination */
    char *now, *next;          /* scratch */
    char *tails, *out;         /* partial lines of strings; blocks of the destination */
    int carried, more, direct; /* strings continue from the panel before; in the next one; blocks bypass `out` */
} panel_state;

/* The columns of upper digit u: tiles, in between of which lines of the next panel come in. */
LK_INLINE void move_columns(const blocking *b, const panel_state *s, lk_move *m, reader *r, const int64_t u)
{
    const lk_nest *const nest = r->nest;
    const lk_move *const tile = &nest->tile;
    const int64_t w = nest->width, n1 = tile->n1, run = b->run, cols = b->cols, lower = b->lower;
    char *const d_u = s->d + u * tile->out_d0;
    char *const tail = s->tails + (b->carries ? (b->follow ? u : u * lower) * LINE_BYTES : 0);
    for (int64_t i = 0, first = 0;;) { /* if `follow`: columns from `first` on wait in scratch */
        char *const at = s->direct ? d_u + i * tile->d0
                         : b->whole ? s->out + i * b->slot + u * run
                                    : s->out + (b->follow ? (i - first) * run : 0);
        for (int64_t j = 0; j < n1; j += m->n1) {
            m->n1 = n1 - j < b->rows + b->rows / 2 ? n1 - j : b->rows;
            come_in(r, s->task + 1, cols * m->n1 * w / LINE_BYTES + 1, s->next);
            m->src = s->now + (u * lower + i) * w + j * b->pitch;
            m->dst = at + j * w;
            nest->fn(m);
        }
        const int64_t reached = i + cols;
        const int last = reached == lower;
        if (!s->direct && b->follow) {
            if (last || ((reached - first) * run >= LONG_BYTES && reached + cols <= lower)) {
                put(d_u + first * run, s->out, (reached - first) * run, tail, s->carried || first, s->more || !last);
                first = reached;
            }
        } else if (!s->direct && !b->whole) {
            for (; first < reached; first++)
                put(d_u + first * tile->d0, s->out + (first - i) * b->slot, run, tail + b->carries * first * LINE_BYTES,
                    s->carried, s->more);
        }
        if (last)
            break;
        i = i + 2 * cols > lower ? lower - cols : i + cols;
    }
}

/* One panel, from scratch to the destination. */
LK_INLINE void move_panel(const blocking *b, const panel_state *s, reader *r, const int aligned)
{
    const lk_move *const tile = &r->nest->tile;
    lk_move m = *tile;
    m.in0 = m.in1 = 0;
    m.s1 = b->pitch;
    m.n0 = b->cols;
    m.prefetch_bytes = 0;
    m.stream = aligned;
    m.d0 = s->direct ? tile->d0 : b->slot;
    for (int64_t u = 0; u < b->upper; u++)
        move_columns(b, s, &m, r, u);
    if (!s->direct && b->one)
        put(s->d, s->out, b->string, s->tails, s->carried, s->more);
    else if (!s->direct && b->whole)
        for (int64_t i = 0; i < b->lower; i++)
            put(s->d + i * tile->d0, s->out + i * b->slot, b->string, s->tails + b->carries * i * LINE_BYTES, s->carried,
                s->more);
}

void LK_NAME(panel)(const lk_nest *nest, const char *src, char *dst, int64_t task, int64_t end, char *scratch)
{
    const lk_move *tile = &nest->tile;
    shape p = {tile->valid ? tile->valid : tile->n1, tile->n0 * nest->width, tile->s1, tile->in1, tile->out_s1, 0};
    p.pitch = (p.bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES + LINE_BYTES;
    int64_t pitch = p.pitch;
    if (!p.in1 && p.s1 == p.bytes && p.bytes < PITCHED_BYTES) { /* the rows are one run of memory */
        pitch = p.bytes;
        p.bytes *= p.rows;
        p.rows = 1;
    }
    const blocking b = blocking_of(tile, nest->width, pitch);
    char *const tails = scratch + 2 * LK_PANEL_IN_BYTES;
    panel_state s = {.now = scratch, .next = scratch + LK_PANEL_IN_BYTES, .tails = tails,
                     .out = tails + LK_PANEL_TAILS_BYTES + LINE_BYTES};
    src += nest->src;
    dst += nest->dst;
    const cursor begin = {.row = src + offset(nest, nest->s, task), .task = task};
    reader r = {begin, begin, p, nest, src, end};
    for (int i = 0; i < PREFETCH_LINES && r.fetch.task < end; i++) {
        fetch_line(&r.fetch, &p);
        next_line(&r.fetch, &p, nest, src, end);
    }
    come_in(&r, task, INT64_MAX, s.now);
    s.d = dst + offset(nest, nest->d, task);
    for (char *then; task < end; task++, s.d = then) {
        then = dst + offset(nest, nest->d, task + 1);
        s.task = task;
        s.more = b.carries && task + 1 < end && then == s.d + b.string;
        const int aligned = ((intptr_t)s.d | tile->d0 | tile->out_d0 | b.run) % LINE_BYTES == 0;
        /* a short run is mostly its ends */
        s.direct = aligned || (!b.whole && !b.follow && !s.carried && !s.more && b.run < SHORT_BYTES);
        move_panel(&b, &s, &r, aligned);
        come_in(&r, task + 1, INT64_MAX, s.next);
        char *const swap = s.now;
        s.now = s.next;
        s.next = swap;
        s.carried = s.more;
    }
}

const lk_kernel LK_NAME(lk_rows_panel)[] = {
    LK_ROW(LK_PANEL, panel, "x8", LK_VB, 0, 0),
    LK_LAST_ROW,
};
