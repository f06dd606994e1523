/* Checks every row of the registry that this machine runs against plain loops, on machines that have no Python (see
 * aarch64.sh). pytest tests/core checks more; this is for other compilers and other instruction sets.
 *
 * The rows of Winograd are checked together: input, filter and output transforms around plain products are a
 * convolution.
 */
#include "convert/convert.h"
#include "convert/pairs.h"
#include "depthwise/depthwise.h"
#include "blend/blend.h"
#include "depthwise/plane_strips.h"
#include "depthwise/depthwise_dot.h"
#include "depthwise/strips.h"
#include "elementwise/elementwise.h"
#include "elementwise/epilogue.h"
#include "gemm/gemm.h"
#include "gradients/outer.h"
#include "gradients/tap_sums.h"
#include "attention/weights.h"
#include "lrn/lrn.h"
#include "normalise/moments.h"
#include "normalise/reduce.h"
#include "normalise/scale.h"
#include "normalise/softmax.h"
#include "moves/drain.h"
#include "moves/move.h"
#include "peak/peak.h"
#include "pooling/plane_pooling.h"
#include "pooling/pooling.h"
#include "take/take.h"
#include "transpose/transpose.h"
#include "transpose/windows.h"
#include "winograd/extent.h"
#include "winograd/winograd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_cases.h" /* of tests/core/ */
#include "tables.h" /* G_<m>[], K_<m>[]: of F(m, 3) */

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

enum { ADD = 1, RESUME };

static int gemm(const lk_kernel *k, int rows, int cols, int taps, int blocks, int kb, int last, int masked, int onto)
{
    enum { A = ROWS * 4 * DEPTH * 3, B = 4 * DEPTH * 3 * COLS };
    static _Alignas(64) double a[A], b[B], c[ROWS * COLS], bias[COLS];
    static const double zero[3 * DEPTH];
    int64_t row[ROWS], c_row[ROWS], tap[4], c_col[COLS];
    uint32_t mask[4];
    double want[ROWS * COLS];
    int depth = (blocks - 1) * kb + last, pads = onto == ADD ? 0 : draw(cols), item = item_of(k);
    fill(k, a, A), fill(k, b, B), fill(k, c, ROWS * COLS), fill(k, bias, COLS);
    for (int i = 0; i < ROWS; i++) row[i] = item * i * 4 * DEPTH * 3, c_row[i] = item * i * COLS;
    for (int t = 0; t < 4; t++) tap[t] = item * t * DEPTH * 3, mask[t] = masked ? (uint32_t)draw(1 << 16) : ~0u;
    for (int j = 0; j < COLS; j++) c_col[j] = item * j * k->lanes;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLS; j++) {
            double old = get(k, c, i * COLS + j);
            double sum = j >= cols || onto == RESUME ? old : get(k, bias, j) + (onto ? old : 0);
            for (int t = 0; t < taps && j < cols; t++)
                for (int q = 0; q < depth && mask[t] >> i & 1; q++)
                    sum += get(k, a, (row[i] + tap[t]) / item + q) * get(k, b, (t * depth + q) * COLS + j);
            want[i * COLS + j] = j < cols && j >= cols - pads ? 0 : sum;
        }
    for (int i = 0; i < taps * depth * COLS; i++)
        if (i % COLS < cols && i % COLS >= cols - pads) set(k, b, i, INFINITY);
    lk_gemm g = {.a = (char *)a, .row = row, .tap = tap, .mask = masked ? mask : NULL, .zero = zero, .taps = taps,
                 .blocks = blocks, .block_stride = item * kb, .kb = kb, .kb_last = last, .b = (char *)b, .ldb = COLS,
                 .bias_col = bias, .c = (char *)c, .c_row = c_row, .c_col = c_col, .accumulate = onto == ADD,
                 .resume = onto == RESUME, .rows = rows, .cols = cols, .pads = pads, .chunk = 1 + draw(2 * DEPTH),
                 .period = 1 + draw(3 * DEPTH)};
    ((lk_gemm_fn)k->fn)(&g);
    for (int i = 0; i < rows * COLS; i++)
        if (get(k, c, i) != want[i]) return wrong(k, "wrong sum");
    return 0;
}

/* What sums are stored as: themselves, or bytes without and with a bias, a zero point, limits and pads. */
enum { OF_S32, OF_U8, OF_S8, OF_U8_MORE, OF_S8_MORE, STORED };

/* How sums become bytes. */
static lk_rounding any_rounding(int cols, int as, int apart)
{
    lk_rounding r = {.sign = as == OF_S8 || as == OF_S8_MORE ? 128 : 0, .apart = apart};
    int more = as >= OF_U8_MORE, pads = more ? draw(cols) : 0;
    float scale = ldexpf(1, -1 - draw(20));
    r.adds = more && draw(4), r.shifts = more, r.zero = r.sign + (more ? draw(256) - r.sign : 0);
    for (int j = 0; j < LK_MAX_COLUMNS; j++) {
        int valid = j < cols - pads;
        r.mul[j] = valid ? scale * (float)(draw(2001) - 1000) / 1000 : 0;
        r.off[j] = valid && r.adds ? (float)(draw(20001) - 10000) / 64 : 0;
        r.least[j] = (uint8_t)(valid ? more ? draw(40) : 0 : r.sign);
        r.most[j] = (uint8_t)(valid ? more ? 200 + draw(56) : 255 : r.sign);
    }
    return r;
}

/* The byte that this makes of a sum of column j. */
static uint8_t byte_of(const lk_rounding *r, int j, int32_t sum)
{
    volatile float product = (float)sum * r->mul[j]; /* a product and a sum are rounded each */
    double q = fmin(fmax(rint((double)(product + r->off[j])) + r->zero, 0), 255);
    return (uint8_t)((int)fmin(fmax(q, r->least[j]), r->most[j]) ^ r->sign);
}

/* Units of four: u8, or s8 with its sign flipped, times s8. */
static int units(const lk_kernel *k, int rows, int cols, int taps, int depth, int masked, int flipped, int as)
{
    enum { A = ROWS * 4 * DEPTH, B = 4 * DEPTH * COLS };
    static _Alignas(64) uint8_t a[4 * A], zero[4 * DEPTH];
    static _Alignas(64) int8_t b[4 * B];
    static _Alignas(64) int32_t c[ROWS * COLS], bias[COLS];
    int64_t row[ROWS], c_row[ROWS], tap[4], c_col[COLS];
    uint32_t mask[4];
    for (int i = 0; i < 4 * A; i++) a[i] = (uint8_t)(draw(4) ? draw(256) : 255 * draw(2));
    for (int i = 0; i < 4 * B; i++) b[i] = (int8_t)(draw(4) ? draw(256) - 128 : 255 * draw(2) - 128);
    for (int j = 0; j < COLS; j++) bias[j] = draw(9999), c_col[j] = 4 * j * k->lanes;
    for (int i = 0; i < ROWS; i++) row[i] = i * 16 * DEPTH, c_row[i] = 4 * i * COLS;
    for (int t = 0; t < 4; t++) tap[t] = t * 4 * DEPTH, mask[t] = masked ? (uint32_t)draw(1 << 16) : ~0u;
    memset(zero, 3, sizeof zero);
    lk_gemm g = {.a = (char *)a, .row = row, .tap = tap, .mask = masked ? mask : NULL, .zero = zero, .taps = taps,
                 .blocks = 1, .kb = depth, .kb_last = depth, .b = (char *)b, .ldb = COLS, .bias_col = bias, .c = (char *)c,
                 .c_row = c_row, .c_col = c_col, .rows = rows, .cols = cols, .flip = flipped ? 0x80808080 : 0};
    const lk_rounding out = any_rounding(cols, as, cols % k->lanes == 0 && draw(2));
    if (as) {
        for (int j = 0; j < COLS; j++) c_col[j] = j * (k->lanes + (out.apart ? 3 : 0));
        g.out = &out;
    }
    memset(c, 77, sizeof c);
    ((lk_gemm_fn)k->fn)(&g);
    uint8_t want[4 * COLS];
    memset(want, 77, sizeof want);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            int32_t sum = bias[j];
            for (int t = 0; t < taps; t++)
                for (int q = 0; q < 4 * depth; q++) {
                    int x = mask[t] >> i & 1 ? a[row[i] + tap[t] + q] : zero[q];
                    sum += (flipped ? x ^ 128 : x) * b[((t * depth + q / 4) * COLS + j) * 4 + q % 4];
                }
            if (as) want[c_col[j / k->lanes] + j % k->lanes] = byte_of(&out, j, sum);
            else if (c[i * COLS + j] != sum) return wrong(k, "wrong sum");
            if (as && j + 1 == cols && memcmp(c + i * COLS, want, sizeof want)) return wrong(k, "wrong bytes");
        }
    return 0;
}

static int move(const lk_kernel *k, int n0, int n1, int stream)
{
    static _Alignas(64) unsigned char src[1 << 20], dst[1 << 20], want[1 << 20];
    int w = width_of(k);
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

/* Three panels; the rows of the destination are contiguous or have gaps between them. */
static int panel(const lk_kernel *k, int w, int n0, int n1, int gap)
{
    enum { BYTES = 3 << 19 };
    static _Alignas(64) char src[BYTES], dst[BYTES], ready[BYTES], scratch[LK_PANEL_BYTES];
    lk_nest nest = {.width = w, .loops = 1, .tasks = 3, .n = {3}, .src = w, .dst = 64 + w};
    nest.tile = (lk_move){.n0 = n0, .n1 = n1, .s0 = w, .s1 = (n0 + 3) * w, .d0 = (n1 + gap) * w, .d1 = w};
    nest.s[0] = n1 * nest.tile.s1, nest.d[0] = n0 * nest.tile.d0 + gap;
    if ((int64_t)(n0 * w + 128) * n1 > LK_PANEL_IN_BYTES || (64 + w) * n1 > LK_PANEL_OUT_BYTES) return 0;
    for (const lk_kernel *const *all = lk_all_kernels(); *all; all++)
        for (const lk_kernel *r = *all; r->name; r++)
            if (r->isa == k->isa && r->family == LK_TRANSPOSE && width_of(r) == w) nest.fn = (lk_move_fn)r->fn;
    for (size_t i = 0; i < sizeof src; i++) src[i] = (char)draw(256);
    memset(dst, 0x55, sizeof dst), memset(ready, 0x55, sizeof ready);
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < n0; i++)
            for (int j = 0; j < n1; j++)
                memcpy(ready + nest.dst + t * nest.d[0] + i * nest.tile.d0 + j * w,
                       src + nest.src + t * nest.s[0] + j * nest.tile.s1 + i * w, (size_t)w);
    ((lk_panel_fn)k->fn)(&nest, src, dst, 0, 3, scratch);
    return memcmp(dst, ready, sizeof dst) ? wrong(k, "wrong bytes") : 0;
}

/* Runs of n bytes that are drained in three calls, the second of which goes on where the first one ended, if n allows. */
static int drain(const lk_kernel *k, int n, int begin)
{
    enum { RUNS = 5, CALLS = 3 };
    static _Alignas(64) char src[CALLS][RUNS * 512], dst[8192], ready[8192], tails[RUNS * 64];
    int64_t from[RUNS], to[RUNS];
    int apart = 3 * n + 70;
    memset(dst, 0x55, sizeof dst), memset(ready, 0x55, sizeof ready);
    for (int r = 0; r < RUNS; r++) from[r] = r * 512, to[r] = begin + r * apart;
    for (int c = 0; c < CALLS; c++) {
        int at = c == 2 ? 2 * n + 1 : c * n;
        for (size_t i = 0; i < sizeof src[c]; i++) src[c][i] = (char)draw(256);
        for (int r = 0; r < RUNS; r++) memcpy(ready + to[r] + at, src[c] + from[r], (size_t)n);
    }
    for (int c = 0; c < CALLS; c++) {
        int on = n >= LK_MIN_DRAINED_BYTES;
        lk_drain d = {.src = src[c], .dst = dst + (c == 2 ? 2 * n + 1 : c * n), .tails = tails, .from = from, .to = to,
                      .runs = RUNS, .bytes = n, .continues = on && c == 1, .goes_on = on && c == 0};
        ((lk_drain_fn)k->fn)(&d);
    }
    return memcmp(dst, ready, sizeof dst) ? wrong(k, "wrong bytes") : 0;
}

/* Fused and joined transposes and runs: two steps around rows and columns of two digits each, in tasks of a few rows.
 * gap: bytes between the columns of the destination; if it is odd, the last value of the first digit of columns is a pad
 * of the source; from 3 on rows have a table, whose last row is of pads, and runs have sizes. */
static int fused(const lk_kernel *k, int n0, int n1, int gap)
{
    enum { BYTES = 1 << 19, STEPS = 2 };
    static _Alignas(64) char src[BYTES], dst[BYTES], ready[BYTES], scratch[LK_FUSED_BYTES + LK_JOINED_BYTES];
    static int64_t to_table[LK_MAX_FUSED_TABLE], from_table[LK_MAX_FUSED_TABLE], sizes[LK_MAX_FUSED_TABLE];
    static char pad[64];
    int w = k->family == LK_RUNS ? 1 : width_of(k), whole = 2 * n0, rows = 2 * n1;
    int follow = k->family != LK_FUSED, valid = follow || n0 < 3 ? 0 : n0 - gap % 2, table = gap > 2;
    int64_t run = (int64_t)rows * w, row = whole * w + 8;
    lk_nest nest = {.width = w, .loops = 1, .n = {STEPS}, .src = w, .dst = 64 + w, .tile = {.stream = 1}};
    lk_fused f = {.panel = whole > 20 ? whole / 2 : whole, .unit = 5, .pad = pad};
    f.columns = (lk_fused_loop){.digits = 2, .count = whole, .n = {n0, 2}, .step = {run + gap * w, n0 * (run + gap * w)}};
    f.rows = (lk_fused_loop){.digits = 2, .count = rows, .n = {n1, 2}, .step = {row, (n1 + 1) * row}};
    if (valid) {
        f.columns.count -= n0 - valid, f.columns.table = to_table;
        for (int i = 0; i < n0; i++) to_table[i] = i < valid ? i * f.columns.step[0] : LK_NOWHERE;
    }
    if (k->family == LK_JOINED)
        f.columns = (lk_fused_loop){.digits = 1, .count = whole, .n = {whole}, .step = {run}}, f.unit = 2 * k->nr;
    if (k->family == LK_RUNS) /* rows are copied whole, one after another */
        whole = (int)(f.columns.count = f.columns.n[0] = 40 + n0), row = whole + 8,
        f.rows.step[0] = row, f.rows.step[1] = (n1 + 1) * row, f.columns.digits = 1;
    memset(pad, 'p', sizeof pad);
    for (int j = 0; table && j < n1; j++) from_table[j] = j == n1 - 1 ? LK_NOWHERE : j * f.rows.step[0];
    if (table) f.rows.table = from_table;
    int64_t last_run = whole; /* of runs with sizes, in bytes */
    if (k->family == LK_RUNS && table) {
        f.sizes = sizes, f.unit = n1, last_run = 7;
        for (int j = 0; j < n1; j++) f.period += sizes[j] = j == n1 - 1 ? last_run : whole;
    }
    if (k->family == LK_JOINED && (rows > LK_MAX_JOINED_ROWS || run > LK_MAX_JOINED_RUN_BYTES)) return 0;
    nest.s[0] = (2 * n1 + 3) * row, nest.d[0] = whole * (run + gap * w) + gap * w;
    if (STEPS * nest.s[0] + 64 > BYTES || STEPS * nest.d[0] + 256 > BYTES) return 0;
    int64_t units = (rows + f.unit - 1) / f.unit, panels = (f.columns.count + f.panel - 1) / f.panel;
    int64_t tasks = k->family == LK_JOINED ? (whole + f.unit - 1) / f.unit : k->family == LK_RUNS ? units : units * panels;
    for (size_t i = 0; i < sizeof src; i++) src[i] = (char)draw(256);
    memset(dst, 0x55, sizeof dst), memset(ready, 0x55, sizeof ready);
    for (int t = 0; t < STEPS; t++)
        for (int i = 0; i < f.columns.count; i++)
            for (int j = 0; j < rows; j++) {
                int pads = table && j % n1 == n1 - 1;
                if (k->family == LK_RUNS && pads && i >= last_run) continue;
                int64_t to = k->family == LK_RUNS ? (int64_t)j * whole + i - j / n1 * (whole - last_run)
                             : i % f.columns.n[0] * f.columns.step[0] + i / f.columns.n[0] * f.columns.step[1] + j * w;
                if (!valid || i % n0 < valid)
                    memcpy(ready + nest.dst + t * nest.d[0] + to,
                           pads ? pad
                                : src + nest.src + t * nest.s[0] + j % n1 * f.rows.step[0] + j / n1 * f.rows.step[1] + i * w,
                           (size_t)w);
            }
    nest.tasks = STEPS * tasks;
    ((lk_fused_fn)k->fn)(&nest, &f, src, dst, 0, nest.tasks / 2 + 1, scratch); /* by two threads */
    ((lk_fused_fn)k->fn)(&nest, &f, src, dst, nest.tasks / 2 + 1, nest.tasks, scratch);
    return memcmp(dst, ready, sizeof dst) ? wrong(k, "wrong bytes") : 0;
}

/* Windows: two loops of steps around a table of `n` elements, of which some are pads; span: how many elements of the
 * source it reaches. */
static int windows(const lk_kernel *k, int n, int span, int pads)
{
    enum { BYTES = 1 << 15, STEPS = 7, UPPER = 3 };
    static _Alignas(64) char src[BYTES], dst[BYTES], ready[BYTES];
    static int64_t table[256], ends[256], at[2048];
    static uint64_t masks[2048];
    static int8_t lane_registers[256];
    static _Alignas(64) char orders[2048 * 64], pad_vectors[256 * 64];
    static char pad[64];
    int w = width_of(k), step = span / 2 + 1;
    lk_nest nest = {.width = w, .loops = 2, .n = {UPPER, STEPS}, .s = {STEPS * step * w, step * w}, .tasks = UPPER * STEPS,
                    .d = {STEPS * (n + 1) * w, (n + 1) * w}, .src = w, .dst = 64 + w};
    lk_fused f = {.rows = {.digits = 1, .count = n, .n = {n}, .table = table}, .pad = pad};
    lk_windows *const made = &f.windows;
    memset(pad, 'p', sizeof pad), memset(pad_vectors, 0, sizeof pad_vectors), memset(orders, 0, sizeof orders);
    for (int j = 0; j < n; j++) table[j] = pads && draw(5) == 0 ? LK_NOWHERE : draw(span) * w;
    table[draw(n)] = (span - 1) * w;
    int64_t count = windows_of(made, table, n, w, k->nr, k->mr, pad);
    if (count > 4 * (n + k->nr)) return wrong(k, "more windows than elements");
    *made = (lk_windows){.ends = ends, .at = at,  .masks = masks, .lane_registers = lane_registers, .orders = orders, .pad_vectors = pads ? pad_vectors : NULL};
    windows_of(made, table, n, w, k->nr, k->mr, pad);
    int64_t last = (UPPER * STEPS - 1) * step * w; /* the source ends with what the last step reaches */
    char *const begin = src + BYTES - (nest.src + last + (int64_t)span * w);
    if (begin < src || nest.dst + UPPER * nest.d[0] > BYTES) return 0;
    for (size_t i = 0; i < sizeof src; i++) src[i] = (char)draw(256);
    memset(dst, 0x55, sizeof dst), memset(ready, 0x55, sizeof ready);
    for (int t = 0; t < UPPER * STEPS; t++)
        for (int j = 0; j < n; j++)
            memcpy(ready + nest.dst + t * nest.d[1] + j * w,
                   table[j] == LK_NOWHERE ? pad : begin + nest.src + t * nest.s[1] + table[j], (size_t)w);
    ((lk_fused_fn)k->fn)(&nest, &f, begin, dst, 0, 5, NULL); /* by two threads */
    ((lk_fused_fn)k->fn)(&nest, &f, begin, dst, 5, nest.tasks, NULL);
    return memcmp(dst, ready, sizeof dst) ? wrong(k, "wrong bytes") : 0;
}

/* `cols` columns of `rows` output rows, three rows of kw taps, the input padded before its first column and row. Groups
 * have `each` input and output channels. step: the distance of output columns in taps; 0: taps are 2 columns apart.
 * copied: with a local copy of the columns. */
static int depthwise(const lk_kernel *k, int rows, int cols, int kw, int step, int each, int copied)
{
    enum { H = 5, W = 40, C = 2 * 16, TAPS = 3, KW = 8 };
    static double x[H * W * C], w[2 * TAPS * 2 * KW * 16], y[2 * 8 * C], want[2 * 8 * C];
    static _Alignas(64) int32_t order[2 * 2 * 16];
    static _Alignas(64) double copy[(TAPS + 1) * 8 * KW * 16];
    int lanes = k->lanes, item = item_of(k), gone = lanes > 2 ? (each > 1 ? 2 : 3) : each == 1;
    int channels = 2 * lanes - gone, pixel = item * channels;
    int stride = step ? step : 1, apart = step ? 1 : 2, left = kw / 2 * apart, per = step ? step : kw;
    int64_t tap[TAPS], x_at[4], copy_at[TAPS + 1], copy_tap[TAPS], copy_bytes[2] = {item * lanes};
    uint32_t copy_inside[TAPS + 1] = {0}, inside[TAPS], square[TAPS] = {0}, x_mask[8 * KW + KW] = {0}, y_mask[8] = {0};
    uint32_t x_lanes[4], y_lanes[2], full[2];
    double bias[32], limits[2];
    lk_depthwise_tile at = {.x = -left * pixel - W * pixel, .cols = cols, .whole = 1, .x_mask = x_mask,
                            .y_mask = y_mask};
    fill(k, x, H * W * C), fill(k, w, 2 * TAPS * 2 * KW * 16), fill(k, bias, 32), fill(k, y, 2 * 8 * C);
    memcpy(want, y, sizeof y);
    set(k, limits, 0, -40), set(k, limits, 1, 40);
    for (int t = 0; t < TAPS; t++) {
        tap[t] = t * W * pixel;
        inside[t] = (t ? 1 : 0) | (rows == 2) << 1; /* the first row of taps of output row 0 is padding */
        copy_tap[t] = t;
        for (int r = 0; r < 2; r++) {
            copy_at[t + r] = (t + r) * W * pixel;
            copy_inside[t + r] |= inside[t] >> r & 1;
        }
    }
    for (int j = 0; j < cols; j++) {
        y_mask[j] = ~0u;
        for (int b = 0; b < kw; b++)
            if (j * stride + b * apart >= left) x_mask[j * per + b] = ~0u;
            else at.whole = 0;
    }
    at.edges = !at.whole;
    for (int v = 0; v < 2; v++) {
        y_lanes[v] = (uint32_t)((1ull << (v ? channels - lanes : lanes)) - 1), full[v] = !v;
        for (int c = 0; c < each; c++) {
            x_lanes[v * each + c] = y_lanes[v], x_at[v * each + c] = item * v * lanes;
            for (int i = 0; i < lanes; i++) order[(v * each + c) * lanes + i] = i / each * each + c;
        }
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < cols; j++)
            for (int o = 0; o < channels; o++) {
                double sum = get(k, bias, o);
                for (int t = 0; t < TAPS; t++)
                    for (int c = 0; c < each; c++)
                        for (int b = 0; b < kw; b++) {
                            int row = r + t - 1, column = j * stride + b * apart - left, from = o / each * each + c;
                            if (row < 0 || column < 0) continue;
                            if (each == 1) from = o;
                            sum += get(k, x, (row * W + column) * channels + from)
                                   * get(k, w, (((o / lanes * each + c) * TAPS + t) * kw + b) * lanes + o % lanes);
                        }
                set(k, want, (r * 8 + j) * channels + o, fmin(fmax(sum, -40), 40));
            }
    lk_depthwise d = {.x = (char *)x, .x_row = W * pixel, .x_col = stride * pixel, .x_tap = apart * pixel,
                      .x_vector = item * lanes, .tap = tap, .inside = inside, .square = square, .clip = limits, .w = w,
                      .bias = bias, .y = (char *)y, .y_row = 8 * pixel, .y_col = pixel, .y_vector = item * lanes,
                      .tile = &at, .order = each > 1 ? order : NULL, .x_at = x_at, .x_lanes = x_lanes,
                      .y_lanes = y_lanes, .full = full, .rows = rows, .tiles = 1, .vectors = 2, .taps = TAPS,
                      .depth = each, .kw = kw, .step = step, .copy = copied ? (char *)copy : NULL, .copies = TAPS + 1,
                      .copy_at = copy_at, .copy_tap = copy_tap, .copy_inside = copy_inside, .copy_pixel = item * lanes,
                      .copy_bytes = copy_bytes};
    ((lk_depthwise_fn)k->fn)(&d);
    return memcmp(y, want, sizeof y) ? wrong(k, "wrong sum") : 0;
}

/* Units of four rows of the input; bits of `how`: s8, an order of channels, bytes are stored. Rows and columns are padding
 * by chance. */
static int depthwise_dot(const lk_kernel *k, int rows, int cols, int channels, int how)
{
    enum { RUN = 64, QUADS = 2, KW = 3, WIDE = 24, ROWS_IN = 4 * QUADS };
    static uint8_t x[ROWS_IN][WIDE * RUN], zero[RUN], y[4 * 2 * 8 * RUN], want[4 * 2 * 8 * RUN];
    static _Alignas(64) int8_t w[QUADS * KW * 2 * 4 * RUN];
    static _Alignas(64) char panel[QUADS * WIDE * 4 * RUN];
    static int32_t bias[RUN];
    int lanes = k->lanes, run = 4 * lanes, step = 1 + draw(2), pieces = (channels + 15) / 16, flip = how & 1,
        columns = (cols - 1) * step + KW, as_bytes = how >> 2 & 1 && run > 16, item = as_bytes ? 1 : 4;
    const char *row[ROWS_IN];
    int64_t column[WIDE], at[4], sizes[4], s_at[4];
    char order[RUN];
    float mul[RUN];
    lk_rounding f = {.zero = 5 + (flip ? 128 : 0), .sign = flip ? 128 : 0, .shifts = 1};
    memset(zero, 77, sizeof zero), memset(y, 0xA5, sizeof y), memcpy(want, y, sizeof y);
    for (int u = 0; u < ROWS_IN; u++) {
        row[u] = draw(5) ? (char *)x[u] : NULL;
        for (int i = 0; i < WIDE * RUN; i++) x[u][i] = (uint8_t)(draw(4) ? draw(256) : 255 * draw(2));
    }
    for (size_t i = 0; i < sizeof w; i++) w[i] = (int8_t)(draw(4) ? draw(256) - 128 : 255 * draw(2) - 128);
    for (int i = 0; i < columns; i++) column[i] = draw(5) ? i * channels : LK_NOWHERE;
    for (int i = 0; i < RUN; i++) bias[i] = draw(999), mul[i] = 0.0005f * (float)(1 + draw(900));
    memset(f.most, 255, sizeof f.most);
    for (int p = 0; p < pieces; p++) {
        at[p] = 16 * p, sizes[p] = channels - at[p] < 16 ? channels - at[p] : 16;
        for (int i = 0; i < 16; i++) order[16 * p + i] = (char)draw((int)sizes[p]);
    }
    for (int v = 0; v < 4; v++) s_at[v] = as_bytes ? 16 * v : 4 * v * lanes;
    const int ordered = how >> 1 & 1;
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < cols; j++)
            for (int c = 0; c < channels; c++) {
                /* channels by fours, of every 16 in turn */
                int vector = c % 16 / 4, lane = c / 16 * 4 + c % 4;
                int32_t sum = bias[vector * lanes + lane];
                f.mul[vector * lanes + lane] = mul[c];
                int from = ordered ? c / 16 * 16 + order[c] : c;
                for (int u = 0; u < ROWS_IN; u++)
                    for (int b = 0; b < KW; b++) {
                        int i = j * step + b, v = row[u] && column[i] != LK_NOWHERE ? x[u][column[i] + from] : 77;
                        sum += (flip ? v ^ 128 : v)
                               * w[((((u / 4 * KW + b) * 4 + vector) * 2 + r) * lanes + lane) * 4 + u % 4];
                    }
                int out = (r * cols + j) * channels + c;
                if (!as_bytes) {
                    memcpy(want + 4 * out, &sum, 4);
                    continue;
                }
                float q = rintf((float)sum * mul[c]) + 5;
                want[out] = flip ? (uint8_t)(int8_t)fminf(fmaxf(q, -128), 127) : (uint8_t)fminf(fmaxf(q, 0), 255);
            }
    lk_depthwise_dot d = {.row = row, .column = column, .at = at, .bytes = sizes, .order = ordered ? order : NULL,
                  .zero = (char *)zero, .panel = panel, .w = (char *)w, .bias = (char *)bias, .s = (char *)y,
                  .s_at = s_at, .s_row = item * cols * channels, .s_col = item * channels, .columns = columns,
                  .end = columns, .step = step, .apart = 1, .flip = flip ? 0x80808080 : 0,
                  .lanes = (1u << channels % lanes) - 1, .quads = QUADS, .kw = KW, .rows = rows, .packed_rows = 2,
                  .cols = cols, .vectors = (channels + lanes - 1) / lanes, .pieces = pieces,
                  .reading = channels == run && !ordered ? LK_READ_RUN : LK_READ_PARTS,
                  .segments = 1, .s_whole = 1, .s_bytes = channels, .out = as_bytes ? &f : NULL};
    ((lk_depthwise_dot_fn)k->fn)(&d);
    return memcmp(y, want, sizeof y) ? wrong(k, "wrong sum") : 0;
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

/* Windows of 3 taps over rows of 9 pixels; bits of `how`: means, padding and two steps, taps two apart. */
static int pooling(const lk_kernel *k, int count, int cols, int how)
{
    enum { WIDE = 9, MOST = 90, ROWS = 2, TAPS = 3 };
    static double x[ROWS * WIDE * MOST], y[WIDE * MOST], want[WIDE * MOST], scale[WIDE];
    int item = item_of(k), mean = how & 1, before = how >> 1 & 1, step = 1 + before, dilation = 1 + (how >> 2 & 1);
    lk_pooling g = {.x = (char *)x, .x_row = WIDE * MOST * item, .x_col = MOST * item, .y = (char *)y, .y_col = MOST * item,
                    .depths = 1, .rows = ROWS, .cols = cols, .taps = TAPS, .step = step, .dilation = dilation,
                    .before = before, .size = WIDE, .count = count, .scale = mean ? scale : NULL, .factor = 0.5};
    fill_numbers(k, x, ROWS * WIDE * MOST), fill_numbers(k, y, WIDE * MOST);
    for (int j = 0; j < WIDE; j++) set(k, scale, j, 1 << j % 3);
    memcpy(want, y, sizeof y);
    for (int j = 0; j < cols; j++)
        for (int c = 0; c < count; c++) {
            double found = mean ? 0 : -INFINITY;
            for (int r = 0; r < ROWS; r++)
                for (int t = 0; t < TAPS; t++) {
                    int i = j * step + t * dilation - before;
                    if (i < 0 || i >= WIDE) continue;
                    double v = number(k, x, (r * WIDE + i) * MOST + c);
                    found = mean ? found + v : v > found ? v : found;
                }
            set_number(k, want, j * MOST + c, mean ? found * 0.5 * (1 << j % 3) : found);
        }
    ((lk_pooling_fn)k->fn)(&g);
    return memcmp(y, want, sizeof y) ? wrong(k, "wrong window") : 0;
}

/* Windows of 3 x 3 over a plane of 9 x 40; bits of `how`: means, padding, taps two apart. */
static int plane_pooling(const lk_kernel *k, int cols, int step, int how)
{
    enum { HIGH = 9, WIDE = 40, ROWS = 4, TAPS = 3 };
    static float x[HIGH * WIDE], y[ROWS * WIDE], want[ROWS * WIDE], scale[WIDE];
    static _Alignas(64) char scratch[64 * LK_PLANE_BYTES];
    int mean = how & 1, before = how >> 1 & 1, dilation = 1 + (how >> 2 & 1);
    lk_plane_pooling g = {.x = (char *)x, .x_row = sizeof(float) * WIDE, .y = (char *)y, .y_row = sizeof(float) * WIDE,
                          .depths = 1, .rows = ROWS, .cols = cols, .row_taps = TAPS, .row_step = step,
                          .row_dilation = dilation, .row_before = before, .row_size = HIGH, .taps = TAPS, .step = step,
                          .dilation = dilation, .before = before, .size = WIDE, .row_scale = mean ? scale : NULL,
                          .scale = mean ? scale : NULL, .factor = 0.5f, .scratch = scratch};
    for (int i = 0; i < HIGH * WIDE; i++) x[i] = (float)small();
    for (int i = 0; i < ROWS * WIDE; i++) y[i] = want[i] = (float)small();
    for (int j = 0; j < WIDE; j++) scale[j] = 1 << j % 3;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < cols; j++) {
            float found = mean ? 0 : -INFINITY;
            for (int r = 0; r < TAPS; r++)
                for (int t = 0; t < TAPS; t++) {
                    int row = i * step + r * dilation - before, column = j * step + t * dilation - before;
                    if (row < 0 || row >= HIGH || column < 0 || column >= WIDE) continue;
                    float v = x[row * WIDE + column];
                    found = mean ? found + v : v > found ? v : found;
                }
            want[i * WIDE + j] = mean ? found * 0.5f * scale[i] * scale[j] : found;
        }
    ((lk_plane_pooling_fn)k->fn)(&g);
    return memcmp(y, want, sizeof y) ? wrong(k, "wrong window of a plane") : 0;
}

static int pooling_back(const lk_kernel *k, int count, int cols, int how)
{
    enum { WIDE = 9, MOST = 90, ROWS = 2, TAPS = 3 };
    static double x[ROWS * WIDE * MOST], y[WIDE * MOST], dx[ROWS * WIDE * MOST], want[ROWS * WIDE * MOST], scale[WIDE];
    int item = item_of(k), mean = how & 1, before = how >> 1 & 1, step = 1 + before, dilation = 1 + (how >> 2 & 1);
    lk_pooling_back g = {
        .window = {.x = (char *)x, .x_row = WIDE * MOST * item, .x_col = MOST * item, .y = (char *)y, .y_col = MOST * item,
                   .depths = 1, .rows = ROWS, .cols = cols, .taps = TAPS, .step = step, .dilation = dilation,
                   .before = before, .size = WIDE, .count = count, .scale = mean ? scale : NULL, .factor = 0.5},
        .dx = (char *)dx, .dx_row = WIDE * MOST * item, .dx_col = MOST * item};
    fill_numbers(k, x, ROWS * WIDE * MOST), fill_numbers(k, y, WIDE * MOST), fill_numbers(k, dx, ROWS * WIDE * MOST);
    for (int j = 0; j < WIDE; j++) set(k, scale, j, 1 << j % 3);
    memcpy(want, dx, sizeof dx);
    for (int j = 0; j < cols; j++)
        for (int c = 0; c < count; c++) {
            double most = -INFINITY, dy = number(k, y, j * MOST + c);
            int at = -1;
            for (int r = 0; r < ROWS; r++)
                for (int t = 0; t < TAPS; t++) {
                    int i = j * step + t * dilation - before, to = (r * WIDE + i) * MOST + c;
                    if (i < 0 || i >= WIDE) continue;
                    if (mean)
                        set_number(k, want, to, number(k, want, to) + dy * 0.5 * (1 << j % 3));
                    else if (number(k, x, to) > most)
                        at = to, most = number(k, x, to);
                }
            if (at >= 0) set_number(k, want, at, number(k, want, at) + dy);
        }
    ((lk_pooling_back_fn)k->fn)(&g);
    return memcmp(dx, want, sizeof dx) ? wrong(k, "wrong gradient") : 0;
}

static int weights(const lk_kernel *k, int count, int how)
{
    enum { MOST = 160, ROWS = 2 };
    static double s[ROWS * MOST], mask[MOST], before[ROWS * MOST], most[ROWS], sum[ROWS], factor[ROWS];
    int item = item_of(k), bad = 0;
    lk_weights g = {.s = (char *)s, .s_row = MOST * item, .mask = how ? (char *)mask : 0, .mask_col = how == 2 ? item : 0,
                    .rows = ROWS, .count = count, .scale = 0.5, .maxima = (char *)most, .sums = (char *)sum,
                    .factors = (char *)factor};
    fill_numbers(k, s, ROWS * MOST), fill_numbers(k, mask, MOST), memcpy(before, s, sizeof s);
    for (int i = 0; i < ROWS; i++) set_number(k, most, i, -INFINITY), set_number(k, sum, i, 0);
    ((lk_weights_fn)k->fn)(&g);
    for (int i = 0; i < ROWS; i++) {
        double total = 0;
        for (int j = 0; j < count; j++) {
            double x = 0.5 * number(k, before, i * MOST + j) + (how ? number(k, mask, how == 2 ? j : 0) : 0);
            double want = exp(x - number(k, most, i));
            total += want;
            bad |= fabs(number(k, s, i * MOST + j) - want) > 1e-5 * want;
        }
        bad |= fabs(number(k, sum, i) - total) > 1e-5 * total || number(k, factor, i) != 0;
    }
    return bad ? wrong(k, "wrong weights") : 0;
}

static int lrn(const lk_kernel *k, int count, int size)
{
    enum { MOST = 90, PIXELS = 2 };
    static double x[PIXELS * MOST], y[PIXELS * MOST], squares[2 * MOST + 64];
    int item = item_of(k), below = (size - 1) / 2, above = size - 1 - below;
    lk_lrn g = {.x = (char *)x, .x_pixel = MOST * item, .y = (char *)y, .y_pixel = MOST * item, .pixels = PIXELS,
                .count = count, .below = below, .above = above, .squares = squares, .bias = 1, .scale = 0.25};
    memset(squares, 0, sizeof squares);
    fill_numbers(k, x, PIXELS * MOST), fill_numbers(k, y, PIXELS * MOST);
    double beyond = number(k, y, count);
    ((lk_lrn_fn)k->fn)(&g);
    for (int i = 0; i < PIXELS * MOST; i++) {
        if (i % MOST >= count) continue;
        double sum = 0;
        for (int c = i % MOST - below; c <= i % MOST + above; c++)
            if (c >= 0 && c < count) sum += pow(number(k, x, i - i % MOST + c), 2);
        double want = number(k, x, i) / pow(1 + 0.25 * sum, 0.75);
        if (fabs(number(k, y, i) - want) > (item == 2 ? 4e-3 : 1e-5) * (1 + fabs(want))) return wrong(k, "wrong response");
    }
    return count < MOST && number(k, y, count) != beyond ? wrong(k, "wrote beyond the channels") : 0;
}

/* Where element (i, j) of rows, or of columns, is. */
enum { LINE = 90, LINES = 5 };
static int at_line(int down, int i, int j) { return down ? j * LINE + i : i * LINE + j; }

static int moments(const lk_kernel *k, int count, int down)
{
    static double x[LINE * LINE], mean[LINE], squares[LINE];
    int lines = down ? count : LINES, length = down ? LINES : count;
    lk_moments g = {.x = (char *)x, .x_row = LINE * item_of(k), .rows = LINES, .count = count, .by_column = down, .mean = mean,
                    .squares = squares};
    fill_numbers(k, x, LINE * LINE);
    ((lk_moments_fn)k->fn)(&g);
    for (int i = 0; i < lines; i++) {
        double sum = 0, apart = 0;
        for (int j = 0; j < length; j++) sum += number(k, x, at_line(down, i, j));
        for (int j = 0; j < length; j++) apart += pow(number(k, x, at_line(down, i, j)) - sum / length, 2);
        if (fabs(mean[i] - sum / length) > 1e-12 || fabs(squares[i] - apart) > 1e-10) return wrong(k, "wrong moments");
    }
    return 0;
}

static int scaling(const lk_kernel *k, int count, int by_column, int more)
{
    static double x[LINES * LINE], y[LINES * LINE];
    static float numbers[5][LINE];
    int to_reals = strstr(k->types, "_f32") != NULL;
    lk_scaling g = {.x = (char *)x, .y = (char *)y, .x_row = LINE * item_of(k), .y_row = LINE * (to_reals ? 4 : item_of(k)),
                    .rows = LINES, .count = count, .mean = numbers[0], .factor = numbers[1], .shift = numbers[2],
                    .scale = more ? numbers[3] : NULL, .bias = more > 1 ? numbers[4] : NULL, .by_column = by_column};
    fill_numbers(k, x, LINES * LINE);
    for (int i = 0; i < 5 * LINE; i++) numbers[i / LINE][i % LINE] = (float)small();
    ((lk_scaling_fn)k->fn)(&g);
    for (int i = 0; i < LINES; i++)
        for (int j = 0; j < count; j++) {
            int a = by_column ? j : i, b = by_column ? i : j, at = i * LINE + j;
            double v = (number(k, x, at) - numbers[0][a]) * numbers[1][a] + numbers[2][a];
            v = more ? v * numbers[3][b] + (more > 1 ? numbers[4][b] : 0) : v;
            double got = to_reals ? ((float *)y)[at] : number(k, y, at);
            if (fabs(got - v) > (item_of(k) == 2 && !to_reals ? 8e-3 : 1e-5) * (1 + fabs(v))) return wrong(k, "wrong results");
        }
    return 0;
}

static int softmax(const lk_kernel *k, int count, int down, int logarithm)
{
    static double x[LINE * LINE], y[LINE * LINE];
    int lines = down ? count : LINES, length = down ? LINES : count, item = item_of(k);
    lk_softmax g = {.x = (char *)x, .y = (char *)y, .x_row = LINE * item, .y_row = LINE * item, .rows = LINES,
                    .count = count, .by_column = down, .logarithm = logarithm};
    fill_numbers(k, x, LINE * LINE);
    ((lk_softmax_fn)k->fn)(&g);
    for (int i = 0; i < lines; i++) {
        double sum = 0;
        for (int j = 0; j < length; j++) sum += exp(number(k, x, at_line(down, i, j)));
        for (int j = 0; j < length; j++) {
            double v = exp(number(k, x, at_line(down, i, j))) / sum, got = number(k, y, at_line(down, i, j));
            v = logarithm ? log(v) : v;
            if (fabs(got - v) > (item == 2 ? 8e-3 : 1e-6) * (1 + fabs(v))) return wrong(k, "wrong softmax");
        }
    }
    return 0;
}

static int reduce(const lk_kernel *k, int count, int down, int fold)
{
    static double x[LINE * LINE], into[LINE], most[LINE];
    int lines = down ? count : LINES, length = down ? LINES : count;
    lk_reduce g = {.x = (char *)x, .x_row = LINE * item_of(k), .rows = LINES, .count = count, .by_column = down, .fold = fold,
                   .into = into, .maxima = most};
    fill_numbers(k, x, LINE * LINE);
    for (int i = 0; i < LINE; i++) into[i] = 1, most[i] = i % 3;
    ((lk_reduce_fn)k->fn)(&g);
    for (int i = 0; i < lines; i++) {
        double want = 1, size = 1;
        for (int j = 0; j < length; j++) {
            double v = number(k, x, at_line(down, i, j));
            v = fold == LK_FOLD_ABSOLUTE ? fabs(v) : fold == LK_FOLD_SQUARES ? v * v : fold == LK_FOLD_POWERS ? exp(v - i % 3) : v;
            want = fold == LK_FOLD_PRODUCT ? want * v : fold == LK_FOLD_MAX ? fmax(want, v) : fold == LK_FOLD_MIN ? fmin(want, v) : want + v;
            size += fabs(v);
        }
        if (fabs(into[i] - want) > (fold == LK_FOLD_POWERS ? 1e-6 : 1e-12) * fmax(size, fabs(want))) return wrong(k, "wrong fold");
    }
    return 0;
}

static int outer(const lk_kernel *k, int rows, int steps, int vectors, int accumulate)
{
    enum { MOST = 64 };
    static double a[2 * MOST * MOST], b[2 * MOST * MOST], c[MOST * MOST], want[MOST * MOST];
    int item = item_of(k);
    int64_t a_row[2] = {3 * item, MOST * MOST * item}, b_row[2] = {MOST * MOST * item, 0};
    lk_outer g = {.a = (char *)a, .b = (char *)b, .c = (char *)c, .next = (char *)a, .a_row = a_row, .b_row = b_row, .a_step = 19 * item,
                  .b_step = MOST * item, .c_row = MOST * item, .rows = rows, .steps = steps, .vectors = vectors,
                  .accumulate = accumulate};
    fill_numbers(k, a, 2 * MOST * MOST), fill_numbers(k, b, 2 * MOST * MOST), fill_numbers(k, c, MOST * MOST);
    memcpy(want, c, sizeof c);
    for (int i = 0; i < k->mr; i++)
        for (int j = 0; j < vectors * k->lanes; j++) {
            double sum = accumulate ? number(k, c, i * MOST + j) : 0;
            for (int r = 0; r < rows; r++)
                for (int s = 0; s < steps; s++)
                    sum += number(k, a, a_row[r] / item + s * 19 + i) * number(k, b, b_row[r] / item + s * MOST + j);
            set_number(k, want, i * MOST + j, sum);
        }
    ((lk_outer_fn)k->fn)(&g);
    return memcmp(c, want, sizeof c) ? wrong(k, "wrong sums") : 0;
}

static int tap_sums(const lk_kernel *k, int taps, int rows, int count)
{
    enum { STEPS = 5, WIDE = 16, TAPS = 25 };
    static double x[64 * WIDE * WIDE], y[64 * WIDE], c[(TAPS + 1) * WIDE], want[(TAPS + 1) * WIDE];
    int64_t tap[TAPS], sum_at[TAPS];
    int item = item_of(k), lanes = k->lanes;
    lk_tap_sums g = {.x = (char *)x, .y = (char *)y, .c = (char *)c, .tap = tap, .sum = sum_at, .x_row = 3 * WIDE * item, .x_step = 2 * WIDE * item,
                     .y_row = STEPS * WIDE * item, .y_step = WIDE * item, .rows = rows, .steps = STEPS, .taps = taps,
                     .lanes = count < lanes ? (1u << count) - 1 : 0};
    for (int t = 0; t < taps; t++) tap[t] = (7 * t + 1) * item, sum_at[t] = (t ^ 1) * lanes * item;
    fill_numbers(k, x, 64 * WIDE * WIDE), fill_numbers(k, y, 64 * WIDE), fill_numbers(k, c, (TAPS + 1) * WIDE);
    memcpy(want, c, sizeof c);
    for (int t = 0; t < taps; t++)
        for (int j = 0; j < count; j++) {
            double sum = number(k, c, (t ^ 1) * lanes + j);
            for (int r = 0; r < rows; r++)
                for (int s = 0; s < STEPS; s++)
                    sum += number(k, x, (3 * r + 2 * s) * WIDE + 7 * t + 1 + j) * number(k, y, (r * STEPS + s) * WIDE + j);
            set_number(k, want, (t ^ 1) * lanes + j, sum);
        }
    ((lk_tap_sums_fn)k->fn)(&g);
    return memcmp(c, want, sizeof c) ? wrong(k, "wrong sums") : 0;
}

/* k x k taps of one vector of channels, or with `part` of fewer; left .. below: columns and rows of padding. */
static int strips(const lk_kernel *k, int rows, int cols, int step, int left, int right, int top, int below, int part)
{
    enum { WIDE = 24 };
    static double x[WIDE * WIDE * 16], narrow[WIDE * WIDE * 16], w[49 * 16], bias[16], y[9 * WIDE * 16], want[9 * WIDE * 16];
    int item = item_of(k), size = k->mr, lanes = k->lanes, vector = (item == 2 ? 4 : item) * lanes, high = (rows - 1) * step + size,
        wide = (cols - 1) * step + size, used = part ? lanes - 1 : lanes;
    left = left < wide ? left : wide, right = right < wide - left ? right : wide - left;
    uint32_t inside = ((1u << (wide - right)) - 1) & ~((1u << left) - 1);
    lk_strips g = {.x = (char *)(item == 2 ? narrow : x), .x_row = WIDE * item * lanes, .x_col = item * lanes, .w = w, .bias = bias, .y = (char *)y,
                   .y_row = WIDE * vector, .y_col = vector, .rows = rows, .top = top,
                   .bottom = top > high - below ? top : high - below, .cols = cols, .step = step, .inside = inside, .vectors = 1,
                   .x_lanes = used < lanes ? (1u << used) - 1 : 0, .y_lanes = (1u << used) - 1, .wide = 1};
    fill(k, x, WIDE * WIDE * 16), fill(k, w, 49 * 16), fill(k, bias, 16), fill(k, y, 9 * WIDE * 16);
    memcpy(want, y, sizeof y);
    for (int i = 0; item == 2 && i < WIDE * WIDE * lanes; i++) set_number(k, narrow, i, get(k, x, i));
    for (int i = 0; i < rows * cols * lanes; i++) {
        int o = i / (cols * lanes), j = i / lanes % cols, c = i % lanes;
        double sum = get(k, bias, c);
        if (c >= used) continue;
        for (int t = 0; t < size * size; t++) {
            int row = step * o + t / size, column = step * j + t % size;
            if (row >= g.top && row < g.bottom && (inside >> column & 1))
                sum += get(k, x, (row * WIDE + column) * lanes + c) * get(k, w, t * lanes + c);
        }
        set(k, want, (o * WIDE + j) * lanes + c, sum);
    }
    ((lk_strips_fn)k->fn)(&g);
    return memcmp(y, want, sizeof y) ? wrong(k, "wrong sum") : 0;
}

/* k x k taps of planes, `wide` pixels along the width; bits of `outside`: padding above, below, before and after. */
static int plane_strips(const lk_kernel *k, int planes, int rows, int wide, int outside)
{
    enum { WIDE = 96, IN = 24 * WIDE, OUT = 16 * WIDE };
    static double x[2 * IN], w[2 * 49], bias[2], y[2 * OUT], want[2 * OUT];
    uint32_t lanes[8 * 7] = {0};
    int size = k->mr, first = outside >> 2 & 1, last = wide + size - 1 - (outside >> 3 & 1), all = 1;
    int vectors = (wide + k->lanes - 1) / k->lanes, row_bytes = WIDE * item_of(k);
    lk_plane_strips g = {.x = (char *)x, .x_row = row_bytes, .w = w, .bias = bias, .y = (char *)y, .y_row = row_bytes,
                         .rows = rows, .top = outside & 1, .bottom = rows + size - 1 - (outside >> 1 & 1),
                         .x_plane = IN * item_of(k), .y_plane = OUT * item_of(k), .planes = planes,
                         .x_lanes = lanes, .y_lanes = (1u << ((wide - 1) % k->lanes + 1)) - 1, .vectors = vectors};
    if (planes == 2 && vectors > 1)
        return 0;
    fill(k, x, 2 * IN), fill(k, w, 2 * 49), fill(k, bias, 2), fill(k, y, 2 * OUT);
    memcpy(want, y, sizeof y);
    for (int j = 0; j < vectors * k->lanes; j++)
        for (int b = 0; b < size; b++) {
            int inside = j < wide && j + b >= first && j + b < last;
            lanes[j / k->lanes * size + b] |= (uint32_t)inside << j % k->lanes, all &= inside;
        }
    g.masked = !all;
    for (int plane = 0; plane < planes; plane++)
        for (int o = 0; o < rows; o++)
            for (int j = 0; j < wide; j++) {
                double sum = get(k, bias, plane);
                for (int t = 0; t < size * size; t++) {
                    int row = o + t / size, column = j + t % size;
                    if (row >= g.top && row < g.bottom && column >= first && column < last)
                        sum += get(k, x, plane * IN + row * WIDE + column) * get(k, w, plane * size * size + t);
                }
                set(k, want, plane * OUT + o * WIDE + j, sum);
            }
    ((lk_plane_strips_fn)k->fn)(&g);
    return memcmp(y, want, sizeof y) ? wrong(k, "wrong sum") : 0;
}

/* What a step makes of v, with numbers a and operand b; see LK_STEPS. */
static double stepped(int step, double v, const double *a, double b)
{
    double share = fmin(fmax(a[0] * v + a[1], 0), 1), e = exp(-fabs(v));
    switch (step) {
    case LK_STEP_CLIP: return fmin(fmax(v, a[0]), a[1]);
    case LK_STEP_PRELU: return v < 0 ? v * b : v;
    case LK_STEP_SILU: return v / (1 + exp(-v));
    case LK_STEP_GELU: return v * 0.5 * (1 + erf(v / sqrt(2)));
    case LK_STEP_GELU_TANH: return v * 0.5 * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    case LK_STEP_HARDSWISH: return v * fmin(fmax(v + 3, 0), 6) / 6;
    case LK_STEP_ELU: return v < 0 ? a[0] * expm1(v) : v;
    case LK_STEP_TANH: return tanh(v);
    case LK_STEP_SIGMOID: return 1 / (1 + exp(-v));
    case LK_STEP_SOFTPLUS: return fmax(v, 0) + log1p(e);
    case LK_STEP_ABS: return fabs(v);
    case LK_STEP_SQUARE: return v * v;
    case LK_STEP_SQRT: return sqrt(v);
    case LK_STEP_EXP: return exp(v);
    case LK_STEP_LOG: return log(v);
    case LK_STEP_POW: return a[0] * pow(v, a[1]);
    case LK_STEP_ROUND: return rint(v);
    case LK_STEP_MISH: return v * tanh(fmax(v, 0) + log1p(e));
    case LK_STEP_SWISH: return v / (1 + exp(-a[0] * v));
    case LK_STEP_HARDSIGMOID: return share;
    case LK_STEP_HARDSWISH_OF: return v * share;
    case LK_STEP_LINEAR: return a[0] * v + a[1];
    case LK_STEP_SUM: return v + a[0] * b;
    case LK_STEP_ADD: return v + b;
    case LK_STEP_MUL: return v * b;
    case LK_STEP_MAX: return fmax(v, b);
    case LK_STEP_MIN: return fmin(v, b);
    case LK_STEP_SUB: return v - b;
    case LK_STEP_RSUB: return b - v;
    case LK_STEP_DIV: return v / b;
    case LK_STEP_RDIV: return b / v;
    case LK_STEP_EQUAL: return v == b;
    case LK_STEP_LESS: return v < b;
    case LK_STEP_LESS_EQUAL: return v <= b;
    case LK_STEP_GREATER: return v > b;
    case LK_STEP_GREATER_EQUAL: return v >= b;
    case LK_STEP_FILL: return b != 0 ? a[0] : v;
    case LK_STEP_KEEP: return b != 0 ? v : a[0];
    case LK_STEP_ERF: return erf(v);
    case LK_STEP_SELU: return v > 0 ? a[1] * v : a[0] * expm1(v);
    case LK_STEP_CELU: return v < 0 ? a[0] * expm1(v / a[0]) : v;
    case LK_STEP_SOFTSIGN: return v / (1 + fabs(v));
    case LK_STEP_NEG: return -v;
    case LK_STEP_SIGN: return (v > 0) - (v < 0);
    case LK_STEP_FLOOR: return floor(v);
    case LK_STEP_CEIL: return ceil(v);
    case LK_STEP_RECIPROCAL: return 1 / v;
    case LK_STEP_THRESHOLDED_RELU: return v > a[0] ? v : 0;
    case LK_STEP_SHRINK: return v < -a[1] ? v + a[0] : v > a[1] ? v - a[0] : 0;
    }
    return NAN;
}

/* A step after a residual, and maybe before another one. */
static int epilogue(const lk_kernel *k, int step, int kind, int chain, int count)
{
    enum { WIDE = 40 };
    static double y[3 * WIDE], sums[3 * WIDE], add[3 * WIDE], operand[3 * WIDE], numbers[4], limits[2];
    double want[3 * WIDE], a[4] = {step == LK_STEP_CLIP ? -1 : 0.5, 2, 1, 1};
    int64_t row[3];
    int narrow = item_of(k) == 2, positive = step == LK_STEP_SQRT || step == LK_STEP_LOG;
    for (int i = 0; i < 4; i++) set(k, numbers, i, a[i]);
    set(k, limits, 0, -8), set(k, limits, 1, 8);
    for (int i = 0; i < 3 * WIDE; i++) {
        double x = 0.375 * small(), r = 0.5 * small(), b = 0.25 * small();
        if (positive) x = fabs(x) + 0.25, r = fabs(r);
        double *held = narrow ? sums : y;
        set(k, held, i, x);
        set_number(k, add, i, r);
        if (kind == LK_TENSOR) set_number(k, operand, i, b);
        else set(k, operand, i, b);
    }
    for (int i = 0; i < 3 * WIDE; i++) {
        int of = kind == LK_TENSOR ? i : kind == LK_PER_CHANNEL ? i % WIDE : 0;
        double x = get(k, narrow ? sums : y, i);
        double b = kind == LK_TENSOR ? number(k, operand, of) : get(k, operand, of);
        double v = stepped(step, x + number(k, add, i), a, b);
        if (chain && v == v) v = fmin(fmax(v, -8), 8); /* 0 / 0 stays NaN */
        want[i] = i % WIDE < count ? v : narrow ? number(k, y, i) : x;
    }
    for (int i = 0; i < 3; i++) row[i] = item_of(k) * i * WIDE;
    lk_step steps[2] = {{step, kind, (char *)numbers, (char *)operand}, {LK_STEP_CLIP, LK_NUMBER, (char *)limits, 0}};
    lk_epilogue f = {.y = (char *)y, .add = (char *)add, .sums = (char *)sums, .sums_row = 4 * WIDE, .row = row, .rows = 3,
                     .count = count, .channel_col = 1, .steps = 1 + chain, .step = steps};
    ((lk_epilogue_fn)k->fn)(&f);
    double allowed = item_of(k) == 8 ? 8e-15 : 4e-6;
    for (int i = 0; i < 3 * WIDE; i++) {
        double got = number(k, y, i), most = allowed * (1 + fabs(want[i])) + (narrow ? fabs(want[i]) / 128 : 0);
        if (!(got == want[i] || fabs(got - want[i]) <= most || (got != got && want[i] != want[i])))
            return wrong(k, lk_step_name(step));
    }
    return 0;
}

static void put(char *at, int type, int64_t i, int value);

/* Sums rounded to narrow numbers: quarters, which are exact but where integers are made of them. */
static int rounded(const lk_kernel *k, int count, int clipped)
{
    enum { WIDE = 40 };
    static union { float real[2 * WIDE]; int32_t whole[2 * WIDE]; } sums;
    static float mul[WIDE], off[WIDE];
    static const float limits[2] = {-1.5f, 2};
    static char y[4 * 2 * WIDE], add[4 * 2 * WIDE], want[4 * 2 * WIDE];
    int whole = !strncmp(k->types, "s32_", 4), element = LK_TYPE_COUNT;
    for (int e = 0; e < LK_TYPE_COUNT; e++)
        if (!strcmp(lk_element_name(e), k->types + 4 * whole)) element = e;
    int item = lk_element_bytes(element), integer = element == LK_U8 || element == LK_S8;
    int64_t row[2] = {0, item * WIDE};
    const lk_step clip = {.step = LK_STEP_CLIP, .numbers = (const char *)limits};
    lk_epilogue f = {.y = y, .add = add, .sums = (char *)&sums, .sums_row = 4 * WIDE, .row = row, .rows = 2, .count = count,
                     .mul = mul, .off = off, .scale = 0.5f, .zero = 5, .channel_col = 1, .steps = clipped, .step = &clip};
    for (int i = 0; i < 2 * WIDE; i++) {
        int j = i % WIDE, more = draw(9);
        if (i < WIDE) mul[i] = 0.25f * (1 + draw(3)), off[i] = small();
        if (whole) sums.whole[i] = draw(9) - 4;
        else sums.real[i] = 0.25f * small();
        put(add, element, i, more);
        float v = whole ? (float)sums.whole[i] * mul[j] + off[j] : sums.real[i];
        v += integer ? (float)(more - 5) * 0.5f : (float)more;
        if (clipped) v = fminf(fmaxf(v, -1.5f), 2);
        if (integer) v = fminf(fmaxf(rintf(v / 0.5f) + 5, element == LK_U8 ? 0 : -128), element == LK_U8 ? 255 : 127);
        put(y, element, i, 7), put(want, element, i, 7);
        if (j >= count) continue;
        int quarters = (int)(4 * v);
        if (element == LK_F32) ((float *)want)[i] = v;
        else if (integer) want[i] = (char)(int)v;
        else { /* bf16, f16: of quarters below 16, a sign, an exponent and few bits */
            uint32_t u;
            memcpy(&u, &v, 4);
            ((uint16_t *)want)[i] = (uint16_t)(element == LK_BF16 ? u >> 16
                : !quarters ? 0 : (u >> 16 & 0x8000) | ((u & 0x7fffffff) - 0x38000000) >> 13);
        }
    }
    ((lk_epilogue_fn)k->fn)(&f);
    return memcmp(y, want, (size_t)(2 * WIDE * item)) ? wrong(k, "wrong value") : 0;
}

static int extent(const lk_kernel *k, int count)
{
    enum { WIDE = 80, TALL = 3 };
    float w[TALL * WIDE], least = 0, most = 0;
    for (int i = 0; i < TALL; i++) {
        float row = 0;
        for (int j = 0; j < count; j++) row = fmaxf(row, fabsf(w[i * count + j] = i ? 0.37f * small() : 0));
        most = fmaxf(most, row);
        if (row && (!least || row < least)) least = row;
    }
    lk_extent g = {.w = w, .rows = TALL, .count = count};
    ((lk_extent_fn)k->fn)(&g);
    if (memcmp(&g.least, &least, 4) || memcmp(&g.most, &most, 4)) return wrong(k, "wrong magnitude");
    w[draw(TALL * count)] = draw(2) ? -INFINITY : NAN;
    ((lk_extent_fn)k->fn)(&g);
    return g.most < 0x7f800000 ? wrong(k, "Inf or NaN is passed over") : 0;
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

static int convert(const lk_kernel *k, int src_type, int dst_type, int n0, int n1, int scaled, int stream)
{
    enum { BYTES = 8 * 64 * 64 };
    static _Alignas(64) char src[BYTES], dst[BYTES], ready[BYTES];
    const float sub = 1, mul = 2;
    const double sub64 = 1, mul64 = 2;
    int wide = !strcmp(k->types, "f64");
    int64_t s0 = (n1 + 3) * lk_element_bytes(src_type), d0 = (n1 + 5) * lk_element_bytes(dst_type);
    memset(dst, 0x55, sizeof dst), memset(ready, 0x55, sizeof ready);
    for (int i = 0; i < n0; i++)
        for (int j = 0; j < n1; j++) {
            int value = draw(5);
            if (scaled) value = 1 + value / 2;
            if (src_type == LK_BOOL) value = value > 0;
            put(src + i * s0, src_type, j, value);
            put(ready + i * d0, dst_type, j, scaled ? 2 * (value - 1) : value);
        }
    lk_convert c = {.src = src, .dst = dst, .n0 = n0, .n1 = n1, .s0 = s0, .d0 = d0, .s1 = lk_element_bytes(src_type),
                    .d1 = lk_element_bytes(dst_type), .alpha = 1, .src_type = src_type, .dst_type = dst_type,
                    .stream = stream};
    if (scaled)
        c.sub = wide ? (char *)&sub64 : (char *)&sub, c.mul = wide ? (char *)&mul64 : (char *)&mul;
    ((lk_convert_fn)k->fn)(&c);
    return memcmp(dst, ready, sizeof dst) ? wrong(k, "wrong number") : 0;
}

/* rows x n elements from `at` on, `stride` apart: signed and unsigned. */
static int unpack(const lk_kernel *k, int rows, int n, int at, int stride)
{
    static uint8_t src[4096], dst[4096], ready[4096];
    const int64_t pitch = n * stride + at % 3;
    int bad = 0;
    for (size_t i = 0; i < sizeof src; i++) src[i] = (uint8_t)draw(256);
    for (int sign = 0; sign < 2; sign++) {
        memset(dst, 0x55, sizeof dst), memset(ready, 0x55, sizeof ready);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < n; j++) {
                int64_t e = at + i * pitch + j * stride;
                int value = src[e / 2] >> 4 * (e % 2) & 15;
                ready[i * (n + 1) + j] = (uint8_t)(sign && value > 7 ? value - 16 : value);
            }
        lk_packed c = {.src = (char *)src, .dst = (char *)dst, .n0 = rows, .n1 = n, .at = at, .s0 = pitch, .s1 = stride,
                       .d0 = n + 1, .is_signed = sign};
        ((lk_packed_fn)k->fn)(&c);
        bad += memcmp(dst, ready, sizeof dst) ? wrong(k, "wrong element") : 0;
    }
    return bad;
}

static int pack(const lk_kernel *k, int n)
{
    static uint8_t src[4096], dst[4096], ready[4096];
    int bad = 0;
    for (int sign = 0; sign < 2; sign++) {
        memset(dst, 0x55, sizeof dst), memset(ready, 0x55, sizeof ready);
        memset(ready, 0, (size_t)(n + 1) / 2);
        for (int i = 0; i < n; i++) {
            int x = sign ? (int8_t)(src[i] = (uint8_t)draw(256)) : (src[i] = (uint8_t)draw(256));
            int least = sign ? -8 : 0, most = sign ? 7 : 15;
            ready[i / 2] |= (uint8_t)(((x < least ? least : x > most ? most : x) & 15) << 4 * (i % 2));
        }
        lk_packed c = {.src = (char *)src, .dst = (char *)dst, .n0 = 1, .n1 = n, .is_signed = sign};
        ((lk_packed_fn)k->fn)(&c);
        bad += memcmp(dst, ready, sizeof dst) ? wrong(k, "wrong byte") : 0;
    }
    return bad;
}

static const lk_kernel *partner(const lk_kernel *k, int family)
{
    for (const lk_kernel *const *all = lk_all_kernels(); *all; all++)
        for (const lk_kernel *r = *all; r->name; r++)
            if (r->isa == k->isa && r->family == family && !strcmp(r->types, k->types) &&
                (family == LK_WINOGRAD_FILTER || (r->mr == k->mr && r->nr == k->nr)))
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

static int winograd_taps(const lk_kernel *k, int nh, int vectors, int accumulate)
{
    enum { MOST = 3 * 16 };
    static float u[36 * MOST], c[9 * MOST + 16], want[9 * MOST + 16], table[36 + 4];
    int n = vectors * k->lanes, rows = nh > 1 ? 3 : 1;
    for (int i = 0; i < 36 * MOST; i++) u[i] = small();
    for (int i = 0; i < 9 * MOST + 16; i++) want[i] = c[i] = small();
    for (int i = 0; i < nh; i++)
        for (int j = 0; j < 6; j++) {
            double of_row = nh == 1 ? 1 : i < 5 ? G_4[3 * i] : 1, of_col = j < 5 ? G_4[3 * j] : 1;
            table[i * 6 + j] = of_row * of_col;
        }
    for (int pair = 0; pair < 2; pair++)
        for (int power = 1; power <= 2; power++)
            table[nh * 6 + 2 * pair + power - 1] = G_4[3 * (1 + 2 * pair) + power] / G_4[3 * (1 + 2 * pair)];
    lk_winograd_taps g = {.u = (char *)u, .u_stride = 4 * MOST, .dst = (char *)c, .dst_stride = 4 * MOST, .count = n,
                          .nh = nh, .accumulate = accumulate, .k = table};
    ((lk_winograd_taps_fn)k->fn)(&g);
    for (int a = 0; a < rows; a++)
        for (int b = 0; b < 3; b++)
            for (int v = 0; v < n; v++) {
                double sum = accumulate ? want[(a * 3 + b) * MOST + v] : 0;
                for (int i = 0; i < nh; i++)
                    for (int j = 0; j < 6; j++)
                        sum += (nh == 1 ? 1 : G_4[3 * i + a]) * G_4[3 * j + b] * u[(i * 6 + j) * MOST + v];
                if (!(fabs(c[(a * 3 + b) * MOST + v] - sum) < 2e-3)) return wrong(k, "wrong taps");
                c[(a * 3 + b) * MOST + v] = want[(a * 3 + b) * MOST + v];
            }
    return memcmp(c, want, sizeof c) ? wrong(k, "wrote beyond the taps") : 0;
}

static const int sizes[][2] = {{16, 16}, {32, 48}, {1, 32}, {32, 1}, {1, 1}, {17, 31}, {47, 19}, {5, 3}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static int check_gemm(const lk_kernel *k)
{
    int bad = 0;
    if (k->kr == 4) {
        for (int rows = 1; rows <= k->mr; rows++)
            for (int cols = 1; cols <= k->nr; cols++)
                for (int how = 0; how < 4; how++)
                    for (int as = 0; as < (4 * k->lanes > 16 ? STORED : 1); as++)
                        bad += units(k, rows, cols, 1 + how % 4, 1 + draw(DEPTH), how & 1, how & 2, as);
        return bad;
    }
    if (k->kr == 2) return 0; /* test_gemm_kernels.py */
    for (int rows = 1; rows <= k->mr; rows++)
        for (int cols = 1; cols <= k->nr; cols++) {
            for (int how = 0; how < 6; how++)
                bad += gemm(k, rows, cols, 1 + how % 4, 1 + how % 3, DEPTH, how ? 1 + draw(DEPTH) : DEPTH, how & 1,
                            how / 2);
#define SUM(taps, blocks, kb, last) bad += gemm(k, rows, cols, taps, blocks, kb, last, draw(2), draw(3));
            SUM_CASES(SUM)
        }
    return bad;
}

static int check_depthwise(const lk_kernel *k)
{
    int bad = 0;
    for (int rows = 1; rows <= 2; rows++)
        for (int cols = 1; cols <= k->nr; cols++)
            for (int kw = 2; kw <= 7; kw++)
                for (int step = 0; step <= 2; step++)
                    for (int how = 0; how < 3; how++)
                        bad += depthwise(k, rows, cols, kw, step, how ? 2 : 1, how == 2);
    return bad;
}

static int check_strips(const lk_kernel *k)
{
    int bad = 0;
    for (int cols = (k->nr + 1) / 2; cols <= k->nr; cols++) {
        for (int rows = 1; rows <= 6; rows++)
            for (int how = 0; how < 64; how++)
                bad += strips(k, rows, cols, 1 + (how >> 5), how >> 2 & 1, how >> 3 & 1, how & 1, how >> 1 & 1,
                              how >> 4 & 1);
        const int most = k->mr == 3 ? 1 : k->mr;
#define BORDER(left, right, top, below) bad += strips(k, rows, cols, step, left, right, top, below, draw(2));
#define STRIP(by, count) for (int step = by, rows = count, once = 1; once; once = 0) { BORDER_CASES(BORDER, most) }
        STRIP_CASES(STRIP)
    }
    return bad;
}

static int check_plane_strips(const lk_kernel *k)
{
    int bad = 0;
    for (int wide = 1; wide <= k->nr; wide++)
        for (int rows = 1; rows <= 9; rows++)
            for (int how = 0; how < 32; how++) bad += plane_strips(k, 1 + (how >> 4), rows, wide, how & 15);
    return bad;
}

static int check_pooling(const lk_kernel *k)
{
    int bad = 0;
    for (int count = 1; count <= 90; count++)
        for (int how = 0; how < 8; how++) bad += pooling(k, count, 1 + count % 4, how);
    return bad;
}

static int check_plane_pooling(const lk_kernel *k)
{
    int bad = 0;
    for (int cols = 1; cols <= 40; cols++)
        for (int step = 1; step <= 3; step++)
            for (int how = 0; how < 8; how++) bad += plane_pooling(k, cols, step, how);
    return bad;
}

static int check_pooling_back(const lk_kernel *k)
{
    int bad = 0;
    for (int count = 1; count <= 90; count++)
        for (int how = 0; how < 8; how++) bad += pooling_back(k, count, 1 + count % 4, how);
    return bad;
}

static int check_weights(const lk_kernel *k)
{
    int bad = 0;
    for (int count = 1; count <= 130; count++)
        for (int how = 0; how < 3; how++) bad += weights(k, count, how);
    return bad;
}

static int check_lrn(const lk_kernel *k)
{
    int bad = 0;
    for (int count = 1; count <= 90; count++)
        for (int size = 1; size <= 9; size++) bad += lrn(k, count, size);
    return bad;
}

/* Units in reverse, repeated, and by a table. */
static int check_take(const lk_kernel *k)
{
    enum { MOST = 80 };
    static char x[MOST * 64], y[MOST * 64], want[MOST * 64];
    static int64_t at[MOST];
    int width = atoi(k->types + 1) / 8, bad = 0;
    for (int i = 0; i < MOST * 64; i++) x[i] = (char)draw(256);
    for (int count = 1; count < MOST; count++)
        for (int how = 0; how < 5; how++) {
            int64_t unit = width == 1 ? 1 + count % 40 : width, repeat = how == 3 ? 2 : how == 4 ? 3 : 1;
            int64_t step = how == 1 ? -unit : unit;
            const char *first = how == 1 ? x + unit * (count - 1) : x;
            memset(y, 0, sizeof y), memset(want, 0, sizeof want);
            for (int j = 0; j < count; j++) {
                at[j] = how == 2 ? unit * draw(count) : j / repeat * step;
                memcpy(want + j * unit, first + at[j], unit);
            }
            lk_take g = {.x = first, .y = y, .at = how == 2 ? at : NULL, .count = count, .unit = unit, .y_step = unit,
                         .step = step, .repeat = repeat, .rows = 1, .copies = 1};
            ((lk_take_fn)k->fn)(&g);
            if (memcmp(y, want, sizeof y)) bad += wrong(k, "wrong elements");
        }
    return bad;
}

/* Sums of small integers, which are exact. */
static int check_blend(const lk_kernel *k)
{
    enum { MOST = 80, TAPS = 3 };
    static float x[TAPS][MOST + 64], y[MOST], weight[TAPS * MOST];
    static int32_t at[TAPS * MOST];
    int bad = 0;
    for (int i = 0; i < MOST + 64; i++)
        for (int t = 0; t < TAPS; t++) x[t][i] = small();
    for (int i = 0; i < TAPS * MOST; i++) weight[i] = small();
    const char *rows[TAPS] = {(char *)x[0], (char *)x[1], (char *)x[2]};
    for (int count = 1; count < MOST; count++)
        for (int taps = 1; taps <= TAPS; taps++) {
            const int unit = k->family == LK_BLEND_PIXELS && count % 2 ? 1 + count / 20 : 1, n = count / unit;
            for (int i = 0; i < taps * n; i++) at[i] = i % n / 2 * unit;
            if (k->family == LK_BLEND_ROWS) {
                lk_blend_rows g = {.x = rows, .y = (char *)y, .weight = weight, .taps = taps, .count = n};
                ((lk_blend_rows_fn)k->fn)(&g);
            } else {
                lk_blend_pixels g = {.x = rows[0], .y = (char *)y, .at = at, .weight = weight, .taps = taps, .count = n,
                                     .unit = unit, .y_step = unit * sizeof *y};
                ((lk_blend_pixels_fn)k->fn)(&g);
            }
            for (int i = 0; i < n * unit; i++) {
                float want = 0;
                for (int t = 0; t < taps; t++)
                    want += k->family == LK_BLEND_ROWS ? weight[t] * x[t][i] :
                                                         weight[t * n + i / unit] * x[0][at[t * n + i / unit] + i % unit];
                if (y[i] != want) return wrong(k, "wrong sum");
            }
        }
    return bad;
}

static int check_lines(const lk_kernel *k)
{
    int bad = 0;
    for (int count = 1; count < LINE; count++)
        for (int how = 0; how < 14; how++)
            if (k->family == LK_MOMENTS) bad += how < 2 && moments(k, count, how);
            else if (k->family == LK_SCALE) bad += how < 6 && scaling(k, count, how & 1, how / 2);
            else if (k->family == LK_SOFTMAX) bad += how < 4 && softmax(k, count, how & 1, how / 2);
            else bad += reduce(k, count, how & 1, how / 2);
    return bad;
}

static int check_outer(const lk_kernel *k)
{
    int bad = 0;
    for (int steps = 0; steps <= 20; steps++)
        for (int rows = 0; rows <= 2; rows++)
            for (int vectors = 1; vectors <= k->nr / k->lanes; vectors++) bad += outer(k, rows, steps, vectors, steps & 1);
    return bad;
}

static int check_tap_sums(const lk_kernel *k)
{
    int bad = 0;
    for (int taps = 1; taps <= 25; taps++)
        for (int rows = 0; rows <= 3; rows++)
            for (int count = 1; count <= k->lanes; count++) bad += tap_sums(k, taps, rows, count);
    return bad;
}

static int check_depthwise_dot(const lk_kernel *k)
{
    int bad = 0;
    for (int rows = 1; rows <= 2; rows++)
        for (int cols = 1; cols <= 7; cols++)
            for (int channels = 1; channels <= 4 * k->lanes; channels++)
                for (int how = 0; how < 8; how++) bad += depthwise_dot(k, rows, cols, channels, how);
    return bad;
}

static int check_epilogue(const lk_kernel *k)
{
    int bad = 0;
    if (strcmp(k->types, "f32") && strcmp(k->types, "f64"))
        for (int count = 1; count <= 40; count++) bad += rounded(k, count, 0) + rounded(k, count, 1);
    if (!strncmp(k->types, "s32_", 4)) return bad;
    for (int step = 0; step < LK_STEP_COUNT; step++)
        for (int kind = LK_NUMBER; kind <= LK_TENSOR; kind++)
            for (int count = 1; count <= 40; count++) bad += epilogue(k, step, kind, count & 1, count);
    return bad;
}

/* Matrices whose strides `how` says: rows that follow one another, columns apart, one row or column for all, bytes. */
static int elementwise(const lk_kernel *k, int rows, int count, int how)
{
    enum { MOST = 3 * 2 * 90 };
    static double x[MOST], b[MOST], y[MOST], limits[2];
    static char scratch[4 * LK_PIECE_BYTES];
    int bytes = how & 1 && item_of(k) == 4, element = bytes ? LK_S8 : item_of(k) == 8 ? LK_F64 : LK_F32;
    int item = lk_element_bytes(element), col = how & 2 ? 2 : 1, row = how & 4 ? col * count : 2 * 90;
    int b_row = how & 8 ? 0 : row, b_col = how & 16 ? 0 : col;
    lk_matrix of_x = {(char *)x, row * item, col * item, element, 3, 0.5f}, of_b = of_x, of_y = of_x;
    of_b.at = (char *)b, of_b.row = b_row * item, of_b.col = b_col * item, of_b.zero = -2, of_b.scale = 0.25f;
    of_y.at = (char *)y, of_y.zero = 5, of_y.scale = 0.25f;
    set(k, limits, 0, -0.75), set(k, limits, 1, 1.25);
    for (int i = 0; i < MOST; i++) {
        if (bytes) ((int8_t *)x)[i] = (int8_t)(37 * i), ((int8_t *)b)[i] = (int8_t)(91 * i + 5), ((int8_t *)y)[i] = 9;
        else set(k, x, i, small()), set(k, b, i, small()), set(k, y, i, 9);
    }
    lk_step steps[2] = {{.step = LK_STEP_ADD}, {.step = LK_STEP_CLIP, .numbers = (char *)limits}};
    lk_matrix operands[2] = {of_b};
    lk_elementwise f = {of_x, of_y, 2, steps, operands, rows, count, scratch};
    ((lk_elementwise_fn)k->fn)(&f);
    for (int i = 0; i < MOST; i++) {
        int at_row = i / row, at_col = i % row / col, inside = at_row < rows && at_col < count && i % row % col == 0;
        int at_b = inside ? at_row * b_row + at_col * b_col : 0;
        double got = bytes ? ((int8_t *)y)[i] : get(k, y, i), want = 9;
        double v = bytes ? (((int8_t *)x)[i] - 3) * 0.5 + (((int8_t *)b)[at_b] + 2) * 0.25 : get(k, x, i) + get(k, b, at_b);
        if (inside) want = fmin(fmax(v, -0.75), 1.25);
        if (inside && bytes) want = want * 4 + 5;
        if (got != want) return wrong(k, "wrong value");
    }
    return 0;
}

static int check_elementwise(const lk_kernel *k)
{
    int bad = 0;
    for (int rows = 0; rows <= 3; rows++)
        for (int count = 0; count <= 90; count++)
            for (int how = 0; how < 32; how++)
                if (count || !(how & 4)) bad += elementwise(k, rows, count, how);
    return bad;
}

static int check_extent(const lk_kernel *k)
{
    int bad = 0;
    for (int count = 1; count <= 80; count++) bad += extent(k, count);
    return bad;
}

static int check_convert(const lk_kernel *k)
{
    int bad = 0;
    for (int from = 0; from < LK_TYPE_COUNT; from++)
        for (int to = 0; to < LK_TYPE_COUNT; to++) {
            const int of_f64 = 1 << LK_F64 | 1 << LK_S32 | 1 << LK_U32 | 1 << LK_S64;
            int wide = (of_f64 >> from | of_f64 >> to) & 1;
            for (size_t i = 0; i < SIZES && (!strcmp(k->types, "f64") || !wide); i++)
                for (int how = 0; how < 4; how++)
                    bad += convert(k, from, to, sizes[i][0], sizes[i][1], how & 1, how > 1);
        }
    return bad;
}

static int check_unpack(const lk_kernel *k)
{
    int bad = 0;
    for (int n = 0; n < 100; n++)
        for (int at = 0; at < 4; at++) bad += unpack(k, 1, n, at, 1) + unpack(k, 3, n, at, 1) + unpack(k, 2, n, at, 3);
#define UNPACK(n) bad += unpack(k, 1, n, n % 8, 1);
    PAIR_CASES(UNPACK)
    return bad;
}

static int check_pack(const lk_kernel *k)
{
    int bad = 0;
    for (int n = 0; n < 3000; n += 1 + n / 40) bad += pack(k, n);
#define PACK(n) bad += pack(k, n);
    PAIR_CASES(PACK)
    return bad;
}

static int check_panel(const lk_kernel *k)
{
    int bad = 0;
    for (int w = 1; w <= 16; w *= 2)
        for (size_t i = 0; i < SIZES; i++)
            for (int how = 0; how < 4; how++)
                bad += panel(k, w, sizes[i][0] << (how & 2), sizes[i][1] << (how & 2), how & 1 ? 5 : 0);
    return bad;
}

static int check_loops(const lk_kernel *k)
{
    int bad = 0;
    for (size_t i = 0; i < SIZES; i++)
        for (int gap = 0; gap < 6; gap++) bad += fused(k, sizes[i][0], sizes[i][1], gap);
    return bad;
}

static int check_drain(const lk_kernel *k)
{
    int bad = 0;
    for (int n = 1; n < 300; n += 1 + n / 16)
        for (int begin = 0; begin < 64; begin += 1 + begin / 5) bad += drain(k, n, begin);
    return bad;
}

static int check_windows(const lk_kernel *k)
{
    int bad = 0;
    for (int n = 1; n < 200; n += 1 + n / 8)
        for (int span = 1; span < 300; span += 1 + span / 3) bad += windows(k, n, span, 0) + windows(k, n, span, 1);
    return bad;
}

static int check_winograd_taps(const lk_kernel *k)
{
    int bad = 0;
    for (int vectors = 1; vectors <= 3; vectors++)
        for (int how = 0; how < 4; how++) bad += winograd_taps(k, how & 1 ? 6 : 1, vectors, how & 2);
    return bad;
}

static int check_moves(const lk_kernel *k)
{
    int bad = 0;
    for (int stream = 0; stream < 2; stream++) {
        const int tile = k->mr > k->nr ? k->mr : k->nr, t = tile > 4 ? tile : 4;
        for (size_t i = 0; i < SIZES; i++) bad += move(k, sizes[i][0], sizes[i][1], stream);
#define MOVE(n0, n1) bad += move(k, n0, n1, stream);
        MOVE_CASES(MOVE, t)
    }
    return bad;
}

static int check(const lk_kernel *k)
{
    switch (k->family) {
    case LK_GEMM: return check_gemm(k);
    case LK_DEPTHWISE: return check_depthwise(k);
    case LK_STRIPS: return check_strips(k);
    case LK_PLANE_STRIPS: return check_plane_strips(k);
    case LK_POOLING: return check_pooling(k);
    case LK_PLANE_POOLING: return check_plane_pooling(k);
    case LK_POOLING_BACK: return check_pooling_back(k);
    case LK_LRN: return check_lrn(k);
    case LK_MOMENTS: case LK_SCALE: case LK_SOFTMAX: case LK_REDUCE: return check_lines(k);
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
    case LK_DRAIN: return check_drain(k);
    case LK_WINDOWS: return check_windows(k);
    case LK_GEMM_S16: return 0; /* test_gemm_kernels.py */
    case LK_RECURRENT: return 0; /* test_recurrent_kernels.py */
    case LK_PEAK: return ((lk_peak_fn)k->fn)(100) > 0 ? 0 : wrong(k, "no flops");
    case LK_WINOGRAD_IN: return k->kr == 1 ? winograd(k) : 0; /* of units of two: test_winograd_kernels.py */
    case LK_WINOGRAD_TAPS: return check_winograd_taps(k);
    case LK_WINOGRAD_OUT: case LK_WINOGRAD_FILTER: return 0; /* checked with the input transform */
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
