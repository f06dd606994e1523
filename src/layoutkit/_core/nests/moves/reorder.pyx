"""Executes a reorder: a list of rectangular loop nests, each around a tile, which is one call of a micro-kernel.

The outer loops of a nest are flattened into one range that the threads share evenly. There is no barrier between nests,
since they write disjoint elements. Nests of panels go through scratch memory, see panel.c; fused nests and windows are
moved by one kernel call for each thread, see fused.c, joined.c, runs.c, scatter.c and windows.c.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int8_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC, CLOCK_THREAD_CPUTIME_ID, clock_gettime, timespec

import itertools

import numpy as np

from ...kernels cimport (
    LK_COPY, LK_DRAIN, LK_FILL, LK_FUSED, LK_GATHER, LK_JOINED, LK_NOWHERE, LK_PANEL, LK_RUNS, LK_SCATTER,
    LK_TRANSPOSE, LK_WINDOWS, lk_kernel,
)
from ...kernels.moves cimport LK_MAX_DIGITS, LK_MIN_DRAINED_BYTES, lk_drain, lk_drain_fn, lk_move, lk_move_fn
from ...kernels.transpose cimport (
    LK_MAX_FUSED, LK_MAX_FUSED_PANEL, LK_MAX_FUSED_TABLE, LK_MAX_JOINED_ROWS, LK_MAX_JOINED_RUN_BYTES, LK_MAX_LOOPS,
    LK_MAX_STRINGS, LK_PANEL_BYTES, LK_PANEL_IN_BYTES, LK_PANEL_OUT_BYTES, LK_SLAB_BYTES, LK_TAILS_BYTES, lk_fused,
    lk_fused_fn, lk_fused_loop, lk_nest, lk_panel_fn, lk_strings, lk_windows,
)
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport best_row
from .reordering cimport SHARE_PARTS, MIN_PARTS_BYTES, Reordering

import_array()

cdef extern from "common/stream.h" nogil:
    void stream_end()
    void prefetch(const char *)

cdef extern from "transpose/windows.h" nogil:
    int64_t windows_of(lk_windows *, const int64_t *, int64_t, int, int, int, const char *)

cdef extern from * nogil:
    """
    static _Thread_local char panel_scratch[LK_PANEL_BYTES + 64];  /* of each thread */
    """
    char *panel_scratch

cdef enum:
    LINE_BYTES = 64
    PREFETCH_BYTES = 1024  # moved between prefetches; more for kernels with a start-up cost
    MAX_GROUP = 8  # slabs of different shapes in a box: MAX_CUTS of reorders/slabs.py gives no more
    MAX_LINES = 1 << 14  # of the source of a box that are prefetched
    CHUNK_BYTES = 64 << 20  # moved between checks for signals: at worst a tenth of a second, into new pages


_FAMILY = {"copy": LK_COPY, "transpose": LK_TRANSPOSE, "gather": LK_GATHER, "fill": LK_FILL, "fused": LK_FUSED,
           "joined": LK_JOINED, "runs": LK_RUNS, "scatter": LK_SCATTER, "windows": LK_WINDOWS}


cdef double now(int threads) noexcept nogil:
    """Seconds; for one thread, of its CPU time."""
    cdef timespec t
    clock_gettime(CLOCK_THREAD_CPUTIME_ID if threads == 1 else CLOCK_MONOTONIC, &t)
    return t.tv_sec + 1e-9 * t.tv_nsec


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
        cdef double nbytes = 0
        cdef int i, leader = 0
        if len(pad) != width or width > 16:
            raise ValueError(f"pad of {len(pad)} bytes for elements of {width}")
        for i in range(0, sizeof(self.pad), width):
            memcpy(&self.pad[i], <const char *>pad, width)
        self.count, self.owned = len(nests), []
        self.nests = <lk_nest *>calloc(max(1, self.count), sizeof(lk_nest))
        self.panels = <lk_panel_fn *>calloc(max(1, self.count), sizeof(lk_panel_fn))
        self.fused = <lk_fused *>calloc(max(1, self.count), sizeof(lk_fused))
        self.fused_kernels = <lk_fused_fn *>calloc(max(1, self.count), sizeof(lk_fused_fn))
        if self.nests == NULL or self.panels == NULL or self.fused == NULL or self.fused_kernels == NULL:
            raise MemoryError(f"reorder: {self.count} loop nests")
        for i, nest in enumerate(nests):
            self.set_nest(i, nest, stream and not slabs, panels)  # buffers of slabs stay in the caches

        self.slabs = <Slab *>calloc(max(1, len(slabs)), sizeof(Slab))
        if self.slabs == NULL:
            raise MemoryError(f"reorder: {len(slabs)} slabs")
        nests_of_slabs = list(itertools.accumulate([slab[7] for slab in slabs]))
        for i, (slab, end) in enumerate(zip(slabs, nests_of_slabs)):
            leader = i if slab[6] else leader
            self.set_slab(self.slabs + i, slab, end - 1)
            self.slabs[leader].group += 1
            if self.slabs[leader].group > MAX_GROUP:
                raise ValueError(f"reorder: more than {MAX_GROUP} slabs of a box")
        if slabs and (panels or nests_of_slabs[-1] != self.count):
            raise ValueError(f"reorder: slabs of {nests_of_slabs[-1]} nests{' and panels' * panels}, there are {self.count}")
        self.slab_count = len(slabs)
        self.drain = <lk_drain_fn>best_row(LK_DRAIN, "x8").fn
        for i in range(self.count):
            nbytes += bytes_of(self.nests + i)
        for i in range(self.slab_count):
            nbytes += slab_bytes(self.slabs + i, self.nests)
        self.chunks = 1 + <int64_t>(nbytes / CHUNK_BYTES)
        self.share_parts = 1 if nbytes < MIN_PARTS_BYTES else SHARE_PARTS

    cdef set_nest(self, int i, planned, bint stream, bint panels):
        cdef lk_nest *nest = self.nests + i
        cdef const lk_kernel *row
        family, bits, loops, tile, src_offset, dst_offset, prefetch_bytes, outer, valid, fused = planned
        row = best_row(_FAMILY[family], f"x{bits}")
        nest.fn, nest.width = <lk_move_fn>row.fn, bits // 8
        nest.tile.n0, nest.tile.s0, nest.tile.d0 = tile[0][:3]
        nest.tile.n1, nest.tile.s1, nest.tile.d1 = tile[1][:3]
        nest.src, nest.dst, nest.tile.stream = src_offset, dst_offset, stream
        nest.tile.prefetch_bytes, nest.tile.valid, nest.tile.pad = prefetch_bytes, valid, self.pad
        nest.tile.in0, nest.tile.out_d0, nest.tile.in1, nest.tile.out_s1 = outer
        if family == "fill":
            nest.tile.src = self.pad
        set_loops(nest, loops)
        if fused:
            self.fused_kernels[i] = <lk_fused_fn>row.fn
            self.set_fused(self.fused + i, nest, fused, family)
            if family == "windows":
                self.set_windows(self.fused + i, nest.width, row)
        elif panels and family == "transpose" and fits_panel(nest):
            self.panels[i] = <lk_panel_fn>best_row(LK_PANEL, "x8").fn
        elif (nest.tile.in0 and nest.tile.n0 > LK_MAX_DIGITS) or (nest.tile.in1 and nest.tile.n1 > LK_MAX_DIGITS):
            raise ValueError(f"reorder: a tile of {tile} in two digits, at most {LK_MAX_DIGITS}")

    cdef set_slab(self, Slab *s, slab, int last):
        cdef const lk_nest *out = self.nests + last
        boxes, loops, src_offset, dst_offset, nbytes, (run, read), leads, count = slab
        if nbytes > LK_SLAB_BYTES or count < 1:
            raise ValueError(f"reorder: a slab of {nbytes} bytes and {count} nests, expected at most {LK_SLAB_BYTES}")
        set_loops(&s.boxes, boxes)
        set_loops(&s.slabs, loops)
        s.boxes.src, s.boxes.dst, s.first, s.last = src_offset, dst_offset, last + 1 - count, last
        read_bytes = np.add.outer(offsets_of(read), np.append(np.arange(0, run, LINE_BYTES), run - 1)).ravel()
        if leads and read_bytes.size <= MAX_LINES:
            _, one_per_line = np.unique(read_bytes // LINE_BYTES, return_index=True)
            for i, lines in enumerate((read_bytes[one_per_line], np.unique(read_bytes))):
                s.lines[i], s.line_count[i] = self.keep_int64(lines), len(lines)
        s.drain.from_ = self.keep_int64(out.src + offsets_of([(out.n[j], out.s[j]) for j in range(out.loops)]))
        s.drain.to = self.keep_int64(out.dst + offsets_of([(out.n[j], out.d[j]) for j in range(out.loops)]))
        s.drain.runs, s.drain.bytes = out.tasks, out.tile.n1

    cdef set_fused(self, lk_fused *f, lk_nest *nest, fused, family):
        """Set the loops of fused or joined transposes, or of runs; tasks are parts of panels, columns, or runs."""
        columns, rows, f.panel, f.unit, sizes, strings = fused
        self.set_digits(&f.columns, columns)
        self.set_digits(&f.rows, rows)
        f.pad = self.pad
        while f.columns.table != NULL and f.columns.table[(f.columns.count - 1) % f.columns.n[0]] == LK_NOWHERE:
            f.columns.count -= 1  # pads at the end
        if strings:
            self.set_strings(f, strings)
            return
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
                f.sizes, f.period = self.keep_int64(sizes), sum(sizes)
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

    cdef set_strings(self, lk_fused *f, strings):
        """Set the strings of scattered runs, and check what their kernel relies on."""
        cdef lk_strings *g = &f.strings
        cdef int64_t last = 0, k
        g.run, steps, follows = strings
        g.count, g.parts = len(follows), 1
        if f.rows.digits != f.columns.digits or len(steps) != f.rows.digits or not 0 < g.count <= LK_MAX_STRINGS:
            raise ValueError(f"reorder: {g.count} strings, runs of {len(steps)} digits")
        for k, (string_step, part_step) in enumerate(steps):
            g.string_step[k], g.part_step[k] = string_step, part_step
            last += (f.rows.n[k] - 1) * string_step
            g.parts += (f.rows.n[k] - 1) * part_step
            if f.rows.n[k] != f.columns.n[k] or min(string_step, part_step) < 0 or (string_step and part_step):
                raise ValueError(f"reorder: {f.rows.n[k]} steps of strings, {f.columns.n[k]} in the destination")
        if f.rows.table != NULL or f.columns.table != NULL or f.rows.count != g.count * g.parts:
            raise ValueError(f"reorder: {f.rows.count} runs of {g.count} strings of {g.parts} parts, or a table")
        if g.run <= 0 or last >= g.count or g.run * g.parts < LINE_BYTES:
            raise ValueError(f"reorder: {last + 1} strings of {g.parts} runs of {g.run} bytes, room for {g.count}")
        followed = sorted(x for x in follows if x is not None)
        if not all(0 <= x < g.count for x in followed) or len(set(followed)) < len(followed):
            raise ValueError(f"reorder: strings {followed} of {g.count} begin where others end")
        g.next = self.keep_int64([LK_NOWHERE if x is None else x for x in follows])
        g.before = self.keep_int64([i in follows for i in range(g.count)])

    cdef set_windows(self, lk_fused *f, int width, const lk_kernel *row):
        """Make the windows of the table of a nest, for a row of their kernel."""
        cdef lk_windows *w = &f.windows
        cdef int64_t n = f.rows.count
        cdef int64_t count = windows_of(w, f.rows.table, n, width, row.nr, row.mr, f.pad)  # of windows, before there is memory
        cdef int64_t i, vector = width * row.nr
        w.at = <const int64_t *>self.keep(np.zeros(count, np.int64))
        w.masks = <const uint64_t *>self.keep(np.zeros(count, np.uint64))
        w.ends = <const int64_t *>self.keep(np.zeros(w.vectors, np.int64))
        w.lane_registers = <const int8_t *>self.keep(np.zeros(w.vectors, np.int8))
        w.orders = <const char *>self.keep(np.zeros(count * vector, np.uint8))
        for i in range(n):
            if f.rows.table[i] == LK_NOWHERE:
                w.pad_vectors = <const char *>self.keep(np.zeros(w.vectors * vector, np.uint8))
                break
        windows_of(w, f.rows.table, n, width, row.nr, row.mr, f.pad)

    cdef set_digits(self, lk_fused_loop *loop, digits_and_table):
        digits, table = digits_and_table
        if not 0 < len(digits) <= LK_MAX_FUSED:
            raise ValueError(f"reorder: a loop of {len(digits)} digits, expected 1 to {LK_MAX_FUSED}")
        loop.digits, loop.count = len(digits), 1
        for k, (n, step) in enumerate(digits):
            loop.n[k], loop.step[k] = n, step
            loop.count *= n
        if table:
            if len(table) != loop.n[0] or len(table) > LK_MAX_FUSED_TABLE or not any(x is not None for x in table):
                raise ValueError(f"reorder: a table of {len(table)} values for a digit of {loop.n[0]}")
            loop.table = self.keep_int64([LK_NOWHERE if x is None else x for x in table])

    cdef const int64_t *keep_int64(self, numbers):
        return <const int64_t *>self.keep(np.array(numbers, np.int64))

    cdef void *keep(self, ndarray array):
        """The address of an array, which lives as long as the program."""
        self.owned.append(array)
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
        cdef int64_t parts = 1 << <int>len(ratios), part = 0, chunks, chunk
        cdef double start = now(threads), seconds, share
        for ratio in (*ratios, 0):
            chunks = 1 + self.chunks // parts
            for chunk in range(chunks):
                with nogil:
                    self.run(s, d, threads, part * chunks + chunk, parts * chunks)
                if chunks > 1:
                    PyErr_CheckSignals()
            seconds, share = now(threads) - start, self.share_of(part + 1, parts)
            if ratio and share and seconds > ratio * share * limit + slack:
                return seconds, share
            parts //= 1 if part == 0 else 2
            part = 1
        return now(threads) - start, 1.0

    cdef double share_of(self, int64_t first, int64_t parts):
        """The share of all bytes that the first `first` of `parts` move."""
        cdef double moved = 0, total = 0, nbytes
        cdef const lk_nest *nest
        cdef int i, count = self.slab_count or self.count
        for i in range(count):
            nest = &self.slabs[i].boxes if self.slab_count else self.nests + i
            nbytes = slab_bytes(self.slabs + i, self.nests) if self.slab_count else bytes_of(nest)
            total += nbytes
            moved += nbytes * (nest.tasks * first // parts) / nest.tasks
        return moved / total

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
        """Move boxes [task, end) of one shape, slab by slab; meanwhile the source of the next box is prefetched."""
        cdef int64_t s = 0, d = 0, next_s = 0, next_d = 0, box, tails = 0  # tails: bytes
        cdef char *tail = buffer + LK_SLAB_BYTES
        cdef char *scratch = tail + LK_TAILS_BYTES
        cdef lk_drain outs[MAX_GROUP]
        cdef Prefetch ahead = Prefetch(NULL, NULL, 0, 0, 0, 0)
        cdef int k
        cdef bint phase
        for k in range(slabs.group):
            outs[k] = slabs[k].drain
            outs[k].tails = tail + tails
            tails += slabs[k].slabs.tasks * outs[k].runs * LINE_BYTES
            ahead.total += slab_bytes(slabs + k, self.nests) / slabs.boxes.tasks
        task_offsets(&slabs.boxes, task, &next_s, &next_d)
        for box in range(task, end):
            s, d = next_s, next_d
            task_offsets(&slabs.boxes, box + 1, &next_s, &next_d)
            ahead.src = src + slabs.boxes.src + next_s
            ahead.moved = ahead.line = 0
            phase = <uintptr_t>ahead.src % LINE_BYTES != 0
            ahead.lines, ahead.count = slabs.lines[phase], slabs.line_count[phase] if box + 1 < end else 0
            for k in range(slabs.group):
                outs[k].continues = outs[k].goes_on
                outs[k].goes_on = (tails <= LK_TAILS_BYTES and outs[k].bytes >= LK_MIN_DRAINED_BYTES and box + 1 < end
                                   and next_d - d == outs[k].bytes)
                self.slab(slabs + k, src + s, dst + d, buffer, scratch, outs[k], &ahead)

    cdef void slab(self, const Slab *slab, const char *src, char *dst, char *buffer, char *scratch, lk_drain out,
                   Prefetch *ahead) noexcept nogil:
        """Move the slabs of one shape of the box that begins at src and dst."""
        cdef int64_t s = 0, d = 0, step, tasks, part, parts
        cdef double size
        cdef int i
        for step in range(slab.slabs.tasks):
            task_offsets(&slab.slabs, step, &s, &d)
            for i in range(slab.first, slab.last):
                tasks, size = self.nests[i].tasks, bytes_of(self.nests + i)
                parts = min(tasks, 1 + <int64_t>(size / (PREFETCH_BYTES * (4 if self.fused[i].windows.vectors else 1))))
                for part in range(parts):
                    self.move(i, src + slab.boxes.src + s, buffer, tasks * part // parts, tasks * (part + 1) // parts,
                              scratch, 0)
                    prefetch_share(ahead, size / parts)
            out.src, out.dst = buffer, dst + slab.boxes.dst + d
            self.drain(&out)
            out.tails += out.runs * LINE_BYTES


cdef set_loops(lk_nest *nest, loops):
    cdef int j
    if len(loops) > LK_MAX_LOOPS:
        raise ValueError(f"reorder: {len(loops)} nested loops, at most {LK_MAX_LOOPS}")
    nest.loops, nest.tasks = len(loops), 1
    for j, (n, s, d, *_) in enumerate(loops):
        nest.n[j], nest.s[j], nest.d[j] = n, s, d
        nest.tasks *= n


cdef offsets_of(loops):
    """The offsets of all steps of loops (count, stride), outermost first."""
    offsets = np.zeros(1, np.int64)
    for n, stride in loops:
        offsets = np.add.outer(offsets, np.arange(n) * stride).ravel()
    return offsets


cdef void prefetch_share(Prefetch *f, double nbytes) noexcept nogil:
    """Prefetch the share that is due after `nbytes` more have been moved."""
    cdef int64_t end
    f.moved += nbytes
    end = min(f.count, <int64_t>(f.count * (f.moved / f.total)) + 1)
    while f.line < end:
        prefetch(f.src + f.lines[f.line])
        f.line += 1


cdef double bytes_of(const lk_nest *nest) noexcept nogil:
    """Bytes that a nest moves."""
    cdef double nbytes = <double>nest.tile.n0 * nest.tile.n1 * nest.width
    for j in range(nest.loops):
        nbytes *= nest.n[j]
    return nbytes


cdef double slab_bytes(const Slab *slab, const lk_nest *nests) noexcept nogil:
    """Bytes that all slabs of one shape copy to the destination."""
    return slab.boxes.tasks * slab.slabs.tasks * bytes_of(nests + slab.last)


cdef void task_offsets(const lk_nest *nest, int64_t task, int64_t *src, int64_t *dst) noexcept nogil:
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
