/* sample_<type>: values between the elements of an array, by splines of order 0, 1 or 3; see sample.h.
 *
 *   y[i] = sum over the elements k around point i of x[k] * w[0][k0] * .. * w[rank - 1][k_last]
 *
 * A vector of points: first, along each axis, the offsets and weights of the elements around each point, then the sum over all
 * combinations of these. Products are not fused with sums, so that results do not depend on the instruction set.
 * Edges: where some point or an element around it is outside, the lanes are mapped one by one, and offsets come from the table.
 * The last vector of points is filled up.
 */
#include "sample_line.h"
#include "sample_taps.h"

typedef int16_t words __attribute__((vector_size(16)));
typedef uint16_t unsigned_words __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(4 * POINTS)));
typedef uint32_t naturals __attribute__((vector_size(4 * POINTS)));
typedef words pairs_of_1;
typedef ints pairs_of_2;

LK_INLINE doubles of_ints(ints v)
{
#if defined(__AVX512F__)
    return (doubles)_mm512_cvtepi32_pd((__m256i)v);
#elif defined(__AVX2__)
    return (doubles)_mm256_cvtepi32_pd((__m128i)v);
#else
    return __builtin_convertvector(v, doubles);
#endif
}

/* The first POINTS words. */
LK_INLINE doubles of_signed(words v)
{
#if defined(__AVX512F__)
    return of_ints((ints)_mm256_cvtepi16_epi32((__m128i)v));
#elif defined(__AVX2__)
    return of_ints((ints)_mm_cvtepi16_epi32((__m128i)v));
#else
    doubles result;
    for (int i = 0; i < POINTS; i++)
        result[i] = v[i];
    return result;
#endif
}

LK_INLINE doubles of_unsigned(words v)
{
#if defined(__AVX512F__)
    return of_ints((ints)_mm256_cvtepu16_epi32((__m128i)v));
#elif defined(__AVX2__)
    return of_ints((ints)_mm_cvtepu16_epi32((__m128i)v));
#else
    doubles result;
    for (int i = 0; i < POINTS; i++)
        result[i] = (uint16_t)v[i];
    return result;
#endif
}

/* What becomes of sums. */
LK_INLINE doubles ended(const lk_sample *p, doubles v, longs outside)
{
    v = (doubles)(((longs)v & ~outside) | ((longs)((doubles){} + p->constant) & outside));
    if (p->rounds) {
        const longs up = (longs)(v > 0);
        v += (doubles)((up & (longs)((doubles){} + 0.5)) | (~up & (longs)((doubles){} - 0.5)));
        for (int i = 0; i < 2; i++) {
            const doubles limit = (doubles){} + (i ? p->most : p->least);
            const longs beyond = i ? (longs)(v > limit) : (longs)(v < limit);
            v = (doubles)((beyond & (longs)limit) | (~beyond & (longs)v));
        }
    }
    return v;
}

/* As C casts doubles to integers of 32 bits, of which narrow ones are the lower bits; what does not fit is INT32_MIN. */
LK_INLINE ints cast_to_ints(doubles v)
{
#if defined(__AVX2__)
    return (ints)as_ints(v);
#else
    ints r = {};
    for (int i = 0; i < POINTS; i++)
        r[i] = v[i] > -2147483649.0 && v[i] < 2147483648.0 ? (int32_t)v[i] : INT32_MIN;
    return r;
#endif
}

#define T float
#define TYPE f32
#define FLOAT 1
#define SIGNED 1
#define BYTES 4
#include "sample_type.inc"
#define T double
#define TYPE f64
#define FLOAT 1
#define SIGNED 1
#define BYTES 8
#include "sample_type.inc"
#define T uint8_t
#define TYPE u8
#define FLOAT 0
#define SIGNED 0
#define BYTES 1
#include "sample_type.inc"
#define T int8_t
#define TYPE s8
#define FLOAT 0
#define SIGNED 1
#define BYTES 1
#include "sample_type.inc"
#define T uint16_t
#define TYPE u16
#define FLOAT 0
#define SIGNED 0
#define BYTES 2
#include "sample_type.inc"
#define T int16_t
#define TYPE s16
#define FLOAT 0
#define SIGNED 1
#define BYTES 2
#include "sample_type.inc"

const lk_kernel LK_NAME(lk_rows_sample)[] = {
    LK_ROW(LK_SAMPLE, sample_f32, "f32", LK_VB / 4, 0, 0),
    LK_ROW(LK_SAMPLE, sample_f64, "f64", LK_VB / 8, 0, 0),
    LK_ROW(LK_SAMPLE, sample_u8, "u8", LK_VB, 0, 0),
    LK_ROW(LK_SAMPLE, sample_s8, "s8", LK_VB, 0, 0),
    LK_ROW(LK_SAMPLE, sample_u16, "u16", LK_VB / 2, 0, 0),
    LK_ROW(LK_SAMPLE, sample_s16, "s16", LK_VB / 2, 0, 0),
    LK_LAST_ROW,
};
