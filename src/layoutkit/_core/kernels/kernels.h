/* Common to all micro-kernels: the element types, the families, and the row that registers a kernel.
 *
 * A micro-kernel computes one tile on one thread. Loops, blocking and packing are Cython (nests/), as threads are (runtime/).
 * Each family is a source file, compiled once per instruction set (meson.build), with its contract in a header beside it.
 * It ends with its rows. To add a kernel, write the function and add its row: dispatch, tests, benchmarks and tuning
 * read the rows.
 */
#ifndef LAYOUTKIT_KERNELS_H
#define LAYOUTKIT_KERNELS_H

#include <stdint.h>

#define LK_NOWHERE INT64_MIN /* an offset: of padding, or of pads */

/* The element types: enumerators, names, bytes. */
#define LK_ELEMENTS(X) \
    X(F32, f32, 4) X(F64, f64, 8) X(F16, f16, 2) X(BF16, bf16, 2) X(S32, s32, 4) X(S8, s8, 1) X(U8, u8, 1) \
    X(S16, s16, 2) X(U16, u16, 2) X(U32, u32, 4) X(S64, s64, 8) X(BOOL, bool, 1) X(E4M3, e4m3, 1) X(E5M2, e5m2, 1) \
    X(S4, s4, 1) X(U4, u4, 1)
#define LK_ELEMENT(upper, lower, bytes) LK_##upper,
enum { LK_ELEMENTS(LK_ELEMENT) LK_TYPE_COUNT };

/* The types of convolutions: their name, and the elements of source, filter, sums (with bias and slopes) and destination
 * (with the residual). Strides, workspaces, packings and estimates follow. Comments of structs call these elements.
 * Rows that multiply are registered by the source; those of the epilogue by the destination, or by the sums where it is
 * one of them. */
#define LK_TYPES(X) \
    X(f32, F32, F32, F32, F32) X(f64, F64, F64, F64, F64) \
    X(bf16, BF16, BF16, F32, BF16) X(bf16_f32, BF16, BF16, F32, F32) \
    X(f16, F16, F16, F32, F16) X(f16_f32, F16, F16, F32, F32) \
    X(u8s8_s32, U8, S8, S32, S32) X(u8s8_f32, U8, S8, S32, F32) X(u8s8_u8, U8, S8, S32, U8) X(u8s8_s8, U8, S8, S32, S8) \
    X(s8s8_s32, S8, S8, S32, S32) X(s8s8_f32, S8, S8, S32, F32) X(s8s8_u8, S8, S8, S32, U8) X(s8s8_s8, S8, S8, S32, S8)

/* The instruction sets, lowest first: LK_ISAS(X) of isas.h, which config/meson.build writes. */
#include "isas.h"
#define LK_ENUMERATOR(upper, ...) LK_##upper,
enum { LK_ISAS(LK_ENUMERATOR) LK_ISA_COUNT };

/* The families: enumerators and names. */
#define LK_FAMILIES(X) \
    X(GEMM, gemm) X(GEMM_S16, gemm_s16) X(GEMM_GROUPS, gemm_groups) X(DEPTHWISE, depthwise) X(STRIPS, strips) X(PLANE_STRIPS, plane_strips) \
    X(DEPTHWISE_DOT, depthwise_dot) X(OUTER, outer) X(TAP_SUMS, tap_sums) X(POOLING, pooling) X(PLANE_POOLING, plane_pooling) X(LRN, lrn) \
    X(EPILOGUE, epilogue) X(ELEMENTWISE, elementwise) X(COPY, copy) X(TRANSPOSE, transpose) X(GATHER, gather) \
    X(FILL, fill) X(PANEL, panel) X(FUSED, fused) X(JOINED, joined) X(RUNS, runs) X(SCATTER, scatter) X(WINDOWS, windows) X(DRAIN, drain) \
    X(CONVERT, convert) X(UNPACK, unpack) X(PACK, pack) X(PEAK, peak) X(WINOGRAD_IN, winograd_in) X(WINOGRAD_OUT, winograd_out) \
    X(WINOGRAD_FILTER, winograd_filter) X(WINOGRAD_EXPAND, winograd_expand) X(WINOGRAD_TAPS, winograd_taps) \
    X(POOLING_BACK, pooling_back) X(EXTENT, extent) X(MOMENTS, moments) X(SCALE, scale) X(SOFTMAX, softmax) X(REDUCE, reduce) \
    X(SOFTMAX_BYTES, softmax_bytes) X(SLOPE_SUMS, slope_sums) X(SLOPES, slopes) \
    X(RECURRENT, recurrent) X(TAKE, take) X(BLEND_ROWS, blend_rows) X(BLEND_PIXELS, blend_pixels) \
    X(WEIGHTS, weights) X(WEIGH, weigh) X(WIDEN, widen) X(CAST, cast) X(FOLD, fold) X(RANK, rank) X(SAMPLE, sample) X(ROUND, round) \
    X(DIVIDE, divide)
enum { LK_FAMILIES(LK_ENUMERATOR) LK_FAMILY_COUNT };

/* Rows that multiply, beside the register tile: the layout of A and B that a loop nest provides, and the cost of a tile.
 *
 * A cycle is the time of two multiplications of vectors: where the constants were found, one of the clock. A tile of `rows`
 * rows and `vectors` vectors of columns, whose sums have `steps` steps of kr values, takes
 *
 *   tile_cycles + row_cycles * rows + steps * max(rows * vectors / 2, loads * load_cycles, step_cycles)
 *
 * where a step loads an element of each row and each vector of columns. Each run of contiguous values of A adds
 * pointer_cycles * rows. */
typedef struct {
    const char *peak;  /* types of the row of LK_PEAK with the same multiplications */
    double lane_flops; /* per second of a lane where kr is 1, on the machine whose constants the estimates have */
    int k_tile;        /* values of K that one instruction sums, a multiple of kr */
    int fills_k;       /* the caller pads A and B with zeros to whole K tiles; else to whole steps of kr */
    int strided_a;     /* rows of A are at one base and a stride; else each has a pointer of its own */
    int alignment;     /* of rows of A, in bytes; 1: that of their elements */
    double tile_cycles; /* to call, begin and end a tile, .. */
    double row_cycles;  /* .. and to end each of its rows */
    double load_cycles, pointer_cycles;
    double step_cycles; /* latency of a step, which waits for the one before it */
    int rows_at_once; /* of an instruction: fewer take as long */
    int components; /* numbers of f32 are multiplied as sums of so many of bf16, see lk_gemm; 0: as they are */
    void (*split_row)(char *to, const char *from, int64_t k);   /* makes a row of A of k numbers of f32 */
    void (*split_panel)(char *to, const char *from, int64_t k); /* makes a panel of B of k rows */
} lk_tile;

typedef struct {
    const char *name;
    int family, isa;
    const char *types; /* of the elements: "f32", ..; where they are only moved, their width in bits: "x8", "x16", .. */
    int lanes;         /* elements of these types in a vector register; 0: one element is wider than that */
    int mr, nr;        /* register tile: rows x columns; 0: any */
    int kr;            /* values of K that a lane multiplies and sums in a step: packed side by side */
    const lk_tile *tile;   /* NULL: it does not multiply */
    void (*enter)(void);   /* run by a thread when it enters a parallel region that calls the row, and when it */
    void (*leave)(void);   /* leaves it; NULL: nothing */
    void (*fn)(void);
} lk_kernel;

typedef struct {
    const char *name;
    int src, filter, sum, dst; /* elements */
} lk_types;
const lk_types *lk_all_types(void);      /* ends with name == NULL */
const char *lk_element_name(int element); /* NULL: there is no such element */
int lk_element_bytes(int element);

/* Every compiled row, best instruction set first; ends with name == NULL. */
const lk_kernel *const *lk_all_kernels(void); /* NULL-terminated list of row arrays */
const char *lk_isa_name(int isa);       /* NULL: there is no such set, or family */
const char *lk_family_name(int family);
int lk_isa_supported(int isa); /* this CPU and its operating system run it */
int lk_isa_emulated(int isa);  /* it is for tests */
int lk_has_tiles(void);        /* this CPU, whether or not its operating system lets us use them */

/* Names in a family's source carry the instruction set, which -DLK_ISA=.. and -DLK_ISA_ID=.. state. */
#define LK_PASTE_(a, b) a##b
#define LK_PASTE(a, b) LK_PASTE_(a, b)
#define LK_NAME(x) LK_PASTE(LK_PASTE(x, _), LK_ISA)
#define LK_STR_(x) #x
#define LK_STR(x) LK_STR_(x)
/* LK_ROW(family, stem, types, lanes, mr, nr): a row; other fields follow as initialisers: LK_TILE(..), .enter = .. */
#define LK_ROW(family_, stem, types_, lanes_, mr_, ...) LK_ROW_(family_, stem, types_, lanes_, mr_, __VA_ARGS__, )
#define LK_ROW_(family_, stem, types_, lanes_, mr_, nr_, ...) \
    {.name = LK_STR(LK_NAME(stem)), .family = family_, .isa = LK_ISA_ID, .types = types_, .lanes = lanes_, .mr = mr_, \
     .nr = nr_, .kr = LK_KR, .fn = (void (*)(void))LK_NAME(stem), __VA_ARGS__}
#define LK_LAST_ROW {.name = 0}
/* LK_TILE("f32"): of a row whose steps are instructions on vectors; exceptions follow: LK_TILE("s16", .strided_a = 1). */
#define LK_TILE(...) LK_TILE_(__VA_ARGS__, )
#define LK_TILE_(peak_, ...) \
    .tile = &(const lk_tile){.peak = peak_, .lane_flops = LK_LANE_FLOPS, .k_tile = LK_KR, .alignment = 1, .tile_cycles = 40, \
                             .row_cycles = 2, .load_cycles = 0.55, .pointer_cycles = 2, .step_cycles = 5.2, \
                             .rows_at_once = 1, __VA_ARGS__}
#ifdef __FMA__
#define LK_LANE_FLOPS 15e9
#else
#define LK_LANE_FLOPS 4e9
#endif
#ifndef LK_KR
#define LK_KR 1
#endif

#define LK_INLINE static inline __attribute__((always_inline))

#endif
