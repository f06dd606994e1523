/* Fused transposes: both loops of a transpose may have several digits, so that short or odd dimensions do not end a run.
 *
 *   dst[to(i) + j*width] = src[i*width + from(j)]
 *
 * The destination of a column is one long run of memory. It is written in blocks of rows, LONG_LINES cache lines of each
 * column of a panel at a time (LINES of short runs), from registers: tiles are loaded, transposed and stored as whole
 * aligned vectors. A block is moved cell by cell: as many rows as fill a line of the destination, and CHUNK_BYTES of
 * each. Cells are prefetched AHEAD_BYTES ahead, in the order in which they will be read. Pairs of lines, read from many
 * rows in turn, come from memory fastest: beyond longer pieces the hardware prefetches lines that are not read.
 *
 * Where columns begin at different places of their vectors, each stored vector is shuffled from the last two that the
 * column got. So only the two ends of a run are stores of partial vectors, and a vector in which a column ends and the
 * next one begins is stored once.
 *
 * Edges: the last tile of columns is shifted back to end at the edge, and what it overlaps is not stored again; with
 * fewer than N columns, or at the ends of a run, tiles are partial.
 */
#include "common/stream.h"
#include "loops.h"

#include <string.h>

enum { LINES = 2, LONG_LINES = 4, LINE_BYTES = 64, AHEAD_BYTES = 8192, CHUNK_BYTES = 128, RING = 8 };
enum { HALVES = LK_VB == LINE_BYTES / 2 }; /* whether a line has two vectors */
enum { BEFORE = MAX(LK_VB, LINE_BYTES), HEADS_BYTES = LK_MAX_FUSED_PANEL * BEFORE };
enum { PADS_BYTES = HEADS_BYTES + LK_MAX_FUSED_PANEL * LK_VB }; /* where they begin in scratch */
enum { STORE, STREAM, SHIFT }; /* how vectors are stored: anywhere, aligned and streamed, or shuffled before that */

_Static_assert(PADS_BYTES + LK_PANEL_PAD_BYTES <= (int)LK_FUSED_BYTES, "before, heads and pads");
_Static_assert(LK_SLAB_BYTES + LK_TAILS_BYTES + LK_FUSED_BYTES <= (int)LK_PANEL_BYTES, "a thread has scratch for panels");

/* Where the run of a column begins: in which vector, and at which byte of it; if vectors are not shuffled, its address
 * and 0. NULL: the column is a pad of the source. */
typedef struct {
    char *at;
    int64_t phase;
} place;

/* Columns that are moved together. */
typedef struct {
    char *dst;         /* of the first row of the run */
    const int64_t *to; /* of the columns */
    place *places;
    int cols;
    int64_t bytes; /* of the run */
    int follow;    /* if not 0, a column begins where the one `follow` columns before it ends */
    int gaps;      /* whether there are pads of the source */
    char *before;  /* SHIFT: of each column, BEFORE bytes: the last vector, and one that waits to be stored */
    char *heads;   /* SHIFT: if columns follow, the first vector of each one */
} panel;

/* The bits of the places of columns in their vectors: 0 if all begin with a vector. */
LK_INLINE int64_t phases_of(const panel *p)
{
    int64_t bits = 0;
    for (int i = 0; i < p->cols; i++)
        bits |= p->to[i] == LK_NOWHERE ? 0 : (intptr_t)p->dst + p->to[i];
    return bits & (LK_VB - 1);
}

/* The distance in columns to the one that follows in the destination; 0 if it is not the same for all. block: bytes of
 * a block of rows. */
LK_INLINE int follows(const panel *p, int64_t block)
{
    int by = 1;
    if (p->to[0] == LK_NOWHERE || p->bytes <= block) /* all heads come before the first column ends */
        return 0;
    while (by < p->cols && p->to[by] != p->to[0] + p->bytes)
        by++;
    for (int i = by; i < p->cols; i++)
        if (p->to[i - by] == LK_NOWHERE || p->to[i] != p->to[i - by] + p->bytes)
            return 0;
    return by < p->cols ? by : 0;
}

/* Sets the places of columns. phases: the bits of an address that say where in a vector it is; 0 if that is no matter. */
LK_INLINE void place_columns(panel *p, int64_t phases)
{
    p->gaps = 0;
    for (int i = 0; i < p->cols; i++) {
        if (p->to[i] == LK_NOWHERE) {
            p->places[i] = (place){NULL, 0};
            p->gaps = 1;
            continue;
        }
        char *const at = p->dst + p->to[i];
        const int64_t phase = (intptr_t)at & phases;
        p->places[i] = (place){at - phase, phase};
    }
}

/* A walk over the blocks of tasks: rows [j, j + count) of the panel that begins with `column`, in a step of the nest's
 * loops. Rows [first, stop) of the panel are one run. */
typedef struct {
    int64_t task, step, column, first, stop, j;
    int count, begins, ends;
    walk rows;
} blocks;

/* Goes to the next block, of at most `most` rows; returns whether there is one before task `end`. */
LK_INLINE int next_block(blocks *b, const lk_fused *f, int64_t end, int most)
{
    b->j += b->count;
    b->begins = b->j == b->stop;
    if (b->begins) {
        if (b->task == end) {
            b->count = 0; /* there is none the next time either */
            return 0;
        }
        const int64_t units = (f->rows.count + f->unit - 1) / f->unit;
        const int64_t panels = (f->columns.count + f->panel - 1) / f->panel;
        const int64_t unit = b->task % units, last = MIN(units, unit + end - b->task);
        b->column = b->task / units % panels * f->panel;
        b->step = b->task / units / panels;
        b->first = b->j = unit * f->unit;
        b->stop = MIN(f->rows.count, last * f->unit);
        b->task += last - unit;
    }
    b->count = (int)MIN(most, b->stop - b->j);
    b->ends = b->j + b->count == b->stop;
    return 1;
}

/* The addresses of the rows of a block in its first column; missing rows repeat its last one. `pads`: pad elements, as
 * many bytes as a panel has. */
LK_INLINE void rows_of(blocks *b, const lk_nest *nest, const lk_fused *f, const char *src, const char *pads, int width,
                       int most, const char **from)
{
    int64_t offsets[LONG_LINES * LINE_BYTES];
    if (b->begins)
        b->rows = walk_to(&f->rows, b->j);
    walk_on(&f->rows, &b->rows, offsets, b->count);
    src += nest->src + offset(nest, nest->s, b->step) + b->column * width;
    for (int r = 0; r < most; r++) {
        const int64_t at = offsets[MIN(r, b->count - 1)];
        from[r] = at == LK_NOWHERE ? pads : src + at;
    }
}

/* A walk over the cells of blocks in the order in which they are moved, some cells ahead, which prefetches them. */
typedef struct {
    blocks at;
    int64_t blocks, cells; /* how many it has entered, and prefetched */
    int64_t row, chunk;    /* where the next cell begins in the last of these blocks: a row, and a byte of it */
    int64_t bytes;         /* of a row */
} prefetcher;

#define PER_WIDTH "transpose/fused_width.inc"
#include "common/widths.inc"

#define ROW(BITS) LK_ROW(LK_FUSED, fused_x##BITS, "x" #BITS, 8 * LK_VB / BITS, tile_n##BITS, tile_n##BITS)
const lk_kernel LK_NAME(lk_rows_fused)[] = {ROW(8), ROW(16), ROW(32), ROW(64), LK_LAST_ROW};
