from libc.stdint cimport int64_t

cdef enum:
    MAX_ARRAYS = 32  # of an operation


cdef class Operation:
    cdef readonly int64_t workspace  # bytes that a run needs
    cdef tuple kinds                 # of its arrays: shape, strides, bytes of an element
    cdef int bind(self, tuple arrays) except -1
    cdef void run(self, char **at, char *workspace) noexcept nogil
