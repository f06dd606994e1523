/* extent_f32: the range of magnitudes of a filter, and whether all of it is finite; see lk_extent in extent.h.
 *
 *   most = max_i m[i]      least = min_{i: m[i] > 0} m[i]      m[i] = max_j |w[i][j]|
 *
 * Magnitudes are compared by their bits, an order in which Inf and NaN come last.
 * Edges: a partial last vector of a row is loaded by a mask.
 */
#include "common/vector.h"
#include "extent.h"

LK_INLINE vi larger(vi a, vf w)
{
    const vi b = (vi)w & 0x7fffffff;
#if defined(__AVX512F__)
    return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const vi more = a > b;
    return (more & a) | (~more & b);
#endif
}

/* Rows of one element: lanes are compared separately. A magnitude less 1 makes the largest number of 0. */
LK_INLINE void extent_of_each(lk_extent *g)
{
    vi most = {}, least = (vi){} + INT32_MAX;
    for (int64_t j = 0; j < g->rows; j += LK_LANES) {
        const int64_t left = g->rows - j;
        const vf w = left >= LK_LANES ? *(const vf *)(g->w + j) : load_lanes((const char *)(g->w + j), (1u << left) - 1);
        const vi m = (vi)w & INT32_MAX, one_less = (m - 1) & INT32_MAX, lower = one_less < least;
        most = larger(most, w);
        least = (lower & one_less) | (~lower & least);
    }
    int32_t smallest = INT32_MAX;
    for (int k = 0; k < LK_LANES; k++) {
        g->most = most[k] > g->most ? most[k] : g->most;
        smallest = least[k] < smallest ? least[k] : smallest;
    }
    g->least = smallest == INT32_MAX ? 0 : smallest + 1;
}

void LK_NAME(extent_f32)(lk_extent *g)
{
    const int tail = (int)(g->count % LK_LANES);
    g->least = g->most = 0;
    if (g->count == 1) {
        extent_of_each(g);
        return;
    }
    for (int64_t i = 0; i < g->rows; i++) {
        const float *w = g->w + i * g->count;
        vi m = {}, other = {};
        int64_t j = 0;
        for (; j <= g->count - 2 * LK_LANES; j += 2 * LK_LANES) {
            m = larger(m, *(const vf *)(w + j));
            other = larger(other, *(const vf *)(w + j + LK_LANES));
        }
        if (j <= g->count - LK_LANES) {
            m = larger(m, *(const vf *)(w + j));
            j += LK_LANES;
        }
        if (tail)
            other = larger(other, load_lanes((const char *)(w + j), (1u << tail) - 1));
        m = larger(m, (vf)other);
        int32_t most = 0;
        for (int k = 0; k < LK_LANES; k++)
            most = m[k] > most ? m[k] : most;
        g->most = most > g->most ? most : g->most;
        g->least = most && (!g->least || most < g->least) ? most : g->least;
    }
}

const lk_kernel LK_NAME(lk_rows_extent)[] = {
    LK_ROW(LK_EXTENT, extent_f32, "f32", LK_LANES, 0, 0),
    LK_LAST_ROW,
};
