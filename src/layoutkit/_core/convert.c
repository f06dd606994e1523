/* Conversions of runs of numbers; see lk_convert in kernels.h.
 *
 *   v   = load(src)                                    exact: a run of any type as a run of f32 or f64
 *   v   = (v - sub) * mul        or  v / mul           where the tile asks for it
 *   v   = alpha * v + beta * (load(dst) - add)
 *   v   = round(v) + add
 *   dst = store(v)                                     rounded to nearest even, saturated
 *
 * Chunks of a tile go through buffers that stay in L1; a run that needs no arithmetic, from or to the type that is
 * computed in, skips a buffer. f32 is computed in where both types are exact in it, f64 where f64 or s32 takes part.
 * Loads and stores of one type stand here, what is done in between in convert_real.inc, once per type of v.
 *
 * Loops are for gcc to vectorise: without branches, conditions as selections. Rounding to integers adds and takes
 * away 1.5 * 2^23 (2^52), after saturation: every instruction set has it, and it rounds as the hardware does.
 */
#include "kernels.h"
#include "stream.h"
#include "vector.h"

#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

/* alpha * v + beta * d is two roundings and one more: the same on every instruction set. */
#pragma GCC optimize("fp-contract=off")

enum { CHUNK = 1024 }; /* elements: 4 or 8 KB a buffer, of which there are at most four */

static const int8_t width[LK_TYPE_COUNT] = {4, 8, 2, 2, 4, 1, 1};
typedef float f32 __attribute__((aligned(1), may_alias)); /* callers' arrays need not be aligned */
typedef int32_t s32 __attribute__((aligned(1), may_alias));
typedef uint16_t u16 __attribute__((aligned(1), may_alias));

void LK_NAME(copy_x8)(const lk_move *);

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

/* Bits 0x7fff shifted up lack 112 in the exponent; a product puts that right for denormals too. */
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
    /* of a denormal: the addition rounds at its last bit */
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

/* The integer nearest to x, NaN as 0, saturated at lo and hi (below 2^22). */
LK_INLINE int32_t to_int(float x, float lo, float hi)
{
    const float magic = 0x1.8p23f;
    x = x == x ? x : 0;
    x = x < lo ? lo : x;
    x = x > hi ? hi : x;
    return (int32_t)(bits_of(x + magic) - bits_of(magic));
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
            x[i] = (T)value; \
    }

LOAD(bf16_f32, float, u16, float_of((uint32_t)x[i] << 16))
LOAD(s8_f32, float, int8_t, x[i])
LOAD(u8_f32, float, uint8_t, x[i])
STORE(bf16_f32, float, u16, to_bf16(v[i]))
STORE(s8_f32, float, int8_t, to_int(v[i], -128, 127))
STORE(u8_f32, float, uint8_t, to_int(v[i], 0, 255))

/* ---- to and from f64: f64, f32, s32; the narrow types by way of f32, in which all of them are exact */

/* x as f32 such that rounding it once more gives what rounding x itself would: to the odd neighbour if inexact. */
LK_INLINE float to_odd(double x)
{
    const float f = (float)x;
    const double back = f, up = __builtin_fabs(x) > __builtin_fabs(back);
    const uint32_t u = bits_of(f), even = ~u & 1, inexact = back != x;
    return float_of(u + (inexact & even ? (up ? 1u : -1u) : 0u));
}

LK_INLINE int64_t to_int32(double x)
{
    x = x == x ? x : 0;
    x = x < -0x1p31 ? -0x1p31 : x;
    x = x > 0x1p31 - 1 ? 0x1p31 - 1 : x;
    return (int32_t)((x + 0x1.8p52) - 0x1.8p52);
}

static void load_f64_f64(double *restrict v, const char *restrict s, int64_t n) { memcpy(v, s, 8 * n); }
static void store_f64_f64(char *restrict d, const double *restrict v, int64_t n) { memcpy(d, v, 8 * n); }
LOAD(f32_f64, double, f32, x[i])
LOAD(s32_f64, double, s32, x[i])
STORE(f32_f64, double, f32, v[i])
STORE(s32_f64, double, s32, to_int32(v[i]))

enum { PART = 256 }; /* of a chunk, as f32 */
#define THROUGH_F32(T, narrow) \
    static void load_##T##_f64(double *restrict v, const char *restrict s, int64_t n) \
    { \
        float x[PART]; \
        for (int64_t at = 0; at < n; at += PART) { \
            const int64_t m = n - at < PART ? n - at : PART; \
            load_##T##_f32(x, s + at * width_##T, m); \
            for (int64_t i = 0; i < m; i++) \
                v[at + i] = x[i]; \
        } \
    } \
    static void store_##T##_f64(char *restrict d, const double *restrict v, int64_t n) \
    { \
        float x[PART]; \
        for (int64_t at = 0; at < n; at += PART) { \
            const int64_t m = n - at < PART ? n - at : PART; \
            for (int64_t i = 0; i < m; i++) \
                x[i] = narrow(v[at + i]); \
            store_##T##_f32(d + at * width_##T, x, m); \
        } \
    }
enum { width_f16 = 2, width_bf16 = 2, width_s8 = 1, width_u8 = 1 };
THROUGH_F32(f16, to_odd)
THROUGH_F32(bf16, to_odd)
THROUGH_F32(s8, to_odd) /* a tie that f32 cannot tell from its neighbours stays none */
THROUGH_F32(u8, to_odd)

/* ---- tiles */

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define BITS 32
#define REAL float
#define LIMIT 0x1p20f /* beyond what the narrow types and their zero points add up to */
#define MAGIC 0x1.8p23f
#include "convert_real.inc"
#undef BITS
#undef REAL
#undef LIMIT
#undef MAGIC
#define BITS 64
#define REAL double
#define LIMIT 0x1p40
#define MAGIC 0x1.8p52
#include "convert_real.inc"

const lk_kernel LK_NAME(lk_rows_convert)[] = {
    LK_ROW(LK_CONVERT, convert_x32, 32, 0, 0),
    LK_ROW(LK_CONVERT, convert_x64, 64, 0, 0),
    LK_LAST_ROW,
};
