/* Runs of the source in its order, scattered to strings of the destination.
 *
 *   dst[to(i) + k] = src[from(i) + k]     k < run, bytes; i: the indices of two loops of the same digits
 *
 * Memory is read fastest from its beginning to its end, while whole lines can be streamed to anywhere as fast. A string
 * is one long run of the destination; the runs of the source that it is put together from are its parts. Some digits of
 * i step from part to part, the others from string to string. The parts of a string come in order, so its last line,
 * which is not complete yet, waits in `tails` for the next part.
 *
 * Edges: a line in which one string ends and another one begins is a seam: what comes first waits in `seams` for the
 * rest. Parts of lines are stored only where a string has no neighbour in the task.
 */
#include "common/lines.h"
#include "loops.h"

_Static_assert(2 * 64 * LK_MAX_STRINGS <= LK_PANEL_BYTES, "tails and seams");

/* A line that is put together: bytes a to b of it, from the same bytes at p. */
#ifdef __AVX512BW__
typedef __m512i line;
LK_INLINE uint64_t bytes_to(int64_t b) { return b < LINE_BYTES ? (1ull << b) - 1 : ~0ull; }
LK_INLINE line with_bytes(line v, const char *p, int64_t a, int64_t b)
{
    return _mm512_mask_loadu_epi8(v, bytes_to(b) & ~bytes_to(a), p);
}
LK_INLINE void store_bytes(char *p, line v, int64_t a, int64_t b)
{
    _mm512_mask_storeu_epi8(p, bytes_to(b) & ~bytes_to(a), v);
}
#else
typedef struct {
    char bytes[LINE_BYTES];
} line;
LK_INLINE line with_bytes(line v, const char *p, int64_t a, int64_t b)
{
    copy_line_part(v.bytes + a, p + a, (int)(MIN(b, LINE_BYTES) - a));
    return v;
}
LK_INLINE void store_bytes(char *p, line v, int64_t a, int64_t b) { copy_line_part(p + a, v.bytes + a, (int)(b - a)); }
#endif

LK_INLINE void stream_line(char *p, const char *from)
{
    for (int k = 0; k < LINE_BYTES; k += LK_VB)
        stream_vector(p + k, from + k);
}

/* The strings of a task, and what waits: the last line of each, and that in which it begins. */
typedef struct {
    line *tails, *seams;
    char *waits; /* whether one of the two parts of a seam does */
    int64_t run, bytes; /* of a part, of a string */
    const int64_t *next, *before;
} strings;

/* Puts v into the seam where `string` begins, `at` bytes behind p: the end of the string before it if `ends`, or its own
 * beginning. Streams the line if the other one is there already. */
LK_INLINE void put_seam(const strings *w, int64_t string, char *p, line v, int64_t at, int ends)
{
    line *const seam = w->seams + string;
    if (w->waits[string]) {
        v = with_bytes(v, (const char *)seam, ends ? at : 0, ends ? LINE_BYTES : at);
        stream_line(p, (const char *)&v);
    } else {
        *seam = v;
        w->waits[string] = 1;
    }
}

/* Puts the part of a string that is `done` bytes behind its beginning. */
LK_INLINE void put_part(const strings *w, const char *s, char *d, int64_t string, int64_t done)
{
    const int64_t head = (intptr_t)d & (LINE_BYTES - 1), end = head + w->run;
    const char *const from = s - head;
    char *to = d - head;
    line v = done ? w->tails[string] : (line){};
    int64_t left = end;
    v = with_bytes(v, from, head, end);
    if (end >= LINE_BYTES) {
        if (head <= done)
            stream_line(to, (const char *)&v);
        else if (w->before[string])
            put_seam(w, string, to, v, head - done, 0);
        else
            store_bytes(to, v, head - done, LINE_BYTES);
        int64_t k = LINE_BYTES;
        for (; k + LINE_BYTES <= end; k += LINE_BYTES)
            stream_line(to + k, from + k);
        left -= k;
        to += k;
        v = with_bytes(v, from + k, 0, left);
    }
    if (done + w->run < w->bytes) {
        w->tails[string] = v;
    } else if (left) {
        const int64_t next = w->next[string];
        if (next != LK_NOWHERE)
            put_seam(w, next, to, v, left, 1);
        else
            store_bytes(to, v, 0, left);
    }
}

void LK_NAME(scatter_x8)(const lk_nest *nest, const lk_fused *f, const char *src, char *dst, int64_t task, int64_t end,
                         char *scratch)
{
    const lk_strings g = f->strings;
    char waits[LK_MAX_STRINGS];
    const strings w = {
        .tails = (line *)scratch, .seams = (line *)scratch + g.count, .waits = waits,
        .run = g.run, .bytes = g.run * g.parts, .next = g.next, .before = g.before,
    };
    const int64_t n = f->rows.n[0], count = f->rows.count, digits = f->rows.digits;
    const int64_t s0 = f->rows.step[0], d0 = f->columns.step[0];
    const int64_t string0 = g.string_step[0], done0 = g.part_step[0] * g.run;
    for (; task < end; task++) {
        const char *s = src + nest->src + offset(nest, nest->s, task);
        char *d = dst + nest->dst + offset(nest, nest->d, task);
        int64_t at[LK_MAX_FUSED] = {0}, string = 0, done = 0;
        memset(waits, 0, g.count);
        for (int64_t i = 0; i < count; i += n) {
            for (int64_t j = 0; j < n; j++)
                put_part(&w, s + j * s0, d + j * d0, string + j * string0, done + j * done0);
            for (int k = 1; k < digits; k++) {
                const int64_t back = ++at[k] < f->rows.n[k] ? 0 : f->rows.n[k]; /* to the first value of the digit */
                s += (1 - back) * f->rows.step[k];
                d += (1 - back) * f->columns.step[k];
                string += (1 - back) * g.string_step[k];
                done += (1 - back) * g.part_step[k] * g.run;
                if (!back)
                    break;
                at[k] = 0;
            }
        }
    }
}

const lk_kernel LK_NAME(lk_rows_scatter)[] = {LK_ROW(LK_SCATTER, scatter_x8, "x8", LK_VB, 0, 0), LK_LAST_ROW};
