cdef int team(int wanted) noexcept nogil
