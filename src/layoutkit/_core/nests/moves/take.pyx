"""Slices, pads, repetitions and other selections of elements by indices along every axis.

A *unit* is a run of bytes that is copied as a whole; rows are made of units. A row is described by few *segments*, each of
units at one distance, so that most rows need no table of offsets.
"""

from libc.stdint cimport int64_t

import numpy as np

from ...kernels cimport LK_NOWHERE, LK_TAKE, lk_kernel
from ...kernels.take cimport lk_take, lk_take_fn
from ...ndarray cimport import_array, ndarray
from ...runtime.registry cimport best_row
from ...runtime.team cimport lk_claim, lk_portions, threads_for
from ..executor cimport share
from ..operation cimport Operation

import_array()

cdef enum:
    MAX_SEGMENTS = 8           # of a row without a table of offsets
    LARGE_UNIT_BYTES = 16 << 10  # larger units are not joined, so that threads can share them
    FILL_BYTES = 1024          # of the array of copies of the fill value
    MAX_SINGLE = 4             # units of a segment that become segments of their own
    MAX_SHORT_ROW = 32 << 10   # bytes of a row whose segments are copied for several rows at a time,
    ROWS_BYTES = 16 << 10      # which have about so many bytes


cdef struct Segment:  # units of a row that follow one another in y
    int64_t first         # bytes from the beginning of the row of y
    int64_t start         # bytes from the beginning of the row of x to the first unit; LK_NOWHERE: filled
    int64_t count         # of units
    int64_t step, repeat  # bytes from a unit of x to the next one, each of which is copied `repeat` times
    const int64_t *at     # offsets of all units instead; NULL: there is no table


def segments_of(offsets, unit):
    """The segments of a row whose units begin at these offsets (LK_NOWHERE: filled): (first, count, start, step, repeat,
    table)."""
    segments = []
    filled = offsets == LK_NOWHERE
    bounds = [0, *(np.flatnonzero(np.diff(filled)) + 1).tolist(), len(offsets)]
    for first, end in zip(bounds, bounds[1:]):
        part = offsets[first:end]
        if filled[first]:
            segments.append((first, end - first, LK_NOWHERE, 0, 1, None))
            continue
        steps = np.diff(part)
        changes = np.flatnonzero(np.diff(steps)) + 1
        repeat = int(np.argmax(steps != 0)) + 1 if steps.any() else 1
        distinct = part[::repeat]
        repeats = repeat > 1 and (np.repeat(distinct, repeat)[: len(part)] == part).all()
        if repeats and len(set(np.diff(distinct).tolist())) <= 1:
            segments.append((first, len(part), int(part[0]), int(distinct[1] - distinct[0]), repeat, None))
        elif len(changes) < MAX_SEGMENTS:
            begin = 0
            while begin < len(part):  # up to where the step changes
                step = int(part[begin + 1] - part[begin]) if begin + 1 < len(part) else unit
                others = np.flatnonzero(np.diff(part[begin:]) != step)
                stop = begin + int(others[0]) + 1 if len(others) else len(part)
                segments.append((first + begin, stop - begin, int(part[begin]), step, 1, None))
                begin = stop
        else:
            segments.append((first, len(part), 0, 0, 1, np.ascontiguousarray(part)))
    return segments


def is_straight(segment, unit):
    """Whether the units of a segment are contiguous in x, or filled with a few bytes in all."""
    _, count, start, step, repeat, table = segment
    if start == LK_NOWHERE:
        return count * unit <= FILL_BYTES
    return table is None and (count == 1 or (step == unit and repeat == 1))


def straightened(segments, unit):
    """The segments, short ones that are not straight unit by unit."""
    for first, count, start, step, repeat, table in segments:
        if table is not None or count > MAX_SINGLE or is_straight((first, count, start, step, repeat, table), unit):
            yield first, count, start, step, repeat, table
            continue
        for i in range(count):
            yield first + i, 1, start + i // repeat * step, unit, 1, None


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
        Views of `x` and `y` that have these axes, if they themselves have others.
    """

    cdef lk_take_fn units, elements
    cdef const Segment *segment
    cdef int segments, threads
    cdef bint contiguous         # the units of a row of y
    cdef bint by_segment         # segments are copied for several rows at a time
    cdef int64_t between         # bytes from each row of y to the next one; -1: not all are equally far apart
    cdef int64_t unit, y_step    # bytes of a unit; from a unit of y to the next
    cdef int64_t row_bytes, rows, item
    cdef const int64_t *x_row    # offsets of rows in bytes; LK_NOWHERE: filled
    cdef const int64_t *y_row
    cdef const char *fill

    def __init__(self, ndarray x not None, ndarray y not None, indices, ndarray fill not None, int threads, views=None):
        cdef const lk_kernel *row
        cdef Segment *segment
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
        self.rows, self.fill = 0, self.keep(np.repeat(fill.reshape(1), FILL_BYTES // self.item))
        if not y.size:
            return
        offsets, steps = self.axes_of(x, y, indices)
        inner = offsets.pop() if offsets else np.zeros(1, np.int64)
        self.y_step = steps.pop() if steps else self.unit
        self.contiguous = self.y_step == self.unit
        self.row_bytes = len(inner) * self.unit
        segments = segments_of(inner, self.unit)
        short_segments = list(straightened(segments, self.unit))
        self.by_segment = (self.contiguous and self.row_bytes <= MAX_SHORT_ROW and len(short_segments) <= 2 * MAX_SEGMENTS
                           and all(is_straight(s, self.unit) for s in short_segments))
        if self.by_segment:  # the longest first, which brings the lines of all rows to L1
            segments = sorted(short_segments, key=lambda segment: -segment[1])
        self.segments = <int>len(segments)
        segment = <Segment *>self.keep(np.empty(self.segments * sizeof(Segment), np.uint8))
        for i, (first, count, start, step, repeat, table) in enumerate(segments):
            segment[i] = Segment(first * self.y_step, start, count, step, repeat, NULL)
            if table is not None:
                segment[i].at = <const int64_t *>self.keep(table, np.int64)
        self.segment = segment
        rows = row_offsets(offsets)
        self.x_row, self.rows = <const int64_t *>self.keep(rows, np.int64), rows.size
        rows = row_offsets([step * np.arange(len(a), dtype=np.int64) for a, step in zip(offsets, steps)])
        self.y_row = <const int64_t *>self.keep(rows, np.int64)
        distances = np.diff(rows) if rows.size > 1 else np.zeros(1, np.int64)
        self.between = int(distances[0]) if (distances == distances[0]).all() else -1
        row = best_row(LK_TAKE, "x8")
        self.units = <lk_take_fn>row.fn
        self.elements = self.units
        if self.item > 1:
            row = best_row(LK_TAKE, f"x{8 * self.item}")
            self.elements = <lk_take_fn>row.fn
        self.threads = <int>min(threads_for(threads, 2.0 * self.rows * self.row_bytes), self.rows)

    cdef axes_of(self, ndarray x, ndarray y, indices):
        """By axis, the offsets in x and the step in y, without the inner axes that are contiguous in both: these are joined
        into a unit."""
        by_axis = [np.where(a < 0, LK_NOWHERE, a * s) for a, s in zip(indices, (<object>x).strides)]
        base, joins = 0, True
        self.unit = self.item
        outer, outer_steps = [], []
        for offsets, step in zip(by_axis[::-1], (<object>y).strides[::-1]):
            is_run = offsets[0] != LK_NOWHERE and (offsets == offsets[0] + self.unit * np.arange(len(offsets))).all()
            joins = joins and is_run and (step == self.unit or len(offsets) == 1) and self.unit < LARGE_UNIT_BYTES
            if len(offsets) == 1 and offsets[0] != LK_NOWHERE:
                base += int(offsets[0])
            elif joins:
                base += int(offsets[0])
                self.unit *= len(offsets)
            else:
                outer.append(offsets)
                outer_steps.append(step)
        if base and outer:
            outer[0] = np.where(outer[0] == LK_NOWHERE, LK_NOWHERE, outer[0] + base)
        elif base:
            outer, outer_steps = [np.array([base], np.int64)], [self.unit]
        return outer[::-1], outer_steps[::-1]

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.rows:
            self.run_shares(self.threads, at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef int64_t first, last
        while lk_claim(portions, share(self.rows, parts, part), share(self.rows, parts, part + 1), &first, &last):
            self.run_rows(at[0], at[1], first, last)

    cdef void run_rows(self, const char *x, char *y, int64_t first, int64_t end) noexcept nogil:
        cdef int64_t i = first, last
        while self.by_segment and i < end:
            if self.x_row[i] == LK_NOWHERE:
                i = self.run_filled(y, i, end)
                continue
            last = self.evenly_spaced(i, end)
            if last > i + 1:
                self.run_segments(x, y + self.y_row[i], i, last - i)
            else:
                self.run_row(x, y + self.y_row[i], self.x_row[i], 1, 1, 0, 0)
            i = last
        while i < end:
            i = self.run_block(x, y, i, end)

    cdef int64_t run_block(self, const char *x, char *y, int64_t first, int64_t end) noexcept nogil:
        """Rows from the first one on that are equally far apart, and of which as many follow one another that are equal;
        the end of these rows."""
        cdef int64_t copies = 1, rows = 1, x_row = 0, y_row = 0, i
        if self.contiguous and first + 1 < end and self.x_row[first] != LK_NOWHERE:
            y_row, i = self.y_row[first + 1] - self.y_row[first], first + 1
            while i < end and self.x_row[i] == self.x_row[first] and self.y_row[i] - self.y_row[i - 1] == y_row:
                i += 1
            copies = i - first
            x_row = self.x_row[i] - self.x_row[first] if i < end and self.x_row[i] != LK_NOWHERE else 0
            while x_row and self.follows(first + rows * copies, copies, end, x_row, y_row):
                rows += 1
        self.run_row(x, y + self.y_row[first], self.x_row[first], rows, copies, x_row, y_row)
        return first + rows * copies

    cdef bint follows(self, int64_t first, int64_t copies, int64_t end, int64_t x_row, int64_t y_row) noexcept nogil:
        """Whether `copies` equal rows from the first one on are x_row and y_row bytes from those before."""
        cdef int64_t i
        if first + copies > end or self.x_row[first] == LK_NOWHERE or self.x_row[first] - self.x_row[first - 1] != x_row:
            return False
        for i in range(first, first + copies):
            if self.x_row[i] != self.x_row[first] or self.y_row[i] - self.y_row[i - 1] != y_row:
                return False
        return True

    cdef int64_t evenly_spaced(self, int64_t first, int64_t end) noexcept nogil:
        """The end of rows that are equally far apart in y, are not filled, and stay in L1."""
        cdef int64_t i = first + 1
        end = min(end, first + max(2, ROWS_BYTES // self.row_bytes))
        if self.between >= 0:
            while i < end and self.x_row[i] != LK_NOWHERE:
                i += 1
            return i
        while i < end and self.x_row[i] != LK_NOWHERE and (
                self.y_row[i] - self.y_row[i - 1] == self.y_row[first + 1] - self.y_row[first]):
            i += 1
        return i

    cdef int64_t run_filled(self, char *y, int64_t first, int64_t end) noexcept nogil:
        """The first row, which is filled, and those after it that are too if they are contiguous; their end."""
        cdef lk_take p
        cdef int64_t last = first + 1
        while self.between == self.row_bytes and last < end and self.x_row[last] == LK_NOWHERE:
            last += 1
        p.y, p.y_step, p.rows, p.copies, p.beside = y + self.y_row[first], self.unit, 1, 1, NULL
        p.count = (last - first) * self.row_bytes // self.unit
        self.write_fill(p)
        return last

    cdef void run_segments(self, const char *x, char *y, int64_t first, int64_t count) noexcept nogil:
        """Rows at equal distances, the first of them at `y`: each segment as a unit of all rows."""
        cdef const Segment *s
        cdef lk_take p
        cdef int i
        p.count, p.y_step, p.repeat = count, self.y_row[first + 1] - self.y_row[first], 1
        p.rows, p.copies, p.x_row, p.y_row, p.beside = 1, 1, 0, 0, NULL
        for i in range(self.segments):
            s = self.segment + i
            p.y, p.unit, p.step = y + s.first, s.count * self.unit, 0
            p.x, p.at = self.fill, NULL
            if s.start != LK_NOWHERE:
                p.x, p.at = x + s.start, self.x_row + first
            self.units(&p)

    cdef void run_row(self, const char *x, char *y, int64_t start, int64_t rows, int64_t copies, int64_t x_row,
                      int64_t y_row) noexcept nogil:
        """`rows` rows of x, each of which becomes `copies` rows of y."""
        cdef const Segment *s
        cdef lk_take p
        cdef int64_t i
        cdef int k
        for k in range(self.segments):
            s = self.segment + k
            p.rows, p.copies, p.x_row, p.y_row, p.beside = rows, copies, x_row, y_row, NULL
            p.y, p.at, p.count, p.unit, p.y_step, p.step, p.repeat = (
                y + s.first, s.at, s.count, self.unit, self.y_step, s.step, s.repeat
            )
            if start == LK_NOWHERE or s.start == LK_NOWHERE:
                p.rows = p.copies = 1
                for i in range(rows * copies):
                    p.y = y + s.first + i * y_row
                    self.write_fill(p)
                continue
            p.x = x + start + s.start
            if self.contiguous and self.unit == self.item:
                self.elements(&p)
            else:
                self.units(&p)

    cdef void write_fill(self, lk_take p) noexcept nogil:
        """Fill all elements of these units."""
        cdef int64_t count = p.count, elements = self.unit // self.item, j
        cdef char *y = p.y
        p.x, p.at, p.step, p.repeat = self.fill, NULL, 0, 1
        p.unit = p.y_step = self.item
        p.count = count * elements if self.contiguous else elements
        for j in range(1 if self.contiguous else count):
            p.y = y + j * self.y_step
            self.elements(&p)


def row_offsets(axes):
    """The sums of an offset of each axis, for all indices in order; LK_NOWHERE where one of them is that."""
    sums = np.zeros(1, np.int64)
    for offsets in axes:
        nowhere = (sums == LK_NOWHERE)[:, None] | (offsets == LK_NOWHERE)
        with np.errstate(over="ignore"):
            sums = np.where(nowhere, LK_NOWHERE, sums[:, None] + offsets).reshape(-1)
    return sums
