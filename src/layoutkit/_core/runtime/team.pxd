from libc.stdint cimport int64_t

cdef extern from "region.h" nogil:
    ctypedef struct lk_portions:
        pass
    ctypedef void (*lk_share_fn)(void *argument, int slot, int share, int shares, lk_portions *portions) noexcept
    bint lk_claim(lk_portions *portions, int64_t begin, int64_t end, int64_t *first, int64_t *last)

cdef enum:
    BYTES_PER_THREAD = 1 << 16  # loaded and stored, at least: with less, waking a thread takes longer


cdef void share_out(int threads, lk_share_fn fn, void *argument) noexcept nogil
cdef void begin_work() noexcept nogil
cdef void end_work() noexcept nogil


cdef inline int threads_for(int most, double bytes) noexcept nogil:
    """The number of threads, at most `most`, for a loop that loads and stores `bytes` bytes."""
    return <int>max(1.0, min(<double>most, bytes / BYTES_PER_THREAD))
