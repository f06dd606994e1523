"""Elements and slices that indices of a run say where to take from, or where to write to.

An index may be negative: it counts from the end. One that is out of range is not used; its place in the table of indices is
left in `bad`, an array of one number, for the caller to report.
"""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy

from ..ndarray cimport NPY_INT64, PyArray_IS_C_CONTIGUOUS, PyArray_TYPE, import_array, ndarray
from ..runtime.signals cimport interrupted
from ..runtime.team cimport threads_for
from .executor cimport ceil_div
from .operation cimport Operation, chunks_of

import_array()

cdef enum:
    MAX_INDEX = 12        # numbers of a tuple of indices, and axes
    TASK_BYTES = 64 << 10
    LOOK_EVERY = 1 << 12  # tasks of a single thread, between looks at signals
    INDEX_COST = 8        # bytes that are moved in the time that an index takes

ctypedef fused unit:  # what is moved as a whole
    uint8_t
    uint16_t
    uint32_t
    uint64_t

ctypedef fused number:  # what is reduced
    float
    double
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef enum Reduction:
    SET, ADD, MUL, MAX, MIN

REDUCTIONS = {"none": SET, "add": ADD, "mul": MUL, "max": MAX, "min": MIN}
REDUCED = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


cdef inline bint within(int64_t *i, int64_t n) noexcept nogil:
    """Whether an index is in range; if so it counts from the front afterwards."""
    if <uint64_t>i[0] < <uint64_t>n:  # most are
        return True
    i[0] += n
    return <uint64_t>i[0] < <uint64_t>n


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


cdef inline void reduced(number *y, number u, int how) noexcept nogil:
    """NaN is the largest and the smallest."""
    if how == SET:
        y[0] = u
    elif how == ADD:
        y[0] = y[0] + u
    elif how == MUL:
        y[0] = y[0] * u
    elif how == MAX:
        if u > y[0] or u != u:
            y[0] = u
    elif u < y[0] or u != u:
        y[0] = u


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


cdef int checked(tuple arrays, ndarray at, ndarray bad, str what) except -1:
    """Errors of arrays that are not in C order, and of tables of indices of another type."""
    for array in arrays:
        if not PyArray_IS_C_CONTIGUOUS(<ndarray>array):
            raise ValueError(f"{what}: expected arrays in C order")
    if PyArray_TYPE(at) != NPY_INT64 or PyArray_TYPE(bad) != NPY_INT64 or bad.size != 1:
        raise ValueError(f"{what}: indices of {at.dtype}, expected int64, and one int64 for a bad one")
    return 0


cdef inline void take_units(const unit *x, const int64_t *at, unit *y, int64_t *bad, int64_t n, int64_t first,
                            int64_t count) noexcept nogil:
    """Elements of an axis by indices from the first one on."""
    cdef int64_t j, i
    for j in range(first, first + count):
        i = at[j]
        if not within(&i, n):
            bad[0] = j
            continue
        y[j] = x[i]


cdef class Slices(Operation):
    """Slices of an array by tuples of indices, for arrays (x, at, y, bad), or (x, at, updates, y, bad): then y becomes x with
    the updates written there.

    Parameters
    ----------
    x : ndarray [batches, sizes[0], sizes[1], .., slice]
        The axes may be merged; all arrays are in C order.
    at : ndarray of int64 [batches, count, len(sizes)]
        Or without batches, if all have the same indices: `shared`.
    updates : ndarray [batches, count, slice] or None
    y : ndarray
        Of slices as `updates`; with these, as `x`.
    bad : ndarray of int64 [1]
        Becomes the place in `at` of an index that is out of range, if there is one.
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

    def __init__(self, ndarray x not None, ndarray at not None, updates, ndarray y not None, ndarray bad not None, sizes,
                 int64_t batches, int64_t count, bint shared, str reduction, int threads):
        cdef int k
        arrays = (x, at, y, bad) if updates is None else (x, at, updates, y, bad)
        checked(arrays, at, bad, "slices")
        self.bind(arrays)
        self.writes, self.shared, self.batches, self.indices = updates is not None, shared, batches, <int>len(sizes)
        self.how = REDUCTIONS[reduction]
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
        if not self.writes:
            self.run_chunks(self.threads, self.tasks, self.chunks, at, workspace, 0)
            return
        memcpy(at[3], at[0], self.whole_bytes)
        for task in range(self.tasks):
            self.write(task, at)
            if task % LOOK_EVERY == LOOK_EVERY - 1 and interrupted():
                return

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t of_batch = ceil_div(self.count, self.each), batch = task // of_batch
        cdef int64_t first = task % of_batch * self.each, count = min(self.each, self.count - first), i, offset
        cdef int64_t begin = 0 if self.shared else batch * self.count
        cdef const char *x = at[0] + batch * self.batch_bytes
        cdef const int64_t *table = <const int64_t *>at[1] + begin * self.indices
        cdef char *y = at[2] + batch * self.count * self.slice_bytes
        cdef int64_t *bad = <int64_t *>at[3]
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
            bad[0] = begin * self.indices + wrong

    cdef void write(self, int64_t task, char **at) noexcept nogil:
        """A task of updates."""
        cdef int64_t of_batch = ceil_div(self.count, self.each), batch = task // of_batch
        cdef int64_t first = task % of_batch * self.each, i, offset
        cdef int64_t begin = 0 if self.shared else batch * self.count
        cdef const int64_t *table = <const int64_t *>at[1]
        cdef const char *updates = at[2] + batch * self.count * self.slice_bytes
        cdef char *y = at[3] + batch * self.batch_bytes
        cdef int64_t *bad = <int64_t *>at[4]
        cdef int which = 0
        for i in range(first, min(self.count, first + self.each)):
            offset = offset_of(table + (begin + i) * self.indices, self.sizes, self.strides, self.indices, &which)
            if offset < 0:
                bad[0] = (begin + i) * self.indices + which
            elif self.how == SET:
                memcpy(y + offset, updates + i * self.slice_bytes, self.slice_bytes)
            else:
                reduce_bytes(y + offset, updates + i * self.slice_bytes, self.items, self.type_number, self.how)


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
    for j in range(count):
        i = at[j]
        if not within(&i, n):
            bad[0] = j
            continue
        reduced(y + i * stride + j * step, updates[j], how)


cdef class Elements(Operation):
    """Elements along an axis by indices of their own, for arrays (x, at, y, bad), or (x, at, updates, y, bad): then y becomes
    x with the updates written there.

    Parameters
    ----------
    x : ndarray
    at : ndarray of int64
        Of the rank of `x`, and no longer along axes other than `axis`; all arrays are in C order.
    updates : ndarray or None
        Of the shape of `at`.
    y : ndarray
        Of the shape of `at`; with updates, of that of `x`.
    bad : ndarray of int64 [1]
        Becomes the place in `at` of an index that is out of range, if there is one.
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

    def __init__(self, ndarray x not None, ndarray at not None, updates, ndarray y not None, ndarray bad not None, int axis,
                 str reduction, int threads):
        cdef int i
        arrays = (x, at, y, bad) if updates is None else (x, at, updates, y, bad)
        checked(arrays, at, bad, "elements")
        self.bind(arrays)
        self.writes, self.how, self.item = updates is not None, REDUCTIONS[reduction], x.itemsize
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
        if self.writes:
            memcpy(at[3], at[0], self.whole_bytes)
        self.run_chunks(self.threads, self.tasks, self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t index[MAX_INDEX]
        cdef int64_t row = task * self.each, end = min(self.rows, (task + 1) * self.each), rest = row, base = 0, wrong
        cdef int64_t *bad = <int64_t *>at[4 if self.writes else 3]
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
                bad[0] = row * self.length + wrong
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
