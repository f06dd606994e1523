"""Long calls run in chunks, between which they check for signals.

The time of a chunk is only estimated: memory that is touched for the first time takes ten times as long, or more. So
the first chunks are small, and they grow as long as they are quick.
"""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef enum:
    PARTS_PER_CHUNK = 16  # a chunk may be as small as one part


cdef struct Pace:
    int64_t at, end, size  # parts: done, in all, in the next chunk; `at` is a multiple of `size`
    double since


cdef inline double seconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + 1e-9 * now.tv_nsec


cdef inline Pace pace_of(int64_t chunks) noexcept nogil:
    """The pace of a call that is expected to take so many chunks; a single chunk is not divided."""
    cdef Pace pace
    pace.at, pace.end, pace.size, pace.since = 0, chunks * PARTS_PER_CHUNK if chunks > 1 else 1, 1, seconds()
    return pace


cdef inline void done(Pace *pace) noexcept nogil:
    """Note that a chunk is done, number at // size of end // size, and set the size of the next one."""
    cdef double now = seconds(), took = now - pace.since
    pace.at += pace.size
    pace.since = now
    if took > 0.1 and pace.size > 1:
        pace.size //= 2
    elif took < 0.02 and pace.size < PARTS_PER_CHUNK and pace.at % (2 * pace.size) == 0:
        pace.size *= 2
