/* Stands in for the allocator (LD_PRELOAD): once armed, the n-th allocation of this thread fails;
 * with `ours`, the n-th of those that modules in the directory `ours` ask for. What these modules asked for, ever since
 * lk_ours named the directory, is counted until it is freed: exactly, where the heap as a whole breathes. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

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

void lk_ours(const char *dir) { dl_iterate_phdr(find, (void *)dir); }
void lk_arm(long n, int only_ours) { count = 0, fail_at = n, ours = only_ours, armed = 1; }
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

/* The blocks that are ours, by a hash of their address: a slot is empty, a block's, or free again (1). */
enum { SLOTS = 1 << 16 };
static uintptr_t block[SLOTS];
static long blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

long lk_blocks(void) { return blocks; }

static unsigned slot_of(uintptr_t p) { return (unsigned)((p >> 4) * 0x9E3779B97F4A7C15u >> 48); }

static void *kept(void *p, void *caller)
{
    if (!p || !from_us(caller))
        return p;
    pthread_mutex_lock(&lock);
    unsigned i = slot_of((uintptr_t)p);
    while (block[i] > 1)
        i = (i + 1) % SLOTS;
    block[i] = (uintptr_t)p;
    blocks++;
    pthread_mutex_unlock(&lock);
    return p;
}

static void forget(void *p)
{
    if (!p || !modules)
        return;
    pthread_mutex_lock(&lock);
    for (unsigned i = slot_of((uintptr_t)p); block[i]; i = (i + 1) % SLOTS)
        if (block[i] == (uintptr_t)p) {
            block[i] = 1;
            blocks--;
            break;
        }
    pthread_mutex_unlock(&lock);
}

#define CALLER __builtin_return_address(0)
#define FAILS fails(CALLER)

void *malloc(size_t n) { return FAILS ? NULL : kept(__libc_malloc(n), CALLER); }
void *calloc(size_t n, size_t m) { return FAILS ? NULL : kept(__libc_calloc(n, m), CALLER); }
void *memalign(size_t a, size_t n) { return FAILS ? NULL : kept(__libc_memalign(a, n), CALLER); }
void *aligned_alloc(size_t a, size_t n) { return FAILS ? NULL : kept(__libc_memalign(a, n), CALLER); }
int posix_memalign(void **p, size_t a, size_t n)
{
    *p = FAILS ? NULL : kept(__libc_memalign(a, n), CALLER);
    return *p ? 0 : ENOMEM;
}
void *realloc(void *p, size_t n)
{
    if (FAILS)
        return NULL;
    void *q = __libc_realloc(p, n);
    if (q || !n)
        forget(p);
    return kept(q, CALLER);
}
void free(void *p)
{
    forget(p);
    __libc_free(p);
}
