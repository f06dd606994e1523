from libc.stdint cimport int32_t, int64_t

from ...ndarray cimport ndarray
from ..executor cimport WeightSums
from ..operation cimport Operation


cdef class Small:
    cdef object like               # a tensor of the form of the result
    cdef readonly tuple attributes
    cdef ndarray memory            # the workspace
    cdef char *workspace
    cdef int item
    cdef bint run(self, char **at, char *result) noexcept


cdef struct Fill:  # numbers of a packed array
    char *packed
    int32_t *places    # of those that are not pads
    int32_t *sources   # elements of the tensor that goes there
    int64_t count
    int tensor         # which of the call's


cdef class SmallConvolution(Small):
    cdef Operation operation
    cdef list owned
    cdef Fill *fills
    cdef int count


cdef class SmallSums(Small):
    cdef WeightSums sums
    cdef ndarray table
    cdef int32_t *sources
    cdef int64_t count


cdef class SmallTotals(Small):
    cdef int64_t sizes[5]
    cdef int64_t strides[5]
