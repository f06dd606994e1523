cdef struct Nest

cdef class Program:
    cdef Nest *nests
    cdef int count
    cdef bint stream
    cdef char pad[64]
    cdef void run(self, const char *src, char *dst, int threads) noexcept nogil
    cdef void part(self, const char *src, char *dst, int tid, int threads) noexcept nogil
