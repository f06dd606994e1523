"""Triangles of matrices: pieces of rows are copied, the rest is zeros."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from ...ndarray cimport import_array, ndarray
from ...runtime.team cimport threads_for
from ..checks cimport check_order
from ..executor cimport ceil_div
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    TASK_BYTES = 32 << 10


cdef class Triangle(Operation):
    """The elements above or below a diagonal of each matrix, and zeros, for arrays (x, y) in C order.

    Parameters
    ----------
    x, y : ndarray [.., rows, columns]
        Of one shape and type.
    diagonal : int
        Element (i, i + diagonal) of it belongs to the triangle.
    upper : bool
    threads : int
    """

    cdef int64_t rows, columns, all_rows, each, diagonal, chunks
    cdef int item, threads
    cdef bint upper

    def __init__(self, ndarray x not None, ndarray y not None, int64_t diagonal, bint upper, int threads):
        self.bind((x, y))
        if x.ndim < 2 or (<object>x).shape != (<object>y).shape or x.dtype != y.dtype:
            raise ValueError(f"triangle: {x.dtype} {(<object>x).shape} to {y.dtype} {(<object>y).shape}")
        check_order((x, y), "triangle")
        self.rows, self.columns = (<object>x).shape[-2:]
        self.all_rows = x.size // self.columns if x.size else 0
        self.item, self.upper, self.diagonal = x.itemsize, upper, min(max(diagonal, -self.rows), self.columns)
        self.each = max(<int64_t>1, TASK_BYTES // max(<int64_t>1, self.columns * self.item))
        cost = 2.0 * x.size * self.item
        self.threads, self.chunks = <int>max(1, min(threads_for(threads, cost), self.all_rows)), chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        self.run_chunks(self.threads, ceil_div(self.all_rows, self.each), self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t row, cut, bytes = self.columns * self.item
        cdef const char *x
        cdef char *y
        for row in range(task * self.each, min(self.all_rows, (task + 1) * self.each)):
            cut = row % self.rows + self.diagonal + (0 if self.upper else 1)
            cut = min(max(cut, <int64_t>0), self.columns) * self.item
            x, y = at[0] + row * bytes, at[1] + row * bytes
            if self.upper:
                memset(y, 0, cut)
                memcpy(y + cut, x + cut, bytes - cut)
            else:
                memcpy(y, x, cut)
                memset(y + cut, 0, bytes - cut)
