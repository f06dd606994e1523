from libc.stdint cimport int64_t

from ..operation cimport Operation


cdef struct Move:
    void *moves        # a Reordering
    const char *fixed  # the source, if it is always the same; NULL: none
    int src, dst       # which arrays
    int64_t src_at, dst_at  # bytes from their beginning
    int threads


cdef class ReorderOperation(Operation):
    cdef Move *moves
    cdef int count, threads
    cdef int64_t parts, chunks  # of all moves, if there are several
