"""Filters of windows of any form in any number of dimensions: the nest around the row kernels of kernels/filters/.

A window is of points of *lines* of *planes* of *stacks*: positions along the last axis with a window, along the one before it,
along the one before that, and of all axes before these together. Lines that windows touch are copied, with the ends that their
windows need, and a row of the result combines parts of these copies. Without planes the copies are in a ring, as long as windows
need them. With planes a task makes a strip of lines of one plane after another: the ring is of strips of planes.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from ...kernels cimport LK_CAST, LK_FOLD, LK_RANK, LK_WEIGH, LK_WIDEN
from ...kernels.filters cimport LK_BAND_ROWS, LK_RANK_COLUMNS, LK_RANK_SLIDE, LK_WEIGH_BAND_EACH, lk_cast_fn, lk_cast_row, lk_combine, lk_combine_fn
from ...ndarray cimport NPY_INT32, NPY_INT64, import_array, ndarray
from ...runtime.registry cimport best_row, element_bytes
from ...runtime.team cimport threads_for
from ..executor cimport aligned, ceil_div, elements
from ..operation cimport Operation, chunks_of, tasks_wanted
from .separable_plan import TYPES

import_array()

cdef extern from "common/stream.h" nogil:
    void stream_end()


cdef enum:
    MAX_LOOPS = 32
    VECTOR_BYTES = 64          # the largest
    SEGMENT = 16               # lines of a task, at least
    STRIP = 8                  # likewise, with planes
    CACHED_BYTES = 256 << 10   # of strips of planes
    APART = 64


_FAMILIES = {"weigh": LK_WEIGH, "fold": LK_FOLD, "rank": LK_RANK}


cdef inline int64_t wrapped(int64_t at, int64_t n) noexcept nogil:
    """`at` modulo n, below 2 n: a division would take longer."""
    return at - n if at >= n else at


cdef class Neighbourhood(Operation):
    """The filter of arrays (x, y).

    Parameters
    ----------
    arrays : (ndarray, ndarray)
    kind : {"weigh", "fold", "rank"}
    types : (str, str, str)
        Elements of x, of what is combined, and of y.
    outer : list of (int, int, int)
        Sizes of the axes before lines that have no windows, strides of x and y.
    leading : list of (int, int, int, ndarray)
        Of those before planes that have: also the source of each position, as of `windows.positions`.
    planes, lines, points : (int, int, int, ndarray, int, int)
        Of these axes: size, strides of x and y, sources, places of a window, those before the element.
    places : ndarray of int64
        Of each element of a window, or of the windows of a band: the stack, the plane, the line, the point.
    stacks : ndarray of int64
        By stack the place in each leading axis.
    unit : int
        Contiguous elements of a point.
    constant : ndarray
        What is outside: as many elements as a line has with its ends.
    fields : dict
        Of `lk_combine`: kind, end, to, size, weight, fixed, network, rank; `parts`, the `fixed` of LK_WEIGH_BAND_EACH, come with
        the `terms`, elements of a window. A rank without a network is the median of a box:
        `places` are those of its first column.
    threads : int
    streams : bool
        Whether y is stored past the caches.
    """

    cdef lk_combine_fn combine
    cdef lk_cast_fn widen, cast
    cdef lk_combine template
    cdef int x_element, y_element
    cdef int64_t x_item, item, unit, count, before, tail, span, n, x_line, y_line
    cdef int64_t plane_n, plane_span, x_plane, y_plane, run_planes, runs
    cdef int64_t loops, windows, total, stack_count, segment, segments
    cdef int64_t size[MAX_LOOPS]
    cdef int64_t x_stride[MAX_LOOPS]
    cdef int64_t y_stride[MAX_LOOPS]
    cdef const int64_t *leading[MAX_LOOPS]   # sources by position, of the last `windows` of the loops
    cdef const int64_t *plane_source
    cdef const int64_t *line_source
    cdef const int64_t *point_source
    cdef const int64_t *places
    cdef const int64_t *stacks
    cdef const char *constant
    cdef int64_t row, slots, base_bytes, table_bytes, scratch_bytes, out_bytes, thread_bytes
    cdef int64_t terms                       # elements of a window
    cdef int64_t chunks, bands               # bands: of lines, how many are made at a time
    cdef int threads

    def __cinit__(self, arrays, str kind, types, outer, leading, planes, lines, points, ndarray places,
                  ndarray stacks, int64_t unit, constant, dict fields, int threads, bint streams=False):
        cdef ndarray x = arrays[0]
        cdef lk_combine *c = &self.template
        self.bind(tuple(arrays))
        x_type, between, y_type = types
        self.combine = <lk_combine_fn>best_row(_FAMILIES[kind], between).fn
        self.x_element, self.y_element = TYPES[x_type], TYPES[y_type]
        self.x_item, self.item, self.unit = element_bytes(self.x_element), element_bytes(TYPES[between]), unit
        self.bands = 1
        if x_type != between:
            self.widen = <lk_cast_fn>best_row(LK_WIDEN, between).fn
        if y_type != between:
            self.cast = <lk_cast_fn>best_row(LK_CAST, between).fn
        self.loops, self.windows = len(outer) + len(leading), len(leading)
        if self.loops > MAX_LOOPS:
            raise ValueError(f"a filter with {self.loops} axes around it, at most {MAX_LOOPS}")
        self.total = 1 if x.size else 0
        for i, (n, xs, ys, *source) in enumerate([*outer, *leading]):
            self.size[i], self.x_stride[i], self.y_stride[i] = n, xs, ys
            self.total *= n
            if source:
                self.leading[i] = self.table(source[0])
        self.plane_n, self.x_plane, self.y_plane, plane_source, self.plane_span, _ = planes
        self.n, self.x_line, self.y_line, line_source, self.span, _ = lines
        points_n, _, _, point_source, width, self.before = points
        self.plane_source, self.line_source = self.table(plane_source), self.table(line_source)
        self.point_source = self.table(point_source)
        for source, n, span in ((plane_source, self.plane_n, self.plane_span), (line_source, self.n, self.span),
                                (point_source, points_n, width)):
            if len(source) != max(0, n + span - 1):
                raise ValueError("positions that do not fit a window")
        self.count, self.tail = points_n * unit, width - 1 - self.before
        if not len(places):
            raise ValueError("a window without elements")
        self.places, self.stacks, self.stack_count = self.table(places), self.table(stacks), len(stacks)
        self.constant = self.keep(constant)
        self.terms = len(places)
        c.taps, c.element, c.kind, c.end = len(places), TYPES[between], fields.get("kind", 0), fields.get("end", 0)
        c.stream = streams and y_type == between
        c.size, c.to, c.rank = fields.get("size", 1), fields.get("to", 0), fields.get("rank", 0)
        if fields.get("weight") is not None:
            c.weight = self.keep(fields["weight"])
        if fields.get("fixed") is not None:
            c.fixed = <const int32_t *>self.keep(fields["fixed"].words, "i4")
            c.fraction, c.doubt = fields["fixed"].fraction, fields["fixed"].doubt
        if c.kind == LK_WEIGH_BAND_EACH and kind == "weigh":
            c.fixed = <const int32_t *>self.keep(fields["parts"], "i4")
            self.bands, self.terms = LK_BAND_ROWS, fields["terms"]
        if fields.get("network") is not None:
            network = fields["network"]
            self.owned.append(network)
            c.network, c.steps = <const int32_t *>elements(network, NPY_INT32), len(network)
        elif kind == "rank":
            slides = fields.get("slides", False)
            c.kind, c.steps, c.unit = LK_RANK_SLIDE if slides else LK_RANK_COLUMNS, 1 if slides else width, unit
            if slides and (unit != 1 or len(places) != width):
                raise ValueError("a window that slides, of other elements than those along a row")
            if not slides and len(places) == self.span == 3 and y_type == between:  # medians of 3x3
                self.bands = 2
        self.divide(threads, width, kind == "rank")

    cdef const int64_t *table(self, ndarray table) except NULL:
        self.owned.append(table)
        return <const int64_t *>elements(table, NPY_INT64)

    cdef int divide(self, int threads, int64_t width, bint ranks) except -1:
        """Segments of lines, runs of planes, and what a thread needs of the workspace."""
        cdef double work = 2.0 * self.total * self.plane_n * self.n * self.count * self.item
        self.threads = threads_for(threads, work * self.terms)
        self.chunks = chunks_of(work * max(self.terms, self.template.steps))
        self.row = aligned((self.count + (width - 1) * self.unit) * self.item) + APART
        wanted = tasks_wanted(self.threads, self.chunks)
        self.segment = max(1, self.n)
        if self.plane_span > 1:
            strip = CACHED_BYTES // (self.stack_count * self.plane_span * self.row) - self.span + 1
            self.segment = min(self.segment, max(<int64_t>STRIP, strip // self.bands * self.bands))
        elif self.total < wanted:
            least = max(<int64_t>SEGMENT, 2 * self.span) if work > 1 << 20 else 4
            self.segment = max(1, min(self.n, max(least, ceil_div(self.n * self.total, wanted))))
        self.segments = ceil_div(self.n, self.segment)
        tasks = max(1, self.total * self.segments)
        runs = min(ceil_div(wanted, tasks), self.plane_n // (2 * self.plane_span))
        self.run_planes = max(1, ceil_div(self.plane_n, max(1, runs)))
        self.runs = ceil_div(self.plane_n, self.run_planes)
        self.slots = self.span - 1 + max(self.bands, self.segment if self.plane_span > 1 else 0)
        self.base_bytes = aligned(16 * self.stack_count)
        self.table_bytes = aligned(8 * (self.template.taps + self.bands - 1))
        self.scratch_bytes = 0
        if ranks and self.template.kind == LK_RANK_COLUMNS:
            self.scratch_bytes = (self.template.taps + self.bands - 1) * (self.row + VECTOR_BYTES)
        elif ranks and self.template.kind == LK_RANK_SLIDE:
            self.scratch_bytes = 2 * self.row + 2 * VECTOR_BYTES
        elif ranks:
            self.scratch_bytes = 2 * VECTOR_BYTES * self.template.taps
        self.out_bytes = aligned(self.count * self.item) if self.cast != NULL else 0
        self.thread_bytes = (self.base_bytes + self.table_bytes + self.scratch_bytes + self.bands * self.out_bytes
                             + self.stack_count * self.plane_span * self.slots * self.row)
        self.workspace = self.threads * self.thread_bytes
        return 0

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.total and self.plane_n and self.n and self.count:
            self.run_chunks(self.threads, self.total * self.runs * self.segments, self.chunks, at, workspace, self.thread_bytes)

    cdef void run_one(self, int64_t task, char **at, char *workspace) noexcept nogil:
        """A segment of the lines of some planes, at one index of the axes before."""
        cdef const char *x = at[0]
        cdef char *y = at[1]
        cdef int64_t *base = <int64_t *>workspace  # of each stack the offset in x, then whether it is outside
        cdef int64_t index[MAX_LOOPS]
        cdef int64_t rest = task // self.segments, i = self.loops, s, source
        cdef int64_t begin = task % self.segments * self.segment, end = min(begin + self.segment, self.n)
        cdef int64_t plane = rest % self.runs * self.run_planes, last = min(plane + self.run_planes, self.plane_n), made = plane
        cdef int64_t first = self.loops - self.windows
        rest //= self.runs
        while i > 0:
            i -= 1
            index[i] = rest % self.size[i]
            rest //= self.size[i]
            y += index[i] * self.y_stride[i]
            if i < first:
                x += index[i] * self.x_stride[i]
        for s in range(self.stack_count):
            base[2 * s], base[2 * s + 1] = 0, 0
            for i in range(self.windows):
                source = self.leading[first + i][index[first + i] + self.stacks[s * self.windows + i]]
                if source < 0:
                    base[2 * s + 1] = 1
                else:
                    base[2 * s] += source * self.x_stride[first + i]
        for plane in range(plane, last):
            while self.plane_span > 1 and made < plane + self.plane_span:
                for i in range(begin, end + self.span - 1):
                    self.copy_lines(x, made, i, begin, workspace)
                made += 1
            self.run_lines(x, y + plane * self.y_plane, plane, begin, end, workspace)
        if self.template.stream:
            stream_end()

    cdef char *ring_at(self, char *workspace) noexcept nogil:
        return workspace + self.base_bytes + self.table_bytes + self.scratch_bytes + self.bands * self.out_bytes

    cdef void run_lines(self, const char *x, char *y, int64_t plane, int64_t begin, int64_t end, char *workspace) noexcept nogil:
        """Lines [begin, end) of a plane of the result."""
        cdef const char **table = <const char **>(workspace + self.base_bytes)
        cdef char *scratch = workspace + self.base_bytes + self.table_bytes
        cdef char *out = scratch + self.scratch_bytes
        cdef char *ring = self.ring_at(workspace)
        cdef const int64_t *place
        cdef lk_combine c = self.template
        cdef lk_cast_row w
        cdef int64_t i = begin, t, r, made = begin, at, slots = self.slots, span = self.plane_span, first = plane % span
        c.x, c.count, c.scratch, c.ahead_row = table, self.count, scratch, self.x_line
        c.y_row = self.out_bytes if self.cast != NULL else self.y_line
        while i < end:
            c.rows = min(self.bands, end - i)
            while span == 1 and made < i + self.span + c.rows - 1:
                self.copy_lines(x, plane, made, begin, workspace)
                made += 1
            place = self.places
            at = (i - begin) % slots
            for t in range(c.taps):
                table[t] = (ring + ((place[0] * span + wrapped(first + place[1], span)) * slots
                                    + wrapped(at + place[2], slots)) * self.row + place[3] * self.unit * self.item)
                place += 4
            for r in range(1, c.rows):  # of bands of ranks the places are those of one line after another
                table[c.taps + r - 1] = ring + (i - begin + self.span + r - 1) % slots * self.row
            c.y = out if self.cast != NULL else y + i * self.y_line
            c.ahead = self.lines_ahead(x, plane + span, i, workspace) if span > 1 else self.lines_ahead(x, plane, made, workspace)
            self.combine(&c)
            if self.cast != NULL:
                for r in range(c.rows):
                    w.x, w.y, w.count, w.element = out + r * self.out_bytes, y + (i + r) * self.y_line, self.count, self.y_element
                    self.cast(&w)
            i += c.rows

    cdef const char *lines_ahead(self, const char *x, int64_t plane, int64_t at, char *workspace) noexcept nogil:
        """Lines of the last stack, which are not in a cache, that are copied next, if as many follow as are made at a time."""
        cdef const int64_t *base = <const int64_t *>workspace + 2 * (self.stack_count - 1)
        cdef int64_t t
        if self.widen != NULL or base[1] or plane >= self.plane_n + self.plane_span - 1 or self.plane_source[plane] < 0:
            return NULL
        if at + self.bands > self.n + self.span - 1 or self.line_source[at] < 0:
            return NULL
        for t in range(1, self.bands):
            if self.line_source[at + t] != self.line_source[at] + t:
                return NULL
        return x + base[0] + self.plane_source[plane] * self.x_plane + self.line_source[at] * self.x_line

    cdef void copy_lines(self, const char *x, int64_t plane, int64_t at, int64_t begin, char *workspace) noexcept nogil:
        """The lines at a position along planes and lines, one of each stack."""
        cdef const int64_t *base = <const int64_t *>workspace
        cdef char *to = self.ring_at(workspace) + (plane % self.plane_span * self.slots + (at - begin) % self.slots) * self.row
        cdef int64_t s
        for s in range(self.stack_count):
            if base[2 * s + 1] or self.plane_source[plane] < 0 or self.line_source[at] < 0:
                memcpy(to, self.constant, (self.before + self.tail) * self.unit * self.item + self.count * self.item)
            else:
                self.copy_line(x + base[2 * s] + self.plane_source[plane] * self.x_plane + self.line_source[at] * self.x_line, to)
            to += self.plane_span * self.slots * self.row

    cdef void copy_line(self, const char *x, char *to) noexcept nogil:
        """A line with its ends."""
        cdef int64_t unit = self.unit * self.item, points = self.count // self.unit, i, at, source
        cdef char *line = to + self.before * unit
        cdef lk_cast_row w
        if self.widen != NULL:
            w.x, w.y, w.count, w.element = x, line, self.count, self.x_element
            self.widen(&w)
        else:
            memcpy(line, x, self.count * self.item)
        for i in range(self.before + self.tail):
            at = i if i < self.before else i + points
            source = self.point_source[at]
            memcpy(to + at * unit, self.constant if source < 0 else line + source * unit, unit)
