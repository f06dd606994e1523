"""Locks, and changes that are undone, safe against signals and forks.

The exception of a signal handler, such as KeyboardInterrupt, may be raised between any two Python instructions: after a
lock was taken and before `try`, at the first instruction of an ``__exit__``, in Python 3.14 also after the
``__enter__`` of a `with`. Compiled code is not interrupted like that. A `with` that was not left is left when its
object dies.
"""

from collections import deque
from threading import Lock as _Lock
from threading import RLock as _RLock

cimport cython

from .process cimport forks

cdef enum:
    MAX_ATTEMPTS = 1000  # to undo a change, each of them interrupted by a signal


@cython.no_gc
cdef class _Held:
    cdef object lock
    cdef double timeout
    cdef bint taken

    def __enter__(self):
        if not self.lock.acquire(True, self.timeout):
            raise TimeoutError(f"not free after {self.timeout:g} s")
        self.taken = True

    def __exit__(self, *_):
        if self.taken:
            self.taken = False
            self.lock.release()

    def __dealloc__(self):
        if self.taken:
            self.lock.release()


cdef class Lock:
    """A lock per process: the child of a fork has its own, since nobody there would release that of its parent.

    Parameters
    ----------
    again : bool
        Whether the thread that holds it may take it again.
    """

    cdef dict locks  # by forks()
    cdef object kind

    def __init__(self, bint again=False):
        self.kind, self.locks = _RLock if again else _Lock, {}

    def held(self, double timeout=-1):
        """``with lock.held():``; TimeoutError if it is not free within `timeout` seconds; negative: no limit."""
        cdef _Held held = _Held.__new__(_Held)
        cdef int process = forks()
        held.lock = self.locks.get(process)
        if held.lock is None:
            held.lock = self.locks.setdefault(process, self.kind())
        held.timeout = timeout
        return held


@cython.no_gc
cdef class _Turn:
    cdef object free, waiting  # tokens, and locks of the threads that wait for one: whoever removes one owns it
    cdef bint taken

    def __enter__(self):
        if not self.waiting:
            try:
                self.free.pop()
                self.taken = True
                return
            except IndexError:
                pass
        mine = _Lock()
        mine.acquire()
        self.waiting.append(mine)
        self.serve()
        try:
            mine.acquire()  # until it is served
        except BaseException:  # a signal's
            try:
                self.waiting.remove(mine)
            except ValueError:  # it has been served
                self.give_back()
            raise
        self.taken = True

    def __exit__(self, *_):
        if self.taken:
            self.taken = False
            self.give_back()

    def __dealloc__(self):
        if self.taken:
            self.give_back()

    cdef give_back(self):
        self.free.append(None)
        self.serve()

    cdef serve(self):
        """Pass free tokens on to those that wait, the first first."""
        while self.free and self.waiting:
            try:
                self.free.pop()
            except IndexError:  # another thread was faster
                continue
            try:
                first = self.waiting.popleft()
            except IndexError:
                self.free.append(None)
                continue
            first.release()


cdef class Turns:
    """A semaphore per process that threads get in the order in which they ask for it.

    With one of `threading`, a thread that asks again at once may always be first.

    Parameters
    ----------
    most : int
        How many threads have it at a time.
    """

    cdef int most
    cdef dict states  # by forks()

    def __init__(self, int most):
        self.most, self.states = most, {}

    def turn(self):
        """``with turns.turn():``"""
        cdef _Turn turn = _Turn.__new__(_Turn)
        cdef int process = forks()
        state = self.states.get(process)
        if state is None:
            state = self.states.setdefault(process, (deque([None] * self.most), deque()))
        turn.free, turn.waiting = state
        return turn


cdef class TemporaryChange:
    """``with TemporaryChange(do, undo):`` a change that is undone in any case.

    A signal may interrupt `do` and `undo`. `undo` is called again until it completes, also if `do` did not complete: it
    must allow for both.
    """

    cdef object do, undo
    cdef bint entered

    def __init__(self, do, undo):
        self.do, self.undo = do, undo

    def __enter__(self):
        self.entered = True
        try:
            self.do()
        except BaseException:
            self.finish()
            raise

    def __exit__(self, *_):
        self.finish()

    def __del__(self):
        self.finish()

    cdef finish(self):
        cdef object interrupt = None
        cdef int i
        if not self.entered:
            return
        self.entered = False
        for i in range(MAX_ATTEMPTS):
            try:
                self.undo()
                break
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
