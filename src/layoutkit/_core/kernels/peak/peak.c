/* peak_<type>: independent FMAs, or steps of units, alone, the peak rate that convolutions are measured against. */
#include "common/vector.h"
#include "peak.h"

#define CHAINS 12 /* independent sums: a latency of 4 cycles and two FMAs a cycle need at least 8 */

double LK_NAME(LK_TYPED(peak))(int64_t n)
{
    volatile real half = 0.5f;
    const vf a = half - (vf){}, b = a;
    vf acc[CHAINS];
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        acc[i] = a;
    for (int64_t k = 0; k < n; k++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
#if LK_KR == 1
            acc[i] = acc[i] * a + b; /* not a product that could be formed once */
            LK_PIN(acc[i]);
#elif LK_INTEGERS && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
            acc[i] = fused(acc[i], b, acc[i]);
#else
            LK_FMA(acc[i], a, b);
#endif
        }
    vf sum = a;
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        sum += acc[i];
    return 2.0 * CHAINS * LK_LANES * LK_KR * n + (sum[0] < 0); /* never true: keeps the sums alive */
}

const lk_kernel LK_ROWS(peak)[] = {
    LK_ROW(LK_PEAK, LK_TYPED(peak), LK_STR(LK_KIND), LK_LANES, 0, 0),
    LK_LAST_ROW,
};
