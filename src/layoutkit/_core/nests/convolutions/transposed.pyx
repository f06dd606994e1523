"""A transposed convolution as an operation: the routes of its convolutions, with their packed filters, and reorders."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from ...kernels.elementwise cimport lk_epilogue
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ..executor cimport aligned
from ..operation cimport Operation
from ..moves.reordering cimport Reordering
from .route cimport Epilogue, Route

import_array()


cdef struct Step:
    void *route  # NULL: a reorder
    void *reordering
    int threads
    const char *filter
    const char *bias
    const lk_epilogue *epilogue
    int source, to  # x, y, or the workspace
    int64_t source_at, to_at


cdef class TransposedConvolution(Operation):
    """y = epilogue(transposed convolution of x), of arrays (x, y).

    Parameters
    ----------
    arrays : (ndarray, ndarray)
        What it is bound to.
    steps : sequence of (run, filter, bias, epilogue, (from, offset), (to, offset))
        Each after those before it: `run` is a Route, whose filter and bias are packed and whose epilogue has no tensors,
        or a (Reordering, threads). They read and write x (0), y (1), or the workspace (2).
    kept : int
        Bytes of the workspace that steps write for later ones.
    """

    cdef Step *step
    cdef int count
    cdef int64_t kept

    def __cinit__(self, tuple arrays, steps, int64_t kept=0):
        cdef Step *step
        cdef Route route
        cdef Epilogue then
        cdef ndarray packed
        cdef Reordering reordering
        cdef int64_t most = 0
        self.bind(arrays)
        if len(arrays) != 2:
            raise ValueError(f"transposed convolution of {len(arrays)} arrays")
        self.count, self.kept = <int>len(steps), aligned(kept)
        self.owned += steps
        self.step = <Step *>calloc(max(1, self.count), sizeof(Step))
        if self.step == NULL:
            raise MemoryError(f"transposed convolution: {self.count} steps")
        for i, (run, weights, bias, epilogue, source, to) in enumerate(steps):
            step = self.step + <int>i
            step.source, step.source_at = source
            step.to, step.to_at = to
            if not isinstance(run, Route):
                reordering, step.threads = run
                step.reordering = <void *>reordering
                continue
            route, then, packed = run, epilogue, weights
            if then is not None and then.tensors:
                raise ValueError(f"transposed convolution with {then}")
            if route.executor.integers and (then is None or then.f.mul == NULL):
                raise TypeError("a convolution of integers without what its numbers mean")
            step.route, step.filter = <void *>route, <const char *>PyArray_DATA(packed)
            step.bias = NULL if bias is None else <const char *>PyArray_DATA(<ndarray?>bias)
            step.epilogue = NULL if then is None else &then.f
            most = max(most, route.workspace)
        self.workspace = self.kept + most

    def __dealloc__(self):
        free(self.step)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef char *places[3]
        cdef const Step *step
        cdef const char *source
        cdef char *to
        cdef int i
        places[0], places[1], places[2] = at[0], at[1], workspace
        for i in range(self.count):
            step = self.step + i
            source, to = places[step.source] + step.source_at, places[step.to] + step.to_at
            if step.route != NULL:
                (<Route>step.route).run(source, step.filter, step.bias, step.epilogue, to, workspace + self.kept)
            else:
                (<Reordering>step.reordering).run(source, to, step.threads)
