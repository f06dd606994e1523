/* The contracts of every kernel, and the row that registers one.
 *
 * A kernel does one tile on one thread; loops, blocking, packing and threads live outside, in Cython.
 * Each family is one source, compiled once per instruction set (see meson.build); it ends with its rows.
 * To add a kernel: write the function, add its row. Dispatch, tests, benchmark and tuning read the rows.
 */
#ifndef LAYOUTKIT_KERNELS_H
#define LAYOUTKIT_KERNELS_H

#include <stdint.h>

/* The instruction sets, lowest first: enumerators and names. */
#define LK_ISAS(X) X(PORTABLE, portable) X(AVX2, avx2) X(AVX512, avx512)
#define LK_ENUMERATOR(upper, lower) LK_##upper,
enum { LK_ISAS(LK_ENUMERATOR) LK_ISA_COUNT };

/* C[i][j] (+)= sum over taps t, blocks q, k of A[t][q][i][k] * B[t][q][k][j], i < rows, j < cols.
 *
 * A is read by broadcast, so its strides are free: element k of row i is the float at
 *   a + row[i] + tap[t] + q * block_stride + 4 * k          (bytes)
 * or 0 where bit i of mask[t] is clear; then `zero` is read, kb zeros. k < kb, in the last block k < kb_last.
 * B is packed or strided: its (t, q, k) rows lie ldb floats apart (those of a tap, if there is b_tap), or, of one tap and
 * block, at b + b_row[k]; whole vectors are read.
 * A sum begins with the bias, or 0, and goes through taps, blocks and k in order, one FMA after another; if `positive`, a
 * zero that comes out is.
 * C is stored once, whole vectors at c + c_row[i] + c_col[v], or, if c_split, half vectors at
 * c_col[2v] and c_col[2v + 1]; of the last vector only the first cols % lanes floats, if that is not 0
 * (half a vector if c_split). c_split excludes accumulate.
 */
typedef struct {
    const char *a;
    const int64_t *row;
    const int64_t *tap;
    const uint32_t *mask; /* NULL: every row reads every tap */
    const float *zero;
    int64_t taps, blocks, block_stride, kb, kb_last;
    const float *b;
    int64_t ldb;
    const int64_t *b_tap; /* the rows of tap t begin at b + b_tap[t]; NULL: those of all taps follow one another */
    const int64_t *b_row; /* or NULL */
    const float *bias_col; /* a value per column (whole vectors), or NULL */
    const float *bias_row; /* a value per row, or NULL */
    char *c;
    const int64_t *c_row, *c_col;
    int c_split;
    int accumulate; /* C is read and added to, the biases as well if they are given */
    int resume; /* sums begin with what C holds, those over earlier taps, and no bias; excludes accumulate, c_split */
    int positive;
    int rows, cols;
    int pads;          /* in the last so many columns zeros are stored, whatever was summed; a C that is added to has them */
    const float *clip; /* C is clipped to [clip[0], clip[1]] at last, a NaN stays; or NULL */
    const char *to_prefetch; /* fetched into L2 meanwhile, ahead_bytes of it: the filter that comes next */
    int64_t to_prefetch_bytes;
    const char *next_c; /* so are, to be written, `rows` rows of C that come soon, at next + next_row[i] + c_col[v] */
    const int64_t *next_c_row; /* or NULL */
} lk_gemm;
typedef void (*lk_gemm_fn)(const lk_gemm *);

/* y[r][j] = bias + sum over channels c, rows of taps t, taps b of x[r][j][c][t][b] * w[c][t][b], r < rows (1 or 2): vectors
 * of output channels; each reads `depth` input channels, one if `order` is NULL. A sum begins with the bias and goes
 * through c, t, b in order, one FMA after another. If `positive`, a zero that comes out is.
 *
 * Columns j come in tiles of at most the kernel's. In a tile, x[r][j][c][t][b] is the vector at
 *   x + tile.x + r * x_row + tap[t] + j * x_col + b * x_tap + vector * x_vector          (bytes)
 * or 0 if bit r of inside[t] is clear; y[r][j] is stored at y + tile.y + r * y_row + j * y_col + vector * y_vector.
 * If step is not 0, x_col == step * x_tap. Of x, lanes are read whose bit in x_mask[j * (step ? step : kw) + b] is
 * set, the others are 0; of y, those in y_mask[j] are written; `whole` says that all of both are set, `edges`
 * that all of y_mask are, and of x_mask all but some of the kw / 2 + 1 first and last ones, which are 0. The masks
 * reach as far as the kernel's widest tile would. Of each vector only x_lanes are read and y_lanes written;
 * `full` says that these are all.
 * square[t], if there is any: taps t .. t + 2 lie x_row apart and are inside for both output rows.
 *
 * With `order`, lane i of x[..][c] is lane order[vector][c][i] of what lies at x_at[vector][c] instead of
 * vector * x_vector. With `copy` as well, vectors that are read whole read a copy, of `copies` rows of what the columns
 * read that begin at copy_at and are made where copy_inside says so; output row r reads row copy_tap[t] + r. It is in the
 * order of x_mask (no bit set: zeros), copy_pixel bytes each, copy_bytes[vector] of them from x_at[vector][0] on, for the
 * vectors that these suffice for. That is for columns that lie in few sets of the cache and would push each other out
 * between channels.
 */
typedef struct {
    int64_t x, y;
    const uint32_t *x_mask, *y_mask;
    int cols, whole, edges;
} lk_depthwise_tile;
typedef struct {
    const char *x;
    int64_t x_row, x_col, x_tap, x_vector;
    const int64_t *tap;
    const uint32_t *inside, *square;
    const float *clip; /* y is clipped to [clip[0], clip[1]], a NaN stays; or NULL */
    const float *w, *bias; /* [vectors][depth][taps][kw][lanes], [vectors][lanes] or NULL */
    char *y;
    int64_t y_row, y_col, y_vector;
    const lk_depthwise_tile *tile;
    const int32_t *order; /* [vectors][depth][lanes], or NULL */
    const int64_t *x_at;  /* [vectors][depth] */
    const uint32_t *x_lanes, *y_lanes, *full; /* [vectors][depth], [vectors], [vectors] */
    char *copy; /* or NULL */
    const int64_t *copy_at, *copy_tap, *copy_bytes; /* bytes, rows of the copy, bytes */
    const uint32_t *copy_inside;
    int64_t copy_pixel;
    int rows, tiles, vectors, taps, depth, kw, step, positive, copies;
} lk_depthwise;
typedef void (*lk_depthwise_fn)(const lk_depthwise *);

/* y[o][j] = bias + sum over a, b < 3 of x[step*o + a][step*j + b] * w[a][b], in this order, o < rows, j < cols: `vectors` of
 * channels that lie together, each of its own input channel. x[i][k] is the vector at x + i*x_row + k*x_col (bytes),
 * or 0 (and not read) if i is not in [top, bottom), if k is 0 and `left`, or the last and `right` (0 or 1 each).
 * step is 1 or 2, cols at most the kernel's and at least half of that. */
typedef struct {
    const char *x;
    int64_t x_row, x_col;
    const float *w, *bias; /* [vectors][3][3][lanes], [vectors][lanes] or NULL */
    char *y;
    int64_t y_row, y_col, rows, top, bottom, vectors;
    int cols, step, left, right, positive;
    const float *clip; /* y is clipped to [clip[0], clip[1]], a NaN stays; or NULL */
} lk_strips;
typedef void (*lk_strips_fn)(const lk_strips *);

/* y[i][j] = f(y[i][j] + add[i][j]), i < rows, j < count: rows of floats at y + row[i], and at add + row[i] unless add is
 * NULL; they may be the same. `what` names f: clip to [lo, hi], prelu by slope[i * slope_row + j * slope_col] (0 or 1
 * each), ... A NaN stays one. clip is exact, prelu rounds once; hardswish is within 3 ulp, silu and gelu_tanh are
 * within 4, gelu within 7. At -Inf these four are -0, what they tend to. */
enum { LK_IDENTITY, LK_CLIP, LK_PRELU, LK_SILU, LK_GELU, LK_GELU_TANH, LK_HARDSWISH };
typedef struct {
    char *y;
    const char *add;
    const int64_t *row;
    int64_t rows, count;
    int activation;
    float lo, hi;
    const float *slope;
    int slope_row, slope_col;
} lk_epilogue;
typedef void (*lk_epilogue_fn)(const lk_epilogue *);

/* dst[i0*d0 + i1*d1] = src[i0*s0 + i1*s1], i0 < n0, i1 < n1: elements of one width, strides in bytes.
 * copy:      s1 == d1 == width (runs of n1 elements)
 * transpose: s0 == d1 == width (the source runs along i0, the destination along i1)
 * gather:    any strides
 * fill:      src is one element, its strides are not read
 *
 * A transpose may have loops of two digits, so that it moves whole vectors where a block is shorter than one:
 * if in0 is not 0, i0 = a*in0 + b lies at a*out_d0 + b*d0 in the destination; likewise i1 with in1, out_s1 in the
 * source. Then n0 and n1 are at most LK_MAX_DIGITS.
 * If valid is not 0, only the first `valid` of n1 source elements exist (of an element of 128 bits and more: the
 * first `valid` bytes); the rest of the destination becomes `pad`, 64 bytes of repeated pad elements.
 * `stream` asks for stores that bypass the caches; `ahead`, if not 0, for the source that many bytes further
 * to be fetched meanwhile. A kernel may decline both. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, s0, s1, d0, d1;
    int64_t in0, out_d0, in1, out_s1;
    int64_t valid;
    const char *pad;
    int64_t prefetch_bytes;
    int stream;
} lk_move;
enum { LK_MAX_DIGITS = 1024 };
typedef void (*lk_move_fn)(const lk_move *);

/* `loops` around a leaf on elements of `width` bytes, outermost first: n steps of s and d bytes; `src`, `dst`: where
 * they begin. The loops make one range of `tasks`, which threads share. */
enum { LK_MAX_LOOPS = 32 };
typedef struct {
    lk_move_fn fn;
    lk_move leaf;
    int64_t src, dst, tasks;
    int width, loops;
    int64_t n[LK_MAX_LOOPS], s[LK_MAX_LOOPS], d[LK_MAX_LOOPS];
} lk_nest;

/* Tasks [task, end) of a nest around transposes, each as a panel: see panel.c. scratch: LK_PANEL_BYTES, aligned to 64;
 * of a leaf, (n0 * width + 128) * n1 is at most LK_PANEL_IN_BYTES, and max(n0 * width, 64, width) * n1 at most LK_PANEL_OUT_BYTES. */
enum { LK_PANEL_IN_BYTES = 192 << 10, LK_PANEL_OUT_BYTES = 192 << 10, LK_PANEL_TAILS_BYTES = 64 << 10 };
enum { LK_PANEL_BYTES = 2 * LK_PANEL_IN_BYTES + LK_PANEL_OUT_BYTES + LK_PANEL_TAILS_BYTES + (8 << 10) };
enum { LK_STAGING_BYTES = 128 << 10 }; /* bytes of the destination that are made in scratch */
typedef void (*lk_panel_fn)(const lk_nest *, const char *src, char *dst, int64_t task, int64_t end, char *scratch);

/* Winograd's transforms, tile by tile; F(m x m, 3 x 3) has n x n products, n = m + 2; 1 x m tiles transform along
 * the width only. The points are 0, +-p[0], +-p[1], .., infinity; `k` holds, as winograd.py derives them,
 *   e[0..P-1]                 of the product of all (x^2 - p^2), P pairs, without the leading 1
 *   f[0..P-2], p, p^2 .. p^(m-1)   for each pair: the same product without it, without the leading 1; its powers
 * Row 0 of BT is the former in even columns, so it and row 0 of G have the sign that makes column n - 2 a 1.
 *
 * in:     v[t * v_stride + c] = (BT d B)[t], d[i][j] the float c at src + i*row + j*col (bytes), 0 outside
 *         [row0, row1) x [col0, col1). Whole vectors are written: up to `channels`, and past it up to the next one.
 * out:    y[i][j] at dst + i*row + j*col = bias + (AT m A)[i][j], i < rows, j < cols; m read as v was written.
 * Channels lie in runs of `block` floats, block_stride bytes apart, whole runs; block >= channels: one run, exactly
 * `channels` floats long. Blocks are whole vectors or half ones. */
typedef struct {
    const char *src;
    int64_t row, col;
    int row0, row1, col0, col1;
    int64_t channels, block, block_stride;
    float *v;
    int64_t v_stride;
    const float *k;
} lk_winograd_in;
typedef void (*lk_winograd_in_fn)(const lk_winograd_in *);

typedef struct {
    const float *m;
    int64_t m_stride;
    char *dst;
    int64_t row, col;
    int rows, cols;
    int64_t channels, block, block_stride;
    const float *bias; /* `channels` floats, or NULL */
    const float *k;
} lk_winograd_out;
typedef void (*lk_winograd_out_fn)(const lk_winograd_out *);

/* u[t * u_stride + o] = (G w_o G^T)[t], o < count, 0 up to `width` (whole vectors); computed in double.
 * w_o: rh x rw floats at w + o * w_stride, dense. G: nh x rh and nw x rw. */
typedef struct {
    const float *w;
    int64_t w_stride;
    int count, width;
    int nh, nw, rh, rw;
    const double *gh, *gw;
    float *u;
    int64_t u_stride;
} lk_winograd_filter;
typedef void (*lk_winograd_filter_fn)(const lk_winograd_filter *);

/* Of rows of `count` floats that follow one another, their largest magnitudes, as bits: the most of them, and the least
 * of those that are not 0; 0 if there is none. Inf has 0x7f800000, a NaN more. */
typedef struct {
    const float *w;
    int64_t rows, count;
    int32_t least, most;
} lk_extent;
typedef void (*lk_extent_fn)(lk_extent *);

/* The types that conversions know, and which bits mean what. */
enum { LK_F32, LK_F64, LK_F16, LK_BF16, LK_S32, LK_S8, LK_U8, LK_TYPE_COUNT };

/* dst[i0*d0 + i1*(its width)] = the number src[i0*s0 + i1*(its width)], i0 < n0, i1 < n1; strides in bytes:
 *   v   = (src - sub) * mul, or src / mul if `divide`
 *   v   = alpha * v, if `sum` + beta * (dst - add)
 *   dst = v rounded to the type of dst (nearest even), + add, saturated if an integer
 * Every operation is one of f32 or f64, the type of the row, which must hold both types exactly. A NaN becomes the
 * integer 0 + add. sub, mul, add are NULL (0, 1, 0) or arrays of f32 or f64 of which element i0*p0 + i1*p1 counts.
 * `add` is for integers only. inv is NULL, or where dst is an integer and no |mul| beyond 2^60 or below 2^-60: 1 / mul. `stream` asks for stores that bypass the caches; the caller ends with a fence.
 * `ahead`, if not 0, asks for the source that many bytes further to be fetched meanwhile. */
typedef struct {
    const char *src;
    char *dst;
    int64_t n0, n1, s0, d0;
    const char *sub, *mul, *inv, *add;
    int64_t p0, p1;
    double alpha, beta;
    int64_t prefetch_bytes;
    int src_type, dst_type, divide, sum, stream;
} lk_convert;
typedef void (*lk_convert_fn)(const lk_convert *);

/* The machine's limit: `peak` does n rounds of independent FMAs of the row's type and returns their flops. */
typedef double (*lk_peak_fn)(int64_t n);

/* The families: enumerators and names. */
#define LK_FAMILIES(X) \
    X(GEMM, gemm) X(DEPTHWISE, depthwise) X(STRIPS, strips) X(EPILOGUE, epilogue) X(COPY, copy) X(TRANSPOSE, transpose) \
    X(GATHER, gather) X(FILL, fill) X(PANEL, panel) X(CONVERT, convert) X(PEAK, peak) X(WINOGRAD_IN, winograd_in) \
    X(WINOGRAD_OUT, winograd_out) X(WINOGRAD_FILTER, winograd_filter) X(EXTENT, extent)
enum { LK_FAMILIES(LK_ENUMERATOR) LK_FAMILY_COUNT };

typedef struct {
    const char *name;
    int family, isa;
    const char *types; /* of the elements: "f32", ..; of a row that only moves them, their width in bits: "x8", "x16", .. */
    int lanes;         /* elements of these types in a vector register; 0: an element is wider than one */
    int mr, nr;        /* register tile: rows x columns; 0: any */
    void (*fn)(void);
} lk_kernel;

/* Every compiled row, best instruction set first; ends with name == NULL. */
const lk_kernel *const *lk_all_kernels(void); /* NULL-terminated list of row arrays */
const char *lk_isa_name(int isa);       /* NULL: there is no such set, or family */
const char *lk_family_name(int family);
int lk_isa_supported(int isa); /* this CPU and its operating system run it */

/* How a family's source names what it defines, given -DLK_ISA=.. and -DLK_ISA_ID=.. */
#define LK_PASTE_(a, b) a##b
#define LK_PASTE(a, b) LK_PASTE_(a, b)
#define LK_NAME(x) LK_PASTE(LK_PASTE(x, _), LK_ISA)
#define LK_STR_(x) #x
#define LK_STR(x) LK_STR_(x)
#define LK_ROW(family, stem, types, lanes, mr, nr) \
    {#stem "_" LK_STR(LK_ISA), family, LK_ISA_ID, types, lanes, mr, nr, (void (*)(void))LK_NAME(stem)}
#define LK_LAST_ROW {0, 0, 0, 0, 0, 0, 0, 0}

#define LK_INLINE static inline __attribute__((always_inline))

#endif
