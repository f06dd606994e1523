/* A pass of each step of LK_STEPS over rows of reals in memory: for epilogues and elementwise operations.
 *
 * Edges: a partial last vector of a row is loaded and stored by masks.
 */
#ifndef LAYOUTKIT_PASSES_H
#define LAYOUTKIT_PASSES_H

#include "common/numbers.h"
#include "epilogue.h"
#include "segments.h"
#include "steps.h"

/* Rows of numbers: row i is at `at` + (row ? row[i] : i * stride). */
typedef struct {
    char *at;
    const int64_t *row;
    int64_t stride;
} lines;

/* What the operand of a step is: none, one number for each row, reals, or `element`s that stand for (q - zero) * scale. */
enum { NO_OPERAND, A_NUMBER, REALS, ELEMENTS };
typedef struct {
    lines of;
    int kind, element, zero;
    float scale;
} operand;

/* to[i][j] = f(from[i][j] + add[i][j], b[i][j]), i < rows, j < count; add.at may be NULL. */
typedef struct {
    lines from, to, add;
    operand b;
    int64_t rows, count;
    const real *numbers;
} pass;
typedef vf (*function)(vf, const real *, vf);

LK_INLINE char *row_of(const lines *l, int64_t i) { return l->at + (l->row ? l->row[i] : i * l->stride); }

/* Bytes of an element of y */
LK_INLINE int64_t width_of(const int element)
{
    return element == LK_OWN ? LK_ITEM : element == LK_U8 || element == LK_S8 ? 1 : 2;
}

/* The numbers that elements stand for */
LK_INLINE vf meant(vf q, const int element, int zero, float scale)
{
    if (element == LK_U8 || element == LK_S8)
        return (q - (real)zero) * (real)scale;
    return q;
}

/* n numbers, at most a vector. */
LK_INLINE void some(const char *from, char *to, const char *add, const char *at, const operand *b, const int kind, int n,
                    const real *numbers, const function apply)
{
    vf x = load_numbers(from, n, LK_OWN), other = {};
    if (add)
        x += load_numbers(add, n, LK_OWN);
    if (kind == A_NUMBER)
        other = splat(*(const real *)at);
    else if (kind == REALS)
        other = load_numbers(at, n, LK_OWN);
    else if (kind == ELEMENTS)
        other = meant(load_numbers(at, n, b->element), b->element, b->zero, b->scale);
    store_numbers(to, apply(x, numbers, other), n, LK_OWN);
}

#define AT(p, bytes) ((p) ? (p) + (bytes) : 0)
LK_INLINE void over_row(const char *from, char *to, const char *add, const char *at, const operand *b, const int kind,
                        const int64_t count, const real *numbers, const function apply)
{
    const int64_t width = kind == REALS ? LK_ITEM : kind == ELEMENTS ? width_of(b->element) : 0;
    int64_t j = 0;
    for (; j <= count - LK_LANES; j += LK_LANES)
        some(from + LK_ITEM * j, to + LK_ITEM * j, AT(add, LK_ITEM * j), at + width * j, b, kind, LK_LANES, numbers, apply);
    if (j < count)
        some(from + LK_ITEM * j, to + LK_ITEM * j, AT(add, LK_ITEM * j), at + width * j, b, kind, (int)(count - j), numbers,
             apply);
}

/* Short rows of whole vectors, as tiles have them: column by column of vectors, in place, where the operand is the same
 * numbers for all rows, or a number for each. */
enum { SHORT_ROW = 4 * LK_LANES };
LK_INLINE void over_columns(const pass *p, const int kind, const function apply)
{
    for (int64_t j = 0; j < p->count; j += LK_LANES) {
        char *const v = p->to.at + LK_ITEM * j;
        const char *b = p->b.of.at;
        vf other = kind == REALS ? *(const vf *)(b + LK_ITEM * j) : (vf){};
        for (int64_t i = 0; i < p->rows; i++, b += p->b.of.stride) {
            vf *const x = (vf *)(v + p->to.row[i]);
            if (kind == A_NUMBER)
                other = splat(*(const real *)b);
            *x = apply(*x, p->numbers, other);
        }
    }
}

/* Any step that is not long: along each row. */
LK_INLINE void over(const pass *args, const int has_operand, const function apply)
{
    const pass p = *args; /* which no store changes */
    const int in_place = p.from.at == p.to.at && p.to.row && p.from.row == p.to.row && !p.add.at;
    if (in_place && p.count <= SHORT_ROW && p.count % LK_LANES == 0 && !p.b.of.row) {
        if (!has_operand) {
            over_columns(&p, NO_OPERAND, apply);
            return;
        }
        if (p.b.kind == A_NUMBER) {
            over_columns(&p, A_NUMBER, apply);
            return;
        }
        if (p.b.kind == REALS && !p.b.of.stride) {
            over_columns(&p, REALS, apply);
            return;
        }
    }
    for (int64_t i = 0; i < p.rows; i++) {
        const char *from = row_of(&p.from, i), *add = p.add.at ? row_of(&p.add, i) : 0;
        char *to = row_of(&p.to, i);
        if (!has_operand) {
            over_row(from, to, add, from, &p.b, NO_OPERAND, p.count, p.numbers, apply);
            continue;
        }
        const char *at = row_of(&p.b.of, i);
        if (p.b.kind == A_NUMBER)
            over_row(from, to, add, at, &p.b, A_NUMBER, p.count, p.numbers, apply);
        else if (p.b.kind == REALS)
            over_row(from, to, add, at, &p.b, REALS, p.count, p.numbers, apply);
        else
            over_row(from, to, add, at, &p.b, ELEMENTS, p.count, p.numbers, apply);
    }
}

/* A long step: of TOGETHER vectors at a time, whose instructions take turns. The vectors are listed first, those of several
 * rows where these are short: to[i] = f(from[i] + add[i]). `add` may be NULL. */
enum { LISTED = 64, TOGETHER = 4 };
typedef void (*list_function)(char **from, char **to, char **add, int64_t count, const real *numbers);
typedef void (*vectors_function)(vf *x, const int n, const real *numbers);

LK_INLINE void over_vectors(char **from, char **to, char **add, int64_t count, const real *numbers, const vectors_function apply)
{
    int64_t i = 0;
    for (; i <= count - TOGETHER; i += TOGETHER) {
        vf x[TOGETHER];
#pragma GCC unroll 8
        for (int k = 0; k < TOGETHER; k++)
            x[k] = *(const vf *)from[i + k];
        if (add)
#pragma GCC unroll 8
            for (int k = 0; k < TOGETHER; k++)
                x[k] += *(const vf *)add[i + k];
        apply(x, TOGETHER, numbers);
#pragma GCC unroll 8
        for (int k = 0; k < TOGETHER; k++)
            *(vf *)to[i + k] = x[k];
    }
    for (; i < count; i++) {
        vf x = *(const vf *)from[i];
        if (add)
            x += *(const vf *)add[i];
        apply(&x, 1, numbers);
        *(vf *)to[i] = x;
    }
}

/* n vectors of rows of `per_row`, from vector j of row i on. */
static void list(char **at, const lines *l, int64_t i, int64_t j, int64_t per_row, int64_t n)
{
    for (; n > 0; j = 0, i++) {
        char *p = row_of(l, i) + LK_VB * j;
        for (; j < per_row && n > 0; j++, n--, p += LK_VB)
            *at++ = p;
    }
}

/* The last part of each row, less than a vector: by a copy of it. */
static void over_ends(const pass *p, list_function apply)
{
    const int64_t first = LK_ITEM * (p->count / LK_LANES * LK_LANES);
    const int n = (int)(p->count % LK_LANES);
    vf x[LISTED];
    char *at[LISTED];
    for (int64_t i = 0; i < p->rows; i += LISTED) {
        const int count = (int)MIN(LISTED, p->rows - i);
        for (int k = 0; k < count; k++) {
            at[k] = (char *)(x + k);
            x[k] = load_numbers(row_of(&p->from, i + k) + first, n, LK_OWN);
            if (p->add.at)
                x[k] += load_numbers(row_of(&p->add, i + k) + first, n, LK_OWN);
        }
        apply(at, at, 0, count, p->numbers);
        for (int k = 0; k < count; k++)
            store_numbers(row_of(&p->to, i + k) + first, x[k], n, LK_OWN);
    }
}

static void over_list(const pass *p, list_function apply)
{
    const int64_t per_row = p->count / LK_LANES, total = p->rows * per_row;
    const int in_place = p->from.at == p->to.at && p->from.row == p->to.row && p->from.stride == p->to.stride;
    char *from[LISTED], *to[LISTED], *add[LISTED];
    for (int64_t done = 0, i = 0, j = 0; done < total; done += LISTED) {
        const int64_t n = MIN(LISTED, total - done);
        list(to, &p->to, i, j, per_row, n);
        if (!in_place)
            list(from, &p->from, i, j, per_row, n);
        if (p->add.at)
            list(add, &p->add, i, j, per_row, n);
        apply(in_place ? to : from, to, p->add.at ? add : 0, n, p->numbers);
        i += (j + n) / per_row, j = (j + n) % per_row;
    }
    if (p->count % LK_LANES)
        over_ends(p, apply);
}

#if LK_BITS == 32
/* x (1 - f(|x|)) of n vectors, where 1 - f(|x|) = f(-|x|): by segments, and where these have ended below 0, as `beyond` has
 * it, which keeps relative errors small. */
LK_INLINE void gated(vf *x, const int n, const segments *f, const function beyond)
{
    const vf end = splat((SEGMENTS - 0.501f) * f->width); /* 0.5 is rounded up to a segment that is not there */
    vf y[TOGETHER];
    vi any = {};
#pragma GCC unroll 8
    for (int k = 0; k < n; k++) {
        const vf size = at_most((vf)((vi)x[k] & ~SIGN), end);
        y[k] = fused(-size, by_segments(f, size), at_least(x[k], splat((real)-0.0)));
        any |= x[k] < -end;
    }
    if (__builtin_expect(any_lane(any), 0))
        for (int k = 0; k < n; k++)
            if (any_lane(x[k] < -end))
                y[k] = choose(x[k] < -end, beyond(x[k], 0, x[k]), y[k]);
#pragma GCC unroll 8
    for (int k = 0; k < n; k++)
        x[k] = y[k];
}
#endif

/* How a step goes over rows: SHORT, a vector after another; LONG, several vectors at a time; GATED, the same for functions
 * that segments.h has. */
#define SHORT(lower, has_operand) \
    static void pass_##lower(const pass *p) { over(p, has_operand, step_##lower); }
#define LONG(lower, has_operand) \
    LK_INLINE void each_##lower(vf *x, const int n, const real *numbers) \
    { \
        _Pragma("GCC unroll 8") \
        for (int k = 0; k < n; k++) \
            x[k] = step_##lower(x[k], numbers, (vf){}); \
    } \
    LISTS(lower)
#define LISTS(lower) \
    static void list_##lower(char **from, char **to, char **add, int64_t count, const real *numbers) \
    { \
        over_vectors(from, to, add, count, numbers, each_##lower); \
    } \
    static void pass_##lower(const pass *p) { over_list(p, list_##lower); }
#if LK_BITS == 32
#define GATED(lower, has_operand) \
    LK_INLINE void each_##lower(vf *x, const int n, const real *numbers) \
    { \
        (void)numbers; \
        gated(x, n, &lower##_segments, step_##lower); \
    } \
    LISTS(lower)
#else
#define GATED LONG
#endif
#define PASS(upper, lower, has_operand, ulps, way) way(lower, has_operand)
LK_STEPS(PASS)
#define LIST(upper, lower, has_operand, ulps, way) pass_##lower,
static void (*const passes[])(const pass *) = {LK_STEPS(LIST)};
#if LK_BITS == 32
LONG(coarse_sigmoid, 0)
LONG(coarse_silu, 0)
#endif

/* A step whose results are rounded to `element` next. */
LK_INLINE void do_pass(int step, const int element, const pass *p)
{
#if LK_BITS == 32
    if (element == LK_BF16)
        switch (step) {
        case LK_STEP_SIGMOID: pass_coarse_sigmoid(p); return;
        case LK_STEP_SILU: pass_coarse_silu(p); return;
        }
#else
    (void)element;
#endif
    passes[step](p);
}

#endif
