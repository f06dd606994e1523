/* round_f32: rows of reals to whole numbers, with those that are nearly halfway between two; see filters.h.
 *
 *   y[i] = x[i] + 1/2 without its fraction, of negative ones x[i] - 1/2
 *
 * Edges: the end of a row is loaded and stored by its elements.
 */
#include "filters.h"
#include "reals.h"

/* Bits of lanes whose fraction is at most `doubt` away from a half. */
LK_INLINE uint32_t in_doubt(vf v, vf doubt)
{
    const vf from_half = v - whole(v);
    const vi sign = (vi)-(vf){};
    const vf distance = (vf)((vi)((vf)((vi)from_half & ~sign) - (real)0.5) & ~sign);
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)distance, (__m512)doubt, _CMP_LE_OQ);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)(distance <= doubt));
#else
    uint32_t bits = 0;
    for (int k = 0; k < LK_LANES; k++)
        bits |= (uint32_t)(distance[k] <= doubt[k]) << k;
    return bits;
#endif
}

LK_INLINE void round_vector(const lk_round_row *p, int64_t i, const int n, const int e, int64_t *found)
{
    const vf v = load_some(p->x + i * LK_ITEM, n, LK_OWN), half = (vf){} + (real)0.5;
    const vi sign = (vi)-(vf){};
    store_some(p->y + i * bytes_of(e), v + (vf)((vi)half | ((vi)v & sign)), n, e);
    if (p->doubt > 0)
        for (uint32_t bits = in_doubt(v, (real)p->doubt + (real)p->slope * (vf)((vi)v & ~sign)) & ((1u << n) - 1); bits; bits &= bits - 1)
            p->doubtful[(*found)++] = (int32_t)i + __builtin_ctz(bits);
}

LK_INLINE void round_row(const lk_round_row *p, const int e)
{
    int64_t i = 0, found = 0;
    for (; i <= p->count - LK_LANES; i += LK_LANES)
        round_vector(p, i, LK_LANES, e, &found);
    if (i < p->count)
        round_vector(p, i, (int)(p->count - i), e, &found);
    *p->found = found;
}

void LK_NAME(LK_TYPED(round))(const lk_round_row *args)
{
    const lk_round_row local = *args, *p = &local;
    switch (p->element) {
    case LK_U8: round_row(p, LK_U8); break;
    case LK_S8: round_row(p, LK_S8); break;
    case LK_U16: round_row(p, LK_U16); break;
    case LK_S16: round_row(p, LK_S16); break;
    }
}

const lk_kernel LK_ROWS(round)[] = {
    LK_ROW(LK_ROUND, LK_TYPED(round), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
