"""What operations on elements that indices of a run name have in common.

An index may be negative: it counts from the end. One that is out of range is not used; the workspace begins with its place in
the table of indices then (`Operation.checks`).
"""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)

from ...ndarray cimport NPY_INT64, PyArray_TYPE, ndarray
from ..checks cimport check_order

cdef enum:
    MAX_INDEX = 12        # numbers of a tuple of indices, and axes
    TASK_BYTES = 64 << 10
    INDEX_COST = 8        # bytes that are moved in the time that an index takes
    CHECK_BYTES = 64      # of the workspace

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

cdef enum Reduction:  # in the order of `element_types.REDUCTIONS`
    SET, ADD, MUL, MAX, MIN


cdef inline bint within(int64_t *i, int64_t n) noexcept nogil:
    """Whether an index is in range; if so it counts from the front afterwards."""
    if <uint64_t>i[0] < <uint64_t>n:  # most are
        return True
    i[0] += n
    return <uint64_t>i[0] < <uint64_t>n


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


cdef inline int check_indices(tuple arrays, ndarray at, str what) except -1:
    """Errors of arrays that are not in C order, and of tables of indices of another type."""
    check_order(arrays, what)
    if PyArray_TYPE(at) != NPY_INT64:
        raise ValueError(f"{what}: indices of {at.dtype}, expected int64")
    return 0


cdef inline object out_of_range(const int64_t *table, const char *workspace, const int64_t *sizes, int count):
    """The error of a run that has found an index that is out of range; tuples of `count` of them are of axes of these sizes."""
    cdef int64_t place = (<const int64_t *>workspace)[0]
    return IndexError(f"index {table[place]} is out of range of an axis of {sizes[place % count]}")


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
