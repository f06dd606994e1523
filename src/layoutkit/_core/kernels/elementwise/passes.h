/* A pass of each step of LK_STEPS over rows of reals in memory: what epilogues and elementwise operations are made of.
 *
 * Edges: a partial last vector of a row is loaded and stored by masks.
 */
#ifndef LAYOUTKIT_PASSES_H
#define LAYOUTKIT_PASSES_H

#include "common/numbers.h"
#include "epilogue.h"
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

/* Numbers as they are meant */
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

LK_INLINE void over_row(const char *from, char *to, const char *add, const char *at, const operand *b, const int kind,
                        const int64_t count, const real *numbers, const function apply)
{
    const int64_t width = kind == REALS ? LK_ITEM : kind == ELEMENTS ? width_of(b->element) : 0;
    int64_t j = 0;
#define AT(p, bytes) ((p) ? (p) + (bytes) : 0)
    for (; j <= count - LK_LANES; j += LK_LANES)
        some(from + LK_ITEM * j, to + LK_ITEM * j, AT(add, LK_ITEM * j), at + width * j, b, kind, LK_LANES, numbers, apply);
    if (j < count)
        some(from + LK_ITEM * j, to + LK_ITEM * j, AT(add, LK_ITEM * j), at + width * j, b, kind, (int)(count - j), numbers,
             apply);
}

LK_INLINE void over(const pass *given, const int has_operand, const function apply)
{
    const pass p = *given; /* what is stored might be these, for all that a compiler knows */
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

#define PASS(upper, lower, has_operand, ulps) \
    static void pass_##lower(const pass *p) { over(p, has_operand, step_##lower); }
LK_STEPS(PASS)
#define LIST(upper, lower, has_operand, ulps) pass_##lower,
static void (*const passes[])(const pass *) = {LK_STEPS(LIST)};

#endif
