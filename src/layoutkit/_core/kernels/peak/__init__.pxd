from libc.stdint cimport int64_t

cdef extern from "peak/peak.h" nogil:
    ctypedef double (*lk_peak_fn)(int64_t) noexcept nogil
