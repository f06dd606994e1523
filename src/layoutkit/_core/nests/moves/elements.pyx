"""Elements along an axis by indices of their own: taken, or written to."""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy

from ...ndarray cimport import_array, ndarray
from ...runtime.team cimport threads_for
from ..executor cimport ceil_div
from .indices cimport (
    CHECK_BYTES, INDEX_COST, MAX_INDEX, SET, TASK_BYTES, check_indices, number, out_of_range, reduced, take_units, unit,
    within,
)
from ..operation cimport Operation, chunks_of

from ..element_types import REDUCED, REDUCTIONS

import_array()


cdef inline void gather_row(const unit *x, const int64_t *at, unit *y, int64_t *bad, int64_t n, int64_t stride,
                            int64_t step, int64_t count) noexcept nogil:
    """``y[j] = x[at[j] * stride + j * step]``"""
    cdef int64_t j, i
    if stride == 1 and step == 0:
        take_units(x, at, y, bad, n, 0, count)
        return
    for j in range(count):
        i = at[j]
        if not within(&i, n):
            bad[0] = j
            continue
        y[j] = x[i * stride + j * step]


cdef inline void scatter_row(number *y, const int64_t *at, const number *updates, int64_t *bad, int64_t n, int64_t stride,
                             int64_t step, int64_t count, int how) noexcept nogil:
    """``y[at[j] * stride + j * step] = updates[j]``, or reduced"""
    cdef int64_t j, i
    if how == SET and stride == 1 and step == 0:  # known to the compiler
        for j in range(count):
            i = at[j]
            if not within(&i, n):
                bad[0] = j
                continue
            y[i] = updates[j]
        return
    for j in range(count):
        i = at[j]
        if not within(&i, n):
            bad[0] = j
            continue
        reduced(y + i * stride + j * step, updates[j], how)


cdef class Elements(Operation):
    """Elements along an axis by indices of their own, for arrays (x, at, y), or (x, at, updates, y): then y becomes x with
    the updates written there.

    Parameters
    ----------
    x : ndarray
    at : ndarray of int64
        Of the rank of `x`, and no longer along axes other than `axis`; all arrays are in C order.
    updates : ndarray or None
        Of the shape of `at`.
    y : ndarray
        Of the shape of `at`; with updates, of that of `x`, or `x` itself.
    axis : int
        From the front.
    reduction : str
        How updates are written, one after another: "none", "add", "mul", "max", "min".
    threads : int
    """

    cdef int64_t extents[MAX_INDEX]  # of `at`, of the axes around rows
    cdef int64_t steps[MAX_INDEX]    # of x, in elements; 0: along the axis of the indices
    cdef int64_t n, stride, step, length, rows, each, tasks, chunks, whole_bytes
    cdef int axes, threads, how, type_number, item
    cdef bint writes

    def __init__(self, ndarray x not None, ndarray at not None, updates, ndarray y not None, int axis, str reduction,
                 int threads):
        cdef int i
        arrays = (x, at, y) if updates is None else (x, at, updates, y)
        check_indices(arrays, at, "elements")
        self.bind(arrays)
        self.checks, self.workspace = True, CHECK_BYTES
        self.writes, self.how, self.item = updates is not None, <int>REDUCTIONS.index(reduction), x.itemsize
        moved = updates if self.writes else y
        shape, of = (<object>x).shape, (<object>at).shape
        if (moved.dtype != x.dtype or y.dtype != x.dtype or moved.shape != of or (self.writes and (<object>y).shape != shape)
                or len(of) != len(shape) or not 0 <= axis < len(shape)
                or any([m > n for k, (n, m) in enumerate(zip(shape, of)) if k != axis])):
            raise ValueError(f"elements: {x.dtype} {shape}, indices of shape {of} along axis {axis}, {moved.dtype}"
                             f" {moved.shape}")
        if self.item not in (1, 2, 4, 8):
            raise ValueError(f"elements: {self.item} bytes each, expected 1, 2, 4 or 8")
        if self.how != SET:
            self.type_number = REDUCED.index(x.dtype.name)
        else:  # as whole numbers of the same size
            self.type_number = REDUCED.index(f"uint{8 * self.item}")
        self.n, self.stride = shape[axis], 1
        for i in range(axis + 1, len(shape)):  # not numpy's: those of axes of one element may be anything
            self.stride *= shape[i]
        loops = self.merged(shape, of, axis)
        (self.length, self.step) = loops.pop()
        if len(loops) > MAX_INDEX:
            raise ValueError(f"elements: {len(loops) + 1} axes, at most {MAX_INDEX + 1}")
        self.axes, self.rows = <int>len(loops), at.size // self.length if at.size else 0
        for i in range(self.axes):
            self.extents[i], self.steps[i] = loops[i]
        self.whole_bytes = x.nbytes
        self.each = max(<int64_t>1, TASK_BYTES // (self.item + INDEX_COST) // max(self.length, 1))  # rows of a task
        self.tasks = ceil_div(self.rows, self.each)
        cost = at.size * (2.0 * self.item + INDEX_COST)
        shares = not self.writes or axis == len(shape) - 1  # rows that write to places of their own
        self.threads = <int>max(1, min(threads_for(threads, cost), self.tasks)) if shares else 1
        self.chunks = chunks_of(cost)

    cdef list merged(self, tuple shape, tuple of, int axis):
        """(extent, step in x) of the loops over `at`, those along neighbouring axes merged where x allows it."""
        loops = []
        step = 1
        for k in range(len(of) - 1, -1, -1):
            along = k == axis
            inner = loops[-1] if loops else None
            if inner is not None and not along and not inner[2] and inner[0] * inner[1] == step:
                loops[-1] = (of[k] * inner[0], inner[1], False)
            else:
                loops.append((of[k], 0 if along else step, along))
            step *= shape[k]
        return [loop[:2] for loop in loops[::-1]]

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        (<int64_t *>workspace)[0] = -1
        if self.writes and at[3] != at[0]:
            memcpy(at[3], at[0], self.whole_bytes)
        self.run_chunks(self.threads, self.tasks, self.chunks, at, workspace, 0)

    cdef object fault(self, char **at, char *workspace):
        return out_of_range(<const int64_t *>at[1], workspace, &self.n, 1)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t index[MAX_INDEX]
        cdef int64_t row = task * self.each, end = min(self.rows, (task + 1) * self.each), rest = row, base = 0, wrong
        cdef const int64_t *table = <const int64_t *>at[1]
        cdef int i
        for i in range(self.axes - 1, -1, -1):
            index[i] = rest % self.extents[i]
            rest //= self.extents[i]
            base += index[i] * self.steps[i]
        while row < end:
            wrong = -1
            if self.writes:
                self.scatter(at[3] + base * self.item, table + row * self.length, at[2] + row * self.length * self.item,
                             &wrong)
            else:
                self.gather(at[0] + base * self.item, table + row * self.length, at[2] + row * self.length * self.item,
                            &wrong)
            if wrong >= 0:
                (<int64_t *>workspace)[0] = row * self.length + wrong
            row += 1
            for i in range(self.axes - 1, -1, -1):  # to the next row
                index[i] += 1
                base += self.steps[i]
                if index[i] < self.extents[i]:
                    break
                base -= index[i] * self.steps[i]
                index[i] = 0

    cdef void gather(self, const char *x, const int64_t *at, char *y, int64_t *bad) noexcept nogil:
        if self.item == 4:
            gather_row(<const uint32_t *>x, at, <uint32_t *>y, bad, self.n, self.stride, self.step, self.length)
        elif self.item == 8:
            gather_row(<const uint64_t *>x, at, <uint64_t *>y, bad, self.n, self.stride, self.step, self.length)
        elif self.item == 2:
            gather_row(<const uint16_t *>x, at, <uint16_t *>y, bad, self.n, self.stride, self.step, self.length)
        else:
            gather_row(<const uint8_t *>x, at, <uint8_t *>y, bad, self.n, self.stride, self.step, self.length)

    cdef void scatter(self, char *y, const int64_t *at, const char *u, int64_t *bad) noexcept nogil:
        cdef int64_t n = self.n, stride = self.stride, step = self.step, length = self.length
        if self.type_number == 0:
            scatter_row(<float *>y, at, <const float *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 1:
            scatter_row(<double *>y, at, <const double *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 2:
            scatter_row(<int8_t *>y, at, <const int8_t *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 3:
            scatter_row(<int16_t *>y, at, <const int16_t *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 4:
            scatter_row(<int32_t *>y, at, <const int32_t *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 5:
            scatter_row(<int64_t *>y, at, <const int64_t *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 6:
            scatter_row(<uint8_t *>y, at, <const uint8_t *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 7:
            scatter_row(<uint16_t *>y, at, <const uint16_t *>u, bad, n, stride, step, length, self.how)
        elif self.type_number == 8:
            scatter_row(<uint32_t *>y, at, <const uint32_t *>u, bad, n, stride, step, length, self.how)
        else:
            scatter_row(<uint64_t *>y, at, <const uint64_t *>u, bad, n, stride, step, length, self.how)
