/* take_x<bits>: units of a row in another order, left out or repeated; see lk_take in take.h.
 *
 * Units of one element whose results are contiguous have a loop for each of the usual steps, which the compiler turns into
 * shuffles of vectors. All other units are copied by vectors, the last of which may be partial.
 */
#include "common/stream.h"
#include "common/vector.h"
#include "take.h"

#include <string.h>

LK_INLINE void copy_unit(char *y, const char *x, int64_t n)
{
    int64_t k = 0;
    for (; k + LK_VB <= n; k += LK_VB)
        copy_part(y + k, x + k, LK_VB);
    if (k < n)
        copy_part(y + k, x + k, (int)(n - k));
}

void LK_NAME(take_x8)(const lk_take *p)
{
    const int64_t n = p->unit, repeat = p->repeat;
    char *y = p->y;
    if (p->at) {
        for (int64_t j = 0; j < p->count; j++, y += p->y_step)
            copy_unit(y, p->x + p->at[j], n);
        return;
    }
    if (p->step == n && p->y_step == n && repeat == 1) {
        memcpy(y, p->x, n * p->count);
        return;
    }
    const char *x = p->x;
    for (int64_t j = 0, left = repeat; j < p->count; j++, y += p->y_step) {
        copy_unit(y, x, n);
        if (--left == 0)
            x += p->step, left = repeat;
    }
}

/* The elements of a row, with `step` known to the compiler in the usual cases. */
#define LOOP(T, step) \
    for (int64_t j = 0; j < n; j++) \
        y[j] = x[j * (step)]

#define TAKE(bits, T) \
    void LK_NAME(take_x##bits)(const lk_take *p) \
    { \
        typedef T element __attribute__((may_alias)); \
        const element *restrict x = (const element *)p->x; \
        element *restrict y = (element *)p->y; \
        const int64_t n = p->count, step = p->step / (int64_t)sizeof(T), repeat = p->repeat; \
        if (p->at) { \
            for (int64_t j = 0; j < n; j++) \
                y[j] = *(const element *)(p->x + p->at[j]); \
        } else if (repeat == 2 && step == 1) { \
            for (int64_t j = 0; j < n / 2; j++) \
                y[2 * j] = y[2 * j + 1] = x[j]; \
            if (n % 2) \
                y[n - 1] = x[n / 2]; \
        } else if (repeat > 1) { \
            for (int64_t j = 0, i = 0; j < n; i++) \
                for (const int64_t end = MIN(j + repeat, n); j < end; j++) \
                    y[j] = x[i * step]; \
        } else if (step == 1) { \
            memcpy(y, x, n * sizeof(T)); \
        } else if (step == 0) { \
            const element v = n ? *x : 0; \
            for (int64_t j = 0; j < n; j++) \
                y[j] = v; \
        } else if (step == -1) { \
            LOOP(T, -1); \
        } else if (step == 2) { \
            LOOP(T, 2); \
        } else { \
            LOOP(T, step); \
        } \
    }

TAKE(16, uint16_t)
TAKE(32, uint32_t)
TAKE(64, uint64_t)

const lk_kernel LK_NAME(lk_rows_take)[] = {
    LK_ROW(LK_TAKE, take_x8, "x8", LK_VB, 0, 0),
    LK_ROW(LK_TAKE, take_x16, "x16", LK_VB / 2, 0, 0),
    LK_ROW(LK_TAKE, take_x32, "x32", LK_VB / 4, 0, 0),
    LK_ROW(LK_TAKE, take_x64, "x64", LK_VB / 8, 0, 0),
    LK_LAST_ROW,
};
