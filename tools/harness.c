/* Checks every row of the registry that this machine runs against plain loops, on machines that have no Python (see
 * aarch64.sh). pytest tests/core checks more; this is for other compilers and other instruction sets. The checks of each
 * family are in harness/.
 */
#include "kernels.h"
#include "peak/peak.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_cases.h" /* of tests/core/ */

enum { ROWS = 32, COLS = 64, DEPTH = 16, CHANNELS = 21, WIDTH = 64 };

static unsigned state = 1;
static int draw(int n) { return (int)((state = state * 1664525u + 1013904223u) >> 8) % n; }
static float small(void) { return (float)(draw(9) - 4); } /* sums of products are exact */

static int wrong(const lk_kernel *k, const char *what)
{
    printf("%s: %s\n", k->name, what);
    return 1;
}

/* The bytes of an element, of a row that only moves elements. */
static int width_of(const lk_kernel *k) { return atoi(k->types + 1) / 8; }

/* The bytes of an element, of a row that convolves; its sums are float, or of doubles double. */
static int item_of(const lk_kernel *k)
{
    for (const lk_types *t = lk_all_types(); t->name; t++)
        if (!strcmp(t->name, k->types)) return lk_element_bytes(t->src);
    return 0;
}

static double get(const lk_kernel *k, const void *at, int64_t i)
{
    return item_of(k) == 8 ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static void set(const lk_kernel *k, void *at, int64_t i, double value)
{
    if (item_of(k) == 8) ((double *)at)[i] = value;
    else ((float *)at)[i] = (float)value;
}

static void fill(const lk_kernel *k, void *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) set(k, at, i, small());
}

/* The nearest narrow number of a multiple of 1/4 below 4. */
static void set_number(const lk_kernel *k, void *at, int64_t i, double value)
{
    if (item_of(k) != 2) {
        set(k, at, i, value);
        return;
    }
    int bits = strncmp(k->types, "bf16", 4) ? 10 : 7, exponent = 0;
    double fraction = frexp(fabs(value), &exponent); /* in [1/2, 1) */
    int h = value == 0 ? 0 : (int)ldexp(fraction, bits + 1) + ((exponent - 2 + (bits == 10 ? 15 : 127)) << bits);
    ((uint16_t *)at)[i] = (uint16_t)(h | (value < 0) << 15);
}

/* A number of a row's destination; narrow ones are normal here. */
static double number(const lk_kernel *k, const void *at, int64_t i)
{
    if (item_of(k) != 2) return get(k, at, i);
    int h = ((const uint16_t *)at)[i], bits = strncmp(k->types, "bf16", 4) ? 10 : 7, exponent = (h & 0x7fff) >> bits;
    int fraction = h & ((1 << bits) - 1);
    double v = exponent ? ldexp(fraction + (1 << bits), exponent - bits - (bits == 10 ? 15 : 127)) : 0;
    if (exponent == 0x7fff >> bits) v = fraction ? NAN : INFINITY;
    return h >> 15 ? -v : v;
}

static void fill_numbers(const lk_kernel *k, void *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) set_number(k, at, i, small());
}

/* Sets element i of an array of a type to a small integer, which every type can hold. */
static void put(char *at, int type, int64_t i, int value)
{
    static const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800};
    float f = (float)value;
    double d = value;
    int8_t narrow = (int8_t)value;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    uint16_t half = type == LK_BF16 ? (uint16_t)(bits >> 16) : f16[value < 0 ? -value : value] | (value < 0) << 15;
    static const uint8_t e4m3[] = {0, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50};
    int16_t sixteen = (int16_t)value;
    int64_t wide = value;
    uint8_t truth = value != 0, four = value & 15, eight = (uint8_t)(half >> 8);
    if (type == LK_E4M3) eight = (uint8_t)(e4m3[value < 0 ? -value : value] | (value < 0) << 7);
    const void *from[] = {&f, &d, &half, &half, &value, &narrow, &narrow, &sixteen, &sixteen, &value, &wide, &truth,
                          &eight, &eight, &four, &four};
    memcpy(at + i * lk_element_bytes(type), from[type], (size_t)lk_element_bytes(type));
}

static const int sizes[][2] = {{16, 16}, {32, 48}, {1, 32}, {32, 1}, {1, 1}, {17, 31}, {47, 19}, {5, 3}};
enum { SIZES = sizeof sizes / sizeof *sizes };

#include "harness/convert.inc"
#include "harness/depthwise.inc"
#include "harness/elementwise.inc"
#include "harness/gemm.inc"
#include "harness/gradients.inc"
#include "harness/moves.inc"
#include "harness/normalise.inc"
#include "harness/pooling.inc"
#include "harness/winograd.inc"

static int check(const lk_kernel *k)
{
    switch (k->family) {
    case LK_GEMM: return k->tile->components ? 0 : check_gemm(k); /* of components: test_tiles.py */
    case LK_GEMM_GROUPS: return check_gemm_groups(k);
    case LK_DEPTHWISE: return check_depthwise(k);
    case LK_STRIPS: return check_strips(k);
    case LK_PLANE_STRIPS: return check_plane_strips(k);
    case LK_POOLING: return check_pooling(k);
    case LK_PLANE_POOLING: return check_plane_pooling(k);
    case LK_POOLING_BACK: return check_pooling_back(k);
    case LK_LRN: return check_lrn(k);
    case LK_MOMENTS: case LK_SCALE: case LK_SLOPE_SUMS: case LK_SLOPES: case LK_SOFTMAX: case LK_REDUCE:
        return check_lines(k);
    case LK_SOFTMAX_BYTES: return check_softmax_bytes(k);
    case LK_TAKE: return check_take(k);
    case LK_BLEND_ROWS: case LK_BLEND_PIXELS: return check_blend(k);
    case LK_WEIGHTS: return check_weights(k);
    case LK_OUTER: return check_outer(k);
    case LK_TAP_SUMS: return check_tap_sums(k);
    case LK_DEPTHWISE_DOT: return check_depthwise_dot(k);
    case LK_EPILOGUE: return check_epilogue(k);
    case LK_ELEMENTWISE: return check_elementwise(k);
    case LK_EXTENT: return check_extent(k);
    case LK_CONVERT: return check_convert(k);
    case LK_UNPACK: return check_unpack(k);
    case LK_PACK: return check_pack(k);
    case LK_PANEL: return check_panel(k);
    case LK_FUSED: case LK_JOINED: case LK_RUNS: return check_loops(k);
    case LK_SCATTER: return check_scatter(k);
    case LK_DRAIN: return check_drain(k);
    case LK_WINDOWS: return check_windows(k);
    case LK_GEMM_S16: return 0; /* test_gemm_kernels.py */
    case LK_WEIGH: case LK_FOLD: case LK_RANK: case LK_WIDEN: case LK_CAST: case LK_SAMPLE: case LK_ROUND:
        return 0; /* test_filter_kernels.py */
    case LK_DIVIDE: return 0; /* test_divide.py */
    case LK_RECURRENT: return 0; /* test_recurrent_kernels.py */
    case LK_PEAK: return ((lk_peak_fn)k->fn)(100) > 0 ? 0 : wrong(k, "no flops");
    case LK_WINOGRAD_IN: return k->kr == 1 ? winograd(k) : 0; /* of units of two: test_winograd_kernels.py */
    case LK_WINOGRAD_TAPS: return check_winograd_taps(k);
    case LK_WINOGRAD_OUT: case LK_WINOGRAD_FILTER: return 0; /* checked with the input transform */
    case LK_WINOGRAD_EXPAND: return 0; /* test_winograd_kernels.py */
    case LK_COPY: case LK_TRANSPOSE: case LK_GATHER: case LK_FILL: return check_moves(k);
    default: return wrong(k, "nothing here asks anything of it");
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
