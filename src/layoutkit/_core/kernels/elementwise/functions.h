/* Functions of vectors: selections, exponentials, logarithms, and their constants.
 *
 * e^x = 2^n e^r with n = round(x / ln 2), e^r by a polynomial. An absolute error of x is a relative error of
 * e^x, so an x that is a rounded product is passed as a sum of two numbers. Where only e^-|x| is needed, the result is
 * kept scaled by 2^UP until the last product, the only one that may be denormal. So the functions keep their relative
 * accuracy down to where they underflow.
 * gelu is x times the normal distribution function, whose erfc(z) is e^(-z^2) times t times a polynomial in
 * t = 1 / (1 + cz), fitted to a relative error of 4e-8, or of 1e-17 in f64; of f32, segments.h has it where x is not
 * far below 0.
 * erf is 1 - erfc by the same polynomial, near 0 its series.
 * ln x = e ln 2 + ln(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), by the series of atanh in s = f / (2 + f).
 */
#ifndef LAYOUTKIT_FUNCTIONS_H
#define LAYOUTKIT_FUNCTIONS_H

#include "common/vector.h"

#include <math.h>
#include <string.h>

/* Multiply-adds are fused only where `fused` is written: the same bits on every instruction set that has FMA. */
#pragma GCC optimize("fp-contract=off")
/* Instructions for several vectors take turns: each waits for the one before. */
#pragma GCC optimize("schedule-insns", "sched-pressure")

LK_INLINE vf splat(real x) { return x - (vf){}; }
LK_INLINE vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }

/* `yes` where the sign of x is set, of -0 too. */
LK_INLINE vf choose_by_sign(vf x, vf yes, vf no)
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
 * MAGIC                  1.5 times the number above which there are integers only: adding it rounds to an integer, whose
 *                        lowest bits are those of the sum; with a bias, they are the exponent of a power of 2
 * SILU, GELU, GELU_TANH  magnitudes where they have underflowed on the negative side
 * exp_series             of e^r, |r| <= ln(2) / 2, to less than half a bit: 1 + r + fitted terms, or Taylor's of f64
 * erfc_series            the polynomial of gelu in ERFC_ARGUMENT(t): t itself, or where there are many terms, t in [-1, 1]
 * erf_series             of erf(x) / x in x^2, below ERF_SMALL; above, the larger, erf is 1 - erfc, and at ERF_MOST it is 1
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
#define MAX_FINITE 0x1.fffffffffffffp1023
#define T_STEP 0.25
#define ERF_STEP 0.35355339059327373
#define ERF_MOST 8.0
#define ERF_SMALL 1.0
#define ERFC_ARGUMENT(t) fused(t, splat(2.2051282051282053), splat(-1.2051282051282053))
static const real log2_e = 1.4426950408889634, ln2 = 0x1.62e42fee00000p-1, ln2_rest = 1.9082149292705877e-10;
static const real tanh_a = 1.5957691216057308, tanh_a_rest = -9.96930880911092e-17;
static const real tanh_b = 0.07135481627260025, tanh_b_rest = -6.175149918155315e-19;
static const real exp_series[] = {
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
    -9.063970842808673e-17, 1.6342614095367152e-15, -2.7835162072109215e-14, 4.4632242632864775e-13,
    -6.7113668551641105e-12, 9.422759064650411e-11, -1.2290555301717928e-09, 1.4807192815879218e-08,
    -1.6365844691234924e-07, 1.6462114365889248e-06, -1.492565035840625e-05, 0.00012055332981789664,
    -0.0008548327023450853, 0.005223977625442188, -0.026866170645131252, 0.11283791670955126, -0.37612638903183754,
    1.1283791670955126,
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
#define MAX_FINITE 0x1.fffffep127f
#define T_STEP 0.353553391f
#define ERF_STEP 0.5f
#define ERF_MOST 5.0f
#define ERF_SMALL 0.75f
#define ERFC_ARGUMENT(t) (t)
static const real log2_e = 1.44269504f, ln2 = 0.693359375f, ln2_rest = -2.12194440e-4f;
static const real tanh_a = 1.59576917f, tanh_a_rest = -4.53406803e-08f;
static const real tanh_b = 0.0713548139f, tanh_b_rest = 2.3988324e-09f;
static const real exp_series[] = {
    0.00138143578f, 0.00836874638f, 0.0416683927f, 0.166665196f, 0.49999994f, 1, 1,
};
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
enum { EXP_TERMS = sizeof exp_series / sizeof(real), ERFC_TERMS = sizeof erfc_series / sizeof(real) };

/* The sum of terms[i] * x^(terms - 1 - i), of -x if it is `negative` */
LK_INLINE vf polynomial_of(const real *term, const int terms, vf x, const int negative)
{
    vf p = splat(negative && (terms - 1) % 2 ? -term[0] : term[0]);
#pragma GCC unroll 32
    for (int i = 1; i < terms; i++)
        p = fused(p, x, splat(negative && (terms - 1 - i) % 2 ? -term[i] : term[i]));
    return p;
}

LK_INLINE vf polynomial(const real *term, const int terms, vf x) { return polynomial_of(term, terms, x, 0); }

/* x = n ln 2 + r, |r| <= ln(2) / 2 */
typedef struct {
    vf r, power; /* 2^(n + UP) */
} exponent;

#define MAGIC_OF(power) splat(MAGIC + (EXPONENT_BIAS + (power)))

LK_INLINE exponent exponent_of(vf x)
{
    const vf magic = MAGIC_OF(UP), shifted = fused(x, splat(log2_e), magic), n = shifted - magic;
    return (exponent){fused(n, splat(-ln2_rest), fused(n, splat(-ln2), x)), (vf)((vi)shifted << MANTISSA_BITS)};
}

/* As x + rest. */
LK_INLINE exponent exponent_of_sum(vf x, vf rest)
{
    const vf magic = MAGIC_OF(UP), shifted = fused(x, splat(log2_e), magic), n = shifted - magic;
    return (exponent){fused(n, splat(-ln2), x) + fused(n, splat(-ln2_rest), rest), (vf)((vi)shifted << MANTISSA_BITS)};
}

/* e^(n ln 2 + r) * 2^UP, -SILU <= n ln 2 + r <= 0 */
LK_INLINE vf exponential_up(exponent x) { return polynomial(exp_series, EXP_TERMS, x.r) * x.power; }

/* |x|, but at most `most`, where the function has underflowed on the negative side */
LK_INLINE vf magnitude(vf x, real most)
{
    const lane_integer all_but_sign = (lane_integer)(((uint64_t)1 << (LK_BITS - 1)) - 1);
    return at_most((vf)((vi)x & all_but_sign), splat(most));
}

/* -|x|, but at least -most */
LK_INLINE vf negative_magnitude(vf x, real most) { return at_least((vf)((vi)x | SIGN), splat(-most)); }

/* x / (1 + e^-v), v having the sign of x, given up = e^-|v| * 2^UP; at -most it has underflowed. */
LK_INLINE vf times_sigmoid(vf x, real most, vf up)
{
    const vf over = choose_by_sign(x, at_least(x, splat(-most)) * up, x) / fused(up, splat(DOWN), splat(1));
    return choose_by_sign(x, over * DOWN, over);
}

/* factor / (1 + e^-x), -SILU <= x <= EXP_NEGLIGIBLE. Both sides of the fraction are scaled by 2^-UP, so that e^-x stays
 * finite; the factor times 2^UP must be so, too. */
LK_INLINE vf over_1_plus_power(vf factor, vf x)
{
    const vf magic = MAGIC_OF(-UP), shifted = fused(x, splat(-log2_e), magic), n = shifted - magic;
    const vf minus_r = fused(n, splat(ln2_rest), fused(n, splat(ln2), x)), power = (vf)((vi)shifted << MANTISSA_BITS);
    return factor / fused(polynomial_of(exp_series, EXP_TERMS, minus_r, 1), power, splat(DOWN)) * DOWN;
}

/* x with the sign of `of`; x is not negative. */
LK_INLINE vf with_sign_of(vf x, vf of) { return (vf)((vi)x | ((vi)of & SIGN)); }

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
    const vf magic = splat(MAGIC), shifted = fused(x, splat(log2_e), magic), whole = shifted - magic;
    *n = (vi)shifted - (vi)magic;
    return polynomial(exp_series, EXP_TERMS, fused(whole, splat(-ln2), x) + fused(whole, splat(-ln2_rest), rest));
}

/* e^x - 1, -EXP_NEGLIGIBLE <= x <= 0 */
LK_INLINE vf exponential_minus_1(vf x)
{
    const vf magic = MAGIC_OF(0), shifted = fused(x, splat(log2_e), magic), n = shifted - magic;
    const vf r = fused(n, splat(-ln2), x) - n * ln2_rest;
    const vf minus_1 = fused(r * r, polynomial(exp_series, EXP_TERMS - 2, r), r);
    const vf power = (vf)((vi)shifted << MANTISSA_BITS);
    return fused(power, minus_1, power - (real)1);
}

/* x = 2^e (1 + f), x a positive number, maybe denormal; undefined for others. */
LK_INLINE vf split_exponent(vf x, vf *e)
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
    const vf f = split_exponent(x, &e), s = f / (f + (real)2), half_square = (real)0.5 * f * f, z = s * s;
    const vf series = z * polynomial(atanh_series, ATANH_TERMS, z);
    return e * ln2 - ((half_square - fused(s, half_square + series, fused(e, splat(ln2_rest), rest))) - f);
}

/* v where x is positive and finite; else ln x: of 0, Inf, NaN or a negative number. */
LK_INLINE vf logarithm_or_special(vf v, vf x)
{
    const vf infinite = splat((real)__builtin_inf()), none = splat((real)__builtin_nan(""));
    v = choose(x == infinite, infinite, v);
    v = choose(x == (real)0, -infinite, v);
    return choose(x >= (real)0, v, choose(x == x, none, x));
}

/* Sine and cosine: x = n pi / 2 + r, |r| <= pi / 4, by parts of pi / 2 with so few bits that their products are exact below
 * TURNS. Lanes beyond it, of finite numbers, are left to the C library. Polynomials are Taylor's. */
#if LK_BITS == 64
#define TURNS 1e6
static const real half_pi[] = {0x1.921fb54400000p+0, 0x1.0b4611a600000p-34, 0x1.3198a2e000000p-69, 0x1.b839a252049c1p-104};
enum { SINE_TERMS = 8 };
#else
#define TURNS 1600.0f
static const real half_pi[] = {0x1.9218000000000p+0f, 0x1.ed50000000000p-14f, 0x1.10b0000000000p-30f, 0x1.1840000000000p-44f, 0x1.a626340000000p-58f};
enum { SINE_TERMS = 4 };
#endif
static const double sine_series[] = { /* -1/3!, 1/5!, .. */
    -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
    1.0 / 355687428096000,
};
static const double cosine_series[] = { /* 1/4!, -1/6!, .. */
    1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000,
    -1.0 / 6402373705728000,
};

/* Whether any lane is true. */
LK_INLINE int any_lane(vi mask)
{
#if defined(__AVX512DQ__) && LK_BITS == 64
    return _mm512_movepi64_mask((__m512i)mask) != 0;
#elif defined(__AVX512DQ__)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX2__)
    return LK_OP(movemask)((native)mask) != 0;
#else
    lane_integer any = 0;
    for (int i = 0; i < LK_LANES; i++)
        any |= mask[i];
    return any != 0;
#endif
}

/* sin(x + ahead pi / 2) */
LK_INLINE vf sine(vf x, const int ahead)
{
    const vf size = (vf)((vi)x & ~SIGN);
    const vi far = (size >= (real)TURNS) & (size <= (real)MAX_FINITE);
    const vf magic = splat(MAGIC), near = choose(size >= (real)TURNS, x - x, x); /* Inf becomes NaN */
    const vf shifted = fused(near, splat((real)0.6366197723675814), magic), turns = shifted - magic;
    vf r = near;
#pragma GCC unroll 8
    for (int i = 0; i < (int)(sizeof half_pi / sizeof(real)); i++)
        r = fused(turns, splat(-half_pi[i]), r);
    const vi n = (vi)shifted + ahead;
    const vf z = r * r;
    vf odd = splat((real)sine_series[SINE_TERMS - 1]), even = splat((real)cosine_series[SINE_TERMS - 1]);
#pragma GCC unroll 8
    for (int i = SINE_TERMS - 2; i >= 0; i--) {
        odd = fused(odd, z, splat((real)sine_series[i]));
        even = fused(even, z, splat((real)cosine_series[i]));
    }
    odd = (vf)((vi)fused(odd * z, r, r) | ((r == (real)0) & (vi)r)); /* -0 stays */
    even = fused(even, z * z, fused(z, splat((real)-0.5), splat(1)));
    vf v = choose(-(n & 1) != 0, even, odd);
    v = (vf)((vi)v ^ (((n & 2) != 0) & SIGN));
    if (__builtin_expect(any_lane(far), 0))
        for (int i = 0; i < LK_LANES; i++)
            if (far[i])
                v[i] = (real)(ahead ? cos(x[i]) : sin(x[i]));
    return v;
}

#if LK_BITS == 32
/* Of functions whose results are rounded to bf16: 2^f, |f| <= 1/2, to 2^-18. */
static const real coarse_exp_series[] = {0.00957010195f, 0.0559178616f, 0.240247448f, 0.693121815f, 0.999999261f};
enum { COARSE_EXP_TERMS = sizeof coarse_exp_series / sizeof(real) };

/* 2^(x + up), which is a normal number */
LK_INLINE vf coarse_power(vf x, const int up)
{
    const vf magic = MAGIC_OF(up), shifted = x + magic, n = shifted - magic;
    return polynomial(coarse_exp_series, COARSE_EXP_TERMS, x - n) * (vf)((vi)shifted << MANTISSA_BITS);
}

/* 1 / (1 + e^-x), x >= -SILU */
LK_INLINE vf coarse_sigmoid(vf x)
{
    const vf power = coarse_power(at_most(x, splat(EXP_NEGLIGIBLE)) * -log2_e, -UP);
    return DOWN / (power + DOWN);
}
#endif

/* factor / (1 + e^-v), given e^-|v| = e * 2^n, and whether v is negative. */
LK_INLINE vf sigmoid_of(vi negative, vf factor, vf e, vi n)
{
    const vf over = factor / (scaled(e, n) + (real)1);
    return choose(negative, scaled(over * (e * (real)0.5), n + 1), over);
}

#endif
