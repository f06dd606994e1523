/* The steps of an epilogue: each a function of a vector x, of the step's numbers a and of its operand b; see LK_STEPS in
 * epilogue.h for what they compute and how exactly, and functions.h for exponentials and logarithms.
 *
 * At -Inf, those that are x times something give -0, their limit. NaN stays NaN.
 */
#ifndef LAYOUTKIT_STEPS_H
#define LAYOUTKIT_STEPS_H

#include "epilogue.h"
#include "functions.h"

#define STEP(name) LK_INLINE vf step_##name(vf x, const real *a, vf b)
#define ONLY_X (void)a, (void)b

STEP(nothing) { return ONLY_X, x; }
STEP(clip) { return (void)b, between_limits(x, a); }
/* NaN stays; otherwise said, gcc 12 fails at it. */
STEP(prelu) { return (void)a, choose(x >= (real)0, x, choose(x == x, x * b, x)); }
STEP(silu)
{
    ONLY_X;
    const vf limited = between(x, -SILU, EXP_NEGLIGIBLE);
    return choose(x > (real)EXP_NEGLIGIBLE, x, over_1_plus_power(limited, limited));
}
STEP(gelu)
{
    ONLY_X;
    const vf v = magnitude(x, GELU), square = v * v;
    const vf up = exponential_up(exponent_of_sum((real)-0.5 * square, (real)-0.5 * left_of(v, v, square)));
    const vf t = (real)1 / fused(v, splat(T_STEP), splat(1));
    const vf half_up = polynomial(erfc_series, ERFC_TERMS, ERFC_ARGUMENT(t)) * t * up; /* erfc(z) / 2 * 2^UP */
    const vf far = choose_by_sign(x, at_least(x, splat(-GELU)) * half_up * DOWN, x * ((real)1 - half_up * DOWN));
#if LK_BITS == 64 /* x/2 (1 + erf(x / sqrt 2)) by its series: the polynomial's error is largest near 0 */
    const vf slope = polynomial(erf_series, ERF_TERMS, (real)0.5 * square) * ((real)0.5 * sqrt_half);
    return choose(v < (real)0.5, x * fused(x, slope, splat(0.5)), far);
#else
    return far;
#endif
}
STEP(gelu_tanh)
{
    ONLY_X;
    /* |x| (c + d x^2), with the remainder of each rounding */
    const real c = tanh_a, c_rest = tanh_a_rest, d = tanh_b, d_rest = tanh_b_rest; /* in two parts */
    const vf v = magnitude(x, GELU_TANH), square = v * v, cube = d * square, sum = c + cube, inner = v * sum;
    const vf back = sum - cube;
    const vf sum_rest = (c - back) + (cube - (sum - back)) + fused(splat(d), left_of(v, v, square), d_rest * square)
                      + (left_of(splat(d), square, cube) + c_rest);
    return times_sigmoid(x, GELU_TANH, exponential_up(exponent_of_sum(-inner, -fused(v, sum_rest, left_of(v, sum, inner)))));
}
#if LK_BITS == 32
/* To 2^-12 of the result, where this is rounded to bf16 next: the same formulas, with shorter polynomials. The bits are the
 * same on all instruction sets that have FMA, so quotients are those of divisions. */
STEP(coarse_sigmoid) { return ONLY_X, coarse_sigmoid(at_least(x, splat(-SILU))); }
STEP(coarse_silu)
{
    ONLY_X;
    const vf limited = at_least(x, splat(-SILU));
    return limited * coarse_sigmoid(limited);
}
#endif
STEP(hardswish)
{
    ONLY_X;
    return at_least(x, splat(-3)) * (between(x + (real)3, 0, 6) * ((real)1 / 6));
}
STEP(erf)
{
    ONLY_X;
    const vf v = magnitude(x, ERF_MOST), square = v * v, t = (real)1 / fused(v, splat(ERF_STEP), splat(1));
    const vf up = exponential_up(exponent_of_sum(-square, -left_of(v, v, square)));
    const vf large = (real)1 - polynomial(erfc_series, ERFC_TERMS, ERFC_ARGUMENT(t)) * t * up * ((real)2 * DOWN);
    const vf small = v * polynomial(erf_series, ERF_TERMS, square);
    return with_sign_of(choose(v < (real)ERF_SMALL, small, large), x);
}
STEP(elu)
{
    (void)b;
    return choose(x < (real)0, exponential_minus_1(clipped(x, splat(-EXP_NEGLIGIBLE), (vf){})) * a[0], x);
}
STEP(selu)
{
    (void)b;
    const vf minus_1 = exponential_minus_1(clipped(x, splat(-EXP_NEGLIGIBLE), (vf){}));
    return choose(x < (real)0, minus_1 * a[0], x * a[1]);
}
STEP(celu)
{
    (void)b;
    const vf share = x / a[0], minus_1 = exponential_minus_1(clipped(share, splat(-EXP_NEGLIGIBLE), (vf){}));
    return choose(x < (real)0, minus_1 * a[0], x);
}
STEP(tanh)
{
    ONLY_X;
    /* tanh v = (1 - e^-2v) / (1 + e^-2v) */
    const vf minus_1 = exponential_minus_1(magnitude(x, EXP_NEGLIGIBLE / 2) * (real)-2);
    return with_sign_of((vf)((vi)minus_1 & ~SIGN) / (minus_1 + (real)2), x);
}
STEP(sigmoid) { return ONLY_X, over_1_plus_power(splat(1), between(x, -SILU, EXP_NEGLIGIBLE)); }
STEP(softplus) /* the larger of x and 0, and ln(1 + e^-|x|) */
{
    ONLY_X;
    vi n;
    const vf v = magnitude(x, -EXP_LEAST), e = exponential(-v, (vf){}, &n), t = scaled(e, n), sum = t + (real)1;
    const vf small = choose(v > (real)EXP_NEGLIGIBLE, t, logarithm(sum, (t - (sum - (real)1)) / sum));
    return at_least(x, (vf){}) + small;
}
STEP(sin) { return ONLY_X, sine(x, 0); }
STEP(cos) { return ONLY_X, sine(x, 1); }
STEP(abs) { return ONLY_X, (vf)((vi)x & ~SIGN); }
STEP(square) { return ONLY_X, x * x; }
STEP(neg) { return ONLY_X, (vf)((vi)x ^ SIGN); }
STEP(sign) { return ONLY_X, choose(x > (real)0, splat(1), choose(x < (real)0, splat(-1), choose(x == x, (vf){}, x))); }
STEP(reciprocal) { return ONLY_X, (real)1 / x; }
STEP(softsign)
{
    ONLY_X;
    const vf v = (vf)((vi)x & ~SIGN), infinite = splat((real)__builtin_inf());
    return with_sign_of(choose(v == infinite, splat(1), v / (v + (real)1)), x);
}
STEP(thresholded_relu) { return (void)b, choose(x > a[0], x, (vf){}); }
STEP(shrink) { return (void)b, choose(x < -a[1], x + a[0], choose(x > a[1], x - a[0], (vf){})); }
STEP(sqrt)
{
    ONLY_X;
#if defined(__AVX2__)
    return (vf)LK_OP(sqrt)((native)x);
#else
    for (int i = 0; i < LK_LANES; i++)
        x[i] = LK_BITS == 64 ? __builtin_sqrt(x[i]) : __builtin_sqrtf(x[i]);
    return x;
#endif
}
STEP(exp)
{
    ONLY_X;
    vi n;
    const vf e = exponential(between(x, EXP_LEAST, EXP_MOST), (vf){}, &n);
    return scaled(e, n);
}
STEP(log) { return ONLY_X, logarithm_or_special(logarithm(x, (vf){}), x); }
STEP(pow)
{
    (void)b;
    if (a[1] == 0)
        return splat(a[0]);
    /* ln v as a sum of two numbers, then times a1: whole ln 2 + 2 s + 2/3 s^3 + .., each with its rounding error */
    const vf v = (vf)((vi)x & ~SIGN);
    vf whole;
    vi n;
    const vf f = split_exponent(v, &whole), two = f + (real)2, s = f / two;
    const vf s_rest = (-left_of(s, two, f) - s * (f - (two - (real)2))) / two;
    const vf z = s * s, cube = s * z, third = cube * two_thirds;
    const vf cube_rest = left_of(s, z, cube) + s * left_of(s, s, z) + (real)3 * z * s_rest;
    const vf third_rest = left_of(cube, splat(two_thirds), third) + cube * two_thirds_rest + cube_rest * two_thirds;
    const vf high = whole * ln2, sum = high + (real)2 * s, total = sum + third;
    const vf rests = ((real)2 * s - (sum - high)) + (third - (total - sum)) + third_rest + (real)2 * s_rest;
    const vf more = cube * z * polynomial(atanh_series, ATANH_TERMS - 1, z);
    const vf low = rests + fused(whole, splat(ln2_rest), more);
    const vf ln = total + low, ln_rest = low - (ln - total), product = logarithm_or_special(ln, v) * a[1];
    const vi within = (product > (real)-FAR) & (product < (real)FAR);
    const vf rest = (vf)(within & (vi)fused(ln_rest, splat(a[1]), left_of(ln, splat(a[1]), product)));
    const vf e = exponential(between(product, -FAR, FAR), rest, &n);
    const vf result = scaled(scaled(e, n >> 1) * a[0], n - (n >> 1)); /* a0 may bring it back into range */
    const vf mirrored = result * choose((x < (real)0) & (v <= (real)MAX_FINITE), splat(a[2]), splat(a[3]));
    return choose((vi)x < 0, mirrored, result);
}
STEP(round) /* of numbers that may have a fraction; adding 2^MANTISSA_BITS rounds it away */
{
    ONLY_X;
#if defined(__AVX512F__)
    return (vf)LK_OP(roundscale)((native)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#endif
    const real whole = (real)((uint64_t)1 << MANTISSA_BITS);
    const vf v = (vf)((vi)x & ~SIGN);
    return with_sign_of(choose(v < whole, (v + whole) - whole, v), x);
}
/* v; where it is 0, with the sign of x */
LK_INLINE vf with_zero_of_sign(vf v, vf x) { return choose(v == (real)0, (vf)((vi)x & SIGN), v); }
STEP(floor)
{
    const vf near = step_round(x, a, b);
    return with_zero_of_sign(choose(near > x, near - (real)1, near), x);
}
STEP(ceil)
{
    const vf near = step_round(x, a, b);
    return with_zero_of_sign(choose(near < x, near + (real)1, near), x);
}
STEP(mish) /* tanh(ln(1 + e^x)) = 1 - 2 / ((1 + e^x)^2 + 1), of t = e^-|x| */
{
    ONLY_X;
    const vf up = exponential_up(exponent_of(negative_magnitude(x, SILU))), t = up * DOWN, more = t + (real)2;
    const vf below = fused(t, more, splat(2)), twice = t + t, above = twice + (real)1;
    const vf over = choose_by_sign(x, at_least(x, splat(-SILU)) * up * more, x * above)
                  / choose_by_sign(x, below, fused(t, twice, above));
    return choose_by_sign(x, over * DOWN, over);
}
STEP(swish)
{
    (void)b;
    const vf product = x * a[0], limited = magnitude(product, FAR);
    const vf rest = (vf)((limited < (real)FAR) & (vi)left_of(x, splat(a[0]), product)); /* of the sign of the product */
    vi n;
    const vf e = exponential(-limited, choose(product < (real)0, rest, -rest), &n);
    const vf finite = clipped(x, splat(-MAX_FINITE), splat(MAX_FINITE));
    const vi negative = product < (real)0;
    return sigmoid_of(negative, choose(negative, finite, x), e, n);
}
STEP(hardsigmoid) { return (void)b, between(fused(x, splat(a[0]), splat(a[1])), 0, 1); }
STEP(hardswish_of)
{
    const vf share = step_hardsigmoid(x, a, b);
    return choose(share == (real)0, (vf)((vi)x & SIGN), x * share);
}
STEP(linear) { return (void)b, fused(x, splat(a[0]), splat(a[1])); }
STEP(sum) { return fused(b, splat(a[0]), x); }
STEP(add) { return (void)a, x + b; }
STEP(mul) { return (void)a, x * b; }
STEP(sub) { return (void)a, x - b; }
STEP(rsub) { return (void)a, b - x; }
STEP(div) { return (void)a, x / b; }
STEP(rdiv) { return (void)a, b / x; }
STEP(equal) { return (void)a, choose(x == b, splat(1), (vf){}); }
STEP(less) { return (void)a, choose(x < b, splat(1), (vf){}); }
STEP(less_equal) { return (void)a, choose(x <= b, splat(1), (vf){}); }
STEP(greater) { return (void)a, choose(x > b, splat(1), (vf){}); }
STEP(greater_equal) { return (void)a, choose(x >= b, splat(1), (vf){}); }
STEP(fill) { return choose(b == (real)0, x, splat(a[0])); }
STEP(keep) { return choose(b == (real)0, splat(a[0]), x); }
STEP(max) { return (void)a, choose(b == b, at_least(x, b), b); }
STEP(min) { return (void)a, choose(b == b, at_most(x, b), b); }

#endif
