"""Running sums and products along an axis: ``y[i] = y[i - 1] + x[i]``, for some columns at a time.

Along the last axis each number waits for the one before it: several rows are run side by side.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from ...ndarray cimport import_array, ndarray
from ...runtime.team cimport threads_for
from ..checks cimport check_order
from ..executor cimport ceil_div
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    COLUMNS = 1024  # of a task, so that a row stays in the first cache
    LEAST_COLUMNS = 64
    ROWS = 4  # side by side, of a task: those of x and y whose length is a power of two share the ways of a set

ctypedef fused number:
    float
    double
    int32_t
    int64_t
    uint32_t
    uint64_t

RUNNING = ("float32", "float64", "int32", "int64", "uint32", "uint64")


cdef inline void next_row(const number *x, const number *before, number *y, int64_t count, bint product) noexcept nogil:
    cdef int64_t j
    if product:
        for j in range(count):
            y[j] = before[j] * x[j]
    else:
        for j in range(count):
            y[j] = before[j] + x[j]


cdef void run_columns(const number *x, number *y, int64_t n, int64_t row, int64_t count, bint exclusive, bint reverse,
                      bint product) noexcept nogil:
    """`count` columns of n rows, `row` numbers apart."""
    cdef int64_t i, j, step = -row if reverse else row
    cdef number neutral = 1 if product else 0
    if reverse:
        x += (n - 1) * row
        y += (n - 1) * row
    for j in range(count):
        y[j] = neutral if exclusive else x[j]
    for i in range(1, n):
        next_row(x + (i - 1 if exclusive else i) * step, y + (i - 1) * step, y + i * step, count, product)


cdef inline void run_beside(const number *x, number *y, int64_t n, int64_t step, bint exclusive, bint product,
                            int rows) noexcept nogil:
    """Rows of n numbers, which lie n apart; `rows`, at most ROWS, is known to the compiler."""
    cdef number running[ROWS]
    cdef number before
    cdef int64_t i
    cdef int k
    for k in range(rows):
        running[k] = 1 if product else 0
    for i in range(n):
        for k in range(rows):
            before = running[k]
            running[k] = before * x[k * n + i * step] if product else before + x[k * n + i * step]
            y[k * n + i * step] = before if exclusive else running[k]


cdef inline void run_some(const number *x, number *y, int64_t n, int64_t step, bint exclusive, bint product,
                          int64_t rows) noexcept nogil:
    """At most ROWS rows."""
    if rows == ROWS:
        run_beside(x, y, n, step, exclusive, product, ROWS)
        return
    if rows >= 2:
        run_beside(x, y, n, step, exclusive, product, 2)
        x, y, rows = x + 2 * n, y + 2 * n, rows - 2
    if rows:
        run_beside(x, y, n, step, exclusive, product, 1)


cdef void run_rows(const number *x, number *y, int64_t n, bint exclusive, bint reverse, bint product,
                   int64_t rows) noexcept nogil:
    cdef int64_t step = -1 if reverse else 1, last = n - 1 if reverse else 0
    x += last
    y += last
    if product:  # known to the compiler
        run_some(x, y, n, step, exclusive, True, rows)
    elif exclusive:
        run_some(x, y, n, step, True, False, rows)
    else:
        run_some(x, y, n, step, False, False, rows)


cdef void run_along(const number *x, number *y, int64_t n, int64_t row, int64_t count, bint exclusive, bint reverse,
                    bint product) noexcept nogil:
    """Some columns, or some rows of numbers that lie together."""
    if row == 1:
        run_rows(x, y, n, exclusive, reverse, product, count)
    else:
        run_columns(x, y, n, row, count, exclusive, reverse, product)


cdef class Running(Operation):
    """Sums or products of the numbers up to each one along an axis, for arrays (x, y) in C order.

    Parameters
    ----------
    x, y : ndarray
        Of one shape and one of the types of `RUNNING`.
    axis : int
        From the front.
    exclusive : bool
        Of the numbers before each one.
    reverse : bool
        From the end.
    product : bool
    threads : int
    """

    cdef int64_t n, row, parts, each, last, tasks, chunks
    cdef int type_number, item, threads
    cdef bint exclusive, reverse, product

    def __init__(self, ndarray x not None, ndarray y not None, int axis, bint exclusive, bint reverse, bint product,
                 int threads):
        self.bind((x, y))
        shape = (<object>x).shape
        if x.dtype.name not in RUNNING or y.dtype != x.dtype or (<object>y).shape != shape or not 0 <= axis < len(shape):
            raise ValueError(f"running: {x.dtype} {shape} to {y.dtype} {(<object>y).shape} along axis {axis}")
        check_order((x, y), "running")
        self.type_number, self.item, self.n = RUNNING.index(x.dtype.name), x.itemsize, shape[axis]
        self.exclusive, self.reverse, self.product = exclusive, reverse, product
        self.row = 1
        for extent in shape[axis + 1:]:
            self.row *= extent
        cost = 2.0 * x.size * self.item
        most = threads_for(threads, cost)
        outer = x.size // (self.n * self.row) if x.size else 0
        if self.row == 1:
            self.each = max(<int64_t>1, min(<int64_t>ROWS, ceil_div(outer, most)))  # rows of a task,
            self.parts, self.last = 1, outer
            self.tasks = ceil_div(outer, self.each)
        else:
            self.each = max(LEAST_COLUMNS, min(COLUMNS, self.row // most))          # or columns
            self.parts, self.last = ceil_div(self.row, self.each), self.row
            self.tasks = outer * self.parts
        self.threads, self.chunks = <int>max(1, min(most, self.tasks)), chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        self.run_chunks(self.threads, self.tasks, self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t first = (task if self.row == 1 else task % self.parts) * self.each
        cdef int64_t count = min(self.each, self.last - first)
        cdef int64_t begin = first * self.n if self.row == 1 else task // self.parts * self.n * self.row + first
        cdef const char *x = at[0] + begin * self.item
        cdef char *y = at[1] + begin * self.item
        if self.type_number == 0:
            run_along(<const float *>x, <float *>y, self.n, self.row, count, self.exclusive, self.reverse, self.product)
        elif self.type_number == 1:
            run_along(<const double *>x, <double *>y, self.n, self.row, count, self.exclusive, self.reverse, self.product)
        elif self.type_number == 2:
            run_along(<const int32_t *>x, <int32_t *>y, self.n, self.row, count, self.exclusive, self.reverse, self.product)
        elif self.type_number == 3:
            run_along(<const int64_t *>x, <int64_t *>y, self.n, self.row, count, self.exclusive, self.reverse, self.product)
        elif self.type_number == 4:
            run_along(<const uint32_t *>x, <uint32_t *>y, self.n, self.row, count, self.exclusive, self.reverse,
                      self.product)
        else:
            run_along(<const uint64_t *>x, <uint64_t *>y, self.n, self.row, count, self.exclusive, self.reverse,
                      self.product)
