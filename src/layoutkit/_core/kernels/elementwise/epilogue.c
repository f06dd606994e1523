/* epilogue_<type>: the steps of lk_epilogue in epilogue.h, applied to outputs that have just been stored, or to sums on
 * their way to an output of other numbers.
 *
 *   y = .. f1(f0(sum + add))        the steps f are in steps.h
 *
 * A step goes over rows of vectors, in place; several of them over a piece that stays in L1, one after another.
 * Edges: a partial last vector of a row is loaded and stored by masks.
 */
#include "passes.h"

/* Rows [i, end) and of them columns [first, first + count) of an epilogue. Row i of the numbers that a step changes is at
 * v + (row ? row[i] : i * stride); y has elements of `element`; `add` is NULL, or added first. */
typedef struct {
    char *v;
    const int64_t *row;
    int64_t stride, i, end, first, count;
    int element;
    const char *add;
} piece;

/* A step of an epilogue, over a piece. */
static void apply_step(const lk_epilogue *f, const lk_step *s, const piece *p)
{
    const int64_t *row = p->row ? p->row + p->i : 0;
    const lines v = {p->v + LK_ITEM * p->first + (row ? 0 : p->i * p->stride), row, p->stride};
    pass a = {.from = v, .to = v, .rows = p->end - p->i, .count = p->count, .numbers = s ? (const real *)s->numbers : 0};
    if (p->add)
        a.add = (lines){(char *)p->add + LK_ITEM * p->first, row, 0};
    if (!s) {
        over(&a, 0, step_nothing);
        return;
    }
    char *b = (char *)s->operand;
    if (s->kind == LK_TENSOR)
        a.b = (operand){{b + f->offset + width_of(p->element) * p->first, f->row + p->i, 0},
                        p->element == LK_OWN ? REALS : ELEMENTS, p->element, f->zero, f->scale};
    else if (s->kind == LK_PER_CHANNEL) {
        const int64_t channel = f->channel + p->i * f->channel_row + (f->channel_col ? p->first : 0);
        a.b = (operand){{b + LK_ITEM * channel, 0, LK_ITEM * f->channel_row}, f->channel_col ? REALS : A_NUMBER, LK_OWN, 0, 1};
    } else
        a.b = (operand){{b, 0, 0}, A_NUMBER, LK_OWN, 0, 1};
    do_pass(s->step, s == f->step + f->steps - 1 ? p->element : LK_OWN, &a);
}

enum { PIECE = 16384 / LK_ITEM };

/* Calls `body` for pieces of at most PIECE elements, or for all at once. */
#define FOR_PIECES(p, f, several, body) \
    do { \
        const int64_t cols = (several) ? MIN((f)->count, PIECE) : (f)->count; \
        const int64_t rows = (several) && cols ? MIN((f)->rows, 1 + PIECE / cols) : (f)->rows; \
        for (p.first = 0; p.first < (f)->count; p.first += cols) { \
            p.count = MIN(cols, (f)->count - p.first); \
            for (p.i = 0; p.i < (f)->rows; p.i += rows) { \
                p.end = MIN((f)->rows, p.i + rows); \
                body; \
            } \
        } \
    } while (0)

/* The steps, where y holds the sums. */
LK_INLINE void in_place(const lk_epilogue *f)
{
    piece p = {.v = f->y + f->offset, .row = f->row, .element = LK_OWN, .add = f->add ? f->add + f->offset : 0};
    const char *add = p.add;
    if (!f->steps && add)
        FOR_PIECES(p, f, 0, apply_step(f, 0, &p));
    FOR_PIECES(p, f, f->steps > 1, {
        p.add = add;
        for (int k = 0; k < f->steps; k++) {
            apply_step(f, f->step + k, &p);
            p.add = 0;
        }
    });
}

#if LK_BITS == 32
/* n numbers from column j on: of sums with the residual (`begins`), clipped to the limits, if any, and as y has them
 * (`ends`). */
LK_INLINE void carried(const lk_epilogue *f, char *v, const char *add, char *y, int64_t j, int n, const real *limits,
                       const int begins, const int ends, const int sum, const int element)
{
    vf x = load_numbers(v, n, begins ? sum : LK_OWN);
    if (begins && sum == LK_S32) {
        x = x * load_numbers((const char *)(f->mul + f->channel + j), n, LK_OWN);
        if (f->off)
            x = x + load_numbers((const char *)(f->off + f->channel + j), n, LK_OWN);
    }
    if (begins && add)
        x += meant(load_numbers(add, n, element), element, f->zero, f->scale);
    if (!ends) {
        store_numbers(v, x, n, LK_OWN);
        return;
    }
    if (limits)
        x = between_limits(x, limits);
    if (element != LK_U8 && element != LK_S8) {
        store_numbers(y, x, n, element);
        return;
    }
    if (f->scale != 1)
        x = x / f->scale;
    store_bytes(y, to_bytes(x, f->zero, element), n);
}

LK_INLINE void carry(const lk_epilogue *args, const piece *of, const real *limits, const int begins, const int ends,
                     const int sum, const int element)
{
    const int64_t width = width_of(element);
    const lk_epilogue f = *args;
    const piece p = *of;
    const real bounds[2] = {limits ? limits[0] : 0, limits ? limits[1] : 0};
    for (int64_t i = p.i; i < p.end; i++) {
        char *v = p.v + i * p.stride + LK_ITEM * p.first, *y = f.y + f.offset + f.row[i] + width * p.first;
        const char *add = f.add ? f.add + f.offset + f.row[i] + width * p.first : 0;
        int64_t j = 0;
        for (; j <= p.count - LK_LANES; j += LK_LANES)
            carried(&f, v + LK_ITEM * j, AT(add, width * j), y + width * j, p.first + j, LK_LANES, limits ? bounds : 0, begins,
                    ends, sum, element);
        if (j < p.count)
            carried(&f, v + LK_ITEM * j, AT(add, width * j), y + width * j, p.first + j, (int)(p.count - j),
                    limits ? bounds : 0, begins, ends, sum, element);
    }
}

/* The steps, on the way from sums elsewhere to y. A clip that comes last is done while y is written. */
LK_INLINE void on_the_way(const lk_epilogue *f, const int sum, const int element)
{
    const lk_step *last = f->steps ? f->step + f->steps - 1 : 0;
    const real *limits = last && last->step == LK_STEP_CLIP ? (const real *)last->numbers : 0;
    const int steps = f->steps - !!limits;
    piece p = {.v = f->sums, .stride = f->sums_row, .element = element};
    if (!steps) {
        FOR_PIECES(p, f, 0, carry(f, &p, limits, 1, 1, sum, element));
        return;
    }
    FOR_PIECES(p, f, 1, {
        if (sum != LK_OWN || f->add)
            carry(f, &p, 0, 1, 0, sum, element);
        for (int k = 0; k < steps; k++)
            apply_step(f, f->step + k, &p);
        carry(f, &p, limits, 0, 1, sum, element);
    });
}

/* Rows that round to other elements than those of the sums: name, sums, destination. */
#define ROUNDED(X) \
    X(bf16, LK_F32, LK_BF16) X(f16, LK_F32, LK_F16) \
    X(s32_f32, LK_S32, LK_F32) X(s32_u8, LK_S32, LK_U8) X(s32_s8, LK_S32, LK_S8)
#else
#define ROUNDED(X)
#endif
#define KERNEL(TYPES, SUM, ELEMENT) \
    void LK_NAME(epilogue_##TYPES)(const lk_epilogue *f) { on_the_way(f, SUM, ELEMENT); }
void LK_NAME(LK_TYPED(epilogue))(const lk_epilogue *f) { in_place(f); }
ROUNDED(KERNEL)

#include "elementwise.inc"

#define ROUNDED_ROW(TYPES, SUM, ELEMENT) LK_ROW(LK_EPILOGUE, epilogue_##TYPES, #TYPES, LK_LANES, 0, 0),
const lk_kernel LK_ROWS(epilogue)[] = {
    LK_ROW(LK_EPILOGUE, LK_TYPED(epilogue), LK_STR(LK_REAL), LK_LANES, 0, 0),
    ROUNDED(ROUNDED_ROW)
    LK_ROW(LK_ELEMENTWISE, LK_TYPED(elementwise), LK_STR(LK_REAL), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
