/* take_x<bits>: units of a row in another order, left out or repeated; see lk_take in take.h.
 *
 * Units of one element whose results are contiguous have a loop for each of the usual steps, which compilers turn into
 * shuffles of vectors. All other units are copied by vectors, the last of which may be partial. Elements of 32 bits that
 * are taken twice, and units that are repeated, are loaded once.
 */
#include "common/stream.h"
#include "common/vector.h"
#include "take.h"

#include <string.h>

/* A unit to `repeat` places, y_step bytes apart. */
LK_INLINE void copy_unit(char *y, const char *x, int64_t n, int64_t repeat, int64_t y_step)
{
    int64_t k = 0;
    for (; k + LK_VB <= n; k += LK_VB)
        for (int64_t r = 0; r < repeat; r++)
            copy_part(y + r * y_step + k, x + k, LK_VB);
    for (int64_t r = 0; k < n && r < repeat; r++)
        copy_part(y + r * y_step + k, x + k, (int)(n - k));
}

LK_INLINE void take_units(const lk_take *p, const char *x, char *y)
{
    const int64_t n = p->unit, y_step = p->y_step, step = p->step, count = p->count, repeat = p->repeat;
    if (p->at) {
        for (int64_t j = 0; j < count; j++, y += y_step)
            copy_unit(y, x + p->at[j], n, 1, 0);
    } else if (step == n && y_step == n && repeat == 1) {
        memcpy(y, x, n * count);
    } else if (repeat == 2) {
        for (int64_t j = 0; j + 2 <= count; j += 2, x += step, y += 2 * y_step)
            copy_unit(y, x, n, 2, y_step);
        if (count % 2)
            copy_unit(y, x, n, 1, 0);
    } else {
        for (int64_t j = 0; j < count; j += repeat, x += step, y += repeat * y_step)
            copy_unit(y, x, n, MIN(repeat, count - j), y_step);
    }
}

/* Each row of x, by `row(x, y)`, and copies of its result. */
#define ROWS(p, width, row) \
    do { \
        char *y = (p)->y; \
        const char *x = (p)->x; \
        for (int64_t i = 0; i < (p)->rows; i++, x += (p)->x_row, y += (p)->y_row) { \
            const char *const first = y; \
            row; \
            for (int64_t c = 1; c < (p)->copies; c++) \
                memcpy(y += (p)->y_row, first, (width) * (p)->count); \
        } \
    } while (0)

void LK_NAME(take_x8)(const lk_take *args)
{
    const lk_take g = *args, *p = &g;
    ROWS(p, p->unit, take_units(p, x, y));
}

/* Elements taken twice each, to `copies` rows. */
LK_INLINE void take_twice(const lk_take *p, const char *x, char *y)
{
#if LK_VB == 64
    const vi low = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}, high = low + 8;
#elif LK_VB == 32
    const vi low = {0, 0, 1, 1, 2, 2, 3, 3}, high = low + 4;
#else
    const vi low = {0, 0, 1, 1}, high = low + 2;
#endif
    const int64_t count = p->count, copies = p->copies, y_row = p->y_row;
    int64_t j = 0;
    for (; j + 2 * LK_LANES <= count; j += 2 * LK_LANES, x += LK_VB, y += 2 * LK_VB) {
        const vi v = *(const vi *)x, a = __builtin_shuffle(v, low), b = __builtin_shuffle(v, high);
        char *to = y;
        for (int64_t c = 0; c < copies; c++, to += y_row)
            *(vi *)to = a, *(vi *)(to + LK_VB) = b;
    }
    if (j < count) {
        const int left = (int)(count - j), more = MAX(0, left - LK_LANES);
        const vf v = load_lanes(x, (1u << (left + 1) / 2) - 1);
        const vf a = (vf)__builtin_shuffle((vi)v, low), b = (vf)__builtin_shuffle((vi)v, high);
        char *to = y;
        for (int64_t c = 0; c < copies; c++, to += y_row) {
            store_lanes(to, a, left >= LK_LANES ? ~0u >> (32 - LK_LANES) : (1u << left) - 1);
            if (more)
                store_lanes(to + LK_VB, b, (1u << more) - 1);
        }
    }
}

/* The elements of a row, with `step` known to the compiler in the usual cases. */
#define LOOP(T, step) \
    for (int64_t j = 0; j < n; j++) \
        y[j] = x[j * (step)]

#define TAKE(bits, T) \
    typedef T element_##bits __attribute__((may_alias)); \
    LK_INLINE void row_##bits(const lk_take *p, const element_##bits *restrict x, element_##bits *restrict y) \
    { \
        const int64_t n = p->count, step = p->step / (int64_t)sizeof(T), repeat = p->repeat; \
        if (p->at) { \
            for (int64_t j = 0; j < n; j++) \
                y[j] = *(const element_##bits *)((const char *)x + p->at[j]); \
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
            const T v = n ? *x : 0; \
            for (int64_t j = 0; j < n; j++) \
                y[j] = v; \
        } else if (step == -1) { \
            LOOP(T, -1); \
        } else if (step == 2) { \
            LOOP(T, 2); \
        } else { \
            LOOP(T, step); \
        } \
    } \
    void LK_NAME(take_x##bits)(const lk_take *args) \
    { \
        const lk_take g = *args, *p = &g; \
        if (bits == 32 && !p->at && p->repeat == 2 && p->step == 4) { \
            for (int64_t i = 0; i < p->rows; i++) \
                take_twice(p, p->x + i * p->x_row, p->y + i * p->copies * p->y_row); \
            return; \
        } \
        ROWS(p, (int64_t)sizeof(T), row_##bits(p, (const element_##bits *)x, (element_##bits *)y)); \
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
