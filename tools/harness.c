/* Every row of the registry that this machine runs, against plain loops: for machines that Python is not on (see
 * aarch64.sh). tests/test_kernels.py asks more; this asks of another compiler and another instruction set the same.
 *
 * Winograd's rows are taken together: filter, input and output transforms around plain products are a convolution.
 */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tables.h" /* G_<m>[], K_<m>[]: of F(m, 3) */

enum { ROWS = 16, COLS = 64, DEPTH = 16, CHANNELS = 21, WIDTH = 64 };

static unsigned state = 1;
static int draw(int n) { return (int)((state = state * 1664525u + 1013904223u) >> 8) % n; }
static float small(void) { return (float)(draw(9) - 4); } /* sums of products are exact */

static int wrong(const lk_kernel *k, const char *what)
{
    printf("%s: %s\n", k->name, what);
    return 1;
}

static int gemm(const lk_kernel *k, int rows, int cols, int taps, int blocks, int last, int masked, int accumulate)
{
    static _Alignas(64) float a[ROWS * 4 * DEPTH * 3], b[4 * DEPTH * 3 * COLS], c[ROWS * COLS], bias[COLS];
    static float zero[DEPTH];
    int64_t row[ROWS], c_row[ROWS], tap[4], c_col[COLS];
    uint32_t mask[4];
    double want[ROWS * COLS];
    int depth = (blocks - 1) * DEPTH + last;
    for (size_t i = 0; i < sizeof a / 4; i++) a[i] = small();
    for (size_t i = 0; i < sizeof b / 4; i++) b[i] = small();
    for (int i = 0; i < ROWS * COLS; i++) c[i] = small();
    for (int j = 0; j < COLS; j++) bias[j] = small();
    for (int i = 0; i < ROWS; i++) row[i] = 4 * i * 4 * DEPTH * 3, c_row[i] = 4 * i * COLS;
    for (int t = 0; t < 4; t++) tap[t] = 4 * t * DEPTH * 3, mask[t] = masked ? (uint32_t)draw(1 << 16) : ~0u;
    int lanes = k->nr; /* a vector is no longer than the tile is wide */
    while (lanes > 4 && (k->isa == LK_PORTABLE || lanes > (k->isa == LK_AVX2 ? 8 : 16))) lanes /= 2;
    if (k->isa == LK_AVX2) lanes = 8;
    for (int j = 0; j < COLS; j++) c_col[j] = 4 * j * lanes;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS; j++) {
            double sum = j < cols ? bias[j] + (accumulate ? c[i * COLS + j] : 0) : c[i * COLS + j];
            for (int t = 0; t < taps && j < cols; t++)
                for (int q = 0; q < depth && mask[t] >> i & 1; q++)
                    sum += a[(row[i] + tap[t]) / 4 + q] * b[(t * depth + q) * COLS + j];
            want[i * COLS + j] = sum;
        }
    lk_gemm g = {.a = (char *)a, .row = row, .tap = tap, .mask = masked ? mask : NULL, .zero = zero, .taps = taps,
                 .blocks = blocks, .block_stride = 4 * DEPTH, .kb = DEPTH, .kb_last = last, .b = b, .ldb = COLS,
                 .bias_col = bias, .c = (char *)c, .c_row = c_row, .c_col = c_col, .accumulate = accumulate,
                 .rows = rows, .cols = cols};
    ((lk_gemm_fn)k->fn)(&g);
    for (int i = 0; i < rows * COLS; i++)
        if (c[i] != want[i]) return wrong(k, "wrong sum");
    return 0;
}

static int move(const lk_kernel *k, int n0, int n1, int stream)
{
    static _Alignas(64) unsigned char src[1 << 20], dst[1 << 20], want[1 << 20];
    int w = k->family == LK_COPY ? 1 : k->bits / 8;
    lk_move m = {.src = (char *)src, .dst = (char *)dst + 64, .n0 = n0, .n1 = n1, .stream = stream};
    m.s0 = (n1 + 3) * w, m.s1 = w, m.d0 = (n1 + 5) * w, m.d1 = w;
    if (k->family == LK_TRANSPOSE) m.s0 = w, m.s1 = (n0 + 3) * w, m.d0 = (n1 + 5) * w;
    if (k->family == LK_GATHER) m.s0 = (2 * n1 + 3) * w, m.s1 = 2 * w, m.d0 = w, m.d1 = (n0 + 1) * w;
    for (size_t i = 0; i < sizeof src; i++) src[i] = (unsigned char)draw(256);
    memset(dst, 0xA5, sizeof dst);
    memset(want, 0xA5, sizeof want);
    for (int i = 0; i < n0; i++)
        for (int j = 0; j < n1; j++)
            memcpy(want + 64 + i * m.d0 + j * m.d1, src + (k->family == LK_FILL ? 0 : i * m.s0 + j * m.s1), w);
    ((lk_move_fn)k->fn)(&m);
    return memcmp(dst, want, sizeof dst) ? wrong(k, "wrong bytes") : 0;
}

static const lk_kernel *partner(const lk_kernel *k, int family)
{
    for (const lk_kernel *const *all = lk_all_kernels(); *all; all++)
        for (const lk_kernel *r = *all; r->name; r++)
            if (r->isa == k->isa && r->family == family && (family == LK_WINOGRAD_FILTER || (r->mr == k->mr && r->nr == k->nr)))
                return r;
    return NULL;
}

static int winograd(const lk_kernel *k)
{
    static float x[8 * 8 * CHANNELS], w[CHANNELS * 9], y[6 * 6 * CHANNELS], bias[CHANNELS];
    static _Alignas(64) float v[64 * WIDTH], u[64 * WIDTH];
    const double one = 1, *G = k->nr == 2 ? G_2 : k->nr == 4 ? G_4 : G_6;
    const float *table = k->nr == 2 ? K_2 : k->nr == 4 ? K_4 : K_6;
    int mh = k->mr, mw = k->nr, rh = mh > 1 ? 3 : 1, nh = mh + rh - 1, nw = mw + 2;
    for (int i = 0; i < nh * nw * CHANNELS; i++) x[i] = small();
    for (int i = 0; i < CHANNELS * 9; i++) w[i] = small();
    for (int i = 0; i < CHANNELS; i++) bias[i] = small();
    lk_winograd_in in = {.src = (char *)x, .row = 4 * nw * CHANNELS, .col = 4 * CHANNELS, .row1 = nh, .col1 = nw,
                         .channels = CHANNELS, .block = CHANNELS, .v = v, .v_stride = WIDTH, .k = table};
    lk_winograd_filter filter = {.w = w, .w_stride = rh * 3, .count = CHANNELS, .width = WIDTH, .nh = nh, .nw = nw,
                                 .rh = rh, .rw = 3, .gh = mh > 1 ? G : &one, .gw = G, .u = u, .u_stride = WIDTH};
    lk_winograd_out out = {.m = v, .m_stride = WIDTH, .dst = (char *)y, .row = 4 * mw * CHANNELS, .col = 4 * CHANNELS,
                           .rows = mh, .cols = mw, .channels = CHANNELS, .block = CHANNELS, .bias = bias, .k = table};
    ((lk_winograd_in_fn)k->fn)(&in);
    ((lk_winograd_filter_fn)partner(k, LK_WINOGRAD_FILTER)->fn)(&filter);
    for (int i = 0; i < nh * nw * WIDTH; i++) v[i] *= u[i];
    ((lk_winograd_out_fn)partner(k, LK_WINOGRAD_OUT)->fn)(&out);
    for (int i = 0; i < mh; i++)
        for (int j = 0; j < mw; j++)
            for (int c = 0; c < CHANNELS; c++) {
                double sum = bias[c];
                for (int a = 0; a < rh; a++)
                    for (int b = 0; b < 3; b++)
                        sum += x[((i + a) * nw + j + b) * CHANNELS + c] * w[(c * rh + a) * 3 + b];
                if (!(fabs(y[(i * mw + j) * CHANNELS + c] - sum) < 2e-3)) return wrong(k, "wrong convolution");
            }
    return 0;
}

static int check(const lk_kernel *k)
{
    static const int sizes[][2] = {{16, 16}, {32, 48}, {1, 32}, {32, 1}, {1, 1}, {17, 31}, {47, 19}, {5, 3}};
    int bad = 0;
    switch (k->family) {
    case LK_GEMM:
        for (int rows = 1; rows <= k->mr; rows++)
            for (int cols = 1; cols <= k->nr; cols++)
                for (int how = 0; how < 4; how++)
                    bad += gemm(k, rows, cols, 1 + how % 4, 1 + how % 3, how ? 1 + draw(DEPTH) : DEPTH, how & 1, how > 1);
        return bad;
    case LK_PEAK: return ((lk_peak_fn)k->fn)(100) > 0 ? 0 : wrong(k, "no flops");
    case LK_WINOGRAD_IN: return winograd(k);
    case LK_WINOGRAD_OUT: case LK_WINOGRAD_FILTER: return 0; /* with the input's */
    default:
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int stream = 0; stream < 2; stream++) bad += move(k, sizes[i][0], sizes[i][1], stream);
        return bad;
    }
}

int main(void)
{
    int rows = 0, bad = 0;
    for (const lk_kernel *const *all = lk_all_kernels(); *all; all++)
        for (const lk_kernel *k = *all; k->name; k++)
            if (lk_isa_supported(k->isa)) rows++, bad += check(k) != 0;
    printf("%d rows of the registry, %d wrong\n", rows, bad);
    return bad != 0;
}
