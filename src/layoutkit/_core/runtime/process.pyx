"""Which process this is: the one that imported layoutkit, or a fork of it.

Forks are counted by a handler of pthread_atfork, which runs for fork(2) too; Python does not learn of that.
"""

cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)

cdef int _forks = 0


cdef void in_child() noexcept nogil:
    global _forks
    _forks += 1


if pthread_atfork(NULL, NULL, in_child):
    raise MemoryError("pthread_atfork")


cpdef int forks() noexcept nogil:
    """The number of forks between the process that imported layoutkit and this one.

    State that belongs to one process and not to its children is kept under this number.
    """
    return _forks
