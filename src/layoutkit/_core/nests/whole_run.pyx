"""A run of a network all of whose steps are compiled: what is around the steps, in one call.

Networks leave little of Python in the caches of a core. What such code touches comes from further away in every run, so
that it takes ten times as long as in a loop of its own: as long as several steps of a small network.
"""

from cpython.dict cimport PyDict_CheckExact, PyDict_GetItemWithError, PyDict_Size
from libc.stdint cimport int64_t

from ..ndarray cimport (
    PyArray_CheckExact, PyArray_DESCR, PyArray_DIMS, PyArray_IS_C_CONTIGUOUS, PyArray_ISALIGNED, PyArray_NDIM, dtype,
    import_array, ndarray,
)
from .step_list cimport Context, StepList

import_array()


cdef class _Input:
    cdef str name
    cdef tuple shape
    cdef dtype type
    cdef tuple places  # (place in the table, offset in bytes) of the tensor, and of all that are parts of it


cdef class _Output:
    cdef str name
    cdef tuple shape
    cdef dtype type
    cdef int64_t nbytes
    cdef tuple places


cdef class WholeRun:
    """Runs of a list without steps of Python.

    Parameters
    ----------
    steps : StepList
    inputs : sequence of (name, shape, dtype, places)
        Places are pairs: of the table of addresses, and how many bytes after the begin of the array.
    outputs : sequence of (name, shape, dtype, nbytes, places)
    new : callable
        Makes the array of an output, of its shape, dtype and bytes.
    """

    cdef StepList steps
    cdef list inputs, outputs
    cdef object new

    def __init__(self, StepList steps not None, inputs, outputs, new):
        cdef _Input source
        cdef _Output result
        self.steps, self.new, self.inputs, self.outputs = steps, new, [], []
        for name, shape, of, places in inputs:
            source = _Input.__new__(_Input)
            source.name, source.shape, source.type, source.places = name, tuple(shape), of, tuple(places)
            self.inputs.append(source)
        for name, shape, of, nbytes, places in outputs:
            result = _Output.__new__(_Output)
            result.name, result.shape, result.type, result.nbytes, result.places = name, shape, of, nbytes, tuple(places)
            self.outputs.append(result)

    def taken(self, inputs):
        """The arrays, if `inputs` is a dict of exactly what the run takes as it is, or the one array; else None."""
        cdef _Input each
        cdef list arrays = []
        if PyArray_CheckExact(inputs) and len(self.inputs) == 1:
            each = self.inputs[0]
            return [inputs] if fits(inputs, each) else None
        if not PyDict_CheckExact(inputs) or PyDict_Size(inputs) != len(self.inputs):
            return None
        for each in self.inputs:
            found = PyDict_GetItemWithError(inputs, each.name)
            if found == NULL:
                return None
            array = <object>found
            if not PyArray_CheckExact(array) or not fits(array, each):
                return None
            arrays.append(array)
        return arrays

    def run(self, Context context not None, list arrays not None):
        """The outputs by name, for what `taken` has returned."""
        cdef _Input source
        cdef _Output result
        cdef dict outputs = {}
        cdef int i
        for i, source in enumerate(self.inputs):
            for place, offset in source.places:
                context.set(place, arrays[i], offset)
        for result in self.outputs:
            array = self.new(result.shape, result.type, result.nbytes)
            outputs[result.name] = array
            for place, offset in result.places:
                context.set(place, array, offset)
        self.steps.run(context, 0)
        return outputs


cdef bint fits(ndarray array, _Input as_input) except -1:
    cdef int i, ndim = PyArray_NDIM(array)
    if ndim != len(as_input.shape) or <void *>PyArray_DESCR(array) != <void *>as_input.type:
        return False
    for i in range(ndim):
        if PyArray_DIMS(array)[i] != <int64_t>as_input.shape[i]:
            return False
    return PyArray_IS_C_CONTIGUOUS(array) and PyArray_ISALIGNED(array)
