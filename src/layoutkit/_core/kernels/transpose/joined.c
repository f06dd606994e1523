/* Joined transposes: columns that follow one another in the destination are joined before they are written.
 *
 *   dst[i*run + j*width] = src[i*width + from(j)]     run: bytes of all rows
 *
 * Where a column of the destination is short, or no multiple of a cache line, neighbouring columns share lines. So tiles
 * go to a buffer that stays in L1, in the order of the destination, and whole lines are streamed out of it. The rest
 * of the last line waits for the next columns, also for those of the next step of the nest's loops if they follow.
 * Meanwhile lines at least AHEAD_BYTES ahead are prefetched: adjacent rows in the order of memory, of others those of a
 * later tile.
 *
 * Edges: the last tile of rows is shifted back to end at the edge. Few rows are moved by lanes, each a part of a
 * column. With fewer rows than that, vectors or lanes are stored in the order of their columns, and each overwrites
 * the excess of the one before. With fewer than N columns, rows are loaded in part.
 */
#include "common/lines.h"
#include "loops.h"

enum { AHEAD_BYTES = 8192 };
_Static_assert(LK_JOINED_BYTES <= (int)LK_PANEL_BYTES, "a thread has scratch for panels");

/* The address of a row; of LK_NOWHERE that of `pads`, as many bytes as a tile has. */
LK_INLINE const char *row_at(const char *s, int64_t offset, const char *pads)
{
    return offset == LK_NOWHERE ? pads : s + offset;
}

#define PER_WIDTH "transpose/joined_width.inc"
#include "common/widths.inc"

#define ROW(BITS) LK_ROW(LK_JOINED, joined_x##BITS, "x" #BITS, 8 * LK_VB / BITS, tile_n##BITS, tile_n##BITS)
const lk_kernel LK_NAME(lk_rows_joined)[] = {ROW(8), ROW(16), ROW(32), ROW(64), LK_LAST_ROW};
