/* Copies the runs of a slab's buffer to the destination, by whole lines.
 *
 *   dst[to(r) + k] = src[from(r) + k]     k < bytes
 *
 * Edges: where a run begins or ends within a line, that line is stored in part; unless the run continues in the next
 * slab: then its last bytes wait in `tails`, a line for each run.
 */
#include "common/lines.h"
#include "drain.h"

/* A run of at least two lines. tail: the bytes that wait. */
LK_INLINE void drain_run(char *d, const char *s, int64_t n, char *tail, int continues, int goes_on)
{
    const int64_t head = (intptr_t)d % LINE_BYTES;
    int64_t k = 0;
    if (head && continues) {
        k = LINE_BYTES - head;
        copy_line_part(tail + head, s, (int)k);
        for (int v = 0; v < LINE_BYTES; v += LK_VB)
            stream_vector(d - head + v, tail + v);
    } else if (head) {
        k = LINE_BYTES - head;
        copy_line_part(d, s, (int)k);
    }
    for (; k + LINE_BYTES <= n; k += LINE_BYTES)
        for (int v = 0; v < LINE_BYTES; v += LK_VB)
            stream_vector(d + k + v, s + k + v);
    if (k < n)
        copy_line_part(goes_on ? tail : d + k, s + k, (int)(n - k));
}

void LK_NAME(drain_x8)(const lk_drain *r)
{
    const int64_t n = r->bytes;
    for (int64_t i = 0; i < r->runs; i++) {
        const char *const s = r->src + r->from[i];
        char *const d = r->dst + r->to[i];
        if (n >= LK_MIN_DRAINED_BYTES)
            drain_run(d, s, n, r->tails + i * LINE_BYTES, r->continues, r->goes_on);
        else if (n == LINE_BYTES && (intptr_t)d % LINE_BYTES == 0)
            for (int v = 0; v < LINE_BYTES; v += LK_VB)
                stream_vector(d + v, s + v);
        else
            memcpy(d, s, n);
    }
}

const lk_kernel LK_NAME(lk_rows_drain)[] = {LK_ROW(LK_DRAIN, drain_x8, "x8", LK_VB, 0, 0), LK_LAST_ROW};
