/* fold_<type>: the least or the largest of each element over rows; rank_<type>: one of each in ascending order. See filters.h.
 *
 * Integers and floats have instructions for both; a rank is found by comparisons of floats as integers in the same order,
 * of which NaN is the largest. Medians of boxes sort the columns of windows once for all windows that have them; these and the
 * medians of sorted columns are networks that the compiler knows (medians.h), so that numbers stay in registers.
 * Edges: as in weigh.c.
 */
#include "common/vector.h"
#include "filters.h"
#include "medians.h"
#include "stores.h"

#include <math.h>
#include <string.h>

enum { MOST_AT_ONCE = 4 };

#if defined(__AVX512F__)
#define NATIVE(of) LK_PASTE(__m512, of)
#define OF_TWO(what, ending) LK_PASTE(LK_PASTE(_mm512_, what), LK_PASTE(_, ending))
#elif defined(__AVX2__)
#define NATIVE(of) LK_PASTE(__m256, of)
#define OF_TWO(what, ending) LK_PASTE(LK_PASTE(_mm256_, what), LK_PASTE(_, ending))
#endif

#define T uint8_t
#define TYPE u8
#define FLOAT 0
#define KEYS u8
#define UNSIGNED u8
#define ENDING epu8
#define NATIVE_TYPE NATIVE(i)
#include "fold_type.inc"
#define T int8_t
#define TYPE s8
#define FLOAT 0
#define KEYS s8
#define UNSIGNED u8
#define ENDING epi8
#define NATIVE_TYPE NATIVE(i)
#include "fold_type.inc"
#define T uint16_t
#define TYPE u16
#define FLOAT 0
#define KEYS u16
#define UNSIGNED u16
#define ENDING epu16
#define NATIVE_TYPE NATIVE(i)
#include "fold_type.inc"
#define T int16_t
#define TYPE s16
#define FLOAT 0
#define KEYS s16
#define UNSIGNED u16
#define ENDING epi16
#define NATIVE_TYPE NATIVE(i)
#include "fold_type.inc"
#define T uint32_t
#define TYPE u32
#define FLOAT 0
#define KEYS u32
#define UNSIGNED u32
#define ENDING epu32
#define NATIVE_TYPE NATIVE(i)
#include "fold_type.inc"
#define T int32_t
#define TYPE s32
#define FLOAT 0
#define KEYS s32
#define UNSIGNED u32
#define ENDING epi32
#define NATIVE_TYPE NATIVE(i)
#include "fold_type.inc"
#define T uint64_t
#define TYPE u64
#define FLOAT 0
#define KEYS u64
#define UNSIGNED u64
#ifdef __AVX512F__
#define ENDING epu64
#define NATIVE_TYPE NATIVE(i)
#endif
#include "fold_type.inc"
#define T int64_t
#define TYPE s64
#define FLOAT 0
#define KEYS s64
#define UNSIGNED u64
#ifdef __AVX512F__
#define ENDING epi64
#define NATIVE_TYPE NATIVE(i)
#endif
#include "fold_type.inc"
#define T float
#define TYPE f32
#define FLOAT 1
#define KEYS s32
#define UNSIGNED u32
#define ENDING ps
#define NATIVE_TYPE NATIVE()
#include "fold_type.inc"
#define T double
#define TYPE f64
#define FLOAT 1
#define KEYS s64
#define UNSIGNED u64
#define ENDING pd
#define NATIVE_TYPE NATIVE(d)
#include "fold_type.inc"

#define FOLD_ROWS(type, width) \
    LK_ROW(LK_FOLD, LK_PASTE(fold_, type), #type, LK_VB / width, 0, 0), \
    LK_ROW(LK_RANK, LK_PASTE(rank_, type), #type, LK_VB / width, 0, 0)

const lk_kernel LK_NAME(lk_rows_fold)[] = {
    FOLD_ROWS(u8, 1), FOLD_ROWS(s8, 1), FOLD_ROWS(u16, 2), FOLD_ROWS(s16, 2), FOLD_ROWS(u32, 4),
    FOLD_ROWS(s32, 4), FOLD_ROWS(u64, 8), FOLD_ROWS(s64, 8), FOLD_ROWS(f32, 4), FOLD_ROWS(f64, 8),
    LK_LAST_ROW,
};
