/* finish_f32: what follows the sums of a convolution, on outputs that have just been stored; see lk_finish.
 *
 *   y = f(y + add)        f: clip, prelu, silu, gelu, gelu_tanh, hardswish
 *
 * exp(x) = 2^n e^r with n = round(x / ln 2), e^r by its Taylor polynomial to the seventh power: 2 ulp.
 * gelu is x times the normal distribution, whose erfc comes from Abramowitz and Stegun 7.1.26: 1.5e-7 absolute.
 * Region: the last vector of a row where it is ragged, by masks.
 */
#include "kernels.h"
#include "vector.h"

LK_INLINE vf splat(float x) { return x - (vf){}; }
LK_INLINE vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
LK_INLINE vf at_most(vf x, vf hi) { return choose(x > hi, hi, x); } /* a NaN stays */
LK_INLINE vf at_least(vf x, vf lo) { return choose(x < lo, lo, x); }

LK_INLINE vf exponential(vf x)
{
    x = at_least(at_most(x, splat(88.0f)), splat(-87.0f));
    const vf magic = splat(12582912.0f); /* 1.5 * 2^23: adding it rounds to whole numbers */
    const vf shifted = x * 1.44269504f + magic, n = shifted - magic;
    const vf r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vf p = splat(1.0f / 5040);
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (vf)(((vi)shifted - 0x4B400000 + 127) << 23);
}

LK_INLINE vf sigmoid(vf x) { return 1.0f / (1.0f + exponential(-x)); }

LK_INLINE vf clip(const lk_finish *f, vf x, vf slope)
{
    (void)slope;
    return at_most(at_least(x, splat(f->lo)), splat(f->hi));
}
LK_INLINE vf prelu(const lk_finish *f, vf x, vf slope)
{
    (void)f;
    return choose(x < 0.0f, x * slope, x);
}
LK_INLINE vf silu(const lk_finish *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return x * sigmoid(x);
}
LK_INLINE vf gelu(const lk_finish *f, vf x, vf slope)
{
    (void)f, (void)slope;
    const vf z = choose(x < 0.0f, -x, x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
    vf p = splat(1.061405429f);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const vf half = 0.5f * p * t * exponential(-z * z); /* erfc(z) / 2 */
    return x * choose(x < 0.0f, half, 1.0f - half);
}
LK_INLINE vf gelu_tanh(const lk_finish *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return x * sigmoid(1.59576912f * (x + 0.044715f * x * x * x));
}
LK_INLINE vf hardswish(const lk_finish *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return x * (at_most(at_least(x + 3.0f, splat(0.0f)), splat(6.0f)) * (1.0f / 6));
}
LK_INLINE vf nothing(const lk_finish *f, vf x, vf slope)
{
    (void)f, (void)slope;
    return x;
}

typedef vf (*function)(const lk_finish *, vf, vf);

LK_INLINE void rows(const lk_finish *f, const function apply)
{
    const int tail = (int)(f->count % LK_LANES);
    const uint32_t lanes = (1u << tail) - 1;
    for (int64_t i = 0; i < f->rows; i++) {
        char *y = f->y + f->row[i];
        const char *add = f->add ? f->add + f->row[i] : 0;
        const float *slope = f->slope ? f->slope + i * f->slope_row : 0;
        int64_t j = 0;
        for (; j <= f->count - LK_LANES; j += LK_LANES) {
            vf v = *(vf *)(y + 4 * j);
            if (add)
                v += *(const vf *)(add + 4 * j);
            const vf s = !slope ? (vf){} : f->slope_col ? *(const vf *)(slope + j) : splat(*slope);
            *(vf *)(y + 4 * j) = apply(f, v, s);
        }
        if (tail) {
            vf v = load_lanes(y + 4 * j, lanes);
            if (add)
                v += load_lanes(add + 4 * j, lanes);
            const vf s = !slope           ? (vf){}
                         : f->slope_col ? load_lanes((const char *)(slope + j), lanes)
                                        : splat(*slope);
            store_lanes(y + 4 * j, apply(f, v, s), lanes);
        }
    }
}

void LK_NAME(finish_f32)(const lk_finish *f)
{
    switch (f->what) {
    case LK_CLIP: rows(f, clip); break;
    case LK_PRELU: rows(f, prelu); break;
    case LK_SILU: rows(f, silu); break;
    case LK_GELU: rows(f, gelu); break;
    case LK_GELU_TANH: rows(f, gelu_tanh); break;
    case LK_HARDSWISH: rows(f, hardswish); break;
    default: rows(f, nothing);
    }
}

const lk_kernel LK_NAME(lk_rows_finish)[] = {
    LK_ROW(LK_FINISH, finish_f32, 32, 0, 0),
    LK_LAST_ROW,
};
