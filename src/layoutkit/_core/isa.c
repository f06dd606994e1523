/* The instruction sets that were compiled, which of them this CPU runs, and all rows. */
#include "kernels.h"

#include <stddef.h>

static const char *const names[] = {"portable", "avx2", "avx512"};

const char *lk_isa_name(int isa) { return isa >= 0 && isa < LK_ISA_COUNT ? names[isa] : NULL; }

int lk_isa_supported(int isa)
{
    switch (isa) {
    case LK_PORTABLE: return 1;
#ifdef LK_X86
    case LK_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case LK_AVX512:
        return lk_isa_supported(LK_AVX2) && __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
#endif
    }
    return 0;
}

/* One array of rows per family and instruction set, best instruction set first. */
#define FAMILIES(isa) \
    ROWS(gemm, isa) ROWS(depthwise, isa) ROWS(strips, isa) ROWS(epilogue, isa) ROWS(move, isa) ROWS(panel, isa) \
    ROWS(convert, isa) ROWS(peak, isa) ROWS(winograd, isa) ROWS(extent, isa)
#ifdef LK_X86
#define ALL FAMILIES(avx512) FAMILIES(avx2) FAMILIES(portable)
#else
#define ALL FAMILIES(portable)
#endif

#define ROWS(family, isa) extern const lk_kernel lk_rows_##family##_##isa[];
ALL
#undef ROWS
#define ROWS(family, isa) lk_rows_##family##_##isa,
static const lk_kernel *const all[] = {ALL NULL};

const lk_kernel *const *lk_all_kernels(void) { return all; }
