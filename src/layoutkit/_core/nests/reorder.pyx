"""Executes a reorder: a list of rectangular loop nests, each around a tile, which is one call of a micro-kernel.

The outer loops of a nest are flattened into one range that the threads share evenly. There is no barrier between nests,
since they write disjoint elements. Nests of panels go through scratch memory, see panel.c; fused nests and windows are
moved by one kernel call for each thread, see fused.c, joined.c, runs.c and windows.c.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int8_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec
from numpy cimport PyArray_CheckExact, PyArray_DATA, PyArray_DESCR, PyArray_ISWRITEABLE, import_array, ndarray, npy_intp

import itertools

import numpy as np

from ..kernels cimport (
    LK_COPY, LK_DRAIN, LK_FILL, LK_FUSED, LK_GATHER, LK_JOINED, LK_NOWHERE, LK_PANEL, LK_RUNS, LK_TRANSPOSE, LK_WINDOWS,
    lk_kernel,
)
from ..kernels.moves cimport LK_MAX_DIGITS, LK_MIN_DRAINED_BYTES, lk_drain, lk_drain_fn, lk_move, lk_move_fn
from ..kernels.transpose cimport (
    LK_MAX_FUSED, LK_MAX_FUSED_PANEL, LK_MAX_FUSED_TABLE, LK_MAX_JOINED_ROWS, LK_MAX_JOINED_RUN_BYTES, LK_MAX_LOOPS,
    LK_PANEL_BYTES, LK_PANEL_IN_BYTES, LK_PANEL_OUT_BYTES, LK_SLAB_BYTES, LK_TAILS_BYTES, lk_fused, lk_fused_fn,
    lk_fused_loop, lk_nest, lk_panel_fn, lk_windows,
)
from ..runtime.pace cimport Pace, done, pace_of
from ..runtime.registry cimport best_row
from ..runtime.signals cimport go_on, interrupted
from ..runtime.team cimport lk_claim, lk_portions, share_out

import_array()

cdef extern from "common/stream.h" nogil:
    void stream_end()
    void prefetch(const char *)

cdef extern from "transpose/windows.h" nogil:
    int64_t windows_of(lk_windows *, const int64_t *, int64_t, int, int, int, const char *)

cdef extern from * nogil:
    """
    static _Thread_local char panel_scratch[LK_PANEL_BYTES + 64];  /* one per thread, kept */
    """
    char *panel_scratch

cdef enum:
    LINE_BYTES = 64
    FETCH_BYTES = 1024  # moved between prefetches; more for kernels with a start-up cost
    MAX_GROUP = 8  # slabs of different shapes in a box: MAX_CUTS of reorders/slabs.py gives no more
    MAX_LINES = 1 << 14  # of the source of a box that are prefetched
    CHUNK_BYTES = 64 << 20  # moved between checks for signals: at worst a tenth of a second, into new pages


_FAMILY = {"copy": LK_COPY, "transpose": LK_TRANSPOSE, "gather": LK_GATHER, "fill": LK_FILL, "fused": LK_FUSED,
           "joined": LK_JOINED, "runs": LK_RUNS, "windows": LK_WINDOWS}


cdef double now(int threads) noexcept nogil:
    """Seconds; for one thread, of its CPU time."""
    cdef timespec t
    clock_gettime(CLOCK_THREAD_CPUTIME_ID if threads == 1 else CLOCK_MONOTONIC, &t)
    return t.tv_sec + 1e-9 * t.tv_nsec


cdef struct Run:
    void *reordering
    const char *src
    char *dst
    int64_t chunk, chunks, share_parts


cdef void run_share(void *argument, int slot, int share, int shares, lk_portions *portions) noexcept nogil:
    cdef const Run *r = <const Run *>argument
    cdef int64_t parts = r.share_parts, begin = (r.chunk * shares + share) * parts, first, last
    while lk_claim(portions, begin, begin + parts, &first, &last):
        (<Reordering>r.reordering).part(r.src, r.dst, first, last, r.chunks * shares * parts)


cdef class Reordering:
    """Writes an array from another one, in parts: moves elements (`Program`) or converts numbers."""

    cdef int call(self, const char *src, char *dst, int threads) except -1:
        """Run all of it, with the GIL held."""
        with nogil:
            self.paced(src, dst, threads)
        return go_on()

    cdef bint paced(self, const char *src, char *dst, int threads) noexcept nogil:
        """Run all of it, in chunks between which signals are checked for; whether one has stopped it."""
        cdef Pace pace
        if self.chunks == 1:
            self.run(src, dst, threads)
            return False
        pace = pace_of(self.chunks)
        while pace.at < pace.end:
            self.run(src, dst, threads, pace.at // pace.size, pace.end // pace.size)
            done(&pace)
            if interrupted():
                return True
        return False

    cdef void run(self, const char *src, char *dst, int threads, int64_t chunk=0, int64_t chunks=1) noexcept nogil:
        """Run one of `chunks`, which together are all of it."""
        cdef Run r
        r.reordering, r.src, r.dst, r.chunk, r.chunks = <void *>self, src, dst, chunk, chunks
        r.share_parts = self.share_parts
        share_out(threads, run_share, &r)

    cdef void part(self, const char *src, char *dst, int64_t first, int64_t end, int64_t parts) noexcept nogil:
        """Run parts [first, end) of `parts`, which together are all of it, on one thread."""


cdef class Program(Reordering):
    """A reorder ready to run: its nests.

    Parameters
    ----------
    nests : sequence of (family, bits, loops, tile, src_offset, dst_offset, prefetch_bytes, outer, valid, fused)
        `loops` and the two of `tile` are (count, source stride, destination stride), strides in bytes. prefetch_bytes
        is the prefetch distance, `outer` the upper digits (in0, out_d0, in1, out_s1) of lk_move. fused: the digits
        (count, step) and the tables of columns and rows, and further fields of lk_fused.
    width : int
        Bytes of an element.
    pad : bytes
        The element that pads are filled with.
    stream : bool
        Stores bypass the caches.
    panels : bool
        Transposes that fit are moved as panels.
    slabs : sequence of (boxes, loops, src_offset, dst_offset, bytes, reads, leads, count)
        The nests belong to slabs, the next `count` of them to each: at every step of its loops, in every step of those
        over boxes, all but the last one write to a buffer of so many bytes, and the last one copies it to the
        destination. Slabs after one that leads are of the same boxes. See reorders/slabs.py.
    """

    def __cinit__(self, nests, int width, bytes pad, bint stream, bint panels=False, slabs=()):
        cdef lk_nest *nest
        cdef const lk_kernel *row
        cdef double moved = 0  # bytes
        cdef int i
        lasts = [n - 1 for n in itertools.accumulate(slab[7] for slab in slabs)]
        if len(pad) != width or width > 16:
            raise ValueError(f"pad of {len(pad)} bytes for elements of {width}")
        for i in range(0, sizeof(self.pad), width):
            memcpy(&self.pad[i], <const char *>pad, width)
        self.count, self.tables = len(nests), []
        self.nests = <lk_nest *>calloc(max(1, self.count), sizeof(lk_nest))
        self.panels = <lk_panel_fn *>calloc(max(1, self.count), sizeof(lk_panel_fn))
        self.fused = <lk_fused *>calloc(max(1, self.count), sizeof(lk_fused))
        self.fused_kernels = <lk_fused_fn *>calloc(max(1, self.count), sizeof(lk_fused_fn))
        if self.nests == NULL or self.panels == NULL or self.fused == NULL or self.fused_kernels == NULL:
            raise MemoryError(f"reorder: {self.count} loop nests")
        for i, nest_of in enumerate(nests):
            family, bits, loops, tile, src_offset, dst_offset, prefetch_bytes, outer, valid, fused = nest_of
            nest = self.nests + i
            row = best_row(_FAMILY[family], f"x{bits}")
            nest.fn, nest.width = <lk_move_fn>row.fn, bits // 8
            nest.tile.n0, nest.tile.s0, nest.tile.d0 = tile[0][:3]
            nest.tile.n1, nest.tile.s1, nest.tile.d1 = tile[1][:3]
            nest.src, nest.dst = src_offset, dst_offset
            nest.tile.stream = stream and not slabs  # buffers stay in the caches
            nest.tile.prefetch_bytes, nest.tile.valid, nest.tile.pad = prefetch_bytes, valid, self.pad
            nest.tile.in0, nest.tile.out_d0, nest.tile.in1, nest.tile.out_s1 = outer
            if family == "fill":
                nest.tile.src = self.pad
            take_loops(nest, loops)
            if fused:
                self.fused_kernels[i] = <lk_fused_fn>row.fn
                self.take_fused(self.fused + i, nest, fused, family)
                if family == "windows":
                    self.take_windows(self.fused + i, nest.width, row)
            elif panels and family == "transpose" and fits_panel(nest):
                self.panels[i] = <lk_panel_fn>best_row(LK_PANEL, "x8").fn
            elif (nest.tile.in0 and nest.tile.n0 > LK_MAX_DIGITS) or (nest.tile.in1 and nest.tile.n1 > LK_MAX_DIGITS):
                raise ValueError(f"reorder: a tile of {tile} in two digits, at most {LK_MAX_DIGITS}")

        self.slabs = <Slab *>calloc(max(1, len(slabs)), sizeof(Slab))
        if self.slabs == NULL:
            raise MemoryError(f"reorder: {len(slabs)} slabs")
        lead = 0
        for i, (slab, last) in enumerate(zip(slabs, lasts)):
            lead = i if slab[6] else lead
            self.take_slab(self.slabs + i, slab, last)
            self.slabs[lead].group += 1
            if self.slabs[lead].group > MAX_GROUP:
                raise ValueError(f"reorder: more than {MAX_GROUP} slabs of a box")
        if slabs and (panels or lasts[-1] != self.count - 1):
            raise ValueError(f"reorder: slabs of {lasts[-1] + 1} nests{' and panels' * panels}, there are {self.count}")
        self.slab_count = len(slabs)
        self.drain = <lk_drain_fn>best_row(LK_DRAIN, "x8").fn
        for i in range(self.count):
            moved += bytes_of(self.nests + i)
        for i in range(self.slab_count):
            moved += slab_bytes(self.slabs + i, self.nests)
        self.chunks = 1 + <int64_t>(moved / CHUNK_BYTES)
        self.share_parts = 1 if moved < WHOLE_BYTES else SHARE_PARTS

    cdef take_slab(self, Slab *s, slab, int last):
        cdef const lk_nest *out = self.nests + last
        boxes, loops, src_offset, dst_offset, nbytes, (run, read), leads, count = slab
        if nbytes > LK_SLAB_BYTES or count < 1:
            raise ValueError(f"reorder: a slab of {nbytes} bytes and {count} nests, expected at most {LK_SLAB_BYTES}")
        take_loops(&s.boxes, boxes)
        take_loops(&s.slabs, loops)
        s.boxes.src, s.boxes.dst, s.first, s.last = src_offset, dst_offset, last + 1 - count, last
        every = np.add.outer(steps_of(read), np.append(np.arange(0, run, LINE_BYTES), run - 1)).ravel()
        if leads and every.size <= MAX_LINES:
            _, firsts = np.unique(every // LINE_BYTES, return_index=True)
            for i, lines in enumerate((every[firsts], np.unique(every))):
                s.lines[i], s.line_count[i] = self.keep(lines), len(lines)
        s.drain.from_ = self.keep(out.src + steps_of([(out.n[j], out.s[j]) for j in range(out.loops)]))
        s.drain.to = self.keep(out.dst + steps_of([(out.n[j], out.d[j]) for j in range(out.loops)]))
        s.drain.runs, s.drain.bytes = out.tasks, out.tile.n1

    cdef take_fused(self, lk_fused *f, lk_nest *nest, fused, family):
        """Take the loops of fused or joined transposes or of runs; tasks are parts of panels, columns, or runs."""
        columns, rows, f.panel, f.unit, sizes = fused
        self.take_digits(&f.columns, columns)
        self.take_digits(&f.rows, rows)
        f.pad = self.pad
        while f.columns.table != NULL and f.columns.table[(f.columns.count - 1) % f.columns.n[0]] == LK_NOWHERE:
            f.columns.count -= 1  # pads at the end
        if f.unit <= 0 or not f.columns.count or not f.rows.count:
            raise ValueError(f"reorder: tasks of {f.unit} rows or columns, {f.columns.count} x {f.rows.count} of them")
        if family == "windows":
            if f.rows.table == NULL or f.rows.digits != 1:
                raise ValueError("reorder: windows are of a table")
            return
        if family == "runs":
            if sizes:
                if len(sizes) != f.rows.n[0] or min(sizes) <= 0 or f.unit % len(sizes):
                    raise ValueError(f"reorder: {len(sizes)} sizes of {f.rows.n[0]} runs, the least {min(sizes)}")
                f.sizes, f.period = self.keep(sizes), sum(sizes)
            nest.tasks *= (f.rows.count + f.unit - 1) // f.unit
            return
        if family == "joined":
            run = f.rows.count * nest.width
            if f.rows.count > LK_MAX_JOINED_ROWS or run > LK_MAX_JOINED_RUN_BYTES or f.columns.step[0] != run:
                raise ValueError(f"reorder: joined columns of {run} bytes, {f.columns.step[0]} apart")
            nest.tasks *= (f.columns.count + f.unit - 1) // f.unit
            return
        if not 0 < f.panel <= LK_MAX_FUSED_PANEL:
            raise ValueError(f"reorder: panels of {f.panel} columns, expected at most {LK_MAX_FUSED_PANEL}")
        nest.tasks *= ((f.columns.count + f.panel - 1) // f.panel) * ((f.rows.count + f.unit - 1) // f.unit)

    cdef take_windows(self, lk_fused *f, int width, const lk_kernel *row):
        """Make the windows of the table of a nest, for a row of their kernel."""
        cdef lk_windows *w = &f.windows
        cdef int64_t n = f.rows.count
        cdef int64_t count = windows_of(w, f.rows.table, n, width, row.nr, row.mr, f.pad)
        cdef int64_t i, vector = width * row.nr
        w.at = <const int64_t *>self.kept(np.zeros(count, np.int64))
        w.masks = <const uint64_t *>self.kept(np.zeros(count, np.uint64))
        w.ends = <const int64_t *>self.kept(np.zeros(w.vectors, np.int64))
        w.lane_registers = <const int8_t *>self.kept(np.zeros(w.vectors, np.int8))
        w.orders = <const char *>self.kept(np.zeros(count * vector, np.uint8))
        for i in range(n):
            if f.rows.table[i] == LK_NOWHERE:
                w.pad_vectors = <const char *>self.kept(np.zeros(w.vectors * vector, np.uint8))
                break
        windows_of(w, f.rows.table, n, width, row.nr, row.mr, f.pad)

    cdef take_digits(self, lk_fused_loop *loop, of):
        digits, table = of
        if not 0 < len(digits) <= LK_MAX_FUSED:
            raise ValueError(f"reorder: a loop of {len(digits)} digits, expected 1 to {LK_MAX_FUSED}")
        loop.digits, loop.count = len(digits), 1
        for k, (n, step) in enumerate(digits):
            loop.n[k], loop.step[k] = n, step
            loop.count *= n
        if table:
            if len(table) != loop.n[0] or len(table) > LK_MAX_FUSED_TABLE or not any(x is not None for x in table):
                raise ValueError(f"reorder: a table of {len(table)} values for a digit of {loop.n[0]}")
            loop.table = self.keep([LK_NOWHERE if x is None else x for x in table])

    cdef const int64_t *keep(self, numbers):
        """The numbers as an array that lives as long as the program."""
        return <const int64_t *>self.kept(np.array(numbers, np.int64))

    cdef void *kept(self, ndarray array):
        """The elements of an array, which from now on lives as long as the program."""
        self.tables.append(array)
        return PyArray_DATA(array)

    def __dealloc__(self):
        free(self.nests)
        free(self.panels)
        free(self.fused)
        free(self.fused_kernels)
        free(self.slabs)

    def __call__(self, ndarray src, ndarray dst, int threads):
        """Move `src` to `dst`, arrays of the strides that this was planned for."""
        cdef const char *s = <const char *>PyArray_DATA(src)
        cdef char *d = <char *>PyArray_DATA(dst)
        self.call(s, d, threads)

    def attempt(self, ndarray src, ndarray dst, int threads, double limit, double slack, *ratios):
        """Move `src` to `dst`, but give up once it turns out to take much longer than `limit` seconds.

        A first part is run, then as much again, and so on, until all is done. `ratios` says after each part but the
        last when to give up: if the time so far exceeds the ratio times its share of `limit`, and `slack` seconds.

        Returns
        -------
        seconds : float
            On one thread the CPU time.
        share : float
            How much has been moved, 1 if all has.
        """
        cdef const char *s = <const char *>PyArray_DATA(src)
        cdef char *d = <char *>PyArray_DATA(dst)
        cdef int64_t parts = 1 << <int>len(ratios), at = 0, pieces, piece
        cdef double start = now(threads), took, share
        for ratio in (*ratios, 0):
            pieces = 1 + self.chunks // parts
            for piece in range(pieces):
                with nogil:
                    self.run(s, d, threads, at * pieces + piece, parts * pieces)
                if pieces > 1:
                    PyErr_CheckSignals()
            took, share = now(threads) - start, self.share(at + 1, parts)
            if ratio and share and took > ratio * share * limit + slack:
                return took, share
            parts //= 1 if at == 0 else 2
            at = 1
        return now(threads) - start, 1.0

    cdef double share(self, int64_t part, int64_t parts):
        """The share of the work in the first `part` of `parts`."""
        cdef double done = 0, work = 0, nbytes
        cdef const lk_nest *nest
        cdef int i, count = self.slab_count or self.count
        for i in range(count):
            nest = &self.slabs[i].boxes if self.slab_count else self.nests + i
            nbytes = slab_bytes(self.slabs + i, self.nests) if self.slab_count else bytes_of(nest)
            work += nbytes
            done += nbytes * (nest.tasks * part // parts) / nest.tasks
        return done / work

    cdef void part(self, const char *src, char *dst, int64_t first, int64_t end, int64_t parts) noexcept nogil:
        cdef int64_t tasks
        cdef char *scratch = panel_scratch
        cdef int i
        scratch += -<uintptr_t>scratch & 63
        for i in range(self.slab_count):
            if self.slabs[i].group:
                tasks = self.slabs[i].boxes.tasks
                self.boxes(self.slabs + i, src, dst, tasks * first // parts, tasks * end // parts, scratch)
        for i in range(0 if self.slab_count else self.count):
            tasks = self.nests[i].tasks
            self.move(i, src, dst, tasks * first // parts, tasks * end // parts, scratch,
                      self.nests[i].tile.prefetch_bytes)
        stream_end()

    cdef void move(self, int i, const char *src, char *dst, int64_t task, int64_t end, char *scratch,
                   int64_t prefetch_bytes) noexcept nogil:
        """Run tasks [task, end) of a nest."""
        cdef const lk_nest *nest = self.nests + i
        if task == end:
            return
        if self.panels[i] != NULL:
            self.panels[i](nest, src, dst, task, end, scratch)
        elif self.fused_kernels[i] != NULL:
            self.fused_kernels[i](nest, self.fused + i, src, dst, task, end, scratch)
        else:
            run_nest(nest, src, dst, task, end, prefetch_bytes)

    cdef void boxes(self, const Slab *slabs, const char *src, char *dst, int64_t task, int64_t end,
                    char *buffer) noexcept nogil:
        """Move boxes [task, end) of one shape, slab by slab; meanwhile the source of the next box is fetched."""
        cdef int64_t s = 0, d = 0, next_s = 0, next_d = 0, box, tails = 0
        cdef char *kept = buffer + LK_SLAB_BYTES
        cdef char *scratch = kept + LK_TAILS_BYTES
        cdef lk_drain outs[MAX_GROUP]
        cdef Fetch ahead = Fetch(NULL, NULL, 0, 0, 0, 0)
        cdef int k
        cdef bint phase
        for k in range(slabs.group):
            outs[k] = slabs[k].drain
            outs[k].tails = kept + tails
            tails += slabs[k].slabs.tasks * outs[k].runs * LINE_BYTES
            ahead.work += slab_bytes(slabs + k, self.nests) / slabs.boxes.tasks
        offsets(&slabs.boxes, task, &next_s, &next_d)
        for box in range(task, end):
            s, d = next_s, next_d
            offsets(&slabs.boxes, box + 1, &next_s, &next_d)
            ahead.src = src + slabs.boxes.src + next_s
            ahead.done = ahead.line = 0
            phase = <uintptr_t>ahead.src % LINE_BYTES != 0
            ahead.lines, ahead.count = slabs.lines[phase], slabs.line_count[phase] if box + 1 < end else 0
            for k in range(slabs.group):
                outs[k].continues = outs[k].goes_on
                outs[k].goes_on = (tails <= LK_TAILS_BYTES and outs[k].bytes >= LK_MIN_DRAINED_BYTES and box + 1 < end
                                   and next_d - d == outs[k].bytes)
                self.slab(slabs + k, src + s, dst + d, buffer, scratch, outs[k], &ahead)

    cdef void slab(self, const Slab *slab, const char *src, char *dst, char *buffer, char *scratch, lk_drain out,
                   Fetch *ahead) noexcept nogil:
        """Move the slabs of one shape of the box that begins at src and dst."""
        cdef int64_t s = 0, d = 0, each, tasks, part, parts
        cdef double size
        cdef int i
        for each in range(slab.slabs.tasks):
            offsets(&slab.slabs, each, &s, &d)
            for i in range(slab.first, slab.last):
                tasks, size = self.nests[i].tasks, bytes_of(self.nests + i)
                parts = min(tasks, 1 + <int64_t>(size / (FETCH_BYTES * (4 if self.fused[i].windows.vectors else 1))))
                for part in range(parts):
                    self.move(i, src + slab.boxes.src + s, buffer, tasks * part // parts, tasks * (part + 1) // parts,
                              scratch, 0)
                    fetch(ahead, size / parts)
            out.src, out.dst = buffer, dst + slab.boxes.dst + d
            self.drain(&out)
            out.tails += out.runs * LINE_BYTES


cdef enum:
    MAX_AXES = 64  # of an array: numpy's limit

cdef struct Extent:
    int ndim
    npy_intp shape[MAX_AXES]
    npy_intp strides[MAX_AXES]
    npy_intp lo, hi  # bytes from the first element


cdef class BoundReorder:
    """A reorder for arrays of fixed shapes, strides and dtypes: checks the arrays of a call, and runs.

    Parameters
    ----------
    moves : Reordering
    dtypes : (dtype, dtype)
        Of the array and of what is written.
    src, dst : (shape, strides)
        Strides in bytes.
    threads : int
    what : str
        The operation, for errors.
    check : callable
        Called with `what` and an array of a subclass of ndarray; raises TypeError if the subclass must not be ignored.
    """

    cdef Reordering moves
    cdef Extent src, dst
    cdef object src_dtype, dst_dtype, what, check
    cdef int threads

    def __cinit__(self, Reordering moves not None, dtypes, src, dst, int threads, what, check):
        self.moves, self.threads, self.what, self.check = moves, threads, what, check
        self.src_dtype, self.dst_dtype = dtypes
        set_extent(&self.src, src, self.src_dtype.itemsize)
        set_extent(&self.dst, dst, self.dst_dtype.itemsize)

    def __call__(self, ndarray array not None, ndarray out not None):
        """Move `array` to `out`."""
        cdef const char *s = <const char *>PyArray_DATA(array)
        cdef char *d = <char *>PyArray_DATA(out)
        if not (PyArray_CheckExact(array) and PyArray_CheckExact(out)):
            self.check(array, self.what)
            self.check(out, self.what)
        if not (fits(array, &self.src, self.src_dtype) and fits(out, &self.dst, self.dst_dtype)):
            raise ValueError(f"{self.what}: planned for {text_of(&self.src)} {self.src_dtype} to {text_of(&self.dst)} "
                             f"{self.dst_dtype}; got {text_of_array(array)} to {text_of_array(out)}")
        if not PyArray_ISWRITEABLE(out):
            raise ValueError(f"{self.what}: out is read-only")
        if s + self.src.lo < d + self.dst.hi and d + self.dst.lo < s + self.src.hi:
            raise ValueError(f"{self.what}: out overlaps the array")
        self.moves.call(s, d, self.threads)

    def __repr__(self):
        return f"<{self.what}: {text_of(&self.src)} {self.src_dtype} to {text_of(&self.dst)} {self.dst_dtype}>"


cdef set_extent(Extent *e, of, itemsize):
    shape, strides = of
    e.ndim, e.lo, e.hi = len(shape), 0, itemsize
    for i, (n, s) in enumerate(zip(shape, strides, strict=True)):
        e.shape[i], e.strides[i] = n, s
        if n > 1:
            e.lo += min(0, (n - 1) * s)
            e.hi += max(0, (n - 1) * s)


cdef bint fits(ndarray array, const Extent *e, dtype):
    cdef int i
    if array.ndim != e.ndim or (<void *>PyArray_DESCR(array) != <void *>dtype and array.dtype != dtype):
        return False
    for i in range(e.ndim):
        if array.shape[i] != e.shape[i] or (array.strides[i] != e.strides[i] and e.shape[i] > 1):
            return False
    return True


cdef text_of_array(object array):
    return f"{array.shape} {array.strides} {array.dtype}"


cdef text_of(const Extent *e):
    return f"{tuple([e.shape[i] for i in range(e.ndim)])} {tuple([e.strides[i] for i in range(e.ndim)])}"


cdef take_loops(lk_nest *nest, loops):
    cdef int j
    if len(loops) > LK_MAX_LOOPS:
        raise ValueError(f"reorder: {len(loops)} nested loops, at most {LK_MAX_LOOPS}")
    nest.loops, nest.tasks = len(loops), 1
    for j, (n, s, d, *_) in enumerate(loops):
        nest.n[j], nest.s[j], nest.d[j] = n, s, d
        nest.tasks *= n


cdef double steps(const lk_nest *nest) noexcept nogil:
    """Steps of the loops of a nest."""
    cdef double n = 1
    for j in range(nest.loops):
        n *= nest.n[j]
    return n


cdef steps_of(loops):
    """The sums of the steps of loops (count, stride), outermost first."""
    at = np.zeros(1, np.int64)
    for n, stride in loops:
        at = np.add.outer(at, np.arange(n) * stride).ravel()
    return at


cdef void fetch(Fetch *f, double moved) noexcept nogil:
    """Prefetch the share that is due once so many more bytes have been moved."""
    cdef int64_t end
    f.done += moved
    end = min(f.count, <int64_t>(f.count * (f.done / f.work)) + 1)
    while f.line < end:
        prefetch(f.src + f.lines[f.line])
        f.line += 1


cdef double bytes_of(const lk_nest *nest) noexcept nogil:
    """Bytes that a nest moves."""
    return steps(nest) * nest.tile.n0 * nest.tile.n1 * nest.width


cdef double slab_bytes(const Slab *slab, const lk_nest *nests) noexcept nogil:
    """Bytes that all slabs of one shape copy to the destination."""
    return slab.boxes.tasks * slab.slabs.tasks * bytes_of(nests + slab.last)


cdef void offsets(const lk_nest *nest, int64_t task, int64_t *src, int64_t *dst) noexcept nogil:
    """The offsets of a task from the beginning of its nest."""
    cdef int j
    src[0] = dst[0] = 0
    for j in range(nest.loops - 1, -1, -1):
        src[0] += task % nest.n[j] * nest.s[j]
        dst[0] += task % nest.n[j] * nest.d[j]
        task //= nest.n[j]


cdef bint fits_panel(const lk_nest *nest):
    cdef const lk_move *m = &nest.tile
    cdef int64_t w = nest.width
    return (
        m.s0 == m.d1 == w and (m.n0 * w + 128) * m.n1 <= LK_PANEL_IN_BYTES and max(64, w) * m.n1 <= LK_PANEL_OUT_BYTES
        and m.n0 * m.n1 * w <= LK_PANEL_OUT_BYTES and not (m.valid and (w >= 16 or m.in1))
    )


cdef void run_nest(const lk_nest *nest, const char *src, char *dst, int64_t task, int64_t end,
                   int64_t prefetch_bytes) noexcept nogil:
    """Run tasks [task, end) of a nest."""
    cdef int64_t at[LK_MAX_LOOPS]
    cdef int64_t rest = task
    cdef lk_move m = nest.tile
    cdef bint fill = m.src != NULL
    cdef int j
    m.dst, m.prefetch_bytes = dst + nest.dst, prefetch_bytes
    if not fill:
        m.src = src + nest.src
    for j in range(nest.loops - 1, -1, -1):
        at[j] = rest % nest.n[j]
        rest //= nest.n[j]
        m.src += 0 if fill else at[j] * nest.s[j]
        m.dst += at[j] * nest.d[j]
    while True:
        nest.fn(&m)
        task += 1
        if task == end:
            break
        j = nest.loops - 1
        while True:  # the odometer: next digit, with carries
            at[j] += 1
            m.src += 0 if fill else nest.s[j]
            m.dst += nest.d[j]
            if at[j] < nest.n[j]:
                break
            m.src -= 0 if fill else nest.n[j] * nest.s[j]
            m.dst -= nest.n[j] * nest.d[j]
            at[j] = 0
            j -= 1
