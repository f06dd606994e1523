/* softmax_bytes_f32: softmax along rows of bytes that stand for numbers; see lk_softmax_bytes in softmax_bytes.h.
 *
 *   y[i][j] = e^(s (x[i][j] - max)) / sum / y_scale, rounded
 *
 * Three passes over a row: the maximum, the sum, the results, for which exponentials are looked up once more: that takes no
 * longer than to store them. The tables are in registers.
 * Edges: of a last vector only the first lanes count.
 */
#include "softmax_bytes.h"
#include "common/numbers.h"

#include <string.h>

enum { UNROLLED = 4 };

typedef uint8_t bytes __attribute__((vector_size(LK_VB), aligned(1), may_alias));
typedef struct {
    vf part[16 / LK_LANES];
} table;

/* Entries i % 16 of a table; gcc 12 makes scalar code of shuffles whose order varies. */
LK_INLINE vf entries(const table *t, vi i)
{
#if LK_VB == 64
    return (vf)_mm512_permutexvar_ps((__m512i)i, (__m512)t->part[0]);
#elif LK_VB == 32
    const __m256 low = _mm256_permutevar8x32_ps((__m256)t->part[0], (__m256i)i);
    const __m256 high = _mm256_permutevar8x32_ps((__m256)t->part[1], (__m256i)i);
    return (vf)_mm256_blendv_ps(low, high, (__m256)(i << 28));
#else
    vf v;
    for (int k = 0; k < LK_LANES; k++)
        v[k] = ((const real *)t)[i[k] & 15];
    return v;
#endif
}

LK_INLINE table table_at(const float *at)
{
    table t;
    memcpy(&t, at, sizeof t);
    return t;
}

/* n of u: bytes, whose first bit is flipped if they are signed. */
LK_INLINE vi unsigned_bytes(const char *x, int n, const narrow_u8 flip)
{
    return from_bytes((n == LK_LANES ? *(const narrow_u8 *)x : load_some_u8(x, n)) ^ flip, LK_U8);
}

LK_INLINE bytes larger(bytes a, bytes b)
{
#if LK_VB == 64
    return (bytes)_mm512_max_epu8((__m512i)a, (__m512i)b);
#elif LK_VB == 32
    return (bytes)_mm256_max_epu8((__m256i)a, (__m256i)b);
#else
    const bytes above = (bytes)(a > b);
    return (a & above) | (b & ~above);
#endif
}

/* The largest u of a row. */
LK_INLINE int largest(const char *x, int64_t count, const int flip)
{
    bytes most = {};
    int64_t j = 0;
    int top = 0;
    for (; j <= count - LK_VB; j += LK_VB)
        most = larger(most, *(const bytes *)(x + j) ^ (uint8_t)flip);
    for (; j < count; j++)
        top = MAX(top, (uint8_t)x[j] ^ flip);
    for (int i = 0; i < LK_VB; i++)
        top = MAX(top, most[i]);
    return top;
}

void LK_NAME(LK_TYPED(softmax_bytes))(const lk_softmax_bytes *args)
{
    const lk_softmax_bytes g = *args;
    const narrow_u8 flip = (narrow_u8){} + (uint8_t)(g.x_signed ? 0x80 : 0);
    const table low = table_at(g.low);
    for (int64_t i = 0; i < g.rows; i++) {
        const char *const x = g.x + i * g.x_row;
        char *const y = g.y + i * g.y_row;
        const int top = largest(x, g.count, g.x_signed ? 0x80 : 0);
        table high = table_at(g.high + top % 16 * LK_HIGH_ROW + 15 - top / 16);
        vf sums[UNROLLED] = {};
        int64_t j = 0;
        for (; j <= g.count - UNROLLED * LK_LANES; j += UNROLLED * LK_LANES)
#pragma GCC unroll 4
            for (int k = 0; k < UNROLLED; k++) {
                const vi u = unsigned_bytes(x + j + k * LK_LANES, LK_LANES, flip);
                sums[k] = fused(entries(&high, u >> 4), entries(&low, u), sums[k]);
            }
        for (; j < g.count; j += LK_LANES) {
            const int n = (int)MIN(LK_LANES, g.count - j);
            const vi u = unsigned_bytes(x + j, n, flip);
            sums[0] += first_lanes(entries(&high, u >> 4) * entries(&low, u), n);
        }
        const vf sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        real all = 0;
        for (int k = 0; k < LK_LANES; k++)
            all += sum[k];
#pragma GCC unroll 4
        for (int k = 0; k < 16 / LK_LANES; k++)
            high.part[k] /= all * g.y_scale;
        for (j = 0; j < g.count; j += LK_LANES) {
            const int n = (int)MIN(LK_LANES, g.count - j);
            const vi u = unsigned_bytes(x + j, n, flip);
            const vf quotient = entries(&high, u >> 4) * entries(&low, u);
            store_bytes(y + j, to_bytes(quotient, g.zero, g.y_signed ? LK_S8 : LK_U8), n);
        }
    }
}

const lk_kernel LK_ROWS(softmax_bytes)[] = {
    LK_ROW(LK_SOFTMAX_BYTES, LK_TYPED(softmax_bytes), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
