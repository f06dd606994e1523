/* Stands in for the allocator (LD_PRELOAD): once armed, the n-th allocation of this thread fails;
 * with `ours`, the n-th of those that modules in the directory `ours` ask for. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

/* Of others, only what is asked for under the GIL fails: numpy 2.4 sets its errors without having it, and dies. */
extern int PyGILState_Check(void);

static __thread long armed, count, fail_at;
static __thread int ours;

/* Where the code of the modules in `ours` lies. */
enum { MODULES = 64 };
static struct { uintptr_t begin, end; } text[MODULES];
static int modules;

static int find(struct dl_phdr_info *info, size_t size, void *dir)
{
    (void)size;
    if (strncmp(info->dlpi_name, dir, strlen(dir)))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && modules < MODULES; i++)
        if (info->dlpi_phdr[i].p_flags & PF_X) {
            text[modules].begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            text[modules].end = text[modules].begin + info->dlpi_phdr[i].p_memsz;
            modules++;
        }
    return 0;
}

static int from_us(void *caller)
{
    for (int i = 0; i < modules; i++)
        if ((uintptr_t)caller - text[i].begin < text[i].end - text[i].begin)
            return 1;
    return 0;
}

void lk_arm(long n, const char *dir)
{
    modules = 0;
    if (dir)
        dl_iterate_phdr(find, (void *)dir);
    count = 0, fail_at = n, ours = dir != NULL, armed = 1;
}
long lk_disarm(void) { armed = 0; return count; }
size_t lk_in_use(void) { struct mallinfo2 m = mallinfo2(); return m.uordblks + m.hblkhd; }

static int fails(void *caller)
{
    if (!armed || (ours ? !from_us(caller) : !PyGILState_Check()))
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
