"""Operations some of whose arrays are the same in all runs."""

from ..ndarray cimport PyArray_DATA, import_array, ndarray
from .operation cimport MAX_ARRAYS, Operation

import_array()


cdef class WithConstants(Operation):
    """An operation for the arrays that vary.

    Parameters
    ----------
    inner : Operation
    arrays : sequence of ndarray
        What it is bound to.
    constant : sequence of bool
        Which of these each run reads, instead of getting others.
    """

    cdef Operation inner
    cdef char *at_constants[MAX_ARRAYS]  # NULL: the array varies
    cdef int count

    def __init__(self, Operation inner not None, arrays, constant):
        self.bind(tuple([array for array, is_constant in zip(arrays, constant, strict=True) if not is_constant]))
        self.inner, self.count = inner, len(arrays)
        self.workspace, self.checks = inner.workspace, inner.checks
        for i, (array, is_constant) in enumerate(zip(arrays, constant)):
            if is_constant:
                self.owned.append(array)
                self.at_constants[i] = <char *>PyArray_DATA(<ndarray?>array)

    cdef void place(self, char **at, char **inside) noexcept nogil:
        """All arrays of the operation."""
        cdef int i, varying = 0
        for i in range(self.count):
            inside[i] = self.at_constants[i]
            if inside[i] == NULL:
                inside[i] = at[varying]
                varying += 1

    cdef object fault(self, char **at, char *workspace):
        cdef char *inside[MAX_ARRAYS]
        self.place(at, inside)
        return self.inner.fault(inside, workspace)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef char *inside[MAX_ARRAYS]
        self.place(at, inside)
        self.inner.run(inside, workspace)
