"""Values between the elements of an array, at points of a grid, of an affine map or of a list: the nest around sample.c."""

from libc.stdint cimport int64_t

from ...kernels cimport LK_CAST, LK_SAMPLE
from ...kernels.filters cimport LK_SAMPLE_MARGIN, LK_SAMPLE_RANK, lk_cast_fn, lk_cast_row, lk_sample, lk_sample_fn
from ...ndarray cimport NPY_FLOAT64, NPY_INT64, import_array, ndarray
from ...runtime.registry cimport best_row, element_bytes
from ...runtime.team cimport threads_for
from ..moves.convert import TYPES
from ..executor cimport ceil_div, elements
from ..operation cimport Operation

import_array()

MARGIN = LK_SAMPLE_MARGIN
MAX_RANK = LK_SAMPLE_RANK

cdef enum:
    POINTS = 1024   # of a task
    TASKS = 1 << 14 # between looks at signals, about
    MAX_AXES = 32   # of the result


cdef class Sampling(Operation):
    """The values of x at points; arrays (x, y), y contiguous.

    Parameters
    ----------
    arrays : (ndarray, ndarray)
    types : (str, str)
        Elements of x, f32 or f64, or at order 0 and 1 integers of at most 16 bits, and of y.
    offsets : list of ndarray of int64
        By axis of x those of its elements and of MARGIN before and behind them, in elements.
    order, mode : int
    constant : float
    limits : (float, float) or None
        Of rounded results.
    points : list of ndarray of float64
        Coordinates along each axis of x: of all points, or where `kind` is "grid" of the axis of y of this number.
    matrix : ndarray of float64 or None
        Rows of an affine map, with the shift at the end: then there are no points.
    kind : {"list", "grid", "affine"}
    threads : int
    """

    cdef lk_sample_fn fn
    cdef lk_cast_fn cast
    cdef lk_sample template
    cdef const int64_t *offset[LK_SAMPLE_RANK]
    cdef const double *point[LK_SAMPLE_RANK]
    cdef int64_t size[LK_SAMPLE_RANK]
    cdef int64_t shape[MAX_AXES]
    cdef int64_t axes, row, blocks, tasks, y_item
    cdef const double *matrix
    cdef int y_element, threads
    cdef bint is_list

    def __cinit__(self, arrays, types, list offsets, int order, int mode, double constant, limits, list points, matrix,
                  str kind, int threads):
        cdef ndarray x = arrays[0], y = arrays[1]
        cdef lk_sample *p = &self.template
        self.bind(tuple(arrays))
        if not 1 <= x.ndim <= LK_SAMPLE_RANK or y.ndim > MAX_AXES or order not in (0, 1, 3):
            raise ValueError(f"sampling: {x.ndim} axes at order {order}")
        self.fn = <lk_sample_fn>best_row(LK_SAMPLE, types[0]).fn
        self.y_element = TYPES[types[1]]
        self.y_item = element_bytes(self.y_element)
        p.own = types[0] == types[1]
        if not p.own and types[1] != "f64":
            self.cast = <lk_cast_fn>best_row(LK_CAST, "f64").fn
        for i in range(x.ndim):
            self.owned.append(offsets[i])
            if len(offsets[i]) != x.shape[i] + 2 * LK_SAMPLE_MARGIN:
                raise ValueError("sampling: offsets that do not fit")
            self.offset[i], self.size[i] = <const int64_t *>elements(offsets[i], NPY_INT64), x.shape[i]
        for i, at in enumerate(points):
            self.owned.append(at)
            self.point[i] = <const double *>elements(at, NPY_FLOAT64)
        if matrix is not None:
            self.matrix = <const double *>self.keep(matrix, "f8")
        self.is_list = kind == "list"
        self.axes = y.ndim
        for i in range(y.ndim):
            self.shape[i] = y.shape[i]
        self.row = y.size if self.is_list else y.shape[y.ndim - 1]
        p.rank, p.order, p.mode, p.constant, p.rounds = x.ndim, order, mode, constant, limits is not None
        if limits is not None:
            p.least, p.most = limits
        self.blocks = ceil_div(self.row, POINTS)
        self.tasks = self.blocks * (y.size // self.row if self.row and y.size else 0)
        self.threads = threads_for(threads, 16.0 * y.size * (order + 1)**x.ndim)
        self.workspace = self.threads * self.thread_bytes()

    cdef int64_t thread_bytes(self) noexcept nogil:
        """The coordinates of a block, and its results."""
        return 8 * POINTS * (LK_SAMPLE_RANK + 1)

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.tasks:
            self.run_chunks(self.threads, self.tasks, 1 + self.tasks // TASKS, at, workspace, self.thread_bytes())

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        self.run_block(task // self.blocks, task % self.blocks * POINTS, at[0], at[1], <double *>workspace)

    cdef void run_block(self, int64_t row, int64_t begin, const char *x, char *y, double *workspace) noexcept nogil:
        """Points of a row of the result from `begin` on."""
        cdef lk_sample p = self.template
        cdef lk_cast_row w
        cdef const double *at[LK_SAMPLE_RANK]
        cdef int64_t index[MAX_AXES]
        cdef int64_t rest = row, i, k, last = self.axes - 1
        cdef const double *m = self.matrix
        cdef double line[2 * LK_SAMPLE_RANK]
        cdef double *to
        cdef double sum
        p.line, p.number = line if m != NULL else NULL, begin
        p.x, p.offset, p.size, p.at, p.count = x, self.offset, self.size, at, min(<int64_t>POINTS, self.row - begin)
        i = last
        while i > 0 and not self.is_list:
            i -= 1
            index[i] = rest % self.shape[i]
            rest //= self.shape[i]
        for i in range(p.rank):
            to = workspace + i * POINTS
            at[i] = to
            if self.is_list:
                at[i] = self.point[i] + begin
            elif m != NULL:
                sum = m[self.axes]  # in the order of scipy
                for k in range(last):
                    sum += index[k] * m[k]
                line[2 * i], line[2 * i + 1] = sum, m[last]
                m += self.axes + 1
            elif i == last:
                at[i] = self.point[i] + begin
            else:
                for k in range(p.count):
                    to[k] = self.point[i][index[i]]
        y += (row * self.row + begin) * self.y_item
        p.y = <void *>y if self.cast == NULL else <void *>(workspace + LK_SAMPLE_RANK * POINTS)
        self.fn(&p)
        if self.cast != NULL:
            w.x, w.y, w.count, w.element = <const char *>p.y, y, p.count, self.y_element
            self.cast(&w)
