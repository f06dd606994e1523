cpdef int forks() noexcept nogil
