"""Slices, pads, repetitions and other selections of indices along every axis, as an operation."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy
from numpy cimport PyArray_DATA, import_array, ndarray

import numpy as np

from ..kernels cimport LK_NOWHERE, LK_TAKE, lk_kernel
from ..kernels.take cimport lk_take, lk_take_fn
from ..runtime.registry cimport best_row
from ..runtime.team cimport lk_claim, lk_portions, share_out, threads_for
from .executor cimport share
from .operation cimport Operation

import_array()

cdef enum:
    MAX_SEGMENTS = 8         # of a row, each with one step; a row of more has a table
    WHOLE_UNIT = 16 << 10    # bytes: units that are not joined with others, so that threads can share them
    SMALL_BYTES = 64         # in an array for what is filled


cdef struct Segment:  # of a row: which units of y, and how they are taken
    int64_t first     # bytes from the beginning of the row of y
    int64_t start     # bytes from the beginning of the row of x to the first unit; LK_NOWHERE: it is filled
    int64_t count, step, repeat
    const int64_t *at


def segments_of(at, unit):
    """A row's units, which begin at these offsets (LK_NOWHERE: filled), as (first, count, start, step, repeat, table)."""
    found, n = [], len(at)
    filled = at == LK_NOWHERE
    ends = [0, *(np.flatnonzero(np.diff(filled)) + 1).tolist(), n]
    for first, end in zip(ends, ends[1:]):
        part = at[first:end]
        if filled[first]:
            found.append((first, end - first, LK_NOWHERE, 0, 1, None))
            continue
        steps = np.diff(part)
        changes = np.flatnonzero(np.diff(steps)) + 1
        repeat = int(np.argmax(steps != 0)) + 1 if steps.any() else 1
        once = part[::repeat]
        if repeat > 1 and (np.repeat(once, repeat)[: len(part)] == part).all() and len(set(np.diff(once).tolist())) <= 1:
            step = int(once[1] - once[0])
            found.append((first, len(part), int(part[0]), step, repeat, None))
        elif len(changes) < MAX_SEGMENTS:
            begin = 0
            while begin < len(part):  # as far as the step goes
                step = int(part[begin + 1] - part[begin]) if begin + 1 < len(part) else unit
                others = np.flatnonzero(np.diff(part[begin:]) != step)
                stop = begin + int(others[0]) + 1 if len(others) else len(part)
                found.append((first + begin, stop - begin, int(part[begin]), step, 1, None))
                begin = stop
        else:
            found.append((first, len(part), 0, 0, 1, np.ascontiguousarray(part)))
    return found


cdef class Take(Operation):
    """``y[i, j, ..] = x[indices[0][i], indices[1][j], ..]``, or `fill` where an index is below 0.

    Parameters
    ----------
    x, y : ndarray
        Arrays of as many axes as there are `indices`, with elements of 1, 2, 4 or 8 bytes. They must not overlap.
    indices : sequence of ndarray of int64
        By axis.
    fill : ndarray
        One element.
    threads : int
    views : (ndarray, ndarray), optional
        `x` and `y` with the axes that are meant, where they have others.
    """

    cdef lk_take_fn units, elements
    cdef Segment segment[2 * MAX_SEGMENTS]
    cdef int segments, threads
    cdef bint together           # the units of a row of y lie together
    cdef int64_t unit, y_step, row_bytes, rows, item
    cdef const int64_t *x_row    # where each begins, in bytes; LK_NOWHERE: it is filled
    cdef const int64_t *y_row
    cdef list kept
    cdef ndarray fill

    def __init__(self, ndarray x not None, ndarray y not None, indices, ndarray fill not None, int threads, views=None):
        cdef ndarray table
        cdef const lk_kernel *row
        cdef int i
        self.bind((x, y))
        x, y = views or (x, y)
        self.item = y.itemsize
        shape = tuple([len(at) for at in indices])
        if x.itemsize != self.item or fill.itemsize != self.item or self.item not in (1, 2, 4, 8):
            raise ValueError(f"take: elements of {x.itemsize}, {y.itemsize} and {fill.itemsize} bytes; expected 1, 2, 4 or 8")
        if (<object>y).shape != shape or x.ndim != len(shape):
            raise ValueError(f"take: {shape} indices of {(<object>x).shape} into {(<object>y).shape}")
        for n, at in zip((<object>x).shape, indices):
            if at.size and int(at.max()) >= n:
                raise IndexError(f"take: index {at.max()} of an axis of {n}")
        self.kept, self.rows, self.fill = [], 0, np.repeat(fill.reshape(1), SMALL_BYTES // self.item)
        if not y.size:
            return
        at, steps = self.axes_of(x, y, indices)
        inner = at.pop() if at else np.zeros(1, np.int64)
        self.y_step = steps.pop() if steps else self.unit
        self.together = self.y_step == self.unit
        self.row_bytes = len(inner) * self.unit
        found = segments_of(inner, self.unit)
        if len(found) > 2 * MAX_SEGMENTS:
            raise ValueError(f"take: {len(found)} segments of a row")
        for i, (first, count, start, step, repeat, offsets) in enumerate(found):
            self.segment[i] = Segment(first * self.y_step, start, count, step, repeat, NULL)
            if offsets is not None:
                table = self.keep(offsets)
                self.segment[i].at = <const int64_t *>PyArray_DATA(table)
        self.segments = <int>len(found)
        table = self.keep(rows_of(at))
        self.x_row, self.rows = <const int64_t *>PyArray_DATA(table), table.size
        table = self.keep(rows_of([step * np.arange(len(a), dtype=np.int64) for a, step in zip(at, steps)]))
        self.y_row = <const int64_t *>PyArray_DATA(table)
        row = best_row(LK_TAKE, "x8")
        self.units = <lk_take_fn>row.fn
        self.elements = self.units
        if self.item > 1:
            row = best_row(LK_TAKE, f"x{8 * self.item}")
            self.elements = <lk_take_fn>row.fn
        self.threads = <int>min(threads_for(threads, 2.0 * self.rows * self.row_bytes), self.rows)

    cdef ndarray keep(self, numbers):
        self.kept.append(np.ascontiguousarray(numbers, np.int64))
        return self.kept[len(self.kept) - 1]

    cdef axes_of(self, ndarray x, ndarray y, indices):
        """By axis that is left, the offsets in x and the step in y: the inner ones that lie together in both are a unit."""
        at = [np.where(a < 0, LK_NOWHERE, a * s) for a, s in zip(indices, (<object>x).strides)]
        steps = list((<object>y).strides)
        base, joined = 0, True
        self.unit = self.item
        left, left_steps = [], []
        for offsets, step in zip(at[::-1], steps[::-1]):
            whole = offsets[0] != LK_NOWHERE and (offsets == offsets[0] + self.unit * np.arange(len(offsets))).all()
            joined = joined and whole and (step == self.unit or len(offsets) == 1) and self.unit < WHOLE_UNIT
            if len(offsets) == 1 and offsets[0] != LK_NOWHERE:
                base += int(offsets[0])
            elif joined:
                base += int(offsets[0])
                self.unit *= len(offsets)
            else:
                left.append(offsets)
                left_steps.append(step)
        if base and left:
            left[0] = np.where(left[0] == LK_NOWHERE, LK_NOWHERE, left[0] + base)
        elif base:
            left, left_steps = [np.array([base], np.int64)], [self.unit]
        return left[::-1], left_steps[::-1]

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        if self.rows == 0:
            return
        r.take, r.x, r.y, r.rows = <void *>self, at[0], at[1], self.rows
        share_out(self.threads, take_share, &r)

    cdef void some_rows(self, const char *x, char *y, int64_t first, int64_t end) noexcept nogil:
        cdef int64_t i
        for i in range(first, end):
            if self.together and i > first and self.x_row[i] == self.x_row[i - 1]:
                memcpy(y + self.y_row[i], y + self.y_row[i - 1], self.row_bytes)
            else:
                self.one_row(x, y + self.y_row[i], self.x_row[i])

    cdef void one_row(self, const char *x, char *y, int64_t start) noexcept nogil:
        cdef const Segment *s
        cdef lk_take p
        cdef int i
        for i in range(self.segments):
            s = self.segment + i
            p.y, p.at, p.count, p.unit, p.y_step, p.step, p.repeat = (
                y + s.first, s.at, s.count, self.unit, self.y_step, s.step, s.repeat
            )
            if start == LK_NOWHERE or s.start == LK_NOWHERE:
                self.filled(&p)
                continue
            p.x = x + start + s.start
            if self.together and self.unit == self.item:
                self.elements(&p)
            else:
                self.units(&p)

    cdef void filled(self, lk_take *p) noexcept nogil:
        """Write `fill` to all elements of these units."""
        cdef int64_t count = p.count, each = self.unit // self.item, j
        cdef char *y = p.y
        p.x, p.at, p.step, p.repeat = <const char *>PyArray_DATA(self.fill), NULL, 0, 1
        p.unit = p.y_step = self.item
        p.count = count * each if self.together else each
        for j in range(1 if self.together else count):
            p.y = y + j * self.y_step
            self.elements(p)


def rows_of(axes):
    """The sums of an offset of each axis, in order; LK_NOWHERE where there is one among them."""
    found = np.zeros(1, np.int64)
    for at in axes:
        nowhere = (found == LK_NOWHERE)[:, None] | (at == LK_NOWHERE)
        with np.errstate(over="ignore"):
            found = np.where(nowhere, LK_NOWHERE, found[:, None] + at).reshape(-1)
    return found


cdef struct Run:
    void *take
    const char *x
    char *y
    int64_t rows


cdef void take_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t first, last
    while lk_claim(portions, share(r.rows, parts, part), share(r.rows, parts, part + 1), &first, &last):
        (<Take>r.take).some_rows(r.x, r.y, first, last)
