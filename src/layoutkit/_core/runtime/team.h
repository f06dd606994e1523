/* How many threads a parallel region may have. This is tested before OpenMP is asked for them, because libgomp ends the
 * process when the system refuses it a thread (a limit on processes or on memory).
 *
 * The threads of a region belong to the thread that leads it and are kept for its next region, as many as the last one
 * had. So only a region larger than the leader's last one starts threads. Before that, as many threads are started
 * here, all at once, with the stack that OpenMP gives its own and some memory to work with; the region gets as many as
 * could be started. OpenMP then starts its threads before any other thread of ours may test.
 */
#ifndef LK_TEAM_H
#define LK_TEAM_H

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { LK_TEAM_BYTES = 1 << 20 }; /* memory that must be available to each thread besides its stack */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waiting, without_memory, leave;
} lk_gate;

static pthread_mutex_t lk_team_growing = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int lk_team_size = 1; /* of this thread's last region */
static int lk_team_refused;                /* the size of the smallest team that was refused; 0: none */

static void *lk_wait_at(void *at) {
    lk_gate *gate = at;
    void *memory = mmap(NULL, LK_TEAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    pthread_mutex_lock(&gate->lock);
    gate->waiting++;
    gate->without_memory += memory == MAP_FAILED;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->leave)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
    if (memory != MAP_FAILED)
        munmap(memory, LK_TEAM_BYTES);
    return NULL;
}

/* How many of `wanted` threads can exist at once. */
static int lk_startable(int wanted, size_t stack) {
    lk_gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};
    pthread_t *threads = malloc(wanted * sizeof(*threads));
    pthread_attr_t attr;
    int n = 0, without_memory;
    if (threads == NULL || pthread_attr_init(&attr)) {
        free(threads);
        return 0;
    }
    if (stack)
        pthread_attr_setstacksize(&attr, stack);
    while (n < wanted && !pthread_create(threads + n, &attr, lk_wait_at, &gate))
        n++;
    pthread_attr_destroy(&attr);
    pthread_mutex_lock(&gate.lock);
    while (gate.waiting < n)
        pthread_cond_wait(&gate.changed, &gate.lock);
    without_memory = gate.without_memory;
    gate.leave = 1;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return n - without_memory;
}

/* The size of this thread's next parallel region: `wanted`, or as many threads as the system grants. */
static int lk_team(int wanted, size_t stack) {
    if (wanted > lk_team_size) {
        pthread_mutex_lock(&lk_team_growing);
        int n = lk_team_size + lk_startable(wanted - lk_team_size, stack);
        if (n < wanted && (!lk_team_refused || wanted < lk_team_refused))
            lk_team_refused = wanted;
        wanted = n;
        if (n > 1) {
#pragma omp parallel num_threads(n)
            __asm__ volatile(""); /* the compiler would drop an empty region */
        }
        pthread_mutex_unlock(&lk_team_growing);
    }
    if (wanted > 1) /* a region of one thread keeps the threads of the last one */
        lk_team_size = wanted;
    return wanted;
}

#endif
