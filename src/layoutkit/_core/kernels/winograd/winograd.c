/* winograd_{in,out}_<m>x<m>_<type>: the transforms of tiles of F(m x m, 3 x 3), 3x3 of those of stride 2; see winograd.h.
 * bf16 has only `in`, which rounds V; M is float. Of integers (s16) d is bytes, V is s16 and M is s32.
 *
 *   V = BT d B      M = V * U, summed over channels (by gemm)      y = AT M A
 *
 * The points come in pairs +-p, whose two rows share an even and an odd half:
 *   (BT x)[+-p] = E +- p O     E = sum f[i] x[2 + 2i]     O = sum f[i] x[1 + 2i]
 *   (AT x)[k]   = sum over pairs of p^k (x[+p] + x[-p]), k even; of p^k (x[+p] - x[-p]), k odd
 * Of integers both are written out. A vector holds channels of one pixel. Columns are transformed first, then rows, with
 * n x m vectors on the stack between them, since a whole tile does not fit in the registers.
 * Edges: tiles that reach over the image's edge; half vectors (blocks of 8 channels); the last channels, done as a
 * whole vector that ends with them or, if there are fewer than a vector or V has units, which then end with zeros, through
 * a buffer.
 */
#include "winograd.h"
#if LK_KR == 2 && !LK_INTEGERS
#include "common/numbers.h"
#endif
#include "common/vector.h"

#include <string.h>

enum { WHOLE, SPLIT, PART }; /* a vector of channels: contiguous; two halves; fewer than a vector */

#define MAX_N 8
#define MAX_K 24

/* Vectors of channels: as they are read, as they are transformed, as V has them. */
#if LK_INTEGERS
typedef uint8_t elements __attribute__((vector_size(LK_VB / 2), aligned(1), may_alias));
typedef int16_t vt __attribute__((vector_size(LK_VB), aligned(2), may_alias));
typedef vt products;
LK_INLINE vt widened(elements x) { return __builtin_convertvector(x, vt); }
LK_INLINE products narrowed(vt x) { return x; }
#elif LK_KR == 2
typedef narrow_16 elements, products;
typedef vf vt;
LK_INLINE vt widened(elements x) { return from_bf16(x); }
LK_INLINE products narrowed(vt x) { return (products)_mm512_cvtneps_pbh((__m512)x); }
#else
typedef vf elements, products, vt;
LK_INLINE vt widened(elements x) { return x; }
LK_INLINE products narrowed(vt x) { return x; }
#endif
enum { STRIDED_N = 7 }; /* products along an axis, and inputs, of 3 outputs at stride 2; no other tile has so many */
LK_INLINE int outputs_of(const int n) { return n == STRIDED_N ? 3 : n > 1 ? n - 2 : 1; }
LK_INLINE int shared_of(const int n) { return n == STRIDED_N ? 1 : 2; } /* inputs that two tiles share */
enum { X_ITEM = LK_INTEGERS ? 1 : LK_ITEM / LK_KR, V_ITEM = LK_ITEM / LK_KR, CHANNELS = sizeof(products) / V_ITEM };

#if LK_INTEGERS
LK_INLINE void in_1d(vt *x, const vt *k, const int n)
{
    (void)k, (void)n;
    const vt a = x[4] - x[2], b = (x[3] - x[1]) << 1, c = x[4] - (x[2] << 2), d = x[3] - (x[1] << 2);
    const vt first = ((x[0] - x[2]) << 2) + a, last = ((x[1] - x[3]) << 2) + (x[5] - x[3]);
    x[0] = first, x[1] = c + d, x[2] = c - d, x[3] = a + b, x[4] = a - b, x[5] = last;
}

/* Result i is scaled by 3 * 8, 4, 2 or 2; modulo 2^32, as all that follows. */
LK_INLINE void out_1d(vf *x, const vf *k, const int n)
{
    (void)k, (void)n;
    const vu first = (vu)x[0], last = (vu)x[5];
    const vu a = (vu)x[1] + (vu)x[2], b = (vu)x[1] - (vu)x[2], c = (vu)x[3] + (vu)x[4], d = (vu)x[3] - (vu)x[4];
    x[0] = (vf)((((first << 1) + first + (a << 1)) << 1) + c);
    x[1] = (vf)((b << 1) + d);
    x[2] = (vf)(a + c);
    x[3] = (vf)(b + (d << 1) + (((last << 1) + last) << 1));
}

LK_INLINE void splat_table(void *k, const void *from, const int n) { (void)k, (void)from, (void)n; }

/* The result of row i and column j without that scale, plus its bias. */
LK_INLINE vf result(vf x, vf bias, const int i, const int j)
{
    static const int bits[4] = {3, 2, 1, 1};
    const vu ninth = (vu)x * 954437177u; /* 9 times that is 1 modulo 2^32 */
    return (vf)((vu)((vf)ninth >> (bits[i] + bits[j])) + (vu)bias);
}
#else
LK_INLINE vf splat(float x) { return x - (vf){}; }
LK_INLINE vf result(vf x, vf bias, const int i, const int j) { return (void)i, (void)j, x + bias; }

/* The index of the coefficients of pair q; of the pair past the last one: how many there are. See winograd.h. */
LK_INLINE int pair_at(const int n, const int q) { return n / 2 - 1 + q * (n / 2 - 2 + n - 3); }

/* F(3, 2) of the even inputs at 0, +-1, infinity, whose taps are the outer two; the odd ones are factors as they are. What
 * only the last output takes comes last. */
LK_INLINE void in_strided(vf *x)
{
    const vf even[4] = {x[0], x[2], x[4], x[6]}, odd[3] = {x[1], x[3], x[5]};
    x[0] = even[2] - even[0], x[1] = even[2] + even[1], x[2] = even[2] - even[1];
    x[3] = odd[0], x[4] = odd[1], x[5] = even[3] - even[1], x[6] = odd[2];
}

LK_INLINE void out_strided(vf *x)
{
    const vf sum = x[1] + x[2], diff = x[1] - x[2];
    x[0] += sum + x[3], x[1] = diff + x[4], x[2] = sum + x[5] + x[6];
}

LK_INLINE void in_1d(vf *x, const vf *k, const int n)
{
    if (n == STRIDED_N) {
        in_strided(x);
        return;
    }
    const int pairs = n / 2 - 1;
    vf y[MAX_N];
    y[0] = x[n - 2], y[n - 1] = x[n - 1];
#pragma GCC unroll 4
    for (int i = pairs - 1; i >= 0; i--)
        y[0] += k[i] * x[2 * i], y[n - 1] += k[i] * x[2 * i + 1];
#pragma GCC unroll 4
    for (int q = 0; q < pairs; q++) {
        const vf *f = k + pair_at(n, q);
        vf even = x[n - 2], odd = x[n - 3];
#pragma GCC unroll 4
        for (int i = pairs - 2; i >= 0; i--)
            even += f[i] * x[2 * i + 2], odd += f[i] * x[2 * i + 1];
        const vf p = f[pairs - 1];
        y[2 * q + 1] = even + p * odd;
        y[2 * q + 2] = even - p * odd;
    }
#pragma GCC unroll 8
    for (int i = 0; i < n; i++)
        x[i] = y[i];
}

LK_INLINE void out_1d(vf *x, const vf *k, const int n)
{
    if (n == STRIDED_N) {
        out_strided(x);
        return;
    }
    const int pairs = n / 2 - 1, m = n - 2;
    vf y[MAX_N], sum[MAX_N / 2], diff[MAX_N / 2];
#pragma GCC unroll 4
    for (int q = 0; q < pairs; q++)
        sum[q] = x[2 * q + 1] + x[2 * q + 2], diff[q] = x[2 * q + 1] - x[2 * q + 2];
    y[0] = x[0];
#pragma GCC unroll 4
    for (int q = 0; q < pairs; q++)
        y[0] += sum[q];
#pragma GCC unroll 8
    for (int i = 1; i < m; i++) {
        y[i] = i == m - 1 ? x[n - 1] : (vf){};
#pragma GCC unroll 4
        for (int q = 0; q < pairs; q++)
            y[i] += k[pair_at(n, q) + pairs - 2 + i] * (i % 2 ? diff[q] : sum[q]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
        x[i] = y[i];
}

LK_INLINE void splat_table(vf *k, const float *from, const int n)
{
    if (n == STRIDED_N)
        return;
#pragma GCC unroll 32
    for (int i = 0; i < pair_at(n, n / 2 - 1); i++)
        k[i] = splat(from[i]);
}

#endif

/* A vector of channels. No memcpy where there are instructions for it: gcc would put parts together in memory, and wait for
 * them there. */
LK_INLINE elements load(const char *lo, const char *hi, const int kind, int64_t count)
{
    if (kind == WHOLE)
        return *(const elements *)lo;
#if LK_VB == 64
    const __mmask64 some = ((__mmask64)1 << X_ITEM * count) - 1;
#if LK_KR == 2
    if (kind == PART)
        return (elements)_mm256_maskz_loadu_epi8((__mmask32)some, lo);
    const __m128i half = hi ? _mm_loadu_si128((const __m128i *)hi) : _mm_setzero_si128();
    return (elements)_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)lo)), half, 1);
#else
    if (kind == PART)
        return (elements)_mm512_maskz_loadu_epi8(some, lo);
    const __m256i half = hi ? _mm256_loadu_si256((const __m256i *)hi) : _mm256_setzero_si256();
    return (elements)_mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)lo)), half, 1);
#endif
#else
    elements x = {};
    memcpy(&x, lo, kind == SPLIT ? sizeof(x) / 2 : X_ITEM * (size_t)count);
    if (kind == SPLIT && hi)
        memcpy((char *)&x + sizeof(x) / 2, hi, sizeof(x) / 2);
    return x;
#endif
}

/* Transforms one vector of channels of one tile, `count` of them if it is a part. `inside`: the tile is completely inside
 * the image. */
LK_INLINE void in_vector(const lk_winograd_in *g, const char *lo, const char *hi, char *v, const vt *k,
                         const int nh, const int nw, const int kind, int64_t count, const int inside)
{ /* Prefetches the next tile's pixels, but those of its columns that are shared with this one. */
    vt t[MAX_N * MAX_N], x[MAX_N];
    const int64_t stride = V_ITEM * g->v_stride, row = g->row, col = g->col;
#if LK_INTEGERS
    const elements flip = g->flip - (elements){}, outside = g->pad - (elements){};
#define AS_READ(x) widened((x) ^ flip)
#else
    const elements outside = {};
#define AS_READ(x) widened(x)
#endif
    const int64_t gap = hi ? hi - lo : 0; /* 0 as well for a broadcast input, all of whose blocks are the same memory */
#pragma GCC unroll 1
    for (int j = 0; j < nw; j++, lo += col) {
        const int column_inside = inside || (j >= g->col0 && j < g->col1);
        const char *at = lo;
#pragma GCC unroll 8
        for (int i = 0; i < nh; i++, at += row)
            x[i] = AS_READ(column_inside && (inside || (i >= g->row0 && i < g->row1))
                               ? load(at, hi ? at + gap : NULL, kind, count) : outside);
        if (j >= shared_of(nw)) {
            at = lo + (nw - shared_of(nw)) * col;
#pragma GCC unroll 8
            for (int i = 0; i < nh; i++, at += row)
                __builtin_prefetch(at);
        }
        if (nh > 1)
            in_1d(x, k, nh);
#pragma GCC unroll 8
        for (int i = 0; i < nh; i++)
            t[i * nw + j] = x[i];
    }
#pragma GCC unroll 1
    for (int i = 0; i < nh; i++, v += nw * stride) {
#pragma GCC unroll 8
        for (int j = 0; j < nw; j++)
            x[j] = t[i * nw + j];
        in_1d(x, k, nw);
#pragma GCC unroll 8
        for (int j = 0; j < nw; j++)
            *(products *)(v + j * stride) = narrowed(x[j]);
    }
}

LK_INLINE void in_channels(const lk_winograd_in *g, const int nh, const int nw, const int inside)
{
    vt k[MAX_K];
    splat_table(k, g->k, nw);
    const int64_t channels = g->channels, block = g->block, gap = g->block_stride;
    char *v = g->v;
    if (block >= channels) {
        int64_t c = 0;
        for (; c <= channels - CHANNELS; c += CHANNELS)
            in_vector(g, g->src + X_ITEM * c, NULL, v + V_ITEM * c, k, nh, nw, WHOLE, 0, inside);
        if (c < channels && channels > CHANNELS && LK_KR == 1) {
            c = channels - CHANNELS;
            in_vector(g, g->src + X_ITEM * c, NULL, v + V_ITEM * c, k, nh, nw, WHOLE, 0, inside);
        } else if (c < channels) {
            in_vector(g, g->src + X_ITEM * c, NULL, v + V_ITEM * c, k, nh, nw, PART, channels - c, inside);
        }
    } else if (block % CHANNELS == 0) {
        const char *src = g->src;
        for (int64_t c = 0; c < channels; c += block, src += gap)
            for (int64_t i = 0; i < block; i += CHANNELS)
                in_vector(g, src + X_ITEM * i, NULL, v + V_ITEM * (c + i), k, nh, nw, WHOLE, 0, inside);
    } else {
        const char *src = g->src;
        for (int64_t c = 0; c < channels; c += 2 * block, src += 2 * gap)
            in_vector(g, src, c + block < channels ? src + gap : NULL, v + V_ITEM * c, k, nh, nw, SPLIT, 0, inside);
    }
}

LK_INLINE void in(const lk_winograd_in *g, const int nh, const int nw)
{
    if (g->row0 == 0 && g->row1 == nh && g->col0 == 0 && g->col1 == nw)
        in_channels(g, nh, nw, 1);
    else
        in_channels(g, nh, nw, 0);
}

#if LK_KR == 1 || LK_INTEGERS
LK_INLINE void store(char *lo, char *hi, vf x, const int kind, int64_t count)
{
    if (kind == WHOLE) {
        *(vf *)lo = x;
    } else if (kind == SPLIT) {
        memcpy(lo, &x, LK_VB / 2);
        if (hi)
            memcpy(hi, (const char *)&x + LK_VB / 2, LK_VB / 2);
    } else {
        memcpy(lo, &x, 4 * count);
    }
}

LK_INLINE void out_vector(const lk_winograd_out *g, const real *m, vf bias, char *lo, char *hi, const vf *k,
                          const int nh, const int nw, const int kind)
{
    const int mh = outputs_of(nh), mw = outputs_of(nw), rows = g->rows, cols = g->cols;
    const int64_t stride = g->m_stride, row = g->row, col = g->col;
    vf t[MAX_N * MAX_N], x[MAX_N];
#pragma GCC unroll 1
    for (int j = 0; j < nw; j++) {
        const real *at = m + j * stride;
#pragma GCC unroll 8
        for (int i = 0; i < nh; i++, at += nw * stride)
            x[i] = *(const vf *)at;
        if (nh > 1)
            out_1d(x, k, nh);
#pragma GCC unroll 8
        for (int i = 0; i < mh; i++)
            t[i * nw + j] = x[i];
    }
    const int64_t gap = hi ? hi - lo : 0;
#pragma GCC unroll 1
    for (int i = 0; i < rows; i++, lo += row) {
#pragma GCC unroll 8
        for (int j = 0; j < nw; j++)
            x[j] = t[i * nw + j];
        out_1d(x, k, nw);
        char *at = lo;
#pragma GCC unroll 8
        for (int j = 0; j < mw; j++, at += col)
            __builtin_prefetch(at + mw * col, 1);
        at = lo;
#pragma GCC unroll 8
        for (int j = 0; j < mw; j++, at += col)
            if (j < cols)
                store(at, gap ? at + gap : NULL, result(x[j], bias, i, j), kind, g->channels);
    }
}

LK_INLINE void out(const lk_winograd_out *g, const int nh, const int nw)
{
    vf k[MAX_K];
    splat_table(k, g->k, nw);
    const int64_t channels = g->channels, block = g->block, gap = g->block_stride;
    const real *m = g->m;
#define BIAS(c) g->bias ? *(const vf *)((const real *)g->bias + (c)) : (vf){}
    if (block >= channels) {
        int64_t c = 0;
        for (; c <= channels - LK_LANES; c += LK_LANES)
            out_vector(g, m + c, BIAS(c), g->dst + 4 * c, NULL, k, nh, nw, WHOLE);
        if (c < channels && channels > LK_LANES) {
            c = channels - LK_LANES;
            out_vector(g, m + c, BIAS(c), g->dst + 4 * c, NULL, k, nh, nw, WHOLE);
        } else if (c < channels) {
            vf bias = {};
            if (g->bias)
                memcpy(&bias, g->bias, 4 * channels);
            out_vector(g, m, bias, g->dst, NULL, k, nh, nw, PART);
        }
    } else if (block % LK_LANES == 0) {
        char *dst = g->dst;
        for (int64_t c = 0; c < channels; c += block, dst += gap)
            for (int64_t i = 0; i < block; i += LK_LANES)
                out_vector(g, m + c + i, BIAS(c + i), dst + 4 * i, NULL, k, nh, nw, WHOLE);
    } else {
        char *dst = g->dst;
        for (int64_t c = 0; c < channels; c += 2 * block, dst += 2 * gap) {
            char *hi = c + block < channels ? dst + gap : NULL;
            vf bias = {};
            if (g->bias)
                memcpy(&bias, (const real *)g->bias + c, hi ? LK_VB : LK_VB / 2);
            out_vector(g, m + c, bias, dst, hi, k, nh, nw, SPLIT);
        }
    }
}

#define OUT(MH, MW, NH, NW) \
    void LK_NAME(LK_TYPED(winograd_out_##MH##x##MW))(const lk_winograd_out *g) { out(g, NH, NW); }
#define OUT_ROW(MH, MW) LK_ROW(LK_WINOGRAD_OUT, LK_TYPED(winograd_out_##MH##x##MW), LK_STR(LK_KIND), LK_LANES, MH, MW),
#else
#define OUT(MH, MW, NH, NW)
#define OUT_ROW(MH, MW)
#endif

#define TILE(MH, MW, NH, NW) \
    void LK_NAME(LK_TYPED(winograd_in_##MH##x##MW))(const lk_winograd_in *g) { in(g, NH, NW); } \
    OUT(MH, MW, NH, NW)

TILE(4, 4, 6, 6)
#if !LK_INTEGERS
TILE(2, 2, 4, 4)
TILE(3, 3, STRIDED_N, STRIDED_N)
TILE(6, 6, 8, 8)
TILE(1, 2, 1, 4)
TILE(1, 4, 1, 6)
TILE(1, 6, 1, 8)
#endif

#define ROWS(MH, MW) \
    LK_ROW(LK_WINOGRAD_IN, LK_TYPED(winograd_in_##MH##x##MW), LK_STR(LK_KIND), LK_LANES, MH, MW), OUT_ROW(MH, MW)

const lk_kernel LK_ROWS(winograd)[] = {
    ROWS(4, 4)
#if !LK_INTEGERS
    ROWS(2, 2)
    ROWS(3, 3)
    ROWS(6, 6)
    ROWS(1, 2)
    ROWS(1, 4)
    ROWS(1, 6)
#endif
    LK_LAST_ROW,
};
