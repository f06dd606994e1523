"""Recursions of the second order along an axis, in both directions, for some columns at a time: recursive Gaussians.

A filter is the sum of sections. From the first element on, and likewise from the last one back, each makes

    s[i] = w0 x[i] + w1 x[i - 1] + w2 s[i - 1] + w3 s[i - 2]

of doubles, for rows across the axis. Both directions begin `reach` positions outside of the array, as if the element there
went on for ever.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

import numpy as np

from ...kernels cimport LK_CAST, LK_WEIGH, LK_WIDEN
from ...kernels.filters cimport (
    LK_WEIGH_EACH, LK_WEIGH_SECTIONS, lk_cast_fn, lk_cast_row, lk_combine, lk_combine_fn,
)
from ...ndarray cimport NPY_INT64, import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.signals cimport interrupted
from ...runtime.team cimport threads_for
from ..moves.convert import TYPES
from ..executor cimport aligned, ceil_div, elements
from ..operation cimport Operation, chunks_of

import_array()

cdef extern from "common/stream.h" nogil:
    void prefetch(const char *p)

cdef enum:
    AHEAD = 8       # rows, which are on pages of their own, until one that is prefetched is read
    COLUMNS = 128   # of a task: a row of doubles of each state stays in the first cache
    SECTIONS = 3
    TERMS = 4
    INPUTS = 3      # rows of the input that are there at a time
    ITEM = sizeof(double)
    LOOK = 1024     # positions of a task between looks at signals


cdef inline void prefetch_lines(const char *p, int64_t nbytes) noexcept nogil:
    cdef int64_t k
    for k in range(0, nbytes, 64):
        prefetch(p + k)


cdef class Recursion(Operation):
    """The filter of arrays (x, y), both (outer, n, inner) in C order, of float32 or float64.

    Parameters
    ----------
    x, y : ndarray
    weights : ndarray of float64, (2, SECTIONS, TERMS)
        Of both directions, of each section: w0, w1, w2, w3.
    source : ndarray of int64, (n + 2 * reach,)
        By position the element that stands there, -1: the constant, as of `windows.positions`.
    reach : int
        Positions before the first element and behind the last.
    constant : float
    threads : int
    """

    cdef lk_combine_fn combine
    cdef lk_cast_fn widen, cast
    cdef int x_element, y_element, real, threads
    cdef int64_t n, inner, x_row, y_row, x_item, y_item, reach, strips, tasks, row, thread_bytes
    cdef const int64_t *source
    cdef const char *constant
    cdef double weight[2][SECTIONS][TERMS]
    cdef double steady[2][SECTIONS]     # states of a constant 1
    cdef char *leader                   # the workspace of the thread that called
    cdef bint stopped                   # by a signal, which it alone looks for

    def __cinit__(self, ndarray x, ndarray y, weights, ndarray source, int64_t reach, double constant, int threads):
        cdef int d, k, t
        shape = (<object>x).shape
        self.bind((x, y))
        if not ((<object>y).shape == shape and x.ndim == 3 and (<object>x).flags.c_contiguous and (<object>y).flags.c_contiguous
                and {x.dtype.name, y.dtype.name} <= {"float32", "float64"} and reach >= 1
                and weights.shape == (2, SECTIONS, TERMS) and (<object>source).shape == (shape[1] + 2 * reach,)):
            raise ValueError(f"a recursion from {shape} {x.dtype} to {(<object>y).shape} {y.dtype}")
        self.combine = <lk_combine_fn>best_row(LK_WEIGH, "f64").fn
        self.widen = <lk_cast_fn>best_row(LK_WIDEN, "f64").fn if x.itemsize != ITEM else NULL
        self.cast = <lk_cast_fn>best_row(LK_CAST, "f64").fn if y.itemsize != ITEM else NULL
        self.real = TYPES["f64"]
        self.x_element, self.y_element = (TYPES["f64" if a.itemsize == ITEM else "f32"] for a in (x, y))
        for d in range(2):
            for k in range(SECTIONS):
                for t in range(TERMS):
                    self.weight[d][k][t] = weights[d, k, t]
                self.steady[d][k] = (weights[d, k, 0] + weights[d, k, 1]) / (1 - weights[d, k, 2] - weights[d, k, 3])
        self.n, self.inner, self.reach = shape[1], shape[2], reach
        self.x_item, self.y_item = x.itemsize, y.itemsize
        self.x_row, self.y_row = self.inner * self.x_item, self.inner * self.y_item
        self.owned.append(source)
        self.source = <const int64_t *>elements(source, NPY_INT64)
        self.constant = self.keep(np.full(COLUMNS, constant), np.float64)
        self.strips = ceil_div(self.inner, COLUMNS)
        self.tasks = shape[0] * self.strips if x.size else 0
        self.threads = threads_for(threads, 2.0 * SECTIONS * TERMS * ITEM * x.size)
        self.row = aligned(min(<int64_t>COLUMNS, self.inner) * ITEM)
        self.thread_bytes = self.row * (self.n + INPUTS + 2 * SECTIONS + 1)
        self.workspace = self.threads * self.thread_bytes

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef double bytes = 2.0 * SECTIONS * TERMS * ITEM * self.tasks * (self.n + 2 * self.reach) * COLUMNS
        self.leader, self.stopped = workspace, False
        if self.tasks:
            self.run_chunks(self.threads, self.tasks, chunks_of(bytes), at, workspace, self.thread_bytes)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """A strip of columns at an outer index."""
        cdef int64_t outer = task // self.strips, strip = task % self.strips * COLUMNS
        cdef int64_t count = min(<int64_t>COLUMNS, self.inner - strip)
        cdef const char *x = at[0] + outer * self.n * self.x_row + strip * self.x_item
        cdef char *y = at[1] + outer * self.n * self.y_row + strip * self.y_item
        cdef char *rings = workspace + self.n * self.row
        cdef char *spare = rings + self.row * (INPUTS + 2 * SECTIONS)
        cdef const char *rows[3 + 2 * SECTIONS]
        cdef lk_combine c
        cdef lk_cast_row w
        cdef int64_t p, i
        memset(&c, 0, sizeof(c))
        c.x, c.taps, c.count, c.kind, c.rows = rows, SECTIONS, count, LK_WEIGH_SECTIONS, 1
        self.begin(&c, rows, x, 0, 0, rings)
        for p in range(self.reach + self.n):
            if p % LOOK == 0 and self.must_stop(workspace):
                return
            self.prefetch_row(x, p + AHEAD, count)
            rows[0], rows[1] = self.input_row(x, p, rings, count), rows[0]
            c.y = spare if p < self.reach else workspace + (p - self.reach) * self.row
            self.combine(&c)
            self.swap(rows)
        self.begin(&c, rows, x, 1, self.n + 2 * self.reach - 1, rings)
        w.count, w.element = count, self.y_element
        for p in range(self.n + 2 * self.reach - 2, self.reach - 1, -1):  # of elements behind p
            if p % LOOK == 0 and self.must_stop(workspace):
                return
            i = p - self.reach
            self.prefetch_row(x, p - AHEAD, count)
            if AHEAD <= i < self.n + AHEAD:
                prefetch_lines(y + (i - AHEAD) * self.y_row, count * self.y_item)
            rows[2 + 2 * SECTIONS] = workspace + i * self.row if i < self.n else NULL
            w.y = y + i * self.y_row
            c.y = spare if i >= self.n or self.cast != NULL else w.y
            self.combine(&c)
            self.swap(rows)
            if i < self.n and self.cast != NULL:
                w.x = c.y
                self.cast(&w)
            rows[0], rows[1] = self.input_row(x, p, rings, count), rows[0]

    cdef bint must_stop(self, const char *workspace) noexcept nogil:
        """Whether the call was interrupted: a long reach makes one task long."""
        if workspace == self.leader and interrupted():
            self.stopped = True
        return self.stopped

    cdef void begin(self, lk_combine *c, const char **rows, const char *x, int direction, int64_t at, char *rings) noexcept nogil:
        """Rows and states, as if the row at a position went on for ever."""
        cdef lk_combine s = c[0]
        cdef int k
        rows[0] = self.input_row(x, at, rings, c.count)
        rows[1], rows[2 + 2 * SECTIONS] = rows[0], NULL
        c.weight = &self.weight[direction][0][0]
        s.taps, s.kind = 1, LK_WEIGH_EACH
        s.element = self.real
        for k in range(2 * SECTIONS):
            rows[2 + k] = s.y = rings + self.row * (INPUTS + k)
            s.weight = &self.steady[direction][k // 2]
            self.combine(&s)

    cdef void swap(self, const char **rows) noexcept nogil:
        """The new states are the last ones."""
        cdef int k
        for k in range(SECTIONS):
            rows[2 + 2 * k], rows[3 + 2 * k] = rows[3 + 2 * k], rows[2 + 2 * k]

    cdef void prefetch_row(self, const char *x, int64_t at, int64_t count) noexcept nogil:
        """The row at a position, if there is one."""
        if 0 <= at < self.n + 2 * self.reach and self.source[at] >= 0:
            prefetch_lines(x + self.source[at] * self.x_row, count * self.x_item)

    cdef const char *input_row(self, const char *x, int64_t at, char *rings, int64_t count) noexcept nogil:
        """The row at a position, of doubles."""
        cdef lk_cast_row w
        if self.source[at] < 0:
            return self.constant
        if self.widen == NULL:
            return x + self.source[at] * self.x_row
        w.x, w.y, w.count, w.element = x + self.source[at] * self.x_row, rings + at % INPUTS * self.row, count, self.x_element
        self.widen(&w)
        return w.y
