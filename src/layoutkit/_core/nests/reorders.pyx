"""Reorders and conversions as an operation."""

from libc.stdlib cimport calloc, free
from numpy cimport PyArray_DATA, import_array, ndarray

import numpy as np

from ..runtime.signals cimport interrupted
from .executor cimport aligned
from .operation cimport MAX_ARRAYS, Operation
from .reorder cimport Reordering

import_array()


cdef class Reorders(Operation):
    """Writes arrays, or parts of them, from others.

    Parameters
    ----------
    arrays : sequence of ndarray
        What it is bound to.
    moves : sequence of (reordering, source, source offset, destination, destination offset, threads)
        Which of the arrays, and bytes from where each begins; the source may also be an array that is always read.
    """

    def __cinit__(self, arrays, moves):
        cdef Move *move
        cdef Reordering reordering
        cdef int i
        self.bind(tuple(arrays))
        self.count, self.kept = len(moves), []
        self.each = <Move *>calloc(max(1, self.count), sizeof(Move))
        if self.each == NULL:
            raise MemoryError(f"reorders: {self.count} of them")
        for i, (reordering, src, src_at, dst, dst_at, threads) in enumerate(moves):
            move = self.each + i
            if isinstance(src, np.ndarray):
                self.kept.append(src)
                move.fixed, src = <const char *>PyArray_DATA(<ndarray>src), 0
            if not (0 <= src < len(arrays) and 0 <= dst < len(arrays)):
                raise IndexError(f"reorders: arrays {src} and {dst} of {len(arrays)}")
            self.kept.append(reordering)
            move.moves, move.src, move.src_at = <void *>reordering, src, src_at
            move.dst, move.dst_at, move.threads = dst, dst_at, threads

    def __dealloc__(self):
        free(self.each)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef const Move *move
        cdef const char *src
        cdef int i
        for i in range(self.count):
            move = self.each + i
            src = at[move.src] if move.fixed == NULL else move.fixed
            if (<Reordering>move.moves).paced(src + move.src_at, at[move.dst] + move.dst_at, move.threads):
                return


cdef class OnCopies(Operation):
    """An operation that takes contiguous arrays only, on others.

    Parameters
    ----------
    arrays : sequence of ndarray
        What it is bound to; the last one is written.
    inner : Operation
        Bound to contiguous arrays of the same shapes.
    copies : sequence of (array, reordering, threads)
        Which of the arrays are copied to the workspace, or, the last one, from there.
    """

    cdef Operation inner
    cdef Move *copies
    cdef int count, arrays
    cdef list kept

    def __cinit__(self, arrays, Operation inner not None, copies):
        cdef Move *move
        cdef Reordering reordering
        cdef int i
        self.bind(tuple(arrays))
        self.inner, self.count, self.arrays, self.kept = inner, len(copies), len(arrays), []
        self.copies = <Move *>calloc(max(1, self.count), sizeof(Move))
        if self.copies == NULL:
            raise MemoryError(f"copies: {self.count} of them")
        self.workspace = aligned(inner.workspace)
        for i, (array, reordering, threads) in enumerate(copies):
            self.kept.append(reordering)
            move = self.copies + i
            move.moves, move.src, move.threads = <void *>reordering, array, threads
            move.src_at = self.workspace
            self.workspace += aligned(arrays[array].nbytes)

    def __dealloc__(self):
        free(self.copies)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef const Move *move
        cdef char *inside[MAX_ARRAYS]
        cdef int i, last = self.arrays - 1
        for i in range(self.arrays):
            inside[i] = at[i]
        for i in range(self.count):
            move = self.copies + i
            inside[move.src] = workspace + move.src_at
            if move.src != last and (<Reordering>move.moves).paced(at[move.src], inside[move.src], move.threads):
                return
        self.inner.run(inside, workspace)
        if inside[last] != at[last] and not interrupted():
            move = self.copies + self.count - 1
            (<Reordering>move.moves).paced(inside[last], at[last], move.threads)
