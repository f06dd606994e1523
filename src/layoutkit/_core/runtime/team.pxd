cdef enum:
    BYTES_PER_THREAD = 1 << 16  # that a loop loads and stores, at least: with less, waking a thread takes longer


cdef int team(int wanted) noexcept nogil


cdef inline int threads_for(int most, double bytes) noexcept nogil:
    """How many threads, at most `most`, a loop that loads and stores so many bytes is shared among."""
    return <int>max(1.0, min(<double>most, bytes / BYTES_PER_THREAD))
