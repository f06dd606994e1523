"""Filters of one axis after another: strips of rows, segments of lines, rings, and the workspace of a thread; see separable.pyx."""

from libc.stdint cimport int32_t, int64_t

from ...kernels cimport LK_CAST, LK_FOLD, LK_WEIGH, LK_WIDEN
from ...kernels.filters cimport LK_BAND_ROWS, LK_WEIGH_BAND, LK_WEIGH_PLAIN, lk_cast_fn, lk_combine, lk_combine_fn
from ...ndarray cimport NPY_INT64, import_array, ndarray
from ...runtime.registry cimport best_row, element_bytes
from ...runtime.team cimport threads_for
from ..moves.convert import TYPES as _KNOWN
from ..executor cimport aligned, ceil_div, elements
from ..operation cimport Operation, chunks_of, tasks_wanted

import_array()

TYPES = _KNOWN | {"u64": _KNOWN["s64"]}  # which are as wide

cdef enum:
    CACHED_BYTES = 512 << 10   # of rows that are read again for the next row of the result
    SHORT_BYTES = 2 << 10      # of rows of which several are made ready before the first is filtered along points
    STRIP_BYTES = 8 << 10      # of rows that are cut into strips, at least
    SEGMENT = 32               # lines of a task, at least
    SPANS = 6                  # windows that a segment is long, where the last cache holds its planes
    JOINED = 24                # rows that are combined for a result of a running window, about
    PIECE = 2048               # elements of a row that are combined at a time for these
    APART = 64                 # bytes between rows, so that they do not all begin at one place of their pages
    ALIASED = 1 << 11          # rows so many bytes apart, or a multiple, share few places of the first cache ..
    ALIASES = 9                # .. which has no room for so many of them

RUNNING_STRIP = PIECE


cdef class SeparablePlan(Operation):
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
    streams : bool, optional
        Whether y is stored past the caches.
    cache : int, optional
        Bytes of the last one that planes of a segment may take.
    """

    def __cinit__(self, arrays, str kind, types, outer, windows, int64_t count, int64_t unit, constant, int threads,
                  bint streams=False, int64_t cache=0):
        cdef str x_type, between, y_type
        cdef ndarray x = arrays[0]
        self.bind(tuple(arrays))
        x_type, between, y_type = types
        self.folds, self.streams = kind == "fold", streams
        self.combine = <lk_combine_fn>best_row(LK_FOLD if kind == "fold" else LK_WEIGH, between).fn
        self.x_element, self.y_element = TYPES[x_type], TYPES[y_type]
        self.x_item, self.y_item = element_bytes(self.x_element), element_bytes(self.y_element)
        self.element, self.item = TYPES[between], element_bytes(TYPES[between])
        self.reals = between in ("f32", "f64")
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
        if not self.lines.exists and self.loops:  # of the innermost axis, several rows are made at a time
            self.loops -= 1
            self.lines.n, self.lines.x, self.lines.y = self.size[self.loops], self.x_stride[self.loops], self.y_stride[self.loops]
            self.total = self.total // self.lines.n if self.total else 0
        self.divide(threads, [w for w in windows if w is not None], constant, between, cache)

    cdef int set_window(self, Window *w, windows, int element) except -1:
        cdef lk_combine *c = &w.combine
        w.exists = windows is not None
        w.n = w.span = 1
        if not w.exists:
            return 0
        w.n, w.span, w.before, w.x, w.y = windows.n, windows.span, windows.before, windows.x, windows.y
        w.running = windows.running
        self.owned += [windows.place, windows.source]
        w.place, w.source = <const int64_t *>elements(windows.place, NPY_INT64), <const int64_t *>elements(windows.source, NPY_INT64)
        if len(windows.source) != max(0, w.n + w.span - 1) or not 0 <= w.before < w.span:
            raise ValueError("positions that do not fit a window")
        if w.running and not (self.folds or (windows.kind == LK_WEIGH_PLAIN and self.reals)):
            raise ValueError("a running window of neither means of floats nor extremes")
        c.taps, c.kind, c.element, c.end, c.size = len(windows.place), windows.kind, element, windows.end, windows.size
        c.to = windows.to
        if windows.weight is not None:
            real = "f4" if self.item == 4 else "f8"
            c.weight = self.keep(windows.weights_in(real), real)
        if windows.fixed is not None:
            c.fixed = <const int32_t *>self.keep(windows.fixed.words, "i4")
            c.fraction, c.doubt = windows.fixed.fraction, windows.fixed.doubt
        return 0

    cdef bint in_bands(self, const lk_combine *c) noexcept nogil:
        """Whether the kernel makes several results at a time: see LK_WEIGH_BAND."""
        return self.folds or c.kind >= LK_WEIGH_BAND or (c.kind == LK_WEIGH_PLAIN and not self.reals)

    cdef int divide(self, int threads, list windows, constant, str between, int64_t cache) except -1:
        """Strips of rows, segments of lines, and what a thread needs of the workspace."""
        cdef Window *lines = &self.lines
        cdef Window *points = &self.points
        cdef int64_t rows = lines.span + self.planes.span, bytes_of_row, bytes_of_planes
        cdef double work = 2.0 * self.total * self.planes.n * lines.n * self.count * self.item
        self.threads = threads_for(threads, work * len(windows))
        self.strip = self.count
        if not points.exists:
            self.strip = min(self.count, max(<int64_t>STRIP_BYTES, CACHED_BYTES // rows) // self.item // 64 * 64)
        self.strips = ceil_div(self.count, max(1, self.strip))
        bytes_of_row = self.strip * max(self.item, self.x_item)
        self.group = LK_BAND_ROWS if self.in_bands(&self.planes.combine) else 1
        self.group = max(1, min(self.group, self.planes.n))
        self.groups = ceil_div(self.planes.n, self.group)
        self.bands = 1
        self.band = lines.exists and not lines.running and self.in_bands(&lines.combine)
        if self.band or (points.exists and not lines.running and bytes_of_row <= SHORT_BYTES):
            self.bands = LK_BAND_ROWS
        self.segment = lines.n
        if self.planes.exists:  # planes of a segment stay in the cache, if that is not too short
            bytes_of_planes = max(1, bytes_of_row * self.planes.span)
            self.segment = max(2 * lines.span, CACHED_BYTES // bytes_of_planes - lines.span)
            self.segment = max(self.segment, min(SPANS * lines.span, cache // bytes_of_planes - lines.span))
        most = max(self.planes.combine.taps, lines.combine.taps, points.combine.taps) + LK_BAND_ROWS
        combined = max(self.planes.combine.taps, min(lines.combine.taps, JOINED), min(points.combine.taps, JOINED))
        self.chunks = chunks_of(work * combined)
        tasks = self.total * self.groups * self.strips
        wanted = tasks_wanted(self.threads, 1 if self.planes.exists else self.chunks)  # results of planes are made again
        if tasks < wanted:
            least = SEGMENT if not self.planes.exists else 2 * lines.span
            self.segment = min(self.segment, max(least, ceil_div(lines.n * tasks, wanted)))
        self.segment = max(1, min(ceil_div(self.segment, self.bands) * self.bands, lines.n))  # bands are the same for all threads
        self.segments = ceil_div(lines.n, self.segment)
        self.rings = self.planes.exists or lines.running or (lines.span >= ALIASES and lines.x % ALIASED == 0)
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
        if points.running:
            self.piece = max(points.span, PIECE // self.unit)
            self.piece_bytes = aligned((self.piece + points.span) * self.unit * self.item) + APART
            self.thread_bytes += 2 * self.piece_bytes
        if lines.running:
            self.thread_bytes += (self.group + 1) * self.ring_row
        self.workspace = self.threads * self.thread_bytes
        if any((w.source < 0).any() for w in windows):
            length = max(self.strip, self.unit)
            self.x_constant = self.keep(constant(self.x_item, self.x_element, length))
            self.constant = self.keep(constant(self.item, TYPES[between], length))
        return 0
