"""Which process this is: the one that imported layoutkit, or a fork of it.

Forks are counted by a handler of pthread_atfork, which runs for fork(2) too, where Python is not told.
"""

cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil, void (*child)() noexcept nogil)

cdef int _forks = 0


cdef void in_child() noexcept nogil:
    global _forks
    _forks += 1


if pthread_atfork(NULL, NULL, in_child):
    raise MemoryError("pthread_atfork")


cpdef int forks() noexcept nogil:
    """How many forks lie between the process that imported layoutkit and this one.

    What belongs to one process and not to its children is kept under this number.
    """
    return _forks
