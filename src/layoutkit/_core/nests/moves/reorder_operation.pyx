"""Reorders and conversions as operations."""

from libc.stdlib cimport calloc, free

import numpy as np

from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.signals cimport interrupted
from ...runtime.pace cimport Pace, done, pace_of
from ...runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from ..executor cimport aligned, ceil_div, share
from ..operation cimport MAX_ARRAYS, Operation
from .reordering cimport Reordering

import_array()

cdef enum:
    PART_BYTES = 32 << 10   # of all moves, before the next part of each
    CHUNK_BYTES = 64 << 20  # moved between checks for signals


cdef class ReorderOperation(Operation):
    """Writes arrays, or parts of them, from others.

    Parameters
    ----------
    arrays : sequence of ndarray
        What it is bound to.
    moves : sequence of (reordering, source, source offset, destination, destination offset, threads)
        Which of the arrays, and bytes from where each begins; the source may also be an array, the same in every run.
    """

    def __cinit__(self, arrays, moves):
        cdef Move *move
        cdef Reordering reordering
        cdef int i
        self.bind(tuple(arrays))
        self.count = len(moves)
        self.moves = <Move *>calloc(max(1, self.count), sizeof(Move))
        if self.moves == NULL:
            raise MemoryError(f"reorders: {self.count} of them")
        for i, (reordering, src, src_at, dst, dst_at, threads) in enumerate(moves):
            move = self.moves + i
            if isinstance(src, np.ndarray):
                self.owned.append(src)
                move.fixed, src = <const char *>PyArray_DATA(<ndarray>src), 0
            if not (0 <= src < len(arrays) and 0 <= dst < len(arrays)):
                raise IndexError(f"reorders: arrays {src} and {dst} of {len(arrays)}")
            self.owned.append(reordering)
            move.moves, move.src, move.src_at = <void *>reordering, src, src_at
            move.dst, move.dst_at, move.threads = dst, dst_at, threads
            self.threads = max(self.threads, <int>threads)
        moved = sum(array.nbytes for array in arrays)
        self.threads = threads_for(self.threads, moved)
        self.chunks = 1 + moved // CHUNK_BYTES
        self.parts = self.chunks * ceil_div(moved // self.chunks, PART_BYTES)

    def __dealloc__(self):
        free(self.moves)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef Pace pace
        if self.count == 1:
            (<Reordering>self.moves.moves).paced(source(self.moves, at), at[self.moves.dst] + self.moves.dst_at, self.moves.threads)
            return
        r.moves, r.count, r.at = self.moves, self.count, at
        r.parts = self.parts // self.chunks
        pace = pace_of(self.chunks)
        while pace.at < pace.end:
            r.chunk, r.chunks = pace.at // pace.size, pace.end // pace.size
            share_out(self.threads, moves_share, &r)
            done(&pace)
            if interrupted():
                return


cdef struct Run:
    const Move *moves
    int count
    char **at
    int64_t parts, chunk, chunks  # of a chunk; which of how many is run


cdef inline const char *source(const Move *move, char **at) noexcept nogil:
    return (at[move.src] if move.fixed == NULL else move.fixed) + move.src_at


cdef void moves_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    """A share of all moves, a part of each after another: what they read or write in common stays in the caches."""
    cdef const Run *r = <const Run *>argument
    cdef const Move *move
    cdef int64_t begin = r.chunk * r.parts, first, last, i
    cdef int k
    while lk_claim(portions, begin + share(r.parts, parts, part), begin + share(r.parts, parts, part + 1), &first, &last):
        for i in range(first, last):
            for k in range(r.count):
                move = r.moves + k
                (<Reordering>move.moves).part(source(move, r.at), r.at[move.dst] + move.dst_at, i, i + 1,
                                              r.chunks * r.parts)


cdef class OnContiguousCopies(Operation):
    """An operation on contiguous arrays, run on copies of others.

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

    def __cinit__(self, arrays, Operation inner not None, copies):
        cdef Move *move
        cdef Reordering reordering
        cdef int i
        self.bind(tuple(arrays))
        self.inner, self.count, self.arrays = inner, len(copies), len(arrays)
        self.copies = <Move *>calloc(max(1, self.count), sizeof(Move))
        if self.copies == NULL:
            raise MemoryError(f"copies: {self.count} of them")
        self.workspace, self.checks = aligned(inner.workspace), inner.checks
        for i, (array, reordering, threads) in enumerate(copies):
            self.owned.append(reordering)
            move = self.copies + i
            move.moves, move.src, move.threads = <void *>reordering, array, threads
            move.src_at = self.workspace
            self.workspace += aligned(arrays[array].nbytes)

    def __dealloc__(self):
        free(self.copies)

    cdef void place(self, char **at, char *workspace, char **inside) noexcept nogil:
        """Where the arrays of the operation inside are."""
        cdef int i
        for i in range(self.arrays):
            inside[i] = at[i]
        for i in range(self.count):
            inside[self.copies[i].src] = workspace + self.copies[i].src_at

    cdef object fault(self, char **at, char *workspace):
        cdef char *inside[MAX_ARRAYS]
        self.place(at, workspace, inside)
        return self.inner.fault(inside, workspace)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef const Move *move
        cdef char *inside[MAX_ARRAYS]
        cdef int i, last = self.arrays - 1
        self.place(at, workspace, inside)
        for i in range(self.count):
            move = self.copies + i
            if move.src != last and (<Reordering>move.moves).paced(at[move.src], inside[move.src], move.threads):
                return
        self.inner.run(inside, workspace)
        if inside[last] != at[last] and not interrupted():
            move = self.copies + self.count - 1
            (<Reordering>move.moves).paced(inside[last], at[last], move.threads)
