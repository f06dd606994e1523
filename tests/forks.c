/* Forks beside threads that execute a plan of layoutkit.h, as a C program does that asks nobody's leave: see test_api.py. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int execute_fn(const void *plan, const void *src, void *dst, void *workspace, int64_t workspace_bytes);

struct job {
    execute_fn *execute;
    const void *plan, *src, *want;
    int64_t dst_bytes, workspace_bytes;
};

enum { THREADS = 3, PATIENCE = 20 /* seconds, then a child hangs */ };
static volatile int over;

static int once(const struct job *j, void *dst, void *workspace)
{
    memset(dst, 0, j->dst_bytes);
    return j->execute(j->plan, j->src, dst, workspace, j->workspace_bytes) || memcmp(dst, j->want, j->dst_bytes);
}

static void *work(void *at)
{
    const struct job *j = at;
    void *dst = malloc(j->dst_bytes), *workspace = malloc(j->workspace_bytes);
    intptr_t wrong = 0;
    while (!over)
        wrong += once(j, dst, workspace);
    free(dst), free(workspace);
    return (void *)wrong;
}

/* How many of `forks` children did not come to the right result in time, and results of the parent's threads that
 * were wrong. */
long lk_test_forks(const struct job *j, int forks)
{
    pthread_t threads[THREADS];
    void *dst = malloc(j->dst_bytes), *workspace = malloc(j->workspace_bytes), *wrong;
    long failed = 0;
    over = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)j);
    for (int i = 0; i < forks; i++) {
        int status = 0;
        pid_t child = fork();
        if (!child) {
            alarm(PATIENCE);
            _exit(once(j, dst, workspace));
        }
        failed += child < 0 || waitpid(child, &status, 0) != child || status;
    }
    over = 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        failed += (intptr_t)wrong;
    }
    free(dst), free(workspace);
    return failed;
}
