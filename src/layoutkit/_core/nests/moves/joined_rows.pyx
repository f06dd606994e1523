"""Concatenations and divisions of rows: bytes that follow one another in both arrays, by the copies of take.c."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

import numpy as np

from ...kernels cimport LK_TAKE
from ...kernels.take cimport lk_take, lk_take_fn
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, threads_for
from ..executor cimport ceil_div, share
from ..operation cimport Operation

import_array()

cdef enum:
    ROWS_BYTES = 8 << 10  # of rows of a whole, which stay in L1 while their pieces are copied
    CUT_BYTES = 32 << 10  # of rows that are divided between threads, at least
    TASKS = 8             # for each thread, if rows are divided
    LINE_BYTES = 64


cdef struct Piece:  # of the rows of a whole
    const char *fixed  # if it is always the same; NULL: an array
    int array
    int64_t at, bytes, step  # from the beginning of a row of the whole; of a row; from a row of the piece to the next


cdef class JoinedRows(Operation):
    """Writes rows of bytes from pieces side by side, or pieces from parts of rows.

    Parameters
    ----------
    arrays : sequence of ndarray
        What it is bound to.
    whole : (int, int, int)
        Which of the arrays has the rows, how many, and the bytes from one to the next.
    pieces : sequence of (int or ndarray, int, int, int)
        Which of the arrays, or one that is the same in every run; from which byte of a row on, how many, and the bytes from
        a row of the piece to the next.
    joins : bool
        Whether the whole is written.
    threads : int
    """

    cdef lk_take_fn fn
    cdef Piece *pieces
    cdef int count, whole, threads
    cdef bint joins
    cdef int64_t rows, step  # of the whole
    cdef int64_t block, blocks, cuts  # rows of a task, tasks along the rows, and within each of them

    def __cinit__(self, arrays, whole, pieces, bint joins, int threads):
        cdef Piece *piece
        cdef int64_t row_bytes = 0
        cdef int i
        self.bind(tuple(arrays))
        self.fn = <lk_take_fn>best_row(LK_TAKE, "x8").fn
        self.whole, self.rows, self.step = whole
        self.joins, self.count = joins, len(pieces)
        self.pieces = <Piece *>calloc(max(1, self.count), sizeof(Piece))
        if self.pieces == NULL:
            raise MemoryError(f"rows: {self.count} pieces")
        for i, (array, at, nbytes, step) in enumerate(pieces):
            piece = self.pieces + i
            if isinstance(array, np.ndarray):
                self.owned.append(array)
                piece.fixed, array = <const char *>PyArray_DATA(<ndarray>array), 0
            if not (0 <= array < len(arrays) and 0 <= self.whole < len(arrays)) or at < 0 or nbytes < 0:
                raise ValueError(f"rows: array {array} of {len(arrays)}, bytes {at} to {at + nbytes}")
            piece.array, piece.at, piece.bytes, piece.step = array, at, nbytes, step
            row_bytes += nbytes
        if not row_bytes:
            self.rows = 0
        self.threads = threads_for(threads, 2.0 * self.rows * row_bytes)
        self.block, self.cuts = max(1, ROWS_BYTES // max(1, row_bytes)), 1
        self.blocks = ceil_div(self.rows, self.block)
        if self.threads > 1 and self.blocks < TASKS * self.threads:
            self.cuts = max(1, min(ceil_div(TASKS * self.threads, max(1, self.blocks)), row_bytes // CUT_BYTES))

    def __dealloc__(self):
        free(self.pieces)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.rows:
            self.run_shares(<int>min(self.threads, self.blocks * self.cuts), at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef int64_t tasks = self.blocks * self.cuts, first, last, i
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &first, &last):
            for i in range(first, last):
                self.copy_rows(at, i // self.cuts * self.block, i % self.cuts)

    cdef void copy_rows(self, char **at, int64_t row, int64_t cut) noexcept nogil:
        """A cut of each piece of some rows, two pieces at a time."""
        cdef lk_take one[2]
        cdef int i, found = 0
        for i in range(self.count):
            if self.set_copy(&one[found], at, i, row, cut):
                found += 1
            if found == 2:
                one[0].beside, found = &one[1], 0
                self.fn(&one[0])
        if found:
            self.fn(&one[0])

    cdef bint set_copy(self, lk_take *p, char **at, int i, int64_t row, int64_t cut) noexcept nogil:
        """What copies a cut of a piece of some rows; whether there is something to copy."""
        cdef const Piece *piece = self.pieces + i
        cdef int64_t begin = 0, end = piece.bytes
        if self.cuts > 1:
            begin, end = bytes_of_cut(end, self.cuts, cut), bytes_of_cut(end, self.cuts, cut + 1)
        cdef char *whole = at[self.whole] + row * self.step + piece.at + begin
        cdef char *part = (at[piece.array] if piece.fixed == NULL else <char *>piece.fixed) + row * piece.step + begin
        p.at, p.repeat, p.rows, p.copies, p.count = NULL, 1, 1, 1, min(self.block, self.rows - row)
        p.x_row, p.y_row, p.beside, p.unit = 0, 0, NULL, end - begin
        p.x, p.step, p.y, p.y_step = whole, self.step, part, piece.step
        if self.joins:
            p.x, p.step, p.y, p.y_step = part, piece.step, whole, self.step
        return begin != end


cdef inline int64_t bytes_of_cut(int64_t nbytes, int64_t cuts, int64_t cut) noexcept nogil:
    """From which byte on a cut of a row is; whole lines, but for the last one."""
    return nbytes if cut == cuts else share(nbytes, cuts, cut) // LINE_BYTES * LINE_BYTES
