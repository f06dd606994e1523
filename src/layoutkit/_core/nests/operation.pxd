from libc.stdint cimport int64_t

from ..runtime.team cimport lk_portions

cpdef enum:
    MAX_ARRAYS = 32  # of an operation


cdef class Operation:
    cdef readonly int64_t workspace  # bytes that a run needs
    cdef tuple array_types           # of its arrays: shape, strides, bytes of an element
    cdef list owned                  # arrays that it points into
    cdef const char *keep(self, numbers, dtype=*) except? NULL
    cdef int bind(self, tuple arrays) except -1
    cdef void run(self, char **at, char *workspace) noexcept nogil
    cdef void run_shares(self, int threads, char **at, char *workspace) noexcept nogil
    cdef void run_chunks(self, int threads, int64_t tasks, int64_t chunks, char **at, char *workspace,
                        int64_t thread_bytes) noexcept nogil
    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil
    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil
