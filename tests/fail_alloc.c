/* Stands in for the allocator (LD_PRELOAD): once armed, the n-th allocation of this thread fails;
 * with `ours`, the n-th of those that modules in the directory `ours` ask for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static __thread long armed, count, fail_at;
static __thread const char *ours;

void lk_arm(long n, const char *dir) { count = 0, fail_at = n, ours = dir, armed = 1; }
long lk_disarm(void) { armed = 0; return count; }
size_t lk_in_use(void) { struct mallinfo2 m = mallinfo2(); return m.uordblks + m.hblkhd; }

static int from_us(void *caller)
{
    Dl_info module;
    return dladdr(caller, &module) && module.dli_fname && !strncmp(module.dli_fname, ours, strlen(ours));
}

static int fails(void *caller)
{
    if (!armed || (ours && !from_us(caller)))
        return 0;
    if (++count != fail_at)
        return 0;
    errno = ENOMEM;
    return 1;
}

#define FAILS fails(__builtin_return_address(0))

void *malloc(size_t n) { return FAILS ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return FAILS ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return FAILS ? NULL : __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { return FAILS ? NULL : __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n)
{
    *p = memalign(a, n);
    return *p ? 0 : ENOMEM;
}
