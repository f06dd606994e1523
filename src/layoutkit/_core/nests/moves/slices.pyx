"""Slices that tuples of indices name: taken, or written to."""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy

from ...ndarray cimport import_array, ndarray
from ...runtime.signals cimport interrupted
from ...runtime.team cimport threads_for
from ..executor cimport ceil_div
from .indices cimport (
    ADD, CHECK_BYTES, INDEX_COST, MAX, MAX_INDEX, MIN, MUL, SET, TASK_BYTES, check_indices, number, out_of_range, reduced,
    take_units, within,
)
from ..operation cimport Operation, chunks_of

from ..element_types import REDUCED, REDUCTIONS

import_array()

cdef enum:
    LOOK_EVERY = 1 << 12  # tasks of a single thread, between looks at signals


cdef inline int64_t offset_of(const int64_t *at, const int64_t *sizes, const int64_t *strides, int count,
                              int *which) noexcept nogil:
    """Where the element or slice of a tuple of indices is; -1 if one of them is out of range: number `which`."""
    cdef int64_t offset = 0, i
    cdef int k
    for k in range(count):
        i = at[k]
        if not within(&i, sizes[k]):
            which[0] = k
            return -1
        offset += i * strides[k]
    return offset


cdef void reduce_slice(number *y, const number *u, int64_t count, int how) noexcept nogil:
    cdef int64_t j
    if how == ADD:
        for j in range(count):
            reduced(y + j, u[j], ADD)
    elif how == MUL:
        for j in range(count):
            reduced(y + j, u[j], MUL)
    elif how == MAX:
        for j in range(count):
            reduced(y + j, u[j], MAX)
    else:
        for j in range(count):
            reduced(y + j, u[j], MIN)


cdef void reduce_bytes(char *y, const char *u, int64_t count, int type_number, int how) noexcept nogil:
    """A slice of numbers of the type at this place of `REDUCED`."""
    if type_number == 0:
        reduce_slice(<float *>y, <const float *>u, count, how)
    elif type_number == 1:
        reduce_slice(<double *>y, <const double *>u, count, how)
    elif type_number == 2:
        reduce_slice(<int8_t *>y, <const int8_t *>u, count, how)
    elif type_number == 3:
        reduce_slice(<int16_t *>y, <const int16_t *>u, count, how)
    elif type_number == 4:
        reduce_slice(<int32_t *>y, <const int32_t *>u, count, how)
    elif type_number == 5:
        reduce_slice(<int64_t *>y, <const int64_t *>u, count, how)
    elif type_number == 6:
        reduce_slice(<uint8_t *>y, <const uint8_t *>u, count, how)
    elif type_number == 7:
        reduce_slice(<uint16_t *>y, <const uint16_t *>u, count, how)
    elif type_number == 8:
        reduce_slice(<uint32_t *>y, <const uint32_t *>u, count, how)
    else:
        reduce_slice(<uint64_t *>y, <const uint64_t *>u, count, how)


cdef class Slices(Operation):
    """Slices of an array by tuples of indices, for arrays (x, at, y), or (x, at, updates, y): then y becomes x with the
    updates written there.

    Parameters
    ----------
    x : ndarray [batches, sizes[0], sizes[1], .., slice]
        The axes may be merged; all arrays are in C order.
    at : ndarray of int64 [batches, count, len(sizes)]
        Or without batches, if all have the same indices: `shared`.
    updates : ndarray [batches, count, slice] or None
    y : ndarray
        Of slices as `updates`; with these, as `x`, or `x` itself.
    sizes : sequence of int
    batches, count : int
    shared : bool
    reduction : str
        How updates are written, one after another: "none", "add", "mul", "max", "min".
    threads : int
        That take slices; one writes updates.
    """

    cdef int64_t sizes[MAX_INDEX]
    cdef int64_t strides[MAX_INDEX]  # in bytes
    cdef int64_t count, slice_bytes, items, batches, batch_bytes, each, tasks, chunks, whole_bytes
    cdef int indices, threads, how, type_number
    cdef bint shared, writes

    def __init__(self, ndarray x not None, ndarray at not None, updates, ndarray y not None, sizes, int64_t batches,
                 int64_t count, bint shared, str reduction, int threads):
        cdef int k
        arrays = (x, at, y) if updates is None else (x, at, updates, y)
        check_indices(arrays, at, "slices")
        self.bind(arrays)
        self.checks, self.workspace = True, CHECK_BYTES
        self.writes, self.shared, self.batches, self.indices = updates is not None, shared, batches, <int>len(sizes)
        self.how = <int>REDUCTIONS.index(reduction)
        if self.indices > MAX_INDEX:
            raise ValueError(f"slices: {self.indices} indices, at most {MAX_INDEX}")
        moved = updates if self.writes else y
        if moved.dtype != x.dtype or y.dtype != x.dtype:
            raise ValueError(f"slices: {x.dtype}, {moved.dtype} and {y.dtype}, expected one type")
        self.type_number = REDUCED.index(x.dtype.name) if self.how != SET else 0
        self.count, many = count, batches * count
        self.slice_bytes = moved.nbytes // many if many else 0
        self.items = self.slice_bytes // max(x.itemsize, 1)
        stride = self.slice_bytes
        for k in range(self.indices - 1, -1, -1):
            self.sizes[k], self.strides[k] = sizes[k], stride
            stride *= sizes[k]
        self.batch_bytes, self.whole_bytes = stride, x.nbytes
        if many and (batches * stride != x.nbytes or many * self.slice_bytes != moved.nbytes
                     or many * self.indices != at.size * (batches if shared else 1)
                     or (self.writes and y.nbytes != x.nbytes)):
            raise ValueError(f"slices: {(<object>x).shape} in {batches} batches of {tuple(sizes)}, indices of shape"
                             f" {(<object>at).shape}, {(<object>moved).shape} moved")
        self.each = max(<int64_t>1, TASK_BYTES // (self.slice_bytes + INDEX_COST))  # slices of a task
        self.tasks = ceil_div(self.count, self.each) * batches if self.slice_bytes else 0
        cost = moved.nbytes * 2.0 + INDEX_COST * many
        self.threads = 1 if self.writes else <int>max(1, min(threads_for(threads, cost), self.tasks))
        self.chunks = chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef int64_t task
        (<int64_t *>workspace)[0] = -1
        if not self.writes:
            self.run_chunks(self.threads, self.tasks, self.chunks, at, workspace, 0)
            return
        if at[3] != at[0]:
            memcpy(at[3], at[0], self.whole_bytes)
        for task in range(self.tasks):
            self.write(task, at, workspace)
            if task % LOOK_EVERY == LOOK_EVERY - 1 and interrupted():
                return

    cdef object fault(self, char **at, char *workspace):
        return out_of_range(<const int64_t *>at[1], workspace, self.sizes, self.indices)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t of_batch = ceil_div(self.count, self.each), batch = task // of_batch
        cdef int64_t first = task % of_batch * self.each, count = min(self.each, self.count - first), i, offset
        cdef int64_t begin = 0 if self.shared else batch * self.count
        cdef const char *x = at[0] + batch * self.batch_bytes
        cdef const int64_t *table = <const int64_t *>at[1] + begin * self.indices
        cdef char *y = at[2] + batch * self.count * self.slice_bytes
        cdef int64_t wrong = -1
        cdef int which = 0
        if self.indices == 1 and self.slice_bytes == 4:
            take_units(<const uint32_t *>x, table, <uint32_t *>y, &wrong, self.sizes[0], first, count)
        elif self.indices == 1 and self.slice_bytes == 8:
            take_units(<const uint64_t *>x, table, <uint64_t *>y, &wrong, self.sizes[0], first, count)
        elif self.indices == 1 and self.slice_bytes == 1:
            take_units(<const uint8_t *>x, table, <uint8_t *>y, &wrong, self.sizes[0], first, count)
        elif self.indices == 1 and self.slice_bytes == 2:
            take_units(<const uint16_t *>x, table, <uint16_t *>y, &wrong, self.sizes[0], first, count)
        else:
            for i in range(first, first + count):
                offset = offset_of(table + i * self.indices, self.sizes, self.strides, self.indices, &which)
                if offset < 0:
                    wrong = i * self.indices + which
                else:
                    memcpy(y + i * self.slice_bytes, x + offset, self.slice_bytes)
        if wrong >= 0:
            (<int64_t *>workspace)[0] = begin * self.indices + wrong

    cdef void write(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """A task of updates."""
        cdef int64_t of_batch = ceil_div(self.count, self.each), batch = task // of_batch
        cdef int64_t first = task % of_batch * self.each, i, offset
        cdef int64_t begin = 0 if self.shared else batch * self.count
        cdef const int64_t *table = <const int64_t *>at[1]
        cdef const char *updates = at[2] + batch * self.count * self.slice_bytes
        cdef char *y = at[3] + batch * self.batch_bytes
        cdef int which = 0
        for i in range(first, min(self.count, first + self.each)):
            offset = offset_of(table + (begin + i) * self.indices, self.sizes, self.strides, self.indices, &which)
            if offset < 0:
                (<int64_t *>workspace)[0] = (begin + i) * self.indices + which
            elif self.how == SET:
                memcpy(y + offset, updates + i * self.slice_bytes, self.slice_bytes)
            else:
                reduce_bytes(y + offset, updates + i * self.slice_bytes, self.items, self.type_number, self.how)
