/* epilogue_f32: residual and activation, applied to outputs that have just been stored; see lk_epilogue in kernels.h.
 *
 *   y = f(y + add)        f: clip, prelu, silu, gelu, gelu_tanh, hardswish
 *
 * e^x = 2^n e^r with n = round(x / ln 2), e^r by its Taylor polynomial of degree seven. An absolute error of x is a
 * relative error of e^x, so an x that is a rounded product is passed as a sum of two floats. The result is kept scaled
 * by 2^64 until the last product, the only one that may be denormal. So the functions keep their relative accuracy down
 * to where they underflow. Beyond that, and at -Inf, they give -0, their limit. NaN stays NaN.
 * gelu is x times the normal distribution function, whose erfc(z) is e^(-z^2) times a polynomial in 1 / (1 + z/2),
 * fitted to a relative error of 4e-8.
 * Edges: a partial last vector of a row is loaded and stored by masks.
 */
#include "kernels.h"
#include "vector.h"

/* Multiply-adds are fused only where `fused` is written: the same bits on every instruction set that has FMA. */
#pragma GCC optimize("fp-contract=off")

LK_INLINE vf splat(real x) { return x - (vf){}; }
LK_INLINE vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }

#define DOWN 0x1p-64f

/* e^(x + rest) * 2^64, -120 <= x <= 0 */
LK_INLINE vf exponential_up(vf x, vf rest)
{
    const vf magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer */
    const vf shifted = fused(x, splat(1.44269504f), magic), n = shifted - magic;
    const vf r = fused(n, splat(-0.693359375f), x) + fused(n, splat(2.12194440e-4f), rest);
    vf p = splat(1.0f / 5040);
    p = fused(p, r, splat(1.0f / 720));
    p = fused(p, r, splat(1.0f / 120));
    p = fused(p, r, splat(1.0f / 24));
    p = fused(p, r, splat(1.0f / 6));
    p = fused(p, r, splat(0.5f));
    p = fused(p, r, splat(1.0f));
    p = fused(p, r, splat(1.0f));
    return p * (vf)(((vi)shifted - 0x4B400000 + 127 + 64) << 23);
}

/* |x|, but at most `most`, where the function has underflowed on the negative side */
LK_INLINE vf magnitude(vf x, float most) { return at_most((vf)((vi)x & 0x7fffffff), splat(most)); }

/* x / (1 + e^-v), v having the sign of x, given up = e^-|v| * 2^64; at -most it has underflowed. */
LK_INLINE vf times_sigmoid(vf x, float most, vf up)
{
    const vi negative = x < 0.0f;
    const vf over = choose(negative, at_least(x, splat(-most)) * up, x) / fused(up, splat(DOWN), splat(1.0f));
    return choose(negative, over * DOWN, over);
}

LK_INLINE vf clip(const lk_epilogue *f, vf x, vf slope)
{
    (void)slope;
    return between_limits(x, f->numbers);
}
LK_INLINE vf prelu(const lk_epilogue *f, vf x, vf slope)
{
    (void)f;
    return choose(x < 0.0f, x * slope, x);
}
LK_INLINE vf silu(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return times_sigmoid(x, 120.0f, exponential_up(-magnitude(x, 120.0f), (vf){}));
}
LK_INLINE vf gelu(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    const vf v = magnitude(x, 15.4f), square = v * v;
    const vf up = exponential_up(-0.5f * square, -0.5f * left_of(v, v, square));
    const vf t = 1.0f / fused(v, splat(0.353553391f), splat(1.0f));
    vf p = splat(-0.0295865145f);
    p = fused(p, t, splat(0.142541781f));
    p = fused(p, t, splat(-0.244127408f));
    p = fused(p, t, splat(0.139638111f));
    p = fused(p, t, splat(-0.0137300817f));
    p = fused(p, t, splat(0.10152033f));
    p = fused(p, t, splat(0.121507086f));
    p = fused(p, t, splat(0.141193822f));
    p = fused(p, t, splat(0.141042858f));
    const vf half_up = p * t * up; /* erfc(z) / 2 * 2^64 */
    return choose(x < 0.0f, at_least(x, splat(-15.4f)) * half_up * DOWN, x * (1.0f - half_up * DOWN));
}
LK_INLINE vf gelu_tanh(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    /* |x| (a + b x^2), with the remainder of each rounding */
    const float a = 1.59576917f, a_rest = -4.53406803e-08f, b = 0.0713548139f, b_rest = 2.3988324e-09f;
    const vf v = magnitude(x, 11.0f), square = v * v, cube = b * square, sum = a + cube, inner = v * sum;
    const vf back = sum - cube;
    const vf sum_rest = (a - back) + (cube - (sum - back)) + fused(splat(b), left_of(v, v, square), b_rest * square)
                      + (left_of(splat(b), square, cube) + a_rest);
    return times_sigmoid(x, 11.0f, exponential_up(-inner, -fused(v, sum_rest, left_of(v, sum, inner))));
}
LK_INLINE vf hardswish(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return at_least(x, splat(-3.0f)) * (between(x + 3.0f, 0.0f, 6.0f) * (1.0f / 6));
}
LK_INLINE vf nothing(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return x;
}

typedef vf (*function)(const lk_epilogue *, vf, vf);

LK_INLINE void rows(const lk_epilogue *f, const function apply)
{
    const int tail = (int)(f->count % LK_LANES);
    const uint32_t lanes = (1u << tail) - 1;
    for (int64_t i = 0; i < f->rows; i++) {
        char *y = f->y + f->row[i];
        const char *add = f->add ? f->add + f->row[i] : 0;
        const real *slope = f->activation == LK_PRELU ? (const real *)f->numbers + i * f->slope_row : 0;
        int64_t j = 0;
        for (; j <= f->count - LK_LANES; j += LK_LANES) {
            vf v = *(vf *)(y + LK_ITEM * j);
            if (add)
                v += *(const vf *)(add + LK_ITEM * j);
            const vf s = !slope ? (vf){} : f->slope_col ? *(const vf *)(slope + j) : splat(*slope);
            *(vf *)(y + LK_ITEM * j) = apply(f, v, s);
        }
        if (tail) {
            vf v = load_lanes(y + LK_ITEM * j, lanes);
            if (add)
                v += load_lanes(add + LK_ITEM * j, lanes);
            const vf s = !slope           ? (vf){}
                         : f->slope_col ? load_lanes((const char *)(slope + j), lanes)
                                        : splat(*slope);
            store_lanes(y + LK_ITEM * j, apply(f, v, s), lanes);
        }
    }
}

void LK_NAME(epilogue_f32)(const lk_epilogue *f)
{
    switch (f->activation) {
    case LK_CLIP: rows(f, clip); break;
    case LK_PRELU: rows(f, prelu); break;
    case LK_SILU: rows(f, silu); break;
    case LK_GELU: rows(f, gelu); break;
    case LK_GELU_TANH: rows(f, gelu_tanh); break;
    case LK_HARDSWISH: rows(f, hardswish); break;
    default: rows(f, nothing);
    }
}

const lk_kernel LK_NAME(lk_rows_epilogue)[] = {
    LK_ROW(LK_EPILOGUE, epilogue_f32, "f32", LK_LANES, 0, 0),
    LK_LAST_ROW,
};
