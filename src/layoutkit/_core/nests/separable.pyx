"""Filters of one axis after another, in one pass over the array: the nest around the row kernels of filters/.

An array has up to three axes with windows, from the outside: *planes*, *lines*, *points*; the axes behind the last are its
*unit*, contiguous elements that are filtered alike. A row of the result is made of rows of planes, whose results stay in a
ring as long as lines need them; results of lines are written between the two ends that points need. Positions before the
beginning and behind the end of an axis are mapped to elements of it, or to a constant row, when pointers to rows are set:
only the ends of the points are ever copied.

Long windows whose elements all count the same take a time that hardly depends on their length. Along points, those of length
m make those of 2 m or 2 m + 1, each place for itself. Across lines there are blocks as long as a window: of each window the
part in one block is an end of it, and the part in the next a beginning; ends are made once for a block, backwards and where
its rows lie in the ring, beginnings on the way. So no element outside of a window has a part in it, and places and threads do
not matter.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from ..kernels cimport LK_CAST, LK_FOLD, LK_WEIGH, LK_WIDEN
from ..kernels.filters cimport (
    LK_BAND_ROWS, LK_WEIGH_BAND, LK_WEIGH_PLAIN, lk_cast_fn, lk_cast_row, lk_combine, lk_combine_fn,
)
from ..ndarray cimport NPY_INT64, import_array, ndarray
from ..runtime.registry cimport best_row, element_bytes
from ..runtime.team cimport threads_for
from .convert import TYPES as _KNOWN
from .executor cimport aligned, ceil_div, elements
from .operation cimport Operation, chunks_of, tasks_wanted

import_array()

cdef extern from "common/stream.h" nogil:
    void stream_end()


TYPES = _KNOWN | {"u64": _KNOWN["s64"]}  # which are as wide

cdef enum:
    MAX_LOOPS = 32
    CACHED_BYTES = 512 << 10   # of rows that are read again for the next row of the result
    STRIP_BYTES = 8 << 10      # of rows that are cut into strips, at least
    SEGMENT = 32               # lines of a task, at least
    LONG_SUMS = 24             # elements of a window from which on sums are made of sums, ..
    LONG_FOLDS = 16            # .. and extremes of extremes
    LONG_STRIP = 2048          # elements of a row that are combined at a time then
    APART = 64                 # bytes between rows, so that they do not all begin at one place of their pages
    ALIASED = 1 << 11          # rows so many bytes apart, or a multiple, share few places of the first cache ..
    ALIASES = 9                # .. which has no room for so many of them

LONG = LONG_SUMS


cdef struct Window:
    int64_t n                # of the axis
    int64_t span             # places of a window
    int64_t before           # of them, those before the element
    int64_t x, y             # byte strides
    const int64_t *place     # of each row that is combined
    const int64_t *source    # by position from the first place of the first window on: the element, -1: the constant
    lk_combine combine
    bint exists


cdef class Separable(Operation):
    """The filter of arrays (x, y).

    Parameters
    ----------
    arrays : (ndarray, ndarray)
    kind : {"weigh", "fold"}
    types : (str, str, str)
        Elements of x, of what is between (f32 or f64; of "fold" and of sums of small integers that of both arrays), and of y.
    outer : list of (int, int, int)
        Sizes of the axes without windows before the last that has one, strides of x and y.
    windows : list of Windows or None
        Of planes, lines and points: see `layoutkit.ndimage.windows`.
    count : int
        Elements of a row: all points, with their units.
    unit : int
    constant : float
        What is outside, where a window has that.
    threads : int
    streams : bool
        Whether y is stored past the caches.
    """

    cdef lk_combine_fn combine
    cdef lk_cast_fn widen, cast
    cdef Window planes, lines, points
    cdef int x_element, element, y_element
    cdef int64_t x_item, item, y_item, count, unit, strip, strips, segment, segments, loops, total
    cdef int64_t size[MAX_LOOPS]
    cdef int64_t x_stride[MAX_LOOPS]
    cdef int64_t y_stride[MAX_LOOPS]
    cdef int64_t group, groups, bands            # of planes at a time; of lines
    cdef bint folds, long_lines, long_points
    cdef int64_t piece, piece_bytes, buffers_at  # places of points that are combined at a time; two buffers of theirs
    cdef bint rings                              # rows of lines lie in a ring: results of planes, or copies
    cdef int64_t ring_row, ring_bytes, line_at, line_bytes, out_bytes, table_bytes, thread_bytes
    cdef const char *x_constant
    cdef const char *constant
    cdef int64_t chunks
    cdef int threads
    cdef bint streams

    def __cinit__(self, arrays, str kind, types, outer, windows, int64_t count, int64_t unit, constant, int threads,
                  bint streams=False):
        cdef str x_type, between, y_type
        cdef ndarray x = arrays[0]
        self.bind(tuple(arrays))
        x_type, between, y_type = types
        self.folds, self.streams = kind == "fold", streams
        self.combine = <lk_combine_fn>best_row(LK_FOLD if kind == "fold" else LK_WEIGH, between).fn
        self.x_element, self.y_element = TYPES[x_type], TYPES[y_type]
        self.x_item, self.y_item = element_bytes(self.x_element), element_bytes(self.y_element)
        self.element, self.item = TYPES[between], element_bytes(TYPES[between])
        if x_type != between:
            self.widen = <lk_cast_fn>best_row(LK_WIDEN, between).fn
        if y_type != between:
            self.cast = <lk_cast_fn>best_row(LK_CAST, between).fn
        self.count, self.unit, self.loops = count, unit, len(outer)
        if self.loops > MAX_LOOPS:
            raise ValueError(f"a filter with {self.loops} axes around it, at most {MAX_LOOPS}")
        self.total = 1 if x.size else 0
        for i, (n, xs, ys) in enumerate(outer):
            self.size[i], self.x_stride[i], self.y_stride[i] = n, xs, ys
            self.total *= n
        planes, lines, points = windows
        self.set_window(&self.planes, planes, TYPES[x_type])
        self.set_window(&self.lines, lines, TYPES[between] if planes is not None else TYPES[x_type])
        self.set_window(&self.points, points, TYPES[between])
        if not self.lines.exists and (self.planes.exists or not self.points.exists):
            raise ValueError("a filter without a window along lines")
        self.divide(threads, [w for w in windows if w is not None], constant, between)

    cdef int set_window(self, Window *w, windows, int element) except -1:
        cdef lk_combine *c = &w.combine
        w.exists = windows is not None
        w.n = w.span = 1
        if not w.exists:
            return 0
        w.n, w.span, w.before, w.x, w.y = windows.n, windows.span, windows.before, windows.x, windows.y
        self.owned += [windows.place, windows.source]
        w.place, w.source = <const int64_t *>elements(windows.place, NPY_INT64), <const int64_t *>elements(windows.source, NPY_INT64)
        if len(windows.source) != max(0, w.n + w.span - 1) or not 0 <= w.before < w.span:
            raise ValueError("positions that do not fit a window")
        c.taps, c.kind, c.element, c.end, c.size = len(windows.place), windows.kind, element, windows.end, windows.size
        c.to = windows.to
        if windows.weight is not None:
            real = "f4" if self.item == 4 else "f8"
            c.weight = self.keep(windows.weights_in(real), real)
        if windows.fixed is not None:
            c.fixed = <const int32_t *>self.keep(windows.fixed.words, "i4")
            c.fraction, c.doubt = windows.fixed.fraction, windows.fixed.doubt
        return 0

    cdef bint is_long(self, Window *w, str between):
        """Whether windows are made of shorter ones."""
        if self.folds:
            return w.exists and w.span >= LONG_FOLDS
        return w.exists and w.span >= LONG_SUMS and w.combine.kind == LK_WEIGH_PLAIN and between in ("f32", "f64")

    cdef int divide(self, int threads, list windows, constant, str between) except -1:
        """Strips of rows, segments of lines, and what a thread needs of the workspace."""
        cdef Window *lines = &self.lines
        cdef Window *points = &self.points
        cdef int64_t rows = lines.span + self.planes.span, bytes_of_row
        cdef double work = 2.0 * self.total * self.planes.n * lines.n * self.count * self.item
        self.threads = threads_for(threads, work * len(windows))
        self.strip = self.count
        if not points.exists:
            self.strip = min(self.count, max(<int64_t>STRIP_BYTES, CACHED_BYTES // rows) // self.item // 64 * 64)
        self.strips = ceil_div(self.count, max(1, self.strip))
        bytes_of_row = self.strip * max(self.item, self.x_item)
        self.group = LK_BAND_ROWS if self.folds or self.planes.combine.kind >= LK_WEIGH_BAND else 1
        self.group = max(1, min(self.group, self.planes.n))
        self.groups = ceil_div(self.planes.n, self.group)
        self.long_lines, self.long_points = self.is_long(lines, between), self.is_long(points, between)
        self.bands = 1
        if lines.exists and not self.long_lines and (self.folds or lines.combine.kind >= LK_WEIGH_BAND):
            self.bands = LK_BAND_ROWS
        self.segment = lines.n
        if self.planes.exists:  # planes of a segment stay in the cache, if that is not too short
            self.segment = max(2 * lines.span, CACHED_BYTES // max(1, bytes_of_row * self.planes.span) - lines.span)
        most = max(self.planes.combine.taps, lines.combine.taps, points.combine.taps) + LK_BAND_ROWS
        combined = max(self.planes.combine.taps, min(lines.combine.taps, LONG_SUMS), min(points.combine.taps, LONG_SUMS))
        self.chunks = chunks_of(work * combined)
        tasks = self.total * self.groups * self.strips
        wanted = tasks_wanted(self.threads, 1 if self.planes.exists else self.chunks)  # results of planes are made again
        if tasks < wanted:
            least = SEGMENT if not self.planes.exists else 2 * lines.span
            self.segment = min(self.segment, max(least, ceil_div(lines.n * tasks, wanted)))
        self.segment = max(1, min(self.segment, lines.n))
        self.segments = ceil_div(lines.n, self.segment)
        self.rings = self.planes.exists or self.long_lines or (lines.span >= ALIASES and lines.x % ALIASED == 0)
        self.ring_row = aligned(self.strip * max(self.item, self.x_item)) + APART if self.rings else 0
        self.ring_bytes = (lines.span + self.bands - 1) * self.ring_row
        self.out_bytes = aligned(self.strip * self.item) + APART if self.cast != NULL else 0
        if points.exists:  # the first element of a line lies at a multiple of 64
            self.line_at = aligned(points.before * self.unit * self.item)
            self.line_bytes = self.line_at + APART
            self.line_bytes += aligned((points.n + points.span - 1 - points.before) * self.unit * self.item)
        self.table_bytes = aligned(8 * most)
        self.thread_bytes = self.table_bytes + self.group * self.ring_bytes + APART
        self.thread_bytes += self.bands * (self.line_bytes + self.out_bytes)
        self.buffers_at = self.thread_bytes
        if self.long_points:
            self.piece = max(points.span, LONG_STRIP // self.unit)
            self.piece_bytes = aligned((self.piece + points.span) * self.unit * self.item) + APART
            self.thread_bytes += 2 * self.piece_bytes
        if self.long_lines:
            self.thread_bytes += (self.group + 1) * self.ring_row
        self.workspace = self.threads * self.thread_bytes
        if any((w.source < 0).any() for w in windows):
            length = max(self.strip, self.unit)
            self.x_constant = self.keep(constant(self.x_item, self.x_element, length))
            self.constant = self.keep(constant(self.item, TYPES[between], length))
        return 0

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
        if self.long_lines:
            self.run_long_lines(x, y, plane, begin, end, count, workspace)
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
        cdef lk_cast_row w
        cdef int64_t t
        cdef bint points = self.points.exists, casts = self.cast != NULL
        cdef char *to = y + first * lines.y
        c.x, c.count, c.rows, w.count = table, count, rows, count
        c.y = line if points else out if casts else to
        c.y_row = self.line_bytes if points else self.out_bytes if casts else lines.y
        c.stream = self.streams and not points and not casts
        if lines.exists and not self.rings:
            c.ahead, c.ahead_row = self.rows_ahead(x, first + rows + lines.span - 1), lines.x
        if lines.exists and self.bands > 1:
            for t in range(c.taps + rows - 1):
                table[t] = self.row_at(x, ring, first + t)
            self.combine(&c)
        elif lines.exists:
            for t in range(c.taps):
                table[t] = self.row_at(x, ring, first + lines.place[t])
            self.combine(&c)
        elif self.widen != NULL:
            w.x, w.y, w.element = x, c.y, self.x_element
            self.widen(&w)
        else:
            memcpy(c.y, x, count * self.item)
        self.finish_rows(to, rows, count, line, out, table)

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
        for r in range(rows):
            if points:
                self.run_points(line + r * self.line_bytes, out if casts else to + r * lines.y, count, table)
            if casts:
                w.x, w.y, w.element = out if points else out + r * self.out_bytes, to + r * lines.y, self.y_element
                self.cast(&w)

    cdef void run_long_lines(self, const char *x, char *y, int64_t plane, int64_t begin, int64_t end, int64_t count,
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
        cdef lk_cast_row w
        cdef int64_t p, source = lines.source[at]
        if source < 0:
            for p in range(planes):
                memcpy(to + p * self.ring_bytes, self.constant, count * self.item)
        elif self.planes.exists:
            self.run_planes(x + source * lines.x, plane, planes, to, count, table)
        elif self.widen != NULL:
            w.x, w.y, w.count, w.element = x + source * lines.x, to, count, self.x_element
            self.widen(&w)
        else:
            memcpy(to, x + source * lines.x, count * self.item)

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

    cdef void run_long_points(self, const char *line, char *to, int64_t count, char *buffers) noexcept nogil:
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
                    c.y, c.end, c.stream = to + first * unit, points.combine.end, self.streams and self.cast == NULL
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
        cdef bint band = self.folds or c.kind >= LK_WEIGH_BAND
        cdef int64_t t, source
        for t in range(c.taps + (rows - 1 if band else 0)):
            source = planes.source[plane + (t if band else planes.place[t])]
            table[t] = self.x_constant if source < 0 else x + source * planes.x
        c.x, c.y, c.count, c.rows, c.y_row = table, to, count, rows, self.ring_bytes
        self.combine(&c)

    cdef void run_points(self, char *line, char *to, int64_t count, const char **table) noexcept nogil:
        """A row, over its points; it has room for the ends before and behind it."""
        cdef Window *points = &self.points
        cdef lk_combine c = points.combine
        cdef int64_t unit = self.unit * self.item, t, i, source
        cdef char *first = line - points.before * unit
        for i in range(points.span - 1):
            t = i if i < points.before else i + points.n
            source = points.source[t]
            if unit == 4 and source >= 0:
                (<int *>first)[t] = (<int *>line)[source]
            else:
                memcpy(first + t * unit, self.constant if source < 0 else line + source * unit, unit)
        if self.long_points:
            self.run_long_points(first, to, count, <char *>table + self.buffers_at)
            return
        for t in range(c.taps):
            table[t] = first + points.place[t] * unit
        c.x, c.y, c.count, c.stream = table, to, count, self.streams and self.cast == NULL
        self.combine(&c)
