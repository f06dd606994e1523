/* The threads of a process that work for parallel regions.
 *
 * A region begins at once, on the thread that calls. Workers that are idle are offered it, and join when they wake. It
 * ends when all of its portions are done: the offer is then taken back from workers that have not come, and only for
 * those that have joined is there anything to wait for, their last portions. OpenMP cannot do this: its regions end
 * when every thread of the team has come, so on a busy machine each of them lasts until the system has run them all.
 *
 * A worker spins for a short time after its region, as the next one mostly follows soon, and then sleeps. If the system
 * gives its core to another thread for a slice of time while it is spinning, others need the core, and for a while it
 * sleeps at once, longer each time that this happens again. A virtual machine that stands still for a moment is no reason
 * to sleep: waking takes longer there than most regions.
 *
 * A thread can have its regions run on the threads of an OpenMP runtime, `lk_borrow`, where it computes in turn with a
 * library that uses it: the threads of each would spin on the cores that those of the other need, OpenMP's for some
 * milliseconds. Such a region ends as OpenMP's do, when all of its threads have come.
 *
 * All threads together are at most as many as the processors that the process may use: regions that run at the same
 * time share the workers, and a worker leaves when others have come.
 */
#ifndef LK_TEAM_H
#define LK_TEAM_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "region.h"

enum {
    LK_MAX_WORKERS = 511,
    LK_STACK_BYTES = 2 << 20,  /* of a worker; the largest frame of a kernel or nest has 130 KB */
    LK_WORK_BYTES = 1 << 20,   /* memory that must be available for each thread besides its stack */
    LK_SPARE_BYTES = 4 << 20,  /* memory that stays available to the program when a worker is started */
    LK_MIN_PORTIONS = 2,       /* of a share */
    LK_REGION_PORTIONS = 64,   /* of a region, at least: the last one is 1.6 % of it */
    LK_SPINS = 32,             /* between looks at the clock */
    LK_WORKER_SPIN_NS = 200000,
    LK_LEADER_SPIN_NS = 50000, /* for the last portions of a region */
    LK_DISTURBED_NS = 500000,  /* between two looks at the clock: someone else may have had the core */
    LK_CALM_NS = 2000000,      /* without spinning if someone had */
    LK_LONGEST_CALM_NS = 100000000, /* the same, if that happened several times */
    LK_LOOK_NS = 50000000,     /* between looks at which processors may be used */
    LK_REFUSED_NS = 1000000000 /* until threads that the system refused are tried again */
};

typedef struct {
    lk_share_fn fn;
    void *argument;
    int shares;
    lk_portions *portions; /* of every share */
} lk_region;

/* What a worker does: 0: idle, LK_OFFERING: someone is about to offer it a region, a region: it is offered, that
 * + LK_JOINED: it works there. */
enum { LK_OFFERING = 1, LK_JOINED = 2 };

enum { LK_UNASKED = -2, LK_UNTOLD = -1 }; /* how often a thread lost its core */

typedef struct {
    _Alignas(64) _Atomic uintptr_t state;
    _Atomic int asleep, awaited; /* the worker sleeps; a leader sleeps until it leaves */
    int slot;
    pthread_mutex_t lock;
    pthread_cond_t offered, left;
} lk_worker;

static lk_worker lk_workers[LK_MAX_WORKERS];
/* leaders: threads that compute, but for workers; busy: workers that were offered a region, or are in one */
static _Atomic int lk_worker_count, lk_leaders, lk_busy;
static pthread_mutex_t lk_starting = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int lk_team_refused;        /* the size of the smallest team that the system refused; 0: none */
static _Atomic int lk_quota = 1 << 30;     /* processors that the process may use at a time */
static _Atomic int lk_assumed;             /* processors that tests pretend there are; 0: none */
static _Thread_local int lk_working;       /* how many calls of this thread have said that it computes */
static _Thread_local int lk_borrows;       /* how many calls of this thread have said that it borrows threads */
static _Thread_local int lk_team_size = 1; /* threads that the last region of several could have here */

/* Of an OpenMP runtime: GOMP_parallel, which LLVM's and Intel's have as well, and omp_get_thread_num. */
typedef void (*lk_parallel)(void (*fn)(void *), void *argument, unsigned threads, unsigned flags);
typedef int (*lk_number)(void);
typedef struct {
    lk_parallel parallel;
    lk_number number;
} lk_openmp;

static lk_openmp lk_lender; /* set once, before any thread borrows */

static inline void lk_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The processors that the calling thread may use, looked at a few times a second. */
static int lk_usable(void) {
    static _Thread_local int64_t looked;
    static _Thread_local int usable;
    int assumed = atomic_load_explicit(&lk_assumed, memory_order_relaxed);
    int64_t now = lk_about_now();
    if (assumed)
        return assumed;
    if (usable == 0 || now - looked > LK_LOOK_NS) {
        looked = now;
        usable = 0;
#ifdef __linux__
        cpu_set_t set;
        if (!sched_getaffinity(0, sizeof(set), &set))
            usable = CPU_COUNT(&set);
#endif
        if (usable == 0) /* also of more processors than a cpu_set_t has */
            usable = (int)sysconf(_SC_NPROCESSORS_ONLN);
        if (usable < 1)
            usable = 1;
    }
    int quota = atomic_load_explicit(&lk_quota, memory_order_relaxed);
    return usable < quota ? usable : quota;
}

/* Works on a region: its own share, then what is left of the others. Workers leave between shares if there are more
 * threads than processors. */
static void lk_take_part(const lk_region *r, int slot, int usable) {
    for (int i = 0; i < r->shares; i++) {
        int share = (slot + i) % r->shares;
        lk_portions *p = r->portions + share;
        if (usable && i && atomic_load_explicit(&lk_leaders, memory_order_relaxed)
                + atomic_load_explicit(&lk_busy, memory_order_relaxed) > usable)
            return;
        if (atomic_load_explicit(&p->taken, memory_order_relaxed) < p->portions)
            r->fn(r->argument, slot, share, r->shares, p);
    }
}

/* Until when a worker sleeps at once, and for how long it did when it was disturbed last. */
typedef struct {
    int64_t until, calm;
} lk_rest;

/* How often the system has taken the core from the calling thread; LK_UNTOLD where it does not tell. */
static long lk_taken_away(void) {
#ifdef RUSAGE_THREAD
    struct rusage used;
    if (!getrusage(RUSAGE_THREAD, &used))
        return used.ru_nivcsw;
#endif
    return LK_UNTOLD;
}

/* Spins until the state of a worker is no longer `state`, or it has spun long enough, or others need the core, which
 * `rest` remembers; not at all while that says so. */
static void lk_spin(lk_worker *w, uintptr_t state, int64_t longest, lk_rest *rest) {
    int64_t start = lk_now(), last = start, now;
    long taken_away = LK_UNASKED;
    if (start < rest->until)
        return;
    while (last - start < longest) {
        for (int i = 0; i < LK_SPINS; i++) {
            if (atomic_load_explicit(&w->state, memory_order_acquire) != state)
                return;
            lk_pause();
        }
        if (taken_away == LK_UNASKED) /* only now: most waits are over before */
            taken_away = lk_taken_away();
        now = lk_now();
        if (now - last > LK_DISTURBED_NS && (taken_away == LK_UNTOLD || lk_taken_away() != taken_away)) {
            int again = now - rest->until < LK_LONGEST_CALM_NS;
            rest->calm = !again ? LK_CALM_NS : rest->calm < LK_LONGEST_CALM_NS / 2 ? 2 * rest->calm : LK_LONGEST_CALM_NS;
            rest->until = now + rest->calm;
            return;
        }
        last = now;
    }
}

static void *lk_work(void *argument) {
    lk_worker *w = argument;
    lk_rest rest = {-(int64_t)LK_LONGEST_CALM_NS, LK_CALM_NS};
    for (;;) {
        uintptr_t state = atomic_load_explicit(&w->state, memory_order_acquire);
        if (state <= LK_OFFERING) {
            lk_spin(w, 0, LK_WORKER_SPIN_NS, &rest);
            lk_pause();
            if (atomic_load(&w->state) == 0) {
                pthread_mutex_lock(&w->lock);
                atomic_store(&w->asleep, 1);
                while (atomic_load(&w->state) == 0)
                    pthread_cond_wait(&w->offered, &w->lock);
                atomic_store(&w->asleep, 0);
                pthread_mutex_unlock(&w->lock);
            }
            continue;
        }
        if (!atomic_compare_exchange_strong(&w->state, &state, state | LK_JOINED))
            continue;
        lk_take_part((const lk_region *)state, w->slot, lk_usable());
        atomic_fetch_sub(&lk_busy, 1);
        atomic_store(&w->state, 0);
        if (atomic_load(&w->awaited)) {
            pthread_mutex_lock(&w->lock);
            pthread_cond_broadcast(&w->left);
            pthread_mutex_unlock(&w->lock);
        }
    }
    return NULL;
}

/* Starts workers until there are as many as a team of `wanted` needs, or as the system grants. */
static void lk_start_workers(int wanted) {
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_mutex_lock(&lk_starting);
    static int64_t refused_at;
    int n = atomic_load(&lk_worker_count), refused = atomic_load(&lk_team_refused);
    int again = !refused || wanted < refused || lk_now() - refused_at > LK_REFUSED_NS;
    if (n < wanted - 1 && again && !pthread_attr_init(&attributes)) {
        pthread_attr_setstacksize(&attributes, LK_STACK_BYTES);
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        sigfillset(&all); /* signals are for the program's own threads */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (; n < wanted - 1; n++) {
            lk_worker *w = lk_workers + n;
            pthread_t thread;
            size_t needed = LK_SPARE_BYTES + (n + 2) * (size_t)LK_WORK_BYTES; /* none may have worked so far */
            void *memory = mmap(NULL, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
            pthread_mutex_init(&w->lock, NULL);
            pthread_cond_init(&w->offered, NULL);
            pthread_cond_init(&w->left, NULL);
            if (memory == MAP_FAILED)
                break;
            munmap(memory, needed);
            if (pthread_create(&thread, &attributes, lk_work, w))
                break;
            atomic_store(&lk_worker_count, n + 1);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
    }
    if (n < wanted - 1 && again) {
        refused_at = lk_now();
        if (!refused || wanted < refused)
            atomic_store(&lk_team_refused, wanted);
    }
    pthread_mutex_unlock(&lk_starting);
}

/* Offers a region to at most `wanted` idle workers, and says which. */
static int lk_offer(const lk_region *r, int wanted, lk_worker **workers) {
    int n = 0, count = atomic_load_explicit(&lk_worker_count, memory_order_acquire);
    for (int i = 0; i < count && n < wanted; i++) {
        uintptr_t idle = 0;
        if (atomic_load_explicit(&lk_workers[i].state, memory_order_relaxed) == 0
            && atomic_compare_exchange_strong(&lk_workers[i].state, &idle, LK_OFFERING))
            workers[n++] = lk_workers + i;
    }
    return n;
}

/* Waits until a worker that may have joined a region has left it. */
static void lk_await(lk_worker *w, const lk_region *r) {
    uintptr_t offered = (uintptr_t)r, joined = offered | LK_JOINED;
    lk_rest none = {-(int64_t)LK_LONGEST_CALM_NS, LK_CALM_NS}; /* a leader never sleeps at once */
    if (atomic_compare_exchange_strong(&w->state, &offered, 0)) { /* it never came */
        atomic_fetch_sub(&lk_busy, 1);
        return;
    }
    lk_spin(w, joined, LK_LEADER_SPIN_NS, &none);
    if (atomic_load(&w->state) != joined)
        return;
    pthread_mutex_lock(&w->lock);
    atomic_fetch_add(&w->awaited, 1);
    while (atomic_load(&w->state) == joined)
        pthread_cond_wait(&w->left, &w->lock);
    atomic_fetch_sub(&w->awaited, 1);
    pthread_mutex_unlock(&w->lock);
}

/* The calling thread computes from now on, until it says that it does not: it has a processor, regions of others have one
 * worker less. Regions say so, and what computes between regions, too. */
static int lk_begin_work(void) {
    return lk_working++ ? atomic_load(&lk_leaders) : atomic_fetch_add(&lk_leaders, 1) + 1;
}

static void lk_end_work(void) {
    if (--lk_working == 0)
        atomic_fetch_sub(&lk_leaders, 1);
}

/* The regions of the calling thread run on the threads of the lender from now on, or no longer. */
static void lk_borrow(int borrows) {
    if (lk_lender.parallel)
        lk_borrows += borrows ? 1 : -1;
}

static void lk_take_part_borrowed(void *region) {
    const lk_region *r = region;
    int slot = lk_lender.number();
    if (slot < r->shares)
        lk_take_part(r, slot, 0);
}

/* Runs all shares of a region, with the help of at most `wanted` - 1 workers. */
static void lk_share_out(int wanted, lk_share_fn fn, void *argument) {
    lk_portions alone = {0, 1};
    int usable = wanted > 1 ? lk_usable() : 1;
    wanted = wanted < usable ? wanted : usable;
    wanted = wanted < LK_MAX_WORKERS + 1 ? wanted : LK_MAX_WORKERS + 1;
    if (wanted <= 1) {
        fn(argument, 0, 0, 1, &alone);
        return;
    }
    lk_team_size = wanted;
    if (!lk_borrows && atomic_load_explicit(&lk_worker_count, memory_order_relaxed) < wanted - 1)
        lk_start_workers(wanted);
    int spare = usable - lk_begin_work() - atomic_load(&lk_busy), n = 0;
    lk_worker *workers[wanted];
    lk_portions portions[wanted];
    lk_region region = {fn, argument, 1, portions};
    spare = spare < wanted - 1 ? spare : wanted - 1;
    if (spare > 0)
        n = lk_borrows ? spare : lk_offer(&region, spare, workers);
    region.shares = n + 1;
    int each = (LK_REGION_PORTIONS + n) / (n + 1);
    for (int i = 0; i <= n; i++) {
        atomic_init(&portions[i].taken, 0);
        portions[i].portions = n == 0 ? 1 : each < LK_MIN_PORTIONS ? LK_MIN_PORTIONS : each;
    }
    if (n && lk_borrows) {
        atomic_fetch_add(&lk_busy, n);
        /* 0: as many threads as usual; OpenMP would end those that a smaller team leaves out */
        lk_lender.parallel(lk_take_part_borrowed, &region, 0, 0);
        atomic_fetch_sub(&lk_busy, n);
        lk_end_work();
        return;
    }
    for (int i = 0; i < n; i++) {
        lk_worker *w = workers[i];
        w->slot = i + 1;
        atomic_fetch_add(&lk_busy, 1);
        atomic_store(&w->state, (uintptr_t)&region);
        if (atomic_load(&w->asleep)) {
            pthread_mutex_lock(&w->lock); /* it is on its way to sleep until the lock is free */
            pthread_mutex_unlock(&w->lock);
            pthread_cond_signal(&w->offered);
        }
    }
    lk_take_part(&region, 0, 0);
    for (int i = 0; i < n; i++)
        lk_await(workers[i], &region);
    lk_end_work();
}

#endif
