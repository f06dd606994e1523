from libc.stdint cimport int64_t


cdef enum:
    SHARE_PARTS = 16  # of a thread's share of a chunk, at most
    MIN_PARTS_BYTES = 1 << 20  # with less, shares have one part


cdef class Reordering:
    cdef int64_t chunks  # between which a call checks for signals
    cdef int64_t share_parts
    cdef int call(self, const char *src, char *dst, int threads) except -1
    cdef bint paced(self, const char *src, char *dst, int threads) noexcept nogil
    cdef void run(self, const char *src, char *dst, int threads, int64_t chunk=*, int64_t chunks=*) noexcept nogil
    cdef void part(self, const char *src, char *dst, int64_t first, int64_t end, int64_t parts) noexcept nogil
