"""The k largest or smallest numbers of each row, in order, and their places.

NaN is larger than all numbers; of equal ones, the first comes first. Few are kept as a sorted list, into which those that
belong there are inserted; many as a heap with the worst on top. Blocks without a number that belongs there are passed over.
The best one alone is found first, then its place.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from ...ndarray cimport (
    NPY_FLOAT32, NPY_FLOAT64, NPY_INT8, NPY_INT32, NPY_INT64, NPY_UINT8, PyArray_NDIM, PyArray_TYPE, import_array, ndarray,
)
from ...runtime.team cimport threads_for
from ..checks cimport check_order
from .compared cimport number
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    MAX_LIST = 24  # numbers of a sorted list
    BLOCK = 32     # numbers that are passed over at a time
    LANES = 16     # numbers of a row that are compared at a time where only the best one is asked for

LISTED = MAX_LIST


cdef inline bint beats(number a, number b, bint largest) noexcept nogil:
    if largest:
        return a > b or (a != a and b == b)
    return a < b or (b != b and a == a)


cdef inline bint any_better(const number *x, number bound, bint largest) noexcept nogil:
    """Whether a block may have a number that beats the bound; it may say so where there is none."""
    cdef int64_t j
    cdef int found = 0
    if largest:
        for j in range(BLOCK):
            found |= not x[j] <= bound
    else:
        for j in range(BLOCK):
            found |= not x[j] >= bound
    return found != 0


cdef inline void insert(number *values, int64_t *places, int64_t end, number value, int64_t place,
                        bint largest) noexcept nogil:
    """Insert a number into a sorted list, whose element `end` is overwritten."""
    while end > 0 and beats(value, values[end - 1], largest):
        values[end], places[end] = values[end - 1], places[end - 1]
        end -= 1
    values[end], places[end] = value, place


cdef inline bint comes_after(const number *values, const int64_t *places, int64_t i, number value, int64_t place,
                             bint largest) noexcept nogil:
    """Whether element i of a heap is worse than a number."""
    if beats(value, values[i], largest):
        return True
    return places[i] > place and not beats(values[i], value, largest)


cdef inline void sink(number *values, int64_t *places, int64_t i, int64_t count, number value, int64_t place,
                      bint largest) noexcept nogil:
    """Put a number into a heap from element i on, whose own number is overwritten."""
    cdef int64_t child = 2 * i + 1
    while child < count:
        if child + 1 < count and comes_after(values, places, child + 1, values[child], places[child], largest):
            child += 1
        if not comes_after(values, places, child, value, place, largest):
            break
        values[i], places[i] = values[child], places[child]
        i, child = child, 2 * child + 1
    values[i], places[i] = value, place


cdef inline void look_at(const number *x, number *values, int64_t *places, int64_t first, int64_t end, int64_t k,
                         bint largest) noexcept nogil:
    """Keep what belongs among the k best so far of numbers [first, end) of a row."""
    cdef int64_t i
    for i in range(first, end):
        if k <= MAX_LIST:
            if beats(x[i], values[k - 1], largest):
                insert(values, places, k - 1, x[i], i, largest)
        elif beats(x[i], values[0], largest):
            sink(values, places, 0, k, x[i], i, largest)


cdef inline void top_of_row(const number *x, number *values, int64_t *places, int64_t n, int64_t k,
                            bint largest) noexcept nogil:
    cdef int64_t i, place
    cdef number value
    for i in range(k):
        if k <= MAX_LIST:
            insert(values, places, i, x[i], i, largest)
        else:
            values[i], places[i] = x[i], i
    if k > MAX_LIST:
        for i in range(k // 2 - 1, -1, -1):
            sink(values, places, i, k, values[i], places[i], largest)
    i = k
    while i + BLOCK <= n:
        if any_better(x + i, values[k - 1] if k <= MAX_LIST else values[0], largest):
            look_at(x, values, places, i, i + BLOCK, k, largest)
        i += BLOCK
    look_at(x, values, places, i, n, k, largest)
    if k > MAX_LIST:
        for i in range(k - 1, 0, -1):
            value, place = values[i], places[i]
            values[i], places[i] = values[0], places[0]
            sink(values, places, 0, i, value, place, largest)


cdef inline int64_t place_of(const number *x, int64_t n, number value) noexcept nogil:
    """The first number of a row that is this one; n if there is none."""
    cdef int64_t i = 0, j
    cdef int found
    while i + LANES <= n:
        found = 0
        for j in range(LANES):
            found |= x[i + j] == value
        if found:
            break
        i += LANES
    while i < n and x[i] != value:
        i += 1
    return i


cdef inline bint best_of_row(const number *x, number *value, int64_t *place, int64_t n, bint largest) noexcept nogil:
    """The best number of a row; False, and nothing, if there is a NaN."""
    cdef number best[LANES]
    cdef int64_t i = 0, j
    cdef int unordered = 0
    for j in range(LANES):
        best[j] = x[0]
    while i + LANES <= n:
        for j in range(LANES):
            unordered |= x[i + j] != x[i + j]
            if largest:
                best[j] = x[i + j] if x[i + j] > best[j] else best[j]
            else:
                best[j] = x[i + j] if x[i + j] < best[j] else best[j]
        i += LANES
    for j in range(i, n):
        unordered |= x[j] != x[j]
        if x[j] > best[0] if largest else x[j] < best[0]:
            best[0] = x[j]
    for j in range(1, LANES):
        if best[j] > best[0] if largest else best[j] < best[0]:
            best[0] = best[j]
    if unordered:
        return False
    place[0] = place_of(x, n, best[0])
    value[0] = x[place[0]]
    return True


cdef void top(const number *x, number *values, int64_t *places, int64_t n, int64_t k, bint largest) noexcept nogil:
    if k == 1 and (best_of_row(x, values, places, n, True) if largest else best_of_row(x, values, places, n, False)):
        return
    if largest:  # known to the compiler
        top_of_row(x, values, places, n, k, True)
    else:
        top_of_row(x, values, places, n, k, False)


cdef class TopOfRows(Operation):
    """The k largest or smallest numbers of each row, best first, for arrays (x, values, places).

    Parameters
    ----------
    x : ndarray [rows, n]
        float32, float64, int64, int32, uint8 or int8.
    values : ndarray [rows, k]
        Of the type of `x`.
    places : ndarray of int64 [rows, k]
        All in C order.
    largest : bool
    threads : int
    """

    cdef int64_t n, k, rows, chunks
    cdef int type_number, item, threads
    cdef bint largest

    def __init__(self, ndarray x not None, ndarray values not None, ndarray places not None, bint largest, int threads):
        self.bind((x, values, places))
        self.type_number, self.item, self.largest = PyArray_TYPE(x), x.itemsize, largest
        if self.type_number not in (NPY_FLOAT32, NPY_FLOAT64, NPY_INT64, NPY_INT32, NPY_UINT8, NPY_INT8):
            raise ValueError(f"top: numbers of {x.dtype}, expected float32, float64, int64, int32, uint8 or int8")
        if PyArray_TYPE(values) != self.type_number or PyArray_TYPE(places) != NPY_INT64:
            raise ValueError(f"top: values of {values.dtype} and places of {places.dtype}, expected {x.dtype} and int64")
        check_order((x, values, places), "top")
        if not (PyArray_NDIM(x) == PyArray_NDIM(values) == PyArray_NDIM(places) == 2):
            raise ValueError("top: expected arrays of two axes")
        self.rows, self.n, self.k = x.shape[0], x.shape[1], values.shape[1]
        if not values.shape[0] == places.shape[0] == self.rows or places.shape[1] != self.k or self.k > self.n:
            raise ValueError(f"top: values of shape {(<object>values).shape} and places of shape {(<object>places).shape} of"
                             f" {(<object>x).shape}")
        self.threads = <int>max(1, min(threads_for(threads, 1.0 * x.size * self.item), self.rows))
        self.chunks = chunks_of(x.size * self.item + 256.0 * values.size)  # numbers that are kept cost more

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.rows and self.k:
            self.run_chunks(self.threads, self.rows, self.chunks, at, workspace, 0)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef const char *x = at[0] + task * self.n * self.item
        cdef char *values = at[1] + task * self.k * self.item
        cdef int64_t *places = <int64_t *>at[2] + task * self.k
        if self.type_number == NPY_FLOAT32:
            top(<const float *>x, <float *>values, places, self.n, self.k, self.largest)
        elif self.type_number == NPY_FLOAT64:
            top(<const double *>x, <double *>values, places, self.n, self.k, self.largest)
        elif self.type_number == NPY_INT64:
            top(<const int64_t *>x, <int64_t *>values, places, self.n, self.k, self.largest)
        elif self.type_number == NPY_INT32:
            top(<const int32_t *>x, <int32_t *>values, places, self.n, self.k, self.largest)
        elif self.type_number == NPY_UINT8:
            top(<const uint8_t *>x, <uint8_t *>values, places, self.n, self.k, self.largest)
        else:
            top(<const int8_t *>x, <int8_t *>values, places, self.n, self.k, self.largest)
