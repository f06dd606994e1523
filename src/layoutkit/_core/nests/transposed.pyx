"""A transposed convolution as an operation: the routes of its phases, with their packed filters."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from ..kernels.elementwise cimport lk_epilogue
from ..ndarray cimport PyArray_DATA, import_array, ndarray
from .executor cimport aligned
from .operation cimport Operation
from .reordering cimport Reordering
from .route cimport Epilogue, Route

import_array()


cdef struct Phase:
    void *route
    const char *filter
    const char *bias
    int64_t start  # of its outputs, bytes from the beginning of the output


cdef class TransposedConvolution(Operation):
    """y = epilogue(transposed convolution of x), of arrays (x, y).

    Parameters
    ----------
    arrays : (ndarray, ndarray)
        What it is bound to.
    phases : sequence of (Route, filter, bias, start)
        Each writes its part of the output, which begins `start` bytes after it; filter and bias are packed for its route.
    epilogue : Epilogue or None
        Of each phase, without tensors.
    before, after : (Reordering, threads), optional
        From x to the layout that the phases read, and from the one that they write to y.
    x_bytes, y_bytes : int
        What the reordered input and output take.
    """

    cdef Phase *phase
    cdef int count, x_threads, y_threads
    cdef int64_t x_bytes, y_bytes
    cdef Reordering before, after
    cdef Epilogue epilogue

    def __cinit__(self, tuple arrays, phases, Epilogue epilogue, before=None, after=None, int64_t x_bytes=0,
                  int64_t y_bytes=0):
        cdef Phase *phase
        cdef Route route
        cdef ndarray packed
        cdef int64_t most = 0
        self.bind(arrays)
        if len(arrays) != 2 or (epilogue is not None and epilogue.tensors):
            raise ValueError(f"transposed convolution of {len(arrays)} arrays, with {epilogue}")
        self.count, self.epilogue = <int>len(phases), epilogue
        self.owned += phases
        self.phase = <Phase *>calloc(max(1, self.count), sizeof(Phase))
        if self.phase == NULL:
            raise MemoryError(f"transposed convolution: {self.count} phases")
        for i, (route, packed, bias, start) in enumerate(phases):
            if route.executor.integers and (epilogue is None or epilogue.f.mul == NULL):
                raise TypeError("a convolution of integers without what its numbers mean")
            phase = self.phase + <int>i
            phase.route, phase.filter, phase.start = <void *>route, <const char *>PyArray_DATA(packed), start
            phase.bias = NULL if bias is None else <const char *>PyArray_DATA(<ndarray?>bias)
            most = max(most, route.workspace)
        if before is not None:
            self.before, self.x_threads = before
            self.x_bytes = aligned(x_bytes)
        if after is not None:
            self.after, self.y_threads = after
            self.y_bytes = aligned(y_bytes)
        self.workspace = self.x_bytes + self.y_bytes + most

    def __dealloc__(self):
        free(self.phase)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef const char *x = at[0]
        cdef char *y = at[1]
        cdef char *work = workspace + self.x_bytes + self.y_bytes
        cdef const lk_epilogue *epilogue = NULL
        cdef const Phase *phase
        cdef int i
        if self.epilogue is not None:
            epilogue = &self.epilogue.f
        if self.before is not None:
            self.before.run(x, workspace, self.x_threads)
            x = workspace
        if self.after is not None:
            y = workspace + self.x_bytes
        for i in range(self.count):
            phase = self.phase + i
            (<Route>phase.route).run(x, phase.filter, phase.bias, epilogue, y + phase.start, work)
        if self.after is not None:
            self.after.run(y, at[1], self.y_threads)
