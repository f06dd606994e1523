#ifndef LAYOUTKIT_TRANSPOSE_H
#define LAYOUTKIT_TRANSPOSE_H

#include "kernels.h"
#include "moves/move.h"

/* A nest: `loops`, outermost first, around a tile, one call of a kernel on elements of `width` bytes. Loop i has n[i]
 * steps of s[i] bytes in the source and d[i] in the destination; `src` and `dst` are the offsets of the first element.
 * The loops are flattened into one range of `tasks`, which threads share. */
enum { LK_MAX_LOOPS = 32 };
typedef struct {
    lk_move_fn fn;
    lk_move tile;
    int64_t src, dst, tasks;
    int width, loops;
    int64_t n[LK_MAX_LOOPS], s[LK_MAX_LOOPS], d[LK_MAX_LOOPS];
} lk_nest;

/* Tasks [task, end) of a nest around transposes, each moved as a panel, see panel.c. scratch: LK_PANEL_BYTES, aligned
 * to 64 bytes. A tile fits if (n0 * width + 128) * n1 <= LK_PANEL_IN_BYTES and max(n0 * width, 64, width) * n1 <=
 * LK_PANEL_OUT_BYTES. */
enum { LK_PANEL_IN_BYTES = 192 << 10, LK_PANEL_OUT_BYTES = 192 << 10, LK_PANEL_TAILS_BYTES = 64 << 10 };
enum { LK_PANEL_BYTES = 2 * LK_PANEL_IN_BYTES + LK_PANEL_OUT_BYTES + LK_PANEL_TAILS_BYTES + (8 << 10) };
/* Of the buffer of a slab, at the beginning of a thread's scratch, and of the partial lines that wait behind it. */
enum { LK_SLAB_BYTES = 96 << 10, LK_TAILS_BYTES = 64 << 10 };
typedef void (*lk_panel_fn)(const lk_nest *, const char *src, char *dst, int64_t task, int64_t end, char *scratch);

/* A loop whose index has several digits, the lowest first, of n[k] values each: index i is at the sum of step[k] bytes
 * times its digit k; but value v of the first digit is at table[v] bytes, if there is a table. LK_NOWHERE in a table is
 * a pad of the other array. */
enum { LK_MAX_FUSED = 16, LK_MAX_FUSED_TABLE = 4096 };
typedef struct {
    int digits;
    int64_t count, n[LK_MAX_FUSED], step[LK_MAX_FUSED];
    const int64_t *table; /* or NULL */
} lk_fused_loop;

/* The windows of a nest, see windows.c. */
typedef struct {
    int64_t vectors;
    const int64_t *ends;          /* of each vector, the number of the first window that is not its own */
    const int64_t *at;            /* of each window, where it begins in the source */
    const uint64_t *masks;        /* of each window, the elements of the vector that come from it: bit e is element e */
    const char *orders;           /* of each window, a vector: which element goes where; all bits set: another window's */
    const int8_t *lane_registers; /* of each vector, registers of four lanes of 16 bytes that it is of; 0: of windows */
    const char *pad_vectors;      /* of each vector, one with its pads, 0 elsewhere; NULL: there are none */
    int64_t stop;                 /* the end of what the table reaches in the source */
    int part;                     /* whether windows reach beyond that, or a vector beyond the destination */
} lk_windows;

/* Strings, each one run of the destination that is put together from many runs of the source, see scatter.c. Of each
 * digit one of the two steps is 0. */
typedef struct {
    int64_t run, count, parts; /* bytes of a part, strings, parts of each */
    int64_t string_step[LK_MAX_FUSED], part_step[LK_MAX_FUSED]; /* of each digit */
    const int64_t *next;   /* of each string, that which begins where it ends; LK_NOWHERE: none does */
    const int64_t *before; /* of each string, whether another one ends where it begins */
} lk_strings;

/* Tasks [task, end) of fused transposes, see fused.c:
 *
 *   dst[to(i) + j*width] = src[i*width + from(j)]     i < columns.count, j < rows.count
 *
 * Columns are contiguous in the source, rows in the destination, however many digits they have: to(i) and from(j) are
 * those of the two loops. Columns at LK_NOWHERE, pads of the source, are skipped; rows there become `pad`, 64 bytes of
 * repeated pad elements. The loops of the nest are around them; of its tile only `stream` is read. A task is `unit` rows
 * of a panel of `panel` columns; those of one panel follow one another. scratch: LK_FUSED_BYTES, aligned to 64. */
typedef struct {
    lk_fused_loop columns, rows;
    const int64_t *sizes; /* of runs, or NULL */
    int64_t period, panel, unit;
    const char *pad;
    lk_windows windows;
    lk_strings strings;
} lk_fused;
enum { LK_MAX_FUSED_PANEL = 1024, LK_PANEL_PAD_BYTES = LK_MAX_FUSED_PANEL * 8 + 128 };
enum { LK_FUSED_BYTES = 2 * LK_MAX_FUSED_PANEL * 64 + LK_PANEL_PAD_BYTES };
typedef void (*lk_fused_fn)(const lk_nest *, const lk_fused *, const char *src, char *dst, int64_t task, int64_t end,
                            char *scratch);

/* Tasks of joined transposes, see joined.c: columns follow one another in the destination, to(i) = i * rows.count *
 * width. A task is `unit` columns. rows.count is at most LK_MAX_JOINED_ROWS, `panel` is not read. scratch:
 * LK_JOINED_BYTES, aligned to 64 bytes, for rows of at most LK_MAX_JOINED_RUN_BYTES together. */
enum { LK_MAX_JOINED_ROWS = 1024, LK_MAX_JOINED_RUN_BYTES = 2048, LK_JOINED_PAD_BYTES = 256 };
enum { LK_JOINED_BYTES = 64 * LK_MAX_JOINED_RUN_BYTES + 8192 + LK_JOINED_PAD_BYTES };

/* Tasks of runs, see runs.c: run j, from(j) in the source, follows run j - 1 in the destination; at LK_NOWHERE it is
 * of pads. It has columns.count bytes; but if there are `sizes`, those of the value of its first digit, of which all
 * rows.n[0] together have `period` bytes. A task is `unit` runs, with sizes a multiple of rows.n[0]; `panel` is not
 * read. scratch: LK_RUNS_BYTES, aligned to 64 bytes. */
enum { LK_RUNS_BYTES = 8192 };

/* Tasks of scattered runs, see scatter.c: a task is a step of the nest's loops. Run i goes from rows(i) in the source to
 * columns(i) in the destination; both loops have the same digits, and no tables. Each digit steps from string to string
 * or from part to part of one; the parts of a string come in their order. A string has at least 64 bytes. `panel` and
 * `unit` are not read. scratch: two lines for each of at most LK_MAX_STRINGS strings, aligned to 64 bytes. */
enum { LK_MAX_STRINGS = 512 };

/* Tasks of windows, see windows.c: the steps of the nest's loops. At each, rows.count elements that follow one another
 * in the destination come from where the table of `rows` says, or are `pad`. windows_of (windows.h) makes the windows of
 * this table. `columns`, `panel` and `unit` are not read, there is no scratch. Of a row of the kernel, nr is how many
 * elements a vector has, mr the bytes of an element of its orders. */

#endif
