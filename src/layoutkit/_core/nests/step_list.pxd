from libc.stdint cimport int64_t


cdef struct Step:
    void *operation     # NULL: there is nothing to do, or Python does it
    bint of_python
    int count           # of its arrays
    const int *places   # of their addresses in the table
    int workspace       # the place of its workspace; -1 if it needs none
    int64_t bytes       # of that, at least
    bint checks         # it may find a number that it cannot use


cdef class Context:
    cdef char **addresses  # the table, by place
    cdef int64_t *sizes    # bytes from there on to the end of the array
    cdef readonly int places


cdef class StepList:
    cdef Step *steps
    cdef int *places
    cdef list operations  # which the steps point to
    cdef readonly int count
    cdef int max_place
    cdef int check_workspaces(self, Context context) except -1
    cdef int raise_fault(self, Context context, int step) except -1
    cdef int run_until_python(self, char **addresses, int i, int64_t *times) noexcept nogil
