/* epilogue_<type>: residual and activation, applied to outputs that have just been stored; see lk_epilogue in
 * kernels.h.
 *
 *   y = f(y + add)        f: clip, prelu, silu, gelu, gelu_tanh, hardswish
 *
 * e^x = 2^n e^r with n = round(x / ln 2), e^r by its Taylor polynomial. An absolute error of x is a relative error of
 * e^x, so an x that is a rounded product is passed as a sum of two numbers. The result is kept scaled by 2^UP until the
 * last product, the only one that may be denormal. So the functions keep their relative accuracy down to where they
 * underflow. Beyond that, and at -Inf, they give -0, their limit. NaN stays NaN.
 * gelu is x times the normal distribution function, whose erfc(z) is e^(-z^2) times t times a polynomial in
 * t = 1 / (1 + cz), fitted to a relative error of 4e-8, or of 1e-17 in f64.
 * Edges: a partial last vector of a row is loaded and stored by masks.
 */
#include "kernels.h"
#include "vector.h"

/* Multiply-adds are fused only where `fused` is written: the same bits on every instruction set that has FMA. */
#pragma GCC optimize("fp-contract=off")

LK_INLINE vf splat(real x) { return x - (vf){}; }
LK_INLINE vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }

/* What differs between the types.
 * UP                     the exponent that e^x is scaled by
 * MAGIC                  1.5 times the number above which there are integers only: adding it rounds to an integer
 * SILU, GELU, GELU_TANH  magnitudes where they have underflowed on the negative side
 * inverse_factorial      of the Taylor polynomial; its error is below half a bit for |r| <= ln(2) / 2
 * erfc_series            the polynomial of gelu in moved(t): t itself, or where there are many terms, t in [-1, 1] */
#if LK_BITS == 64
#define UP 128
#define DOWN 0x1p-128
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023
#define MAGIC 0x1.8p52
#define SILU 760.0
#define GELU 39.0
#define GELU_TANH 21.75
#define T_STEP 0.25
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
#else
#define UP 64
#define DOWN 0x1p-64f
#define MANTISSA_BITS 23
#define EXPONENT_BIAS 127
#define MAGIC 0x1.8p23f
#define SILU 120.0f
#define GELU 15.4f
#define GELU_TANH 11.0f
#define T_STEP 0.353553391f
#define moved(t) (t)
static const real log2_e = 1.44269504f, ln2 = 0.693359375f, ln2_rest = -2.12194440e-4f;
static const real tanh_a = 1.59576917f, tanh_a_rest = -4.53406803e-08f;
static const real tanh_b = 0.0713548139f, tanh_b_rest = 2.3988324e-09f;
static const real inverse_factorial[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
static const real erfc_series[] = {
    -0.0295865145f, 0.142541781f, -0.244127408f, 0.139638111f, -0.0137300817f, 0.10152033f, 0.121507086f, 0.141193822f,
    0.141042858f,
};
#endif
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

/* e^(x + rest) * 2^UP, -SILU <= x <= 0 */
LK_INLINE vf exponential_up(vf x, vf rest)
{
    const vf magic = splat(MAGIC), shifted = fused(x, splat(log2_e), magic), n = shifted - magic;
    const vf r = fused(n, splat(-ln2), x) + fused(n, splat(-ln2_rest), rest);
    const vi exponent = (vi)shifted - (vi)magic + EXPONENT_BIAS + UP;
    return polynomial(inverse_factorial, EXP_TERMS, r) * (vf)(exponent << MANTISSA_BITS);
}

/* |x|, but at most `most`, where the function has underflowed on the negative side */
LK_INLINE vf magnitude(vf x, real most)
{
    const lane_integer all_but_sign = (lane_integer)(((uint64_t)1 << (LK_BITS - 1)) - 1);
    return at_most((vf)((vi)x & all_but_sign), splat(most));
}

/* x / (1 + e^-v), v having the sign of x, given up = e^-|v| * 2^UP; at -most it has underflowed. */
LK_INLINE vf times_sigmoid(vf x, real most, vf up)
{
    const vi negative = x < (real)0;
    const vf over = choose(negative, at_least(x, splat(-most)) * up, x) / fused(up, splat(DOWN), splat(1));
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
    return choose(x < (real)0, x * slope, x);
}
LK_INLINE vf silu(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return times_sigmoid(x, SILU, exponential_up(-magnitude(x, SILU), (vf){}));
}
LK_INLINE vf gelu(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    const vf v = magnitude(x, GELU), square = v * v;
    const vf up = exponential_up((real)-0.5 * square, (real)-0.5 * left_of(v, v, square));
    const vf t = (real)1 / fused(v, splat(T_STEP), splat(1));
    const vf half_up = polynomial(erfc_series, ERFC_TERMS, moved(t)) * t * up; /* erfc(z) / 2 * 2^UP */
    return choose(x < (real)0, at_least(x, splat(-GELU)) * half_up * DOWN, x * ((real)1 - half_up * DOWN));
}
LK_INLINE vf gelu_tanh(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    /* |x| (a + b x^2), with the remainder of each rounding */
    const real a = tanh_a, a_rest = tanh_a_rest, b = tanh_b, b_rest = tanh_b_rest; /* in two parts */
    const vf v = magnitude(x, GELU_TANH), square = v * v, cube = b * square, sum = a + cube, inner = v * sum;
    const vf back = sum - cube;
    const vf sum_rest = (a - back) + (cube - (sum - back)) + fused(splat(b), left_of(v, v, square), b_rest * square)
                      + (left_of(splat(b), square, cube) + a_rest);
    return times_sigmoid(x, GELU_TANH, exponential_up(-inner, -fused(v, sum_rest, left_of(v, sum, inner))));
}
LK_INLINE vf hardswish(const lk_epilogue *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return at_least(x, splat(-3)) * (between(x + (real)3, 0, 6) * ((real)1 / 6));
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

void LK_NAME(LK_TYPED(epilogue))(const lk_epilogue *f)
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

const lk_kernel LK_ROWS(epilogue)[] = {
    LK_ROW(LK_EPILOGUE, LK_TYPED(epilogue), LK_STR(LK_REAL), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
