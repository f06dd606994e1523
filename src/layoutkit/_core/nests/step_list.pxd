from libc.stdint cimport int64_t

from ..ndarray cimport ndarray


cdef struct Step:
    void *operation     # NULL: there is nothing to do, or Python does it
    bint of_python
    int count           # of its arrays
    const int *places   # of their addresses in the table


cdef class Context:
    cdef char **addresses  # the table, by place
    cdef readonly int places
    cdef readonly ndarray scratch
    cdef char *workspace


cdef class StepList:
    cdef Step *steps
    cdef int *places
    cdef list operations  # which the steps point to
    cdef readonly int count
    cdef int max_place
    cdef readonly int64_t workspace
    cdef int run_until_python(self, char **addresses, char *workspace, int i, int64_t *times) noexcept nogil
