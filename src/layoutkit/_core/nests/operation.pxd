from libc.stdint cimport int64_t

from ..runtime.team cimport lk_portions

cpdef enum:
    MAX_ARRAYS = 32  # of an operation

cdef enum:
    CHUNK_TASKS = 8  # of a thread in each chunk, at least, if an operation can be cut like that
    CHUNK_BYTES = 1 << 30  # loaded and stored in a chunk, from the first cache: at most some tenths of a second


cdef inline int64_t chunks_of(double bytes) noexcept nogil:
    """The chunks of an operation that loads and stores so many bytes."""
    return 1 + <int64_t>(bytes / CHUNK_BYTES)


cdef inline int64_t tasks_wanted(int threads, int64_t chunks) noexcept nogil:
    """The tasks at least, for threads to end at one time, and for looks at signals between chunks."""
    return 1 if threads <= 1 and chunks <= 1 else CHUNK_TASKS * threads * chunks


cdef class Operation:
    cdef readonly int64_t workspace  # bytes that a run needs
    cdef bint checks                 # a run begins its workspace with the place of a number that it cannot use, or -1
    cdef tuple array_types           # of its arrays: shape, strides, bytes of an element
    cdef list owned                  # arrays that it points into
    cdef const char *keep(self, numbers, dtype=*) except? NULL
    cdef int bind(self, tuple arrays) except -1
    cdef object fault(self, char **at, char *workspace)
    cdef void run(self, char **at, char *workspace) noexcept nogil
    cdef void run_shares(self, int threads, char **at, char *workspace) noexcept nogil
    cdef void run_chunks(self, int threads, int64_t tasks, int64_t chunks, char **at, char *workspace,
                        int64_t thread_bytes) noexcept nogil
    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil
    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil
