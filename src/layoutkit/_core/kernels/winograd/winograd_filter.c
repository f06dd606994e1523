/* winograd_{filter,expand,taps}_f32: the transform of filters, and of sums of products to their gradient; see winograd.h.
 *
 *   U = G w G^T      dw = GT U G
 *
 * Edges: filters beyond the last one are zeros.
 */
#include "common/vector.h"
#include "winograd.h"

#define MAX_N 8

LK_INLINE vf splat(float x) { return x - (vf){}; }

typedef double vd __attribute__((vector_size(LK_VB)));

/* Gathers a vector of filters at a time. */
LK_INLINE void filter(const lk_winograd_filter *g, const int nh, const int nw, const int rh, const int rw)
{
    enum { LANES = LK_VB / 8 };
    for (int o = 0; o < g->width; o += LANES) {
        vd w[3 * 3], t[MAX_N * 3];
#pragma GCC unroll 9
        for (int a = 0; a < rh * rw; a++) {
            const float *const at = (const float *)g->w + a;
            hf lanes = {};
            if (o + LANES <= g->count) {
#pragma GCC unroll 8
                for (int i = 0; i < LANES; i++)
                    lanes[i] = at[(o + i) * g->w_stride];
            } else {
                for (int i = 0; o + i < g->count; i++)
                    lanes[i] = at[(o + i) * g->w_stride];
            }
            w[a] = __builtin_convertvector(lanes, vd);
        }
#pragma GCC unroll 1
        for (int i = 0; i < nh; i++)
#pragma GCC unroll 3
            for (int b = 0; b < rw; b++) {
                vd x = {};
#pragma GCC unroll 3
                for (int a = 0; a < rh; a++)
                    x += g->gh[i * rh + a] * w[a * rw + b];
                t[i * rw + b] = x;
            }
#pragma GCC unroll 1
        for (int i = 0; i < nh; i++) {
            float *u = (float *)g->u + i * nw * g->u_stride + o;
#pragma GCC unroll 8
            for (int j = 0; j < nw; j++, u += g->u_stride) {
                vd x = {};
#pragma GCC unroll 3
                for (int b = 0; b < rw; b++)
                    x += g->gw[j * rw + b] * t[i * rw + b];
                *(hf *)u = __builtin_convertvector(x, hf);
            }
        }
    }
}

/* The sizes of F(4x4, 3x3), the most used, are constants. */
void LK_NAME(winograd_filter_f32)(const lk_winograd_filter *g)
{
    if (g->nh == 6 && g->nw == 6 && g->rh == 3 && g->rw == 3)
        filter(g, 6, 6, 3, 3);
    else
        filter(g, g->nh, g->nw, g->rh, g->rw);
}

/* y = G x: the rows of a pair +-p share s x[0] + s p^2 x[2] and s p x[1]. */
LK_INLINE void expand_1d(vf *y, const vf *x, const vf *k, const int n)
{
    y[0] = k[0] * x[0];
#pragma GCC unroll 3
    for (int q = 0; q < n / 2 - 1; q++) {
        const vf even = k[3 * q + 1] * x[0] + k[3 * q + 3] * x[2], odd = k[3 * q + 2] * x[1];
        y[2 * q + 1] = even + odd;
        y[2 * q + 2] = even - odd;
    }
    y[n - 1] = x[2];
}

LK_INLINE void expand(const lk_winograd_expand *g, const int n, const int rows)
{
    const int taps = rows * 3, nh = rows > 1 ? n : 1;
    const real *numbers = g->k;
    vf k[MAX_N + 2], t[MAX_N * 3], x[3], y[MAX_N];
#pragma GCC unroll 10
    for (int i = 0; i < 3 * (n / 2 - 1) + 1; i++)
        k[i] = splat(numbers[i]);
    for (int64_t c = 0; c < g->channels; c++)
        for (int64_t o = 0; o < g->width; o += LK_LANES) {
            const real *w = (const real *)g->w + c * taps * g->width + o;
            real *u = (real *)g->u + c * g->width + o;
#pragma GCC unroll 3
            for (int b = 0; b < 3; b++) {
#pragma GCC unroll 3
                for (int a = 0; a < rows; a++)
                    x[a] = *(const vf *)(w + (a * 3 + b) * g->width);
                if (rows > 1)
                    expand_1d(y, x, k, n);
                else
                    y[0] = x[0];
#pragma GCC unroll 8
                for (int i = 0; i < nh; i++)
                    t[i * 3 + b] = y[i];
            }
#pragma GCC unroll 8
            for (int i = 0; i < nh; i++) {
                expand_1d(y, t + i * 3, k, n);
#pragma GCC unroll 8
                for (int j = 0; j < n; j++, u += g->u_stride)
                    *(vf *)u = y[j];
            }
        }
}

void LK_NAME(winograd_expand_f32)(const lk_winograd_expand *g)
{
    if (g->n == 6 && g->rows == 3)
        expand(g, 6, 3);
    else if (g->n == 8 && g->rows == 3)
        expand(g, 8, 3);
    else if (g->n == 4 && g->rows == 3)
        expand(g, 4, 3);
    else
        expand(g, g->n, 1);
}

/* (GT x) from six products, all but the scales of G: 1, p, p^2 of the finite points; the last coefficient at infinity. */
LK_INLINE void taps_1d(vf *x, const vf *k)
{
    const vf a = x[1] + x[2], b = x[3] + x[4], c = x[1] - x[2], d = x[3] - x[4];
    x[0] += a + b;
    x[1] = k[0] * c + k[2] * d;
    x[2] = k[1] * a + k[3] * b + x[5];
}

LK_INLINE void taps(const lk_winograd_taps *g, const int nh)
{
    const int rows = nh > 1 ? 3 : 1;
    const real *scales = g->k;
    vf k[4], t[3 * 6], x[6];
    for (int i = 0; i < 4; i++)
        k[i] = splat(scales[nh * 6 + i]);
    for (int64_t c = 0; c < g->count; c += LK_LANES) {
        const char *u = g->u + 4 * c;
#pragma GCC unroll 1
        for (int j = 0; j < 6; j++, u += g->u_stride) {
#pragma GCC unroll 6
            for (int i = 0; i < nh; i++)
                x[i] = scales[i * 6 + j] * *(const vf *)(u + i * 6 * g->u_stride);
            if (nh > 1)
                taps_1d(x, k);
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++)
                t[i * 6 + j] = x[i];
        }
        char *dst = g->dst + 4 * c;
#pragma GCC unroll 1
        for (int i = 0; i < rows; i++) {
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++)
                x[j] = t[i * 6 + j];
            taps_1d(x, k);
#pragma GCC unroll 3
            for (int j = 0; j < 3; j++, dst += g->dst_stride) {
                if (g->accumulate)
                    x[j] += *(vf *)dst;
                *(vf *)dst = x[j];
            }
        }
    }
}

void LK_NAME(winograd_taps_f32)(const lk_winograd_taps *g)
{
    if (g->nh > 1)
        taps(g, 6);
    else
        taps(g, 1);
}

const lk_kernel LK_ROWS(winograd_filter)[] = {
    LK_ROW(LK_WINOGRAD_FILTER, winograd_filter_f32, "f32", LK_LANES, 0, 0),
    LK_ROW(LK_WINOGRAD_EXPAND, winograd_expand_f32, "f32", LK_LANES, 0, 0),
    LK_ROW(LK_WINOGRAD_TAPS, winograd_taps_f32, "f32", LK_LANES, 0, 0),
    LK_LAST_ROW,
};
