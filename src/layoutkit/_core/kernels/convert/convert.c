/* Conversions of runs of numbers; see lk_convert in convert.h.
 *
 *   v   = load(src)                                    exact: a run of any type as a run of f32 or f64
 *   v   = (v - sub) * mul + off  or  (v - sub) / mul + off, where the tile asks for it
 *   v   = alpha * v + beta * (load(dst) - add)
 *   v   = round(v) + add                               to an integer if dst is one, otherwise v + add
 *   dst = store(v)                                     rounded to nearest even, saturated
 *
 * v is f32 where both types are exact in it, f64 where f64, s32, u32 or s64 takes part; in f64 not all of s64 is. A tile
 * is converted in chunks. Where v is f32 and nothing is summed, runs of the common types stay in registers from load to
 * store: see convert_runs.inc. Other chunks go through buffers that stay in L1; a run that needs no arithmetic, from or
 * to the type of v, skips a buffer. Loads and stores of each type are here and in convert_rare.inc; the arithmetic
 * between them is in convert_real.inc, once per type of v.
 *
 * gcc vectorizes the loops: they have no branches, only selections. Rounding to an integer adds and subtracts 1.5 *
 * 2^23 (2^52), after saturation: every instruction set can do that, and it rounds to nearest even.
 */
#include "common/bytes.h"
#include "common/lines.h"
#include "common/stream.h"
#include "common/vector.h"
#include "convert.h"
#include "moves/move.h"

#include <string.h>

/* No contraction: alpha * v + beta * d is rounded three times, the same on every instruction set. No trapping math: the
 * comparison of a value that is not selected in the end may be done all the same. */
#pragma GCC optimize("fp-contract=off", "no-trapping-math")

enum { CHUNK_ELEMENTS = 1024 }; /* elements: 4 or 8 KB a buffer, of which there are at most four */

#define WIDTH(upper, lower, bytes) bytes,
static const int8_t width[LK_TYPE_COUNT] = {LK_ELEMENTS(WIDTH)};
typedef float f32 __attribute__((aligned(1), may_alias)); /* callers' arrays need not be aligned */
typedef int32_t s32 __attribute__((aligned(1), may_alias));
typedef uint16_t u16 __attribute__((aligned(1), may_alias));

void LK_NAME(copy_x8)(const lk_move *);
void LK_NAME(transpose_x8)(const lk_move *);
void LK_NAME(transpose_x16)(const lk_move *);
void LK_NAME(transpose_x32)(const lk_move *);
void LK_NAME(transpose_x64)(const lk_move *);

LK_INLINE uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

LK_INLINE float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}

/* ---- to and from f32: f16, bf16, s8, u8 */

/* A half shifted to the place of a float has an exponent 112 too small; a product corrects that, denormals included. */
LK_INLINE float from_f16(uint16_t h)
{
    const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    const uint32_t number = bits_of(float_of(magnitude) * 0x1p112f);
    const uint32_t special = magnitude | 0x7f800000; /* Inf and NaN */
    return float_of((magnitude >= 0x0f800000 ? special : number) | (uint32_t)(h & 0x8000) << 16);
}

LK_INLINE uint16_t to_f16(float x)
{
    const uint32_t u = bits_of(x), magnitude = u & 0x7fffffff;
    /* a denormal result: the addition rounds at its last bit */
    const uint32_t small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
    const uint32_t normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t h = magnitude < 0x38800000 ? small : normal;
    h = magnitude >= 0x477ff000 ? 0x7c00 : h;
    h = magnitude > 0x7f800000 ? 0x7e00 : h;
    return (uint16_t)(h | (u >> 16 & 0x8000));
}

LK_INLINE uint16_t to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
}

static void load_f32_f32(float *restrict v, const char *restrict s, int64_t n) { memcpy(v, s, 4 * n); }
static void store_f32_f32(char *restrict d, const float *restrict v, int64_t n) { memcpy(d, v, 4 * n); }

static void load_f16_f32(float *restrict v, const char *restrict s, int64_t n)
{
    const u16 *h = (const u16 *)s;
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(v + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(h + i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(v + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(h + i))));
#endif
    for (; i < n; i++)
        v[i] = from_f16(h[i]);
}

static void store_f16_f32(char *restrict d, const float *restrict v, int64_t n)
{
    u16 *h = (u16 *)d;
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(h + i), _mm512_cvtps_ph(_mm512_loadu_ps(v + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(h + i), _mm256_cvtps_ph(_mm256_loadu_ps(v + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        h[i] = to_f16(v[i]);
}

#define LOAD(name, REAL, T, value) \
    static void load_##name(REAL *restrict v, const char *restrict s, int64_t n) \
    { \
        const T *restrict x = (const T *)s; \
        for (int64_t i = 0; i < n; i++) \
            v[i] = value; \
    }
#define STORE(name, REAL, T, value) \
    static void store_##name(char *restrict d, const REAL *restrict v, int64_t n) \
    { \
        T *restrict x = (T *)d; \
        for (int64_t i = 0; i < n; i++) \
            x[i] = (T)(value); \
    }

LOAD(bf16_f32, float, u16, float_of((uint32_t)x[i] << 16))
LOAD(s8_f32, float, int8_t, x[i])
LOAD(u8_f32, float, uint8_t, x[i])

static void store_bf16_f32(char *restrict d, const float *restrict v, int64_t n)
{
    u16 *h = (u16 *)d;
    int64_t i = 0;
#if defined(__AVX512BW__)
    const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1), quiet = _mm512_set1_epi32(0x400000);
    for (; i + 16 <= n; i += 16) {
        const __m512 x = _mm512_loadu_ps(v + i);
        const __m512i u = _mm512_castps_si512(x);
        const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(u, 16), one);
        __m512i r = _mm512_add_epi32(_mm512_add_epi32(u, half), odd);
        r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, quiet);
        _mm256_storeu_si256((void *)(h + i), _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
    }
#endif
    for (; i < n; i++)
        h[i] = to_bf16(v[i]);
}

/* ---- integers: rounded and saturated as s32, NaN as 0, then narrowed */

#define TO_S32(REAL, BITS, LO, HI, MAGIC) \
    static void s32_of_f##BITS(s32 *restrict d, const REAL *restrict v, int64_t n) \
    { \
        int64_t i = TO_S32_VECTORS(d, v, n, BITS); \
        for (; i < n; i++) { \
            REAL x = v[i] == v[i] ? v[i] : 0; \
            x = x < LO ? LO : x; \
            x = x > HI ? HI : x; \
            d[i] = (int32_t)((x + MAGIC) - MAGIC); \
        } \
    }

/* Converts whole vectors; the instruction makes far too small numbers the least integer. Returns how many numbers. */
#if defined(__AVX512F__)
#define TO_S32_VECTORS(d, v, n, BITS) vectors_f##BITS(d, v, n)
LK_INLINE __m512i rounded_x32(const float *v)
{
    const __m512 x = _mm512_loadu_ps(v);
    return _mm512_cvtps_epi32(
        _mm512_maskz_min_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x, _mm512_set1_ps(0x1p30f)));
}

LK_INLINE int64_t vectors_f32(s32 *d, const float *v, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_si512(d + i, rounded_x32(v + i));
    return i;
}

LK_INLINE int64_t vectors_f64(s32 *d, const double *v, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m512d x = _mm512_loadu_pd(v + i);
        const __mmask8 number = _mm512_cmp_pd_mask(x, x, _CMP_ORD_Q);
        const __m512d below = _mm512_maskz_min_pd(number, x, _mm512_set1_pd(0x1p31 - 1));
        _mm256_storeu_si256((void *)(d + i), _mm512_cvtpd_epi32(below));
    }
    return i;
}

LK_INLINE int64_t vectors_s8(char *d, const float *v, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm_storeu_si128((void *)(d + i), _mm512_cvtsepi32_epi8(rounded_x32(v + i)));
    return i;
}

LK_INLINE int64_t vectors_u8(char *d, const float *v, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m512i x = _mm512_max_epi32(rounded_x32(v + i), _mm512_setzero_si512());
        _mm_storeu_si128((void *)(d + i), _mm512_cvtusepi32_epi8(x));
    }
    return i;
}
#elif defined(__AVX2__)
#define TO_S32_VECTORS(d, v, n, BITS) vectors_f##BITS(d, v, n)
LK_INLINE __m256i rounded_x32(const float *v)
{
    const __m256 x = _mm256_loadu_ps(v);
    return _mm256_cvtps_epi32(
        _mm256_min_ps(_mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q)), _mm256_set1_ps(0x1p30f)));
}

LK_INLINE int64_t vectors_f32(s32 *d, const float *v, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_si256((void *)(d + i), rounded_x32(v + i));
    return i;
}

LK_INLINE int64_t vectors_f64(s32 *d, const double *v, int64_t n)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d x = _mm256_loadu_pd(v + i);
        const __m256d number = _mm256_and_pd(x, _mm256_cmp_pd(x, x, _CMP_ORD_Q));
        _mm_storeu_si128((void *)(d + i), _mm256_cvtpd_epi32(_mm256_min_pd(number, _mm256_set1_pd(0x1p31 - 1))));
    }
    return i;
}

#define VECTORS(T, PACK) \
    LK_INLINE int64_t vectors_##T(char *d, const float *v, int64_t n) \
    { \
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); \
        int64_t i = 0; \
        for (; i + 32 <= n; i += 32) { \
            const __m256i a = _mm256_packs_epi32(rounded_x32(v + i), rounded_x32(v + i + 8)); \
            const __m256i b = _mm256_packs_epi32(rounded_x32(v + i + 16), rounded_x32(v + i + 24)); \
            _mm256_storeu_si256((void *)(d + i), _mm256_permutevar8x32_epi32(PACK(a, b), order)); \
        } \
        return i; \
    }
VECTORS(s8, _mm256_packs_epi16)
VECTORS(u8, _mm256_packus_epi16)
#else
#define TO_S32_VECTORS(d, v, n, BITS) 0
#define vectors_s8(d, v, n) 0
#define vectors_u8(d, v, n) 0
#endif
TO_S32(float, 32, -0x1p20f, 0x1p20f, 0x1.8p23f)
TO_S32(double, 64, -0x1p31, 0x1p31 - 1, 0x1.8p52)

/* Stores n numbers through s32. f32 is stored only to narrow integers. */
#define INTEGERS(T, type, lo, hi, BITS, REAL, whole_vectors) \
    static void store_##T##_f##BITS(char *restrict d, const REAL *restrict v, int64_t n) \
    { \
        int32_t x[PART_ELEMENTS]; \
        type *restrict to = (type *)d; \
        for (int64_t at = whole_vectors, m; at < n; at += m) { \
            m = n - at < PART_ELEMENTS ? n - at : PART_ELEMENTS; \
            s32_of_f##BITS((s32 *)x, v + at, m); \
            for (int64_t i = 0; i < m; i++) \
                to[at + i] = (type)(x[i] < lo ? lo : x[i] > hi ? hi : x[i]); \
        } \
    }
enum { PART_ELEMENTS = 256 }; /* of a chunk, in the intermediate type */
INTEGERS(s8, int8_t, -128, 127, 32, float, vectors_s8(d, v, n))
INTEGERS(u8, uint8_t, 0, 255, 32, float, vectors_u8(d, v, n))
INTEGERS(s8, int8_t, -128, 127, 64, double, 0)
INTEGERS(u8, uint8_t, 0, 255, 64, double, 0)

/* ---- to and from f64: f64, f32, s32; the narrow types through f32, in which all of them are exact */

/* x rounded to f32, to the odd neighbour if inexact: rounding that again gives what rounding x at once would. */
LK_INLINE float to_odd(double x)
{
    const float f = (float)x;
    const double back = f, up = __builtin_fabs(x) > __builtin_fabs(back);
    const uint32_t u = bits_of(f), even = ~u & 1, inexact = back != x;
    return float_of(u + (inexact & even ? (up ? 1u : -1u) : 0u));
}

static void load_f64_f64(double *restrict v, const char *restrict s, int64_t n) { memcpy(v, s, 8 * n); }
static void store_f64_f64(char *restrict d, const double *restrict v, int64_t n) { memcpy(d, v, 8 * n); }
LOAD(f32_f64, double, f32, x[i])
LOAD(s32_f64, double, s32, x[i])
STORE(f32_f64, double, f32, v[i])
static void store_s32_f64(char *restrict d, const double *restrict v, int64_t n) { s32_of_f64((s32 *)d, v, n); }

#define LOAD_NARROW(T, W) \
    static void load_##T##_f64(double *restrict v, const char *restrict s, int64_t n) \
    { \
        float x[PART_ELEMENTS]; \
        for (int64_t at = 0; at < n; at += PART_ELEMENTS) { \
            const int64_t m = n - at < PART_ELEMENTS ? n - at : PART_ELEMENTS; \
            load_##T##_f32(x, s + at * W, m); \
            for (int64_t i = 0; i < m; i++) \
                v[at + i] = x[i]; \
        } \
    }
#define STORE_NARROW(T, W) \
    static void store_##T##_f64(char *restrict d, const double *restrict v, int64_t n) \
    { \
        float x[PART_ELEMENTS]; \
        for (int64_t at = 0; at < n; at += PART_ELEMENTS) { \
            const int64_t m = n - at < PART_ELEMENTS ? n - at : PART_ELEMENTS; \
            for (int64_t i = 0; i < m; i++) \
                x[i] = to_odd(v[at + i]); \
            store_##T##_f32(d + at * W, x, m); \
        } \
    }
LOAD_NARROW(f16, 2)
LOAD_NARROW(bf16, 2)
LOAD_NARROW(s8, 1)
LOAD_NARROW(u8, 1)
STORE_NARROW(f16, 2)
STORE_NARROW(bf16, 2)
#include "convert_rare.inc"

/* ---- tiles */

#include "convert_runs.inc"
#if LK_VB > 16
#include "convert_pixels.inc"
#else
#define pixels(c, rows) 0
#endif

/* Elements of interleaved rows that are deinterleaved or interleaved at a time: they stay in L1. */
enum { BLOCK_BYTES = 16 << 10, BLOCK_ELEMENTS = 4096 };
_Static_assert(BLOCK_BYTES / LK_MAX_INTERLEAVED >= 2 * 64 * 8, "blocks are longer than a line of any type");

static int64_t block_of(int64_t rows, int64_t bytes)
{
    return MIN(BLOCK_ELEMENTS, BLOCK_BYTES / (rows * bytes) / 64 * 64);
}

/* d[i*d0 + j] = s[i + j*s1], i < n0, j < n1, elements of w bytes. */
static void turn(char *d, int64_t d0, const char *s, int64_t s1, int64_t n0, int64_t n1, int64_t w)
{
    const lk_move m = {.src = s, .dst = d, .n0 = n0, .n1 = n1, .s0 = w, .s1 = s1, .d0 = d0, .d1 = w};
    switch (w) {
    case 1: LK_NAME(transpose_x8)(&m); break;
    case 2: LK_NAME(transpose_x16)(&m); break;
    case 4: LK_NAME(transpose_x32)(&m); break;
    default: LK_NAME(transpose_x64)(&m);
    }
}

#define BITS 32
#define REAL float
#define FMA __builtin_fmaf
#define ABS __builtin_fabsf
#define MAGIC 0x1.8p23f
#define WHOLE(x) ((((x) == (x) ? (x) : 0) + MAGIC) - MAGIC)
#include "convert_real.inc"
#undef BITS
#undef REAL
#undef FMA
#undef ABS
#undef MAGIC
#undef WHOLE
#define BITS 64
#define REAL double
#define FMA __builtin_fma
#define ABS __builtin_fabs
#define MAGIC 0x1.8p52
#define WHOLE whole_double
#include "convert_real.inc"

const lk_kernel LK_NAME(lk_rows_convert)[] = {
    LK_ROW(LK_CONVERT, convert_f32, "f32", LK_LANES, 0, 0),
    LK_ROW(LK_CONVERT, convert_f64, "f64", LK_LANES / 2, 0, 0),
    LK_LAST_ROW,
};
