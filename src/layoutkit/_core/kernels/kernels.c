/* The instruction sets that were compiled, which of them this CPU runs, all rows, and the types of their elements. */
#include "kernels.h"
#include "elementwise/epilogue.h" /* the steps */

#include <stddef.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "row_arrays.h" /* LK_ROW_ARRAYS(X): X(source, instruction set) for all that was compiled, best set first */

#define NAME(upper, lower, ...) #lower,
static const char *const isa_names[] = {LK_ISAS(NAME)};
static const char *const family_names[] = {LK_FAMILIES(NAME)};
#define STEP_NAME(upper, lower, has_operand, ulps, way) #lower,
#define STEP_ULPS(upper, lower, has_operand, ulps, way) ulps,
static const char *const step_names[] = {LK_STEPS(STEP_NAME)};
static const double step_ulps[] = {LK_STEPS(STEP_ULPS)};

const char *lk_isa_name(int isa) { return isa >= 0 && isa < LK_ISA_COUNT ? isa_names[isa] : NULL; }
const char *lk_family_name(int family) { return family >= 0 && family < LK_FAMILY_COUNT ? family_names[family] : NULL; }
const char *lk_step_name(int step) { return step >= 0 && step < LK_STEP_COUNT ? step_names[step] : NULL; }
double lk_step_ulps(int step) { return step >= 0 && step < LK_STEP_COUNT ? step_ulps[step] : 0; }

int lk_has_tiles(void)
{
#if defined(__x86_64__)
    enum { BF16 = 1 << 22, TILE = 1 << 24, INT8 = 1 << 25 }; /* of edx */
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & BF16) && (d & TILE) && (d & INT8);
#else
    return 0;
#endif
}

/* Whether the operating system lets this process use tiles: it has to be asked before the first of them. Threads and
 * children of forks inherit the answer. */
__attribute__((unused)) static int lk_tiles_granted(void)
{
#if defined(__x86_64__) && defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18, UNKNOWN = -1 };
    static int granted = UNKNOWN; /* threads that ask at once find the same */
    if (granted == UNKNOWN)
        granted = lk_has_tiles() && syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
    return granted;
#else
    return 0;
#endif
}

int lk_isa_supported(int isa)
{
    switch (isa) {
#define RUNS(upper, lower, runs, emulated) case LK_##upper: return runs;
        LK_ISAS(RUNS)
    }
    return 0;
}

int lk_isa_emulated(int isa)
{
    switch (isa) {
#define EMULATED(upper, lower, runs, emulated) case LK_##upper: return emulated;
        LK_ISAS(EMULATED)
    }
    return 0;
}

#define DECLARE(source, isa) extern const lk_kernel lk_rows_##source##_##isa[];
LK_ROW_ARRAYS(DECLARE)
#define LIST(source, isa) lk_rows_##source##_##isa,
static const lk_kernel *const all[] = {LK_ROW_ARRAYS(LIST) NULL};

const lk_kernel *const *lk_all_kernels(void) { return all; }

#define ELEMENT_NAME(upper, lower, bytes) #lower,
#define ELEMENT_BYTES(upper, lower, bytes) bytes,
static const char *const element_names[] = {LK_ELEMENTS(ELEMENT_NAME)};
static const int element_bytes[] = {LK_ELEMENTS(ELEMENT_BYTES)};
#define TYPES(name, src, filter, sum, dst) {#name, LK_##src, LK_##filter, LK_##sum, LK_##dst},
static const lk_types types[] = {LK_TYPES(TYPES){0}};

const char *lk_element_name(int e) { return e >= 0 && e < LK_TYPE_COUNT ? element_names[e] : NULL; }
int lk_element_bytes(int e) { return e >= 0 && e < LK_TYPE_COUNT ? element_bytes[e] : 0; }
const lk_types *lk_all_types(void) { return types; }
