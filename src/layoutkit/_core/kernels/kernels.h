/* What all micro-kernels have in common: the element types, the families, and the row that registers a kernel.
 *
 * A micro-kernel computes one tile on one thread. Loops, blocking and packing are Cython (nests/), as threads are (runtime/).
 * Each family is a source file, compiled once per instruction set (meson.build), with its contract in a header beside it.
 * It ends with its rows. To add a kernel, write the function and add its row: dispatch, tests, benchmarks and tuning
 * read the rows.
 */
#ifndef LAYOUTKIT_KERNELS_H
#define LAYOUTKIT_KERNELS_H

#include <stdint.h>

#define LK_NOWHERE INT64_MIN /* of an offset: there is nothing, or padding */

/* The element types: enumerators, names, bytes. */
#define LK_ELEMENTS(X) \
    X(F32, f32, 4) X(F64, f64, 8) X(F16, f16, 2) X(BF16, bf16, 2) X(S32, s32, 4) X(S8, s8, 1) X(U8, u8, 1) \
    X(S16, s16, 2) X(U16, u16, 2) X(U32, u32, 4) X(S64, s64, 8) X(BOOL, bool, 1) X(E4M3, e4m3, 1) X(E5M2, e5m2, 1) \
    X(S4, s4, 1) X(U4, u4, 1)
#define LK_ELEMENT(upper, lower, bytes) LK_##upper,
enum { LK_ELEMENTS(LK_ELEMENT) LK_TYPE_COUNT };

/* The types of convolutions: their name, and the elements of source, filter, sums (with bias and slopes) and destination
 * (with the residual). Strides, workspaces, packings and estimates follow. Structs say "elements" of what they point to.
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
    X(GEMM, gemm) X(DEPTHWISE, depthwise) X(STRIPS, strips) X(PLANE_STRIPS, plane_strips) X(QUADS, quads) X(OUTER, outer) \
    X(TAP_SUMS, tap_sums) X(POOLING, pooling) X(LRN, lrn) X(ADD, add) X(EPILOGUE, epilogue) X(COPY, copy) X(TRANSPOSE, transpose) \
    X(GATHER, gather) X(FILL, fill) X(PANEL, panel) X(FUSED, fused) X(JOINED, joined) X(RUNS, runs) X(WINDOWS, windows) X(DRAIN, drain) \
    X(CONVERT, convert) X(UNPACK, unpack) X(PACK, pack) X(PEAK, peak) X(WINOGRAD_IN, winograd_in) \
    X(WINOGRAD_OUT, winograd_out) X(WINOGRAD_FILTER, winograd_filter) X(WINOGRAD_TAPS, winograd_taps) X(POOLING_BACK, pooling_back) \
    X(EXTENT, extent)
enum { LK_FAMILIES(LK_ENUMERATOR) LK_FAMILY_COUNT };

typedef struct {
    const char *name;
    int family, isa;
    const char *types; /* of the elements: "f32", ..; where they are only moved, their width in bits: "x8", "x16", .. */
    int lanes;         /* elements of these types in a vector register; 0: one element is wider than that */
    int mr, nr;        /* register tile: rows x columns; 0: any */
    int unit;          /* elements that a lane multiplies and sums in a step */
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

/* Names in a family's source carry the instruction set, which -DLK_ISA=.. and -DLK_ISA_ID=.. state. */
#define LK_PASTE_(a, b) a##b
#define LK_PASTE(a, b) LK_PASTE_(a, b)
#define LK_NAME(x) LK_PASTE(LK_PASTE(x, _), LK_ISA)
#define LK_STR_(x) #x
#define LK_STR(x) LK_STR_(x)
#define LK_ROW(family, stem, types, lanes, mr, nr) \
    {LK_STR(LK_NAME(stem)), family, LK_ISA_ID, types, lanes, mr, nr, LK_UNIT, (void (*)(void))LK_NAME(stem)}
#define LK_LAST_ROW {0, 0, 0, 0, 0, 0, 0, 0, 0}
#ifndef LK_UNIT
#define LK_UNIT 1
#endif

#define LK_INLINE static inline __attribute__((always_inline))

#endif
