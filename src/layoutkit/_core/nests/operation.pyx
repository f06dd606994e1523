"""An operation that is bound to the shapes and strides of its arrays: what compiled programs consist of.

Its class checks and plans once, for arrays that stand for those to come; a run gets nothing but their addresses, holds no
lock and allocates nothing.
"""

from libc.stdint cimport int64_t
from numpy cimport PyArray_DATA, import_array, ndarray

from ..runtime.pool cimport Pool
from .executor cimport aligned

import_array()

MOST_ARRAYS = MAX_ARRAYS  # of an operation

cdef Pool _pool = Pool(64 << 20)  # of workspaces, for calls from Python


cdef class Operation:
    """The base: a class calls `bind` with its arrays, may ask for a `workspace`, and implements `run`.

    ``operation(*arrays)`` runs it on other arrays of the same shapes and strides.
    """

    cdef int bind(self, tuple arrays) except -1:
        """Be an operation on arrays like these."""
        if len(arrays) > MAX_ARRAYS:
            raise ValueError(f"{type(self).__name__}: {len(arrays)} arrays, at most {MAX_ARRAYS}")
        self.kinds = tuple([(a.shape, a.strides, a.itemsize) for a in arrays])
        return 0

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        """Run on the arrays at these addresses, in the order in which they were bound; `workspace` begins at a cache line."""
        pass

    def __call__(self, *arrays):
        cdef char *at[MAX_ARRAYS]
        cdef int i
        kinds = tuple([(a.shape, a.strides, a.itemsize) for a in arrays])
        if kinds != self.kinds:
            raise ValueError(f"{type(self).__name__}: bound to arrays of (shape, strides, itemsize) {self.kinds}, got {kinds}")
        for i in range(len(arrays)):
            at[i] = <char *>PyArray_DATA(<ndarray>arrays[i])
        scratch = _pool.lend(self.workspace + 64)
        cdef char *workspace = <char *>aligned(<int64_t>PyArray_DATA(<ndarray>scratch))
        with nogil:
            self.run(at, workspace)
        _pool.take_back(scratch)
