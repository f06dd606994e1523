/* The steps of an epilogue: each a function of a vector, of the step's numbers and of its operand; see LK_STEPS in
 * epilogue.h for what they compute and how exactly.
 *
 * e^x = 2^n e^r with n = round(x / ln 2), e^r by its Taylor polynomial. An absolute error of x is a relative error of
 * e^x, so an x that is a rounded product is passed as a sum of two numbers. Where only e^-|x| is needed, the result is
 * kept scaled by 2^UP until the last product, the only one that may be denormal. So the functions keep their relative
 * accuracy down to where they underflow. Beyond that, and at -Inf, those that are x times something give -0, their
 * limit. NaN stays NaN.
 * gelu is x times the normal distribution function, whose erfc(z) is e^(-z^2) times t times a polynomial in
 * t = 1 / (1 + cz), fitted to a relative error of 4e-8, or of 1e-17 in f64.
 * erf is 1 - erfc by the same polynomial, near 0 its series.
 * ln x = e ln 2 + ln(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), by the series of atanh in s = f / (2 + f).
 */
#ifndef LAYOUTKIT_STEPS_H
#define LAYOUTKIT_STEPS_H

#include "common/vector.h"
#include "epilogue.h"

/* Multiply-adds are fused only where `fused` is written: the same bits on every instruction set that has FMA. */
#pragma GCC optimize("fp-contract=off")
/* Instructions for several vectors take turns: each waits for the one before. */
#pragma GCC optimize("schedule-insns", "sched-pressure")

LK_INLINE vf splat(real x) { return x - (vf){}; }
LK_INLINE vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }

/* `yes` where the sign of x is set, of -0 too. */
LK_INLINE vf by_sign(vf x, vf yes, vf no)
{
#if defined(__AVX512DQ__) && LK_BITS == 64
    return (vf)_mm512_mask_blend_pd(_mm512_movepi64_mask((__m512i)x), (native)no, (native)yes);
#elif defined(__AVX512DQ__)
    return (vf)_mm512_mask_blend_ps(_mm512_movepi32_mask((__m512i)x), (native)no, (native)yes);
#elif defined(__AVX2__)
    return (vf)LK_OP(blendv)((native)no, (native)yes, (native)x);
#else
    return choose((vi)x >> (LK_BITS - 1), yes, no);
#endif
}

/* The largest lane; none is NaN. */
LK_INLINE real largest_lane(vf v)
{
    static const lane_integer numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#pragma GCC unroll 4
    for (int half = LK_LANES / 2; half; half /= 2)
        v = at_least(v, (vf)__builtin_shuffle((vi)v, *(const vi *)numbers ^ half));
    return v[0];
}

/* What differs between the types.
 * UP                     the exponent that e^x is scaled by
 * MAGIC                  1.5 times the number above which there are integers only: adding it rounds to an integer
 * SILU, GELU, GELU_TANH  magnitudes where they have underflowed on the negative side
 * inverse_factorial      of the Taylor polynomial; its error is below half a bit for |r| <= ln(2) / 2
 * erfc_series            the polynomial of gelu in moved(t): t itself, or where there are many terms, t in [-1, 1]
 * erf_series             of erf(x) / x in x^2, below 1/2; above, the larger, erf is 1 - erfc, and at ERF_MOST it is 1
 * atanh_series           2/(2k+1), k from its last to 1
 * EXP_LEAST, EXP_MOST    beyond which e^x underflows or overflows; e^x times the largest number underflows at FAR
 * EXP_NEGLIGIBLE         magnitude from where e^-x is too small to change 1 */
#if LK_BITS == 64
#define UP 128
#define DOWN 0x1p-128
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#define MAGIC 0x1.8p52
#define SILU 760.0
#define GELU 39.0
#define GELU_TANH 21.75
#define EXP_LEAST -746.0
#define EXP_MOST 710.0
#define FAR 1460.0
#define EXP_NEGLIGIBLE 50.0
#define LEAST_NORMAL 0x1p-1022
#define LARGEST 0x1.fffffffffffffp1023
#define T_STEP 0.25
#define ERF_STEP 0.35355339059327373
#define ERF_MOST 8.0
#define moved(t) fused(t, splat(2.2051282051282053), splat(-1.2051282051282053))
static const real log2_e = 1.4426950408889634, ln2 = 0x1.62e42fee00000p-1, ln2_rest = 1.9082149292705877e-10;
static const real tanh_a = 1.5957691216057308, tanh_a_rest = -9.96930880911092e-17;
static const real tanh_b = 0.07135481627260025, tanh_b_rest = -6.175149918155315e-19;
static const real inverse_factorial[] = {
    1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
    1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1, 1,
};
static const real erfc_series[] = {
    1.921909095157675e-11, -2.825244481756455e-11, -1.7661105557781176e-10, 4.208933507268504e-10,
    6.683562916592422e-10, -3.444757982787629e-09, 4.2943659033375706e-10, 2.097568622368539e-08,
    -2.8467235285326984e-08, -1.0885076116928931e-07, 3.032869979240628e-07, 5.460055016951827e-07,
    -2.615903719498998e-06, -3.4055735605665425e-06, 2.211752515079877e-05, 3.6802015814358027e-05,
    -0.00018435522002990175, -0.0006253647641938236, 0.000814711547263758, 0.010726581694236112, 0.039092488866995456,
    0.09097668420675963, 0.15531102555618123, 0.2038345992106292,
};
static const real erf_series[] = {
    -6.7113668551641105e-12, 9.422759064650411e-11, -1.2290555301717926e-09, 1.4807192815879218e-08,
    -1.6365844691234924e-07, 1.6462114365889246e-06, -1.492565035840625e-05, 0.00012055332981789664,
    -0.0008548327023450852, 0.005223977625442188, -0.026866170645131252, 0.11283791670955126,
    -0.37612638903183754, 1.1283791670955126,
};
static const real atanh_series[] = {
    2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3,
};
static const real sqrt_half = 0.7071067811865476;
static const real two_thirds = 2.0 / 3, two_thirds_rest = 3.7007434154171886e-17;
#else
#define UP 64
#define DOWN 0x1p-64f
#define MANTISSA_BITS 23
#define EXPONENT_BIAS 127
#define MAGIC 0x1.8p23f
#define SILU 120.0f
#define GELU 15.4f
#define GELU_TANH 11.0f
#define EXP_LEAST -104.5f
#define EXP_MOST 89.0f
#define FAR 195.0f
#define EXP_NEGLIGIBLE 25.0f
#define LEAST_NORMAL 0x1p-126f
#define LARGEST 0x1.fffffep127f
#define T_STEP 0.353553391f
#define ERF_STEP 0.5f
#define ERF_MOST 5.0f
#define moved(t) (t)
static const real log2_e = 1.44269504f, ln2 = 0.693359375f, ln2_rest = -2.12194440e-4f;
static const real tanh_a = 1.59576917f, tanh_a_rest = -4.53406803e-08f;
static const real tanh_b = 0.0713548139f, tanh_b_rest = 2.3988324e-09f;
static const real inverse_factorial[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
static const real erfc_series[] = {
    -0.0295865145f, 0.142541781f, -0.244127408f, 0.139638111f, -0.0137300817f, 0.10152033f, 0.121507086f, 0.141193822f,
    0.141042858f,
};
static const real erf_series[] = {
    -1.49256504e-05f, 0.00012055333f, -0.000854832702f, 0.00522397763f, -0.0268661706f, 0.112837917f,
    -0.376126389f, 1.12837917f,
};
static const real atanh_series[] = {2.0f / 11, 2.0f / 9, 2.0f / 7, 2.0f / 5, 2.0f / 3};
static const real sqrt_half = 0.707106781f;
static const real two_thirds = 2.0f / 3, two_thirds_rest = -1.9868214962137642e-08f;
#endif
static const lane_integer SIGN = (lane_integer)((uint64_t)1 << (LK_BITS - 1));
enum { ATANH_TERMS = sizeof atanh_series / sizeof(real), ERF_TERMS = sizeof erf_series / sizeof(real) };
enum { EXP_TERMS = sizeof inverse_factorial / sizeof(real), ERFC_TERMS = sizeof erfc_series / sizeof(real) };

/* The sum of terms[i] * x^(terms - 1 - i) */
LK_INLINE vf polynomial(const real *term, const int terms, vf x)
{
    vf p = splat(term[0]);
#pragma GCC unroll 32
    for (int i = 1; i < terms; i++)
        p = fused(p, x, splat(term[i]));
    return p;
}

/* x = n ln 2 + r, |r| <= ln(2) / 2 */
typedef struct {
    vf r;
    vi n;
} exponent;

LK_INLINE exponent exponent_of(vf x)
{
    const vf magic = splat(MAGIC), shifted = fused(x, splat(log2_e), magic), n = shifted - magic;
    return (exponent){fused(n, splat(-ln2_rest), fused(n, splat(-ln2), x)), (vi)shifted - (vi)magic};
}

/* As x + rest. */
LK_INLINE exponent exponent_of_sum(vf x, vf rest)
{
    const vf magic = splat(MAGIC), shifted = fused(x, splat(log2_e), magic), n = shifted - magic;
    return (exponent){fused(n, splat(-ln2), x) + fused(n, splat(-ln2_rest), rest), (vi)shifted - (vi)magic};
}

/* e^(n ln 2 + r) * 2^UP, -SILU <= n ln 2 + r <= 0 */
LK_INLINE vf exponential_up(exponent x)
{
    return polynomial(inverse_factorial, EXP_TERMS, x.r) * (vf)((x.n + (EXPONENT_BIAS + UP)) << MANTISSA_BITS);
}

/* |x|, but at most `most`, where the function has underflowed on the negative side */
LK_INLINE vf magnitude(vf x, real most)
{
    const lane_integer all_but_sign = (lane_integer)(((uint64_t)1 << (LK_BITS - 1)) - 1);
    return at_most((vf)((vi)x & all_but_sign), splat(most));
}

/* -|x|, but at least -most */
LK_INLINE vf below_zero(vf x, real most) { return at_least((vf)((vi)x | SIGN), splat(-most)); }

/* x / (1 + e^-v), v having the sign of x, given up = e^-|v| * 2^UP; at -most it has underflowed. */
LK_INLINE vf times_sigmoid(vf x, real most, vf up)
{
    const vf over = by_sign(x, at_least(x, splat(-most)) * up, x) / fused(up, splat(DOWN), splat(1));
    return by_sign(x, over * DOWN, over);
}

/* x with the sign of `of`; x is not negative. */
LK_INLINE vf signed_as(vf x, vf of) { return (vf)((vi)x | ((vi)of & SIGN)); }

/* x * 2^n, n within 2300, or 300 of f32: by factors that are normal numbers. */
LK_INLINE vf scaled(vf x, vi n)
{
    const vi quarter = n >> 2, rest = n - 3 * quarter;
    const vf factor = (vf)((quarter + EXPONENT_BIAS) << MANTISSA_BITS);
    return x * factor * factor * factor * (vf)((rest + EXPONENT_BIAS) << MANTISSA_BITS);
}

/* e^(x + rest) = the result * 2^n; rest is small */
LK_INLINE vf exponential(vf x, vf rest, vi *n)
{
    const exponent sum = exponent_of_sum(x, rest);
    *n = sum.n;
    return polynomial(inverse_factorial, EXP_TERMS, sum.r);
}

/* e^x - 1, -EXP_NEGLIGIBLE <= x <= 0 */
LK_INLINE vf exponential_less_1(vf x)
{
    const vf magic = splat(MAGIC), shifted = fused(x, splat(log2_e), magic), n = shifted - magic;
    const vf r = fused(n, splat(-ln2), x) - n * ln2_rest;
    const vf less_1 = fused(r * r, polynomial(inverse_factorial, EXP_TERMS - 2, r), r);
    const vf power = (vf)(((vi)shifted - (vi)magic + EXPONENT_BIAS) << MANTISSA_BITS);
    return fused(power, less_1, power - (real)1);
}

/* x = 2^e (1 + f), x a positive number; denormals too. Of others the result is anything. */
LK_INLINE vf parts(vf x, vf *e)
{
    const vi small = x < (real)LEAST_NORMAL;
    const vi bits = (vi)choose(small, x * (real)((uint64_t)1 << MANTISSA_BITS), x) & ~SIGN; /* no overflow below */
    const vi exponent = (bits - (vi)splat(sqrt_half)) >> MANTISSA_BITS;
    *e = (vf)(exponent - (small & MANTISSA_BITS) + (vi)splat(MAGIC)) - (real)MAGIC;
    return (vf)(bits - (exponent << MANTISSA_BITS)) - (real)1;
}

/* ln x + rest, x a positive number, rest much less than 1 */
LK_INLINE vf logarithm(vf x, vf rest)
{
    vf e;
    const vf f = parts(x, &e), s = f / (f + (real)2), half_square = (real)0.5 * f * f, z = s * s;
    const vf series = z * polynomial(atanh_series, ATANH_TERMS, z);
    return e * ln2 - ((half_square - fused(s, half_square + series, fused(e, splat(ln2_rest), rest))) - f);
}

/* v where x is positive and not Inf; otherwise the logarithm that x has. */
LK_INLINE vf at_ends(vf v, vf x)
{
    const vf infinite = splat((real)__builtin_inf()), none = splat((real)__builtin_nan(""));
    v = choose(x == infinite, infinite, v);
    v = choose(x == (real)0, -infinite, v);
    return choose(x >= (real)0, v, choose(x == x, none, x));
}

/* 1 / (1 + e^-x), or where `factor` is not 1, that times it. Given e^-|x| = e * 2^n. */
LK_INLINE vf sigmoid_of(vi negative, vf factor, vf e, vi n)
{
    const vf over = factor / (scaled(e, n) + (real)1);
    return choose(negative, scaled(over * (e * (real)0.5), n + 1), over);
}

/* Each step: x, the step's numbers a, its operand b. */
#define STEP(name) LK_INLINE vf step_##name(vf x, const real *a, vf b)
#define ONLY_X (void)a, (void)b

STEP(nothing) { return ONLY_X, x; }
STEP(clip) { return (void)b, between_limits(x, a); }
/* NaN stays; otherwise said, gcc 12 fails at it. */
STEP(prelu) { return (void)a, choose(x >= (real)0, x, choose(x == x, x * b, x)); }
STEP(silu)
{
    ONLY_X;
    return times_sigmoid(x, SILU, exponential_up(exponent_of(below_zero(x, SILU))));
}
STEP(gelu)
{
    ONLY_X;
    const vf v = magnitude(x, GELU), square = v * v;
    const vf up = exponential_up(exponent_of_sum((real)-0.5 * square, (real)-0.5 * left_of(v, v, square)));
    const vf t = (real)1 / fused(v, splat(T_STEP), splat(1));
    const vf half_up = polynomial(erfc_series, ERFC_TERMS, moved(t)) * t * up; /* erfc(z) / 2 * 2^UP */
    return by_sign(x, at_least(x, splat(-GELU)) * half_up * DOWN, x * ((real)1 - half_up * DOWN));
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
    const vf large = (real)1 - polynomial(erfc_series, ERFC_TERMS, moved(t)) * t * up * ((real)2 * DOWN);
    const vf small = v * polynomial(erf_series, ERF_TERMS, square);
    return signed_as(choose(v < (real)0.5, small, large), x);
}
STEP(elu)
{
    (void)b;
    return choose(x < (real)0, exponential_less_1(clipped(x, splat(-EXP_NEGLIGIBLE), (vf){})) * a[0], x);
}
STEP(selu)
{
    (void)b;
    const vf less_1 = exponential_less_1(clipped(x, splat(-EXP_NEGLIGIBLE), (vf){}));
    return choose(x < (real)0, less_1 * a[0], x * a[1]);
}
STEP(celu)
{
    (void)b;
    const vf share = x / a[0], less_1 = exponential_less_1(clipped(share, splat(-EXP_NEGLIGIBLE), (vf){}));
    return choose(x < (real)0, less_1 * a[0], x);
}
STEP(tanh)
{
    ONLY_X;
    /* tanh v = (1 - e^-2v) / (1 + e^-2v) */
    const vf less_1 = exponential_less_1(magnitude(x, EXP_NEGLIGIBLE / 2) * (real)-2);
    return signed_as((vf)((vi)less_1 & ~SIGN) / (less_1 + (real)2), x);
}
STEP(sigmoid)
{
    ONLY_X;
    vi n;
    const vf e = exponential(-magnitude(x, -EXP_LEAST), (vf){}, &n);
    return sigmoid_of(x < (real)0, splat(1), e, n);
}
STEP(softplus) /* the larger of x and 0, and ln(1 + e^-|x|) */
{
    ONLY_X;
    vi n;
    const vf v = magnitude(x, -EXP_LEAST), e = exponential(-v, (vf){}, &n), t = scaled(e, n), sum = t + (real)1;
    const vf small = choose(v > (real)EXP_NEGLIGIBLE, t, logarithm(sum, (t - (sum - (real)1)) / sum));
    return at_least(x, (vf){}) + small;
}
STEP(abs) { return ONLY_X, (vf)((vi)x & ~SIGN); }
STEP(square) { return ONLY_X, x * x; }
STEP(neg) { return ONLY_X, (vf)((vi)x ^ SIGN); }
STEP(sign) { return ONLY_X, choose(x > (real)0, splat(1), choose(x < (real)0, splat(-1), choose(x == x, (vf){}, x))); }
STEP(reciprocal) { return ONLY_X, (real)1 / x; }
STEP(softsign)
{
    ONLY_X;
    const vf v = (vf)((vi)x & ~SIGN), infinite = splat((real)__builtin_inf());
    return signed_as(choose(v == infinite, splat(1), v / (v + (real)1)), x);
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
STEP(log) { return ONLY_X, at_ends(logarithm(x, (vf){}), x); }
STEP(pow)
{
    (void)b;
    if (a[1] == 0)
        return splat(a[0]);
    /* ln v as a sum of two numbers, then times a1: whole ln 2 + 2 s + 2/3 s^3 + .., each with what rounding leaves */
    const vf v = (vf)((vi)x & ~SIGN);
    vf whole;
    vi n;
    const vf f = parts(v, &whole), two = f + (real)2, s = f / two;
    const vf s_rest = (-left_of(s, two, f) - s * (f - (two - (real)2))) / two;
    const vf z = s * s, cube = s * z, third = cube * two_thirds;
    const vf cube_rest = left_of(s, z, cube) + s * left_of(s, s, z) + (real)3 * z * s_rest;
    const vf third_rest = left_of(cube, splat(two_thirds), third) + cube * two_thirds_rest + cube_rest * two_thirds;
    const vf high = whole * ln2, sum = high + (real)2 * s, total = sum + third;
    const vf rests = ((real)2 * s - (sum - high)) + (third - (total - sum)) + third_rest + (real)2 * s_rest;
    const vf more = cube * z * polynomial(atanh_series, ATANH_TERMS - 1, z);
    const vf low = rests + fused(whole, splat(ln2_rest), more);
    const vf ln = total + low, ln_rest = low - (ln - total), product = at_ends(ln, v) * a[1];
    const vi within = (product > (real)-FAR) & (product < (real)FAR);
    const vf rest = (vf)(within & (vi)fused(ln_rest, splat(a[1]), left_of(ln, splat(a[1]), product)));
    const vf e = exponential(between(product, -FAR, FAR), rest, &n);
    const vf result = scaled(scaled(e, n >> 1) * a[0], n - (n >> 1)); /* a0 may bring it back into range */
    const vf mirrored = result * choose((x < (real)0) & (v <= (real)LARGEST), splat(a[2]), splat(a[3]));
    return choose((vi)x < 0, mirrored, result);
}
STEP(round) /* of numbers that may have a fraction; adding 2^MANTISSA_BITS rounds it away */
{
    ONLY_X;
    const real whole = (real)((uint64_t)1 << MANTISSA_BITS);
    const vf v = (vf)((vi)x & ~SIGN);
    return signed_as(choose(v < whole, (v + whole) - whole, v), x);
}
/* A whole number beside x, or one that has passed 0, with the sign of x */
LK_INLINE vf whole_of(vf v, vf x) { return choose(v == (real)0, (vf)((vi)x & SIGN), v); }
STEP(floor)
{
    const vf near = step_round(x, a, b);
    return whole_of(choose(near > x, near - (real)1, near), x);
}
STEP(ceil)
{
    const vf near = step_round(x, a, b);
    return whole_of(choose(near < x, near + (real)1, near), x);
}
STEP(mish) /* tanh(ln(1 + e^x)) = 1 - 2 / ((1 + e^x)^2 + 1), of t = e^-|x| */
{
    ONLY_X;
    const vf up = exponential_up(exponent_of(below_zero(x, SILU))), t = up * DOWN, more = t + (real)2;
    const vf below = fused(t, more, splat(2)), twice = t + t, above = twice + (real)1;
    const vf over = by_sign(x, at_least(x, splat(-SILU)) * up * more, x * above)
                  / by_sign(x, below, fused(t, twice, above));
    return by_sign(x, over * DOWN, over);
}
STEP(swish)
{
    (void)b;
    const vf product = x * a[0], limited = magnitude(product, FAR);
    const vf rest = (vf)((limited < (real)FAR) & (vi)left_of(x, splat(a[0]), product)); /* of the sign of the product */
    vi n;
    const vf e = exponential(-limited, choose(product < (real)0, rest, -rest), &n);
    const vf finite = clipped(x, splat(-LARGEST), splat(LARGEST));
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
