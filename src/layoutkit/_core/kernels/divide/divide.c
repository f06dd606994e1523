/* divide_s8, .. divide_s64, divide_f32: quotients and remainders, element by element; see divide.h.
 *
 *   q = round(x / d), r = x - q d;   q -+ 1 and r +- |d| where r has not the sign of x
 *
 * in doubles, where all of it is exact but x / d: integers of less than 51 bits, and reals whose q has less than 28. Blocks
 * with others, which only s64 and reals have, are divided one by one.
 * Edges: a block that is not whole is copied, with ones behind it.
 */
#include "divide.h"
#include "common/vector.h"

#include <math.h>
#include <string.h>

enum { VECTORS = 4, BLOCK = VECTORS * LK_LANES };
typedef uint64_t vu __attribute__((vector_size(LK_VB), aligned(LK_ITEM), may_alias));

/* Integers from -2^51 to 2^51 to and from doubles: those of MAGIC + i have i in their lowest bits. */
#define MAGIC 6755399441055744.0
#define MAGIC_BITS 0x4338000000000000
#define BOUND ((uint64_t)1 << 51)
#define MOST_QUOTIENT 268435456.0

LK_INLINE vf real_of(vi i) { return (vf)(i + MAGIC_BITS) - MAGIC; }
LK_INLINE vi whole_of(vf v) { return (vi)(v + MAGIC) - MAGIC_BITS; }
LK_INLINE vf nearest(vf v) { return (v + MAGIC) - MAGIC; }

LK_INLINE vf with_sign(vf v, vf of)
{
    const vi sign = (vi)-(vf){};
    return (vf)(((vi)v & ~sign) | ((vi)of & sign));
}

LK_INLINE vi divided(vf x, vf d, const int what)
{
    const vf q = nearest(x / d), r = x - q * d;
    const vi some = r != 0, known = d != 0;
    if (what == LK_MODULO)
        return whole_of(r + (vf)((vi)d & (((vi)r ^ (vi)d) < 0) & some)) & known;
    const vi beyond = (((vi)r ^ (vi)x) < 0) & some;
    if (what == LK_REMAINDER)
        return whole_of(r + (vf)((vi)with_sign(d, x) & beyond)) & known;
    return (whole_of(q) - (((((vi)x ^ (vi)d) < 0) | 1) & beyond)) & known; /* 1, or -1 of negative quotients */
}

LK_INLINE int any_of(vi v)
{
    int64_t bits = 0;
    for (int k = 0; k < LK_LANES; k++)
        bits |= v[k];
    return bits != 0;
}

LK_INLINE int64_t divided_alone(int64_t x, int64_t d, const int what)
{
    if (d == 0)
        return 0;
    if (d == -1)
        return what == LK_QUOTIENT ? (int64_t)(0 - (uint64_t)x) : 0;
    const int64_t r = x % d;
    return what == LK_QUOTIENT ? x / d : what == LK_MODULO && r && (r ^ d) < 0 ? r + d : r;
}

/* A block of integers; `wide`: of 64 bits. */
#define INTEGERS(NAME, TYPE, WIDE) \
    typedef TYPE NAME##_lanes __attribute__((vector_size(sizeof(TYPE) * LK_LANES), aligned(sizeof(TYPE)), may_alias)); \
    LK_INLINE void NAME##_block(const TYPE *x, const TYPE *d, TYPE *y, const int what) \
    { \
        vi from[VECTORS], by[VECTORS]; \
        vu range = {}; \
        for (int k = 0; k < VECTORS; k++) { \
            from[k] = __builtin_convertvector(*(const NAME##_lanes *)(x + k * LK_LANES), vi); \
            by[k] = __builtin_convertvector(*(const NAME##_lanes *)(d + k * LK_LANES), vi); \
            if (WIDE) \
                range |= ((vu)from[k] + BOUND) | ((vu)by[k] + BOUND); \
        } \
        if (WIDE && any_of((vi)(range >> 52))) { \
            for (int i = 0; i < BLOCK; i++) \
                y[i] = (TYPE)divided_alone((int64_t)x[i], (int64_t)d[i], what); \
            return; \
        } \
        for (int k = 0; k < VECTORS; k++) \
            *(NAME##_lanes *)(y + k * LK_LANES) = \
                __builtin_convertvector(divided(real_of(from[k]), real_of(by[k]), what), NAME##_lanes); \
    }

typedef float singles __attribute__((vector_size(4 * LK_LANES), aligned(4), may_alias));

/* A block of remainders of reals. */
LK_INLINE void f32_block(const float *x, const float *d, float *y, const int what)
{
    (void)what; /* there is one */
    const vi sign = (vi)-(vf){};
    singles r[VECTORS];
    vi lost = {};
    for (int k = 0; k < VECTORS; k++) {
        const vf from = __builtin_convertvector(*(const singles *)(x + k * LK_LANES), vf);
        const vf by = __builtin_convertvector(*(const singles *)(d + k * LK_LANES), vf);
        const vf q = from / by, left = from - nearest(q) * by;
        lost |= ~(((vf)((vi)q & ~sign) < MOST_QUOTIENT) & ((vf)((vi)by & ~sign) < (real)INFINITY));
        const vi beyond = (((vi)left ^ (vi)from) < 0) & (left != 0);
        r[k] = __builtin_convertvector(with_sign(left + (vf)((vi)with_sign(by, from) & beyond), from), singles);
    }
    if (any_of(lost))
        for (int i = 0; i < BLOCK; i++)
            y[i] = fmodf(x[i], d[i]);
    else
        for (int k = 0; k < VECTORS; k++)
            *(singles *)(y + k * LK_LANES) = r[k];
}

/* All blocks. A single number stands in a block of its own. */
#define ROW(NAME, TYPE) \
    LK_INLINE void NAME##_row(const lk_divide *p, const int what) \
    { \
        const TYPE *x = (const TYPE *)p->x, *d = (const TYPE *)p->d; \
        TYPE *y = (TYPE *)p->y, xs[BLOCK], ds[BLOCK], ys[BLOCK]; \
        for (int i = 0; i < BLOCK; i++) \
            xs[i] = p->one_x ? x[0] : 1, ds[i] = p->one_d ? d[0] : 1; \
        int64_t i = 0; \
        for (; i <= p->count - BLOCK; i += BLOCK) \
            NAME##_block(p->one_x ? xs : x + i, p->one_d ? ds : d + i, y + i, what); \
        const size_t rest = (size_t)(p->count - i) * sizeof(TYPE); \
        if (rest) { \
            if (!p->one_x) \
                memcpy(xs, x + i, rest); \
            if (!p->one_d) \
                memcpy(ds, d + i, rest); \
            NAME##_block(xs, ds, ys, what); \
            memcpy(y + i, ys, rest); \
        } \
    } \
    void LK_NAME(divide_##NAME)(const lk_divide *args) \
    { \
        const lk_divide local = *args, *p = &local; \
        if (p->what == LK_QUOTIENT) \
            NAME##_row(p, LK_QUOTIENT); \
        else if (p->what == LK_REMAINDER) \
            NAME##_row(p, LK_REMAINDER); \
        else \
            NAME##_row(p, LK_MODULO); \
    }

#define TYPES(X) \
    X(s8, int8_t, 0) X(u8, uint8_t, 0) X(s16, int16_t, 0) X(u16, uint16_t, 0) X(s32, int32_t, 0) X(u32, uint32_t, 0) \
    X(s64, int64_t, 1)
#define EACH(NAME, TYPE, WIDE) INTEGERS(NAME, TYPE, WIDE) ROW(NAME, TYPE)
TYPES(EACH)
ROW(f32, float)

#define ITS_ROW(NAME, TYPE, ...) LK_ROW(LK_DIVIDE, divide_##NAME, #NAME, LK_VB / sizeof(TYPE), 0, 0),
const lk_kernel LK_NAME(lk_rows_divide)[] = {
    TYPES(ITS_ROW)
    ITS_ROW(f32, float)
    LK_LAST_ROW,
};
