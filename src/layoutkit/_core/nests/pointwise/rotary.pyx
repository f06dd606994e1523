"""Rotary embeddings: pairs of elements of each row are turned by the angles of its position.

    y[a] = x[a] cos - x[b] sin        y[b] = x[a] sin + x[b] cos

The pair j of a row is (a, b) = (j, j + half), or (2j, 2j + 1) where they are interleaved; what follows the pairs is copied.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy

from ...ndarray cimport NPY_INT64, PyArray_TYPE, import_array, ndarray
from ...runtime.team cimport threads_for
from ..checks cimport check_reals
from ..executor cimport ceil_div
from ..moves.indices cimport CHECK_BYTES, out_of_range, within
from ..operation cimport Operation, chunks_of

import_array()

cdef enum:
    TASK_BYTES = 16 << 10
    AXES = 3   # around rows
    LANES = 8  # pairs that are read before any of them is written, so that the compiler need not ask whether x is y

ctypedef fused real:
    float
    double


cdef inline void turn_halves(const real *x, const real *c, const real *s, real *y, int64_t half) noexcept nogil:
    cdef real first[LANES]
    cdef real second[LANES]
    cdef int64_t j = 0
    cdef int k
    while j + LANES <= half:
        for k in range(LANES):
            first[k] = x[j + k] * c[j + k] - x[half + j + k] * s[j + k]
            second[k] = x[j + k] * s[j + k] + x[half + j + k] * c[j + k]
        for k in range(LANES):
            y[j + k] = first[k]
        for k in range(LANES):
            y[half + j + k] = second[k]
        j += LANES
    while j < half:
        first[0], second[0] = x[j] * c[j] - x[half + j] * s[j], x[j] * s[j] + x[half + j] * c[j]
        y[j], y[half + j] = first[0], second[0]
        j += 1


cdef inline void turn_neighbours(const real *x, const real *c, const real *s, real *y, int64_t half) noexcept nogil:
    cdef real pairs[2 * LANES]
    cdef int64_t j = 0
    cdef int k
    while j + LANES <= half:
        for k in range(LANES):
            pairs[2 * k] = x[2 * (j + k)] * c[j + k] - x[2 * (j + k) + 1] * s[j + k]
            pairs[2 * k + 1] = x[2 * (j + k)] * s[j + k] + x[2 * (j + k) + 1] * c[j + k]
        for k in range(2 * LANES):
            y[2 * j + k] = pairs[k]
        j += LANES
    while j < half:
        pairs[0], pairs[1] = x[2 * j] * c[j] - x[2 * j + 1] * s[j], x[2 * j] * s[j] + x[2 * j + 1] * c[j]
        y[2 * j], y[2 * j + 1] = pairs[0], pairs[1]
        j += 1


cdef inline void turn_row(const real *x, const real *c, const real *s, real *y, int64_t half, int64_t size,
                          bint interleaved) noexcept nogil:
    if interleaved:
        turn_neighbours(x, c, s, y, half)
    else:
        turn_halves(x, c, s, y, half)
    if size > 2 * half:
        memcpy(y + 2 * half, x + 2 * half, (size - 2 * half) * sizeof(real))


cdef class Rotary(Operation):
    """Rows of x, turned by the angles of their positions, for arrays (x, cos, sin, y) or (x, cos, sin, positions, y).

    Parameters
    ----------
    x, y : ndarray [batch, heads, steps, size]
        In float32 or float64; the elements of a row are contiguous.
    cos, sin : ndarray [batch, steps, half]
        In C order, or [rows, half] with `positions`; an axis around the last may be of one element instead.
    positions : ndarray of int64 [batch, steps] or None
        Rows of `cos` and `sin`.
    interleaved, packed : bool
        `packed`: the heads of a step follow one another in memory.
    threads : int
    views : (ndarray, ndarray), optional
        Views of `x` and `y` that have these axes, if they themselves have others.
    """

    cdef int64_t extents[AXES]
    cdef int64_t x_steps[AXES]  # in bytes, as all but those of positions
    cdef int64_t y_steps[AXES]
    cdef int64_t angle_steps[AXES]
    cdef int64_t position_steps[AXES]
    cdef int64_t half, size, rows, each, chunks, angle_rows, angle_bytes
    cdef int threads
    cdef bint interleaved, doubles, by_position

    def __init__(self, ndarray x not None, ndarray cos not None, ndarray sin not None, positions, ndarray y not None,
                 bint interleaved, bint packed, int threads, views=None):
        cdef int i
        self.bind((x, cos, sin, y) if positions is None else (x, cos, sin, positions, y))
        x, y = views or (x, y)
        shape = (<object>x).shape
        check_reals((cos, sin) if positions is None else (cos, sin, positions), x, y, "rotary")
        angles = (<object>cos).shape
        by_step = angles[:-1] if positions is None else positions.shape
        if (x.ndim != 4 or (<object>y).shape != shape or cos.dtype != x.dtype or sin.dtype != x.dtype
                or (<object>sin).shape != angles or not 2 * angles[-1] <= shape[3] or len(by_step) != 2
                or not all([n in (1, m) for n, m in zip(by_step, (shape[0], shape[2]))])
                or (positions is not None and (PyArray_TYPE(positions) != NPY_INT64 or len(angles) != 2))
                or any([a.shape[3] > 1 and a.strides[3] != a.itemsize for a in (<object>x, <object>y)])):
            raise ValueError(f"rotary: {x.dtype} {shape} to {y.dtype} {(<object>y).shape} by {cos.dtype} {angles}, {sin.dtype} "
                             f"{(<object>sin).shape}" + (f" of positions {by_step}" if positions is not None else ""))
        self.doubles, self.interleaved, self.by_position = x.itemsize == 8, interleaved, positions is not None
        self.half, self.size, self.angle_rows = angles[-1], shape[3], angles[0] if positions is not None else 0
        self.angle_bytes = self.half * x.itemsize
        if self.by_position:
            self.checks, self.workspace = True, CHECK_BYTES
        step = by_step[1] * (by_step[0] > 1), 0, int(by_step[1] > 1)  # by batch, head and step
        for i, axis in enumerate((0, 2, 1) if packed else (0, 1, 2)):
            self.extents[i], self.x_steps[i], self.y_steps[i] = shape[axis], (<object>x).strides[axis], (<object>y).strides[axis]
            self.position_steps[i], self.angle_steps[i] = step[axis], step[axis] * self.angle_bytes
        self.rows = shape[0] * shape[1] * shape[2]
        self.each = max(<int64_t>1, TASK_BYTES // max(<int64_t>1, self.size * x.itemsize))
        cost = 3.0 * x.size * x.itemsize
        self.threads = <int>max(1, min(threads_for(threads, cost), ceil_div(self.rows, self.each)))
        self.chunks = chunks_of(cost)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.by_position:
            (<int64_t *>workspace)[0] = -1
        self.run_chunks(self.threads, ceil_div(self.rows, self.each), self.chunks, at, workspace, 0)

    cdef object fault(self, char **at, char *workspace):
        return out_of_range(<const int64_t *>at[3], workspace, &self.angle_rows, 1)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        cdef int64_t index[AXES]
        cdef int64_t first = task * self.each, rest = first, count = min(self.rows, first + self.each) - first
        cdef int64_t angle = 0, position = 0, row
        cdef const char *x = at[0]
        cdef char *y = at[4 if self.by_position else 3]
        cdef const char *c = at[1]
        cdef const char *s = at[2]
        cdef const int64_t *positions = <const int64_t *>at[3]
        cdef bint valid = True
        cdef int i
        for i in range(AXES - 1, -1, -1):
            index[i] = rest % self.extents[i]
            rest //= self.extents[i]
            x, y, angle = x + index[i] * self.x_steps[i], y + index[i] * self.y_steps[i], angle + index[i] * self.angle_steps[i]
            position += index[i] * self.position_steps[i]
        while True:
            if self.by_position:
                row = positions[position]
                valid = within(&row, self.angle_rows)
                angle = row * self.angle_bytes
            if not valid:
                (<int64_t *>workspace)[0] = position
            elif self.doubles:
                turn_row(<const double *>x, <const double *>(c + angle), <const double *>(s + angle), <double *>y, self.half,
                         self.size, self.interleaved)
            else:
                turn_row(<const float *>x, <const float *>(c + angle), <const float *>(s + angle), <float *>y, self.half,
                         self.size, self.interleaved)
            count -= 1
            if not count:
                break
            for i in range(AXES - 1, -1, -1):  # to the next row
                index[i] += 1
                x, y, angle = x + self.x_steps[i], y + self.y_steps[i], angle + self.angle_steps[i]
                position += self.position_steps[i]
                if index[i] < self.extents[i]:
                    break
                x, y = x - index[i] * self.x_steps[i], y - index[i] * self.y_steps[i]
                angle, position = angle - index[i] * self.angle_steps[i], position - index[i] * self.position_steps[i]
                index[i] = 0
