/* take_x<bits>: units of a row in another order, left out or repeated; see lk_take in take.h.
 *
 * A unit is copied by vectors of at most its size, the last of which overlaps the one before, so that none is partial.
 * Elements of 32 bits of several rows, where those of a vector of y are near to one another in x, are a vector of x, shuffled.
 * All other elements have a loop for each of the usual steps, which compilers turn into shuffles of vectors.
 */
#include "common/vector.h"
#include "take.h"

#include <string.h>

enum { LONG_UNIT = 1024 }; /* bytes; longer ones are copied by memcpy */

/* n bytes to `repeat` places, y_step bytes apart: w at a time, w <= n, and n < 2 * w unless w is a vector. */
LK_INLINE void copy_unit(char *y, const char *x, int64_t n, const int w, int64_t repeat, int64_t y_step)
{
    char v[LK_VB], last[LK_VB];
    for (int64_t k = 0; w == LK_VB && k < n - w; k += w) {
        memcpy(v, x + k, w);
        for (int64_t r = 0; r < repeat; r++)
            memcpy(y + r * y_step + k, v, w);
    }
    memcpy(v, x, w), memcpy(last, x + n - w, w);
    for (int64_t r = 0; r < repeat; r++, y += y_step) {
        if (w < LK_VB)
            memcpy(y, v, w);
        memcpy(y + n - w, last, w);
    }
}

LK_INLINE void each_unit(const lk_take *p, const char *x, char *y, const int64_t n, const int w)
{
    const int64_t y_step = p->y_step, step = p->step, count = p->count, repeat = p->repeat;
    int64_t j = 0;
    if (p->at) {
        for (; j < count; j++, y += y_step)
            copy_unit(y, x + p->at[j], n, w, 1, 0);
    } else if (repeat == 1) {
        for (; j < count; j++, x += step, y += y_step)
            copy_unit(y, x, n, w, 1, 0);
    } else {
        for (; j <= count - repeat; j += repeat, x += step, y += repeat * y_step)
            copy_unit(y, x, n, w, repeat, y_step);
        if (j < count)
            copy_unit(y, x, n, w, count - j, y_step);
    }
}

LK_INLINE void both_units(const lk_take *p, const int64_t n, const lk_take *q, const int64_t m, const int w)
{
    const char *x = p->x, *beside = q->x;
    char *y = p->y, *to = q->y;
    const int64_t count = p->count, step = p->step, y_step = p->y_step, q_step = q->step, to_step = q->y_step;
    for (int64_t j = 0; j < count; j++, x += step, y += y_step, beside += q_step, to += to_step) {
        copy_unit(y, x, n, w, 1, 0);
        copy_unit(to, beside, m, w, 1, 0);
    }
}

/* Functions for each size of vectors, so that what their loops take stays in registers: of units, and of those of p and q, one
 * of each at a time. */
#define UNITS(w) \
    static __attribute__((noinline)) void units_##w(const lk_take *p, const char *x, char *y) \
    { \
        if (p->unit == w) \
            each_unit(p, x, y, w, w); \
        else \
            each_unit(p, x, y, p->unit, w); \
    } \
    static __attribute__((noinline)) void both_units_##w(const lk_take *p, const lk_take *q) \
    { \
        if (p->unit == w && q->unit == w) \
            both_units(p, w, q, w, w); \
        else \
            both_units(p, p->unit, q, q->unit, w); \
    }
UNITS(1) UNITS(2) UNITS(4) UNITS(8) UNITS(16)
typedef void (*units_fn)(const lk_take *p, const char *x, char *y);
typedef void (*both_units_fn)(const lk_take *p, const lk_take *q);
#if LK_VB == 16
enum { SIZES = 5 };
#define SIZED(name) {name##1, name##2, name##4, name##8, name##16}
#elif LK_VB == 32
UNITS(32)
enum { SIZES = 6 };
#define SIZED(name) {name##1, name##2, name##4, name##8, name##16, name##32}
#else
UNITS(32) UNITS(64)
enum { SIZES = 7 };
#define SIZED(name) {name##1, name##2, name##4, name##8, name##16, name##32, name##64}
#endif
static const units_fn units_of[SIZES] = SIZED(units_);
static const both_units_fn both_units_of[SIZES] = SIZED(both_units_);

/* The size of vectors, 2^i bytes, that copies units of n bytes. */
LK_INLINE int size_of(int64_t n) { return MIN(SIZES - 1, LOG2((int)MIN(n, LK_VB))); }

LK_INLINE void take_units(const lk_take *p, const char *x, char *y)
{
    const int64_t n = p->unit;
    if (!p->at && p->step == n && p->y_step == n && p->repeat == 1)
        memcpy(y, x, n * p->count);
    else if (n >= LONG_UNIT)
        for (int64_t j = 0; j < p->count; j++, y += p->y_step)
            memcpy(y, x + (p->at ? p->at[j] : j / p->repeat * p->step), n);
    else if (n)
        units_of[size_of(n)](p, x, y);
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
    const lk_take g = *args, *p = &g, *q = g.beside;
    if (q && g.unit && q->unit && MAX(g.unit, q->unit) < LONG_UNIT && size_of(g.unit) == size_of(q->unit)) {
        both_units_of[size_of(g.unit)](p, q);
        return;
    }
    if (q)
        take_units(q, q->x, q->y);
    ROWS(p, p->unit, take_units(p, x, y));
}

LK_INLINE int64_t no_windows(const lk_take *p) { return (void)p, 0; }

#if LK_VB > 16
enum { WINDOWS = 32, FEW_ROWS = 4, NARROW = 512 }; /* bytes of rows whose copies are written together */

/* Windows of x: the elements of vectors of y as those of vectors of x, shuffled. */
typedef struct {
    vi order[WINDOWS];
    int64_t from[WINDOWS]; /* bytes from the beginning of the row */
    int64_t step;
    int count, paired; /* windows; the first ones, not the last, of which two have one vector of x, the next two that which
                        * is `step` bytes further, by the same shuffles */
} windows;

/* The window of the elements of y from j on, that of the one before if they are in it, and the bytes that they span. */
LK_INLINE int64_t set_window(const lk_take *p, int64_t j, windows *w)
{
    int64_t at[LK_LANES], least, most, place = j / p->repeat, times = j % p->repeat;
    for (int k = 0; k < LK_LANES; k++) {
        at[k] = p->at ? p->at[j + k] : place * p->step;
        least = k ? MIN(least, at[k]) : at[k];
        most = k ? MAX(most, at[k]) : at[k];
        if (++times == p->repeat)
            place++, times = 0;
    }
    const int64_t before = w->count % 2 ? w->from[w->count - 1] : INT64_MAX;
    const int64_t from = before <= least && most < before + LK_VB ? before : least;
    for (int k = 0; k < LK_LANES; k++)
        w->order[w->count][k] = (int)(at[k] - from) / LK_ITEM;
    w->from[w->count++] = from;
    return most + LK_ITEM - from;
}

/* Windows of whole vectors between the least and greatest element that any of them reads; 0 if that is too little. */
LK_INLINE int set_windows(const lk_take *p, int64_t begin, windows *w)
{
    int64_t least = INT64_MAX, end = INT64_MIN;
    w->count = 0;
    for (int64_t j = begin; w->count < WINDOWS && j < p->count; j += LK_LANES) {
        const int64_t spans = set_window(p, MIN(j, p->count - LK_LANES), w), from = w->from[w->count - 1];
        if (spans > LK_VB)
            return 0;
        least = MIN(least, from);
        end = MAX(end, from + spans);
    }
    for (int k = 0; k < w->count; k++) {
        const int64_t beyond = w->from[k] + LK_VB - end;
        if (beyond > 0)
            w->from[k] -= beyond, w->order[k] += (int)beyond / LK_ITEM;
    }
    w->step = w->count > 2 ? w->from[2] - w->from[0] : 0;
    for (w->paired = 0; w->paired < w->count - 1; w->paired++) {
        const int k = w->paired;
        if (memcmp(w->order + k, w->order + k % 2, LK_VB) || w->from[k] - w->from[0] != k / 2 * w->step)
            break;
    }
    w->paired -= w->paired % 2;
    return end - least >= LK_VB;
}

/* The elements of y at `to` as a window of x, in `copies` rows. */
LK_INLINE void put_window(char *to, vi v, vi order, const int64_t copies, int64_t y_row)
{
    const vi shuffled = __builtin_shuffle(v, order);
    for (int64_t c = 0; c < copies; c++, to += y_row)
        *(vi *)to = shuffled;
}

/* A row by its windows, the last of which begins `end` bytes after the first. */
LK_INLINE void window_row(const windows *w, const char *x, char *y, int64_t end, const int64_t copies, int64_t y_row)
{
    const int64_t step = w->step;
    const vi first = w->order[0], second = w->order[1];
    const char *from = x + w->from[0];
    const int n = w->count - 1;
    char *to = y;
#pragma GCC unroll 2
    for (const char *const stop = y + w->paired * LK_VB; to < stop; from += step, to += 2 * LK_VB) {
        const vi v = *(const vi *)from;
        put_window(to, v, first, copies, y_row);
        put_window(to + LK_VB, v, second, copies, y_row);
    }
    for (int k = w->paired; k < n; k++, to += LK_VB)
        put_window(to, *(const vi *)(x + w->from[k]), w->order[k], copies, y_row);
    put_window(y + end, *(const vi *)(x + w->from[n]), w->order[n], copies, y_row);
}

/* By themselves, so that what they take stays in registers. */
static __attribute__((noinline)) void one_row(const windows *w, const char *x, char *y, int64_t end)
{
    window_row(w, x, y, end, 1, 0);
}
static __attribute__((noinline)) void some_rows(const windows *w, const char *x, char *y, int64_t end, int64_t copies,
                                                int64_t y_row)
{
    if (copies == 2)
        window_row(w, x, y, end, 2, y_row);
    else
        window_row(w, x, y, end, copies, y_row);
}

/* Elements of 32 bits of all rows; the number of columns that were done, 0 where that would take longer. */
static int64_t take_windows(const lk_take *p)
{
    const int64_t last = p->count - LK_LANES;
    windows w;
    if ((!p->at && p->repeat == 1) || p->rows * p->copies < FEW_ROWS || last < 0)
        return 0; /* rows at a step have loops of their own */
    for (int64_t begin = 0; begin < p->count; begin += WINDOWS * LK_LANES) {
        if (!set_windows(p, begin, &w))
            return begin;
        const int64_t end = (MIN(begin + (w.count - 1) * LK_LANES, last) - begin) * LK_ITEM;
        char *y = p->y + begin * LK_ITEM;
        const char *x = p->x;
        for (int64_t i = 0; i < p->rows; i++, x += p->x_row)
            if (p->count * LK_ITEM <= NARROW && p->copies > 1)
                some_rows(&w, x, y, end, p->copies, p->y_row), y += p->copies * p->y_row;
            else
                for (int64_t c = 0; c < p->copies; c++, y += p->y_row)
                    one_row(&w, x, y, end);
    }
    return p->count;
}
#else
#define take_windows no_windows
#endif

/* The elements of a row, with `step` known to the compiler in the usual cases. */
#define LOOP(T, step) \
    for (int64_t j = 0; j < n; j++) \
        y[j] = x[j * (step)]

#define TAKE(bits, T, windows) \
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
        lk_take g = *args; \
        const lk_take *p = &g; \
        const int64_t done = windows(p); \
        if (done == g.count) \
            return; \
        if (g.at) \
            g.at += done, g.y += done * (int64_t)sizeof(T), g.count -= done; \
        ROWS(p, (int64_t)sizeof(T), row_##bits(p, (const element_##bits *)x, (element_##bits *)y)); \
    }

TAKE(16, uint16_t, no_windows)
TAKE(32, uint32_t, take_windows)
TAKE(64, uint64_t, no_windows)

const lk_kernel LK_NAME(lk_rows_take)[] = {
    LK_ROW(LK_TAKE, take_x8, "x8", LK_VB, 0, 0),
    LK_ROW(LK_TAKE, take_x16, "x16", LK_VB / 2, 0, 0),
    LK_ROW(LK_TAKE, take_x32, "x32", LK_VB / 4, 0, 0),
    LK_ROW(LK_TAKE, take_x64, "x64", LK_VB / 8, 0, 0),
    LK_LAST_ROW,
};
