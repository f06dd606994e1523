"""The threads that parallel regions share, see team.h: every region of ours is a call of `share_out`.

How many threads a region may have is decided before: of a problem that is planned when it is planned, of the others by
`threads_for`. It has never more than the processors that the process may use at that time.

In the child of a fork every region runs on the thread that leads it, because workers stay in the parent; so does a
region inside a parallel region of OpenMP, whose threads have the cores already.
"""

cimport openmp

from .process cimport forks
from .quota import quota

cdef extern from "team.h" nogil:
    void lk_share_out(int wanted, lk_share_fn fn, void *argument)
    int lk_begin_work()
    void lk_end_work()
    void lk_borrow(bint borrows)
    ctypedef void (*lk_parallel)(void (*fn)(void *), void *argument, unsigned threads, unsigned flags)
    ctypedef int (*lk_number)()
    ctypedef struct lk_openmp:
        lk_parallel parallel
        lk_number number
    lk_openmp lk_lender
    void lk_start_workers(int wanted)
    int lk_usable()
    int64_t lk_about_now()
    int lk_borrows
    int lk_team_refused
    int lk_team_size
    int lk_quota
    int lk_assumed
    int lk_worker_count

cdef int64_t QUOTA_NS = 1_000_000_000  # between looks at the quota
cdef int64_t _looked = -QUOTA_NS


cdef void share_out(int threads, lk_share_fn fn, void *argument) noexcept nogil:
    if threads > 1 and (forks() or openmp.omp_in_parallel()):
        threads = 1
    lk_share_out(threads, fn, argument)


cdef void begin_work() noexcept nogil:
    """Count this thread among those that compute, also between its regions, until `end_work`."""
    lk_begin_work()


cdef void end_work() noexcept nogil:
    lk_end_work()


def lend(size_t parallel, size_t number):
    """Have threads that `borrow` use those of an OpenMP runtime: the addresses of its GOMP_parallel, omp_get_thread_num.
    The runtime must stay loaded, and none may borrow yet."""
    lk_lender.parallel = <lk_parallel>parallel
    lk_lender.number = <lk_number>number


def borrow(bint borrows):
    """Have regions of the calling thread run on the threads that were lent, or no longer, as often as it was said."""
    lk_borrow(borrows)


def borrowing():
    """How often the calling thread has said that it borrows."""
    return lk_borrows


def granted(int wanted):
    """The number of threads that a region gets if it wants `wanted` and no other runs."""
    if forks():
        return 1
    wanted = min(wanted, lk_usable())
    lk_start_workers(wanted)
    return min(wanted, lk_worker_count + 1)


def refused():
    """The smallest number of threads that the system has refused so far; 0: none."""
    return lk_team_refused


def led():
    """How many threads the calling thread's last region of several had; 1: it has led none."""
    return lk_team_size


def assume(int processors):
    """Pretend that the process may use so many processors; 0: those that it may."""
    global lk_assumed
    lk_assumed = processors


def allowed(int most):
    """How many threads a call may use, at most `most`: as many as OpenMP allows and the process has processors.

    Limits change while a program runs, those of containers as well: they are looked at again from time to time. In the
    child of a fork it is one.
    """
    global _looked, lk_quota
    if forks():
        return 1
    if lk_about_now() - _looked > QUOTA_NS:
        _looked = lk_about_now()
        lk_quota = quota()
    return min(openmp.omp_get_max_threads(), lk_usable(), most)
