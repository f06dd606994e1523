"""Locks and undone changes that neither a signal nor a fork loses.

What a signal's handler raises, KeyboardInterrupt first of all, may come between any two steps of Python: after a lock was
taken and before `try`, at the first step of an ``__exit__``, and in Python 3.14 after the ``__enter__`` of a `with`
too. It does not come here: compiled code has no such steps. What a `with` has not left is left when its object dies.
"""

from threading import Lock as _Lock
from threading import RLock as _RLock

cimport cython

from .process cimport forks

cdef enum:
    ATTEMPTS = 1000  # to undo, each of them cut short by a signal


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
    """A lock of each process: the child of a fork, in which nobody would release its parent's, has its own.

    Parameters
    ----------
    again : bool
        Whether a thread that has it may take it again.
    """

    cdef dict locks  # by forks()
    cdef object kind

    def __init__(self, bint again=False):
        self.kind, self.locks = _RLock if again else _Lock, {}

    def held(self, double timeout=-1):
        """``with lock.held():``; TimeoutError if it is not free within `timeout` seconds, which are endless if negative."""
        cdef _Held held = _Held.__new__(_Held)
        cdef int process = forks()
        held.lock = self.locks.get(process)
        if held.lock is None:
            held.lock = self.locks.setdefault(process, self.kind())
        held.timeout = timeout
        return held


cdef class Undone:
    """``with Undone(do, undo):`` a change that is undone whatever comes.

    A signal may cut both short: `undo` is called until it has come to its end, also if `do` has not, and must bear that.
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
        for i in range(ATTEMPTS):
            try:
                self.undo()
                break
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
