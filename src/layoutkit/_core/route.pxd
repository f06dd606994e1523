from libc.stdint cimport int64_t

from .executor cimport Executor
from .pool cimport Pool
from .registry cimport lk_epilogue
from .reorder cimport Program


cdef class Route:
    cdef Program before, after, residual
    cdef Executor executor
    cdef int64_t x_bytes, y_bytes
    cdef int64_t images
    cdef readonly int64_t start     # offset of the first input pixel in the padded input, bytes
    cdef int64_t pads[3][3]
    cdef Pool pool                  # of workspaces
    cdef int64_t chunks             # of the loop nest, between which a call checks for signals
    cdef bint whole                 # a call is too short for that
    cdef readonly int64_t workspace  # bytes of scratch memory that a call needs
    cdef void run(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *at) noexcept nogil
    cdef copied(self, x, w, bias, y, epilogue, add, workspace)
    cdef int call(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *at) except -1
    cdef void zeros(self, char *at) noexcept nogil
