from libc.stdint cimport int64_t

from ..operation cimport Operation
from ..moves.reordering cimport Reordering
from .route cimport Epilogue, Route


cdef class Convolution(Operation):
    cdef Route route
    cdef object filter, bias       # packed
    cdef Epilogue epilogue
    cdef const char *filter_at
    cdef const char *bias_at
    cdef bint empty, adds
    cdef int y_index
    cdef Reordering add_reorder
    cdef bint reorders_to_copy     # in the workspace, else to the output
    cdef int64_t first             # bytes from where an array like the output begins to its first element
    cdef int threads
