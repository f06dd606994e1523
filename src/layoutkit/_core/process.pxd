cpdef int team(int threads) noexcept nogil
cpdef int forks() noexcept nogil
