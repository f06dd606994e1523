cdef void watch_signals()
cdef bint interrupted() noexcept nogil
cdef int go_on() except -1
