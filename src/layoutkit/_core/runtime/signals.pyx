"""Signals during calls that run without the GIL: long ones ask now and then whether they are `interrupted`.

Python's handlers run in its main thread only, so the GIL is taken there alone, and at most every 20 ms.
"""

import threading

from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t

from .process cimport forks

cdef extern from "clock.h" nogil:
    int64_t lk_about_now()

cdef extern from *:
    """
    static _Thread_local struct {
        int64_t next;     /* when signals are checked for again */
        int known, main;  /* known: forks() + 1 when `main` was set; 0: never */
        int stopped;      /* a handler has raised an exception, which is this thread's current one */
    } lk_watch;
    static int lk_check_signals(void) {
        PyGILState_STATE state = PyGILState_Ensure();
        int stopped = PyErr_CheckSignals() < 0;
        PyGILState_Release(state);
        return stopped;
    }
    """
    ctypedef struct Watch:
        int64_t next
        int known, main, stopped
    Watch lk_watch
    int lk_check_signals() nogil

cdef int64_t EVERY_NS = 20_000_000
cdef unsigned long _main_thread = 0
cdef int _main_known = 0  # as `known` of a watch


cdef void watch_signals():
    """Begin a call of this thread, and note whether it is the main thread."""
    global _main_thread, _main_known
    lk_watch.known = forks() + 1
    if _main_known != lk_watch.known:
        _main_thread, _main_known = threading.main_thread().ident, lk_watch.known
    lk_watch.main = PyThread_get_thread_ident() == _main_thread
    lk_watch.next = lk_about_now() + EVERY_NS


cdef bint interrupted() noexcept nogil:
    """Whether the call of this thread must end, because the handler of a signal has raised an exception.

    It must not run in workers; a call that was interrupted returns to Python and raises by `go_on`.
    """
    cdef int64_t now
    if lk_watch.stopped:
        return True
    now = lk_about_now()
    if now < lk_watch.next:
        return False
    lk_watch.next = now + EVERY_NS
    if lk_watch.known == forks() + 1 and not lk_watch.main:
        return False
    lk_watch.stopped = lk_check_signals()
    return lk_watch.stopped


cdef int go_on() except -1:
    """Raise what interrupted the call, if anything did."""
    if lk_watch.stopped:
        lk_watch.stopped = False
        return -1
    return 0
