"""Filters of one axis after another, in one pass over the array: the nest around the row kernels of kernels/filters/.

An array has up to three axes with windows, from the outside: *planes*, *lines*, *points*; the axes behind the last are its
*unit*, contiguous elements that are filtered alike. A row of the result is made of rows of planes, whose results stay in a
ring as long as lines need them; results of lines are written between the two ends that points need. Positions before the
beginning and behind the end of an axis are mapped to elements of it, or to a constant row, when pointers to rows are set:
only the ends of the points are ever copied.

Of running windows, whose elements all count the same, the time hardly depends on their length. Along points, those of length
m make those of 2 m or 2 m + 1, each place for itself. Across lines there are blocks as long as a window: of each window the
part in one block is an end of it, and the part in the next a beginning; ends are made once for a block, backwards and where
its rows lie in the ring, beginnings on the way. So no element outside of a window has a part in it, and places and threads do
not matter.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from ...kernels.filters cimport lk_cast_row, lk_combine
from ..executor cimport aligned
from .separable_plan cimport SeparablePlan, Window

cdef extern from "common/stream.h" nogil:
    void stream_end()


cdef class Separable(SeparablePlan):
    """The filter of arrays (x, y), as `SeparablePlan` takes it."""

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.total:
            self.run_chunks(self.threads, self.total * self.strips * self.segments * self.groups, self.chunks, at, workspace,
                           self.thread_bytes)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """A segment of the lines of some planes, in a strip; planes follow one another."""
        cdef const char *x = at[0]
        cdef char *y = at[1]
        cdef int64_t plane = task % self.groups * self.group, rest = task // self.groups, i
        cdef int64_t segment = rest % self.segments, strip
        rest //= self.segments
        strip = rest % self.strips
        rest //= self.strips
        i = self.loops
        while i > 0:
            i -= 1
            x += rest % self.size[i] * self.x_stride[i]
            y += rest % self.size[i] * self.y_stride[i]
            rest //= self.size[i]
        x += strip * self.strip * self.x_item
        y += strip * self.strip * self.y_item + plane * self.planes.y
        cdef int64_t count = min(self.strip, self.count - strip * self.strip)
        cdef int64_t begin = segment * self.segment, end = min(begin + self.segment, self.lines.n)
        self.run_lines(x, y, plane, begin, end, count, workspace)
        if self.streams:
            stream_end()

    cdef void run_lines(self, const char *x, char *y, int64_t plane, int64_t begin, int64_t end, int64_t count,
                        char *workspace) noexcept nogil:
        """Lines [begin, end) of the result; x begins at the first plane, y at the first that is written."""
        cdef const char **table = <const char **>workspace
        cdef char *ring = workspace + self.table_bytes
        cdef char *line = ring + self.group * self.ring_bytes + self.line_at
        cdef char *out = line - self.line_at + self.bands * self.line_bytes
        cdef Window *lines = &self.lines
        cdef int64_t i = begin, made = begin, slots = lines.span + self.bands - 1, planes, lines_now, p
        planes = min(self.group, self.planes.n - plane)
        if self.lines.running:
            self.running_lines(x, y, plane, begin, end, count, workspace)
            return
        while i < end:
            lines_now = min(self.bands, end - i)
            while self.rings and made < i + lines.span + lines_now - 1:
                if lines.source[made] >= 0 and self.planes.exists:
                    self.run_planes(x + lines.source[made] * lines.x, plane, planes,
                                    ring + made % slots * self.ring_row, count, table)
                elif lines.source[made] >= 0:
                    memcpy(ring + made % slots * self.ring_row, x + lines.source[made] * lines.x, count * self.x_item)
                made += 1
            for p in range(planes):
                self.run_rows(x, ring + p * self.ring_bytes, y + p * self.planes.y, i, lines_now, count, line, out,
                              table)
            i += lines_now

    cdef void run_rows(self, const char *x, const char *ring, char *y, int64_t first, int64_t rows, int64_t count,
                       char *line, char *out, const char **table) noexcept nogil:
        """Some lines of a plane of the result."""
        cdef Window *lines = &self.lines
        cdef lk_combine c = lines.combine
        cdef int64_t t, r
        cdef bint points = self.points.exists, casts = self.cast != NULL
        cdef char *to = y + first * lines.y
        c.x, c.count, c.rows = table, count, rows
        c.y = line if points else out if casts else to
        c.y_row = self.line_bytes if points else self.out_bytes if casts else lines.y
        c.stream = self.streams and not points and not casts
        if lines.exists and not self.rings:
            c.ahead, c.ahead_row = self.rows_ahead(x, first + rows + lines.span - 1), lines.x
        if self.band:
            for t in range(c.taps + rows - 1):
                table[t] = self.row_at(x, ring, first + t)
            self.combine(&c)
        else:
            c.rows = 1
            for r in range(rows):
                if lines.exists:
                    for t in range(c.taps):
                        table[t] = self.row_at(x, ring, first + r + lines.place[t])
                    self.combine(&c)
                    c.ahead = c.ahead + c.ahead_row if c.ahead != NULL else NULL
                else:
                    self.copy_row(x + (first + r) * lines.x, c.y, count)
                c.y += c.y_row
        self.finish_rows(to, rows, count, line, out, table)

    cdef void copy_row(self, const char *x, char *to, int64_t count) noexcept nogil:
        """A row of x as what is between has it."""
        cdef lk_cast_row w
        if self.widen != NULL:
            w.x, w.y, w.count, w.element = x, to, count, self.x_element
            self.widen(&w)
        else:
            memcpy(to, x, count * self.item)

    cdef const char *rows_ahead(self, const char *x, int64_t at) noexcept nogil:
        """The rows at positions from one on along lines, as many as results are made of at a time, if they follow one another."""
        cdef Window *lines = &self.lines
        cdef int64_t t
        if at + self.bands > lines.n + lines.span - 1 or lines.source[at] < 0:
            return NULL
        for t in range(1, self.bands):
            if lines.source[at + t] != lines.source[at] + t:
                return NULL
        return x + lines.source[at] * lines.x

    cdef void finish_rows(self, char *to, int64_t rows, int64_t count, char *line, char *out,
                          const char **table) noexcept nogil:
        """Rows of the result from what has been combined along lines."""
        cdef Window *lines = &self.lines
        cdef lk_cast_row w
        cdef int64_t r
        cdef bint points = self.points.exists, casts = self.cast != NULL
        w.count = count
        if points:  # of all rows before the first is read: loads of what was just stored in parts would wait for it
            for r in range(rows):
                self.set_ends(line + r * self.line_bytes)
        for r in range(rows):
            if points:
                self.run_points(line + r * self.line_bytes, out if casts else to + r * lines.y, count, table)
            if casts:
                w.x, w.y, w.element = out if points else out + r * self.out_bytes, to + r * lines.y, self.y_element
                self.cast(&w)

    cdef void running_lines(self, const char *x, char *y, int64_t plane, int64_t begin, int64_t end, int64_t count,
                             char *workspace) noexcept nogil:
        """As `run_lines`, of windows that are the end of one block of lines and the beginning of the next."""
        cdef const char **table = <const char **>workspace
        cdef char *ring = workspace + self.table_bytes
        cdef char *line = ring + self.group * self.ring_bytes + self.line_at
        cdef char *out = line - self.line_at + self.bands * self.line_bytes
        cdef char *beginning = workspace + self.thread_bytes - self.group * self.ring_row
        cdef char *spare = beginning - self.ring_row if self.folds else NULL
        cdef Window *lines = &self.lines
        cdef int64_t i, j, p, made = begin, block = begin, span = lines.span
        cdef int64_t planes = min(self.group, self.planes.n - plane)
        cdef bint points = self.points.exists
        cdef char *to
        cdef lk_combine c
        for i in range(begin, end):
            if i == begin or i == block:
                block = (i // span + 1) * span
                while made < block:
                    self.make_row(x, plane, planes, made, ring, count, table)
                    made += 1
                for j in range(block - 2, i - 1, -1):
                    for p in range(planes):
                        to = ring + p * self.ring_bytes
                        self.join(to + j % span * self.ring_row, to + (j + 1) % span * self.ring_row,
                                  to + j % span * self.ring_row, spare, count)
            while made < i + span:
                self.make_row(x, plane, planes, made, ring, count, table)
                for p in range(planes):
                    to = ring + p * self.ring_bytes + made % span * self.ring_row
                    if made == block:
                        memcpy(beginning + p * self.ring_row, to, count * self.item)
                    else:
                        self.join(beginning + p * self.ring_row, to, beginning + p * self.ring_row, spare, count)
                made += 1
            for p in range(planes):
                table[0], table[1] = ring + p * self.ring_bytes + i % span * self.ring_row, beginning + p * self.ring_row
                to = y + p * self.planes.y + i * lines.y
                c = lines.combine
                c.element, c.x, c.taps, c.count, c.rows = self.element, table, 1 if i + span == block else 2, count, 1
                c.stream = self.streams and not points and self.cast == NULL
                c.y = line if points else out if self.cast != NULL else to
                self.combine(&c)
                self.finish_rows(to, 1, count, line, out, table)

    cdef void make_row(self, const char *x, int64_t plane, int64_t planes, int64_t at, char *ring, int64_t count,
                       const char **table) noexcept nogil:
        """The row at a position along lines, in the ring, of what is between."""
        cdef Window *lines = &self.lines
        cdef char *to = ring + at % lines.span * self.ring_row
        cdef int64_t p, source = lines.source[at]
        if source < 0:
            for p in range(planes):
                memcpy(to + p * self.ring_bytes, self.constant, count * self.item)
        elif self.planes.exists:
            self.run_planes(x + source * lines.x, plane, planes, to, count, table)
        else:
            self.copy_row(x + source * lines.x, to, count)

    cdef void join(self, const char *a, const char *b, char *to, char *spare, int64_t count) noexcept nogil:
        """Combine two rows with room for whole vectors, of which `to` may be one, by way of `spare` unless that is NULL."""
        cdef const char *rows[2]
        cdef lk_combine c
        memset(&c, 0, sizeof(c))
        c.x, c.y, c.taps, c.weight = rows, to if spare == NULL else spare, 2, NULL
        c.kind, c.element, c.end = self.lines.combine.kind, self.element, 0
        rows[0], rows[1] = a, b
        c.count = aligned(count * self.item) // self.item
        c.rows = 1
        self.combine(&c)
        if spare != NULL:
            memcpy(to, spare, count * self.item)

    cdef void running_points(self, const char *line, char *to, int64_t count, char *buffers) noexcept nogil:
        """A row, over its points: windows of half the length make those of the whole."""
        cdef Window *points = &self.points
        cdef lk_combine c = points.combine
        cdef const char *rows[3]
        cdef const char *x
        cdef const char *shorter
        cdef int64_t unit = self.unit * self.item, n = count // self.unit, first = 0, places, length, bit
        cdef int turn
        while first < n:
            places = min(self.piece, n - first)
            x = line + first * unit
            shorter, length, bit, turn = x, 1, 1, 0
            while 2 * bit <= points.span:
                bit *= 2
            while bit > 1:
                bit //= 2
                rows[0], rows[1], rows[2] = shorter, shorter + length * unit, x + 2 * length * unit
                c.x, c.taps, c.element = rows, 3 if points.span & bit else 2, self.element
                length = 2 * length + (1 if points.span & bit else 0)
                c.count, c.y, c.end = (places + points.span - length) * self.unit, buffers + turn * self.piece_bytes, 0
                if bit == 1:
                    c.y, c.end = to + first * unit, points.combine.end
                self.combine(&c)
                shorter, turn = c.y, 1 - turn
            first += places

    cdef const char *row_at(self, const char *x, const char *ring, int64_t at) noexcept nogil:
        """The row at a position along lines."""
        cdef Window *lines = &self.lines
        if lines.source[at] < 0:
            return self.constant if self.planes.exists else self.x_constant
        if self.rings:
            return ring + at % (lines.span + self.bands - 1) * self.ring_row
        return x + lines.source[at] * lines.x

    cdef void run_planes(self, const char *x, int64_t plane, int64_t rows, char *to, int64_t count,
                         const char **table) noexcept nogil:
        """One row of each of some planes, over planes."""
        cdef Window *planes = &self.planes
        cdef lk_combine c = planes.combine
        cdef bint band = self.in_bands(&c)
        cdef int64_t t, source
        for t in range(c.taps + (rows - 1 if band else 0)):
            source = planes.source[plane + (t if band else planes.place[t])]
            table[t] = self.x_constant if source < 0 else x + source * planes.x
        c.x, c.y, c.count, c.rows, c.y_row = table, to, count, rows, self.ring_bytes
        self.combine(&c)

    cdef void set_ends(self, char *line) noexcept nogil:
        """What windows of a row take before and behind it, for which it has room."""
        cdef Window *points = &self.points
        cdef int64_t unit = self.unit * self.item, t, i, source
        cdef char *first = line - points.before * unit
        for i in range(points.span - 1):
            t = i if i < points.before else i + points.n
            source = points.source[t]
            if unit == 4 and source >= 0:
                (<int *>first)[t] = (<int *>line)[source]
            elif unit == 2 and source >= 0:
                (<short *>first)[t] = (<short *>line)[source]
            elif unit == 1 and source >= 0:
                first[t] = line[source]
            else:
                memcpy(first + t * unit, self.constant if source < 0 else line + source * unit, unit)

    cdef void run_points(self, const char *line, char *to, int64_t count, const char **table) noexcept nogil:
        """A row that has its ends, over its points."""
        cdef Window *points = &self.points
        cdef lk_combine c = points.combine
        cdef int64_t unit = self.unit * self.item, t
        cdef const char *first = line - points.before * unit
        if self.points.running:
            self.running_points(first, to, count, <char *>table + self.buffers_at)
            return
        for t in range(c.taps):
            table[t] = first + points.place[t] * unit
        c.x, c.y, c.count, c.rows, c.stream = table, to, count, 1, self.streams and self.cast == NULL
        self.combine(&c)
