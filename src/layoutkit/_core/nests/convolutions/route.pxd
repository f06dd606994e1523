from libc.stdint cimport int64_t

from ...kernels.elementwise cimport LK_MAX_STEPS, lk_epilogue, lk_step
from ...ndarray cimport ndarray
from ...runtime.pool cimport Pool
from ..executor cimport Executor
from ..moves.reordering cimport Reordering


cdef class Epilogue:
    cdef lk_epilogue f
    cdef lk_step step[LK_MAX_STEPS]
    cdef readonly tuple steps, tensors
    cdef dict meaning


cdef class Route:
    cdef Reordering before, after, residual
    cdef int x_item, y_item         # bytes of an element of the caller's input and output
    cdef Executor executor
    cdef int64_t x_bytes, y_bytes
    cdef int64_t images
    cdef readonly int64_t start     # offset of the first input pixel in the padded input, bytes
    cdef int64_t pads[3][3]
    cdef Pool pool                  # of workspaces
    cdef int64_t chunks             # of the loop nest, between which a call checks for signals
    cdef bint unchunked             # a call is too short for that
    cdef readonly int64_t workspace  # bytes of scratch memory that a call needs
    cdef int64_t count_copies(self, ndarray y, ndarray add, Epilogue epilogue)
    cdef int64_t copy_bytes(self, ndarray y)
    cdef bint copies(self, ndarray tensor, ndarray y, bint accumulates)
    cdef const char *reordered(self, ndarray tensor, ndarray y, char *memory) except NULL
    cdef void run(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                  char *at) noexcept nogil
    cdef copied(self, x, w, bias, y, epilogue, add, workspace)
    cdef bint paced(self, const char *x, const char *w, const char *bias, const lk_epilogue *epilogue, char *y,
                    char *at) noexcept nogil
    cdef void write_padding(self, char *at, int zero) noexcept nogil


cdef span_of(y)
