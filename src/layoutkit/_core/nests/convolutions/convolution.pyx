"""A convolution as an operation: a route with its packed filter and its epilogue."""

from ...kernels.elementwise cimport lk_epilogue
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ..operation cimport Operation
from ..moves.reordering cimport Reordering
from .route cimport Epilogue, Route, span_of

import_array()


cdef class Convolution(Operation):
    """y = epilogue(convolution of x + add), of arrays (x, y) or (x, add, y).

    Parameters
    ----------
    arrays : tuple of ndarray
        What it is bound to; `add` and y share no memory.
    route : Route
    filter, bias
        Packed for this route.
    epilogue : Epilogue or None
        Without tensors; not None if there is `add`.
    add_reorder : (Reordering, threads), optional
        Writes `add`, whose strides are not those of y, with those of y.
    """

    def __cinit__(self, tuple arrays, Route route not None, ndarray filter not None, bias, Epilogue epilogue, add_reorder=None):
        cdef ndarray y = arrays[len(arrays) - 1]
        self.bind(arrays)
        self.route, self.filter, self.bias, self.epilogue = route, filter, bias, epilogue
        self.adds, self.y_index, self.empty = len(arrays) == 3, len(arrays) - 1, y.size == 0
        if len(arrays) not in (2, 3) or (self.adds and epilogue is None) or (epilogue is not None and epilogue.tensors):
            raise ValueError(f"convolution of {len(arrays)} arrays, with {epilogue}")
        if self.adds and not self.empty and (add_reorder is None) != ((<object>arrays[1]).strides == (<object>y).strides):
            raise ValueError(f"convolution: add has strides {arrays[1].strides}, the output {(<object>y).strides}")
        if route.executor.integers and (epilogue is None or epilogue.f.mul == NULL):
            raise TypeError("a convolution of integers without what its numbers mean")
        self.filter_at = <const char *>PyArray_DATA(filter)
        self.bias_at = NULL if bias is None else <const char *>PyArray_DATA(<ndarray?>bias)
        self.workspace = route.workspace
        if self.empty:
            return
        self.first = span_of(y)[0]
        if add_reorder is not None:
            self.add_reorder, self.threads = add_reorder
            self.reorders_to_copy = route.residual is None and not route.executor.accumulates
        if self.adds and (self.reorders_to_copy or route.residual is not None):
            self.workspace += route.copy_bytes(y)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef lk_epilogue f
        cdef const lk_epilogue *epilogue = NULL
        cdef char *y = at[self.y_index]
        cdef char *copy = workspace + self.route.workspace
        cdef char *add
        if self.empty:
            return
        if self.epilogue is not None:
            f = self.epilogue.f
            epilogue = &f
        if self.adds:
            add = at[1]
            if self.add_reorder is not None:
                add = copy + self.first if self.reorders_to_copy else y
                if self.add_reorder.paced(at[1], add, self.threads):
                    return
            if self.route.residual is not None:
                if self.route.residual.paced(add, copy, self.route.executor.threads):
                    return
                add = copy
            f.add = add
        self.route.paced(at[0], self.filter_at, self.bias_at, epilogue, y, workspace)
