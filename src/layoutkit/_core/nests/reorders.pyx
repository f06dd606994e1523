"""Reorders and conversions as an operation."""

from libc.stdlib cimport calloc, free

from .operation cimport Operation
from .reorder cimport Reordering


cdef class Reorders(Operation):
    """Writes arrays, or parts of them, from others.

    Parameters
    ----------
    arrays : sequence of ndarray
        What it is bound to.
    moves : sequence of (reordering, source, source offset, destination, destination offset, threads)
        Which of the arrays, and bytes from where each begins.
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
            if not (0 <= src < len(arrays) and 0 <= dst < len(arrays)):
                raise IndexError(f"reorders: arrays {src} and {dst} of {len(arrays)}")
            self.kept.append(reordering)
            move = self.each + i
            move.moves, move.src, move.src_at = <void *>reordering, src, src_at
            move.dst, move.dst_at, move.threads = dst, dst_at, threads

    def __dealloc__(self):
        free(self.each)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef const Move *move
        cdef int i
        for i in range(self.count):
            move = self.each + i
            if (<Reordering>move.moves).paced(at[move.src] + move.src_at, at[move.dst] + move.dst_at, move.threads):
                return
