"""Products of matrices, of batches of them, with any strides:

    C[b][i][j] = steps(sum over k of A[b][i][k] * B[b][k][j] + bias[j] + add[b][i][j])

Rows of A are broadcast: they are read in place, or from a copy where their numbers do not follow one another. B is read
in panels of `nr` columns: a constant is packed once; other panels by the thread that multiplies them where matrices are
small, for all threads where they are large, and not at all where they are read once. A and B may change places, see
ways.py.

Sums go through k in order, in chunks, however matrices are packed and shared: the bits are the same.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
from numpy cimport PyArray_DATA, import_array, ndarray

import numpy as np

from .ways import TYPES, best_way, broadcasts, offsets, place

from ..kernels cimport LK_EPILOGUE, lk_kernel
from ..kernels.elementwise cimport lk_epilogue, lk_epilogue_fn
from ..kernels.gemm cimport lk_gemm, lk_gemm_fn
from ..runtime.registry cimport row_named, row_of
from ..runtime.team cimport lk_claim, lk_portions, share_out
from .executor cimport MAX_COLS, MAX_ROWS, aligned, ceil_div, clip_of, enter, leave, share
from .operation cimport Operation
from .packing cimport Moves, move, moves_of
from .route cimport Epilogue

import_array()

cdef enum:
    CHUNK = 192                   # products whose sum is added to the total
    K_BLOCK = 8 * CHUNK           # so much of a panel is multiplied by a block of rows before the rest
    ROWS_BYTES = 384 << 10        # of a block of rows, in L2 beside a panel
    GROUP_BYTES = 256 << 10       # of the panels that a thread packs at a time, in L2
    SMALL_BYTES = 512 << 10       # of rows that are read again for every such group
    SLAB_BYTES = 8 << 20          # of the panels that are packed for all threads at a time
    TASKS_PER_THREAD = 8          # of one panel, if there would be fewer
    CYCLES_PER_THREAD = 10000     # at least
    BYTES_PER_CYCLE = 8           # of memory
    PREFETCH_FROM_BYTES = 512 << 10  # of a larger C lines are prefetched before they are written,
    PREFETCH_TILES = 4               # so many tiles ahead
    LINE = 64

cdef enum:  # where panels come from
    CONSTANT, OWN, SHARED, IN_PLACE

cdef int64_t NEVER = 1 << 62


cdef struct Work:  # of a thread
    lk_gemm tile
    lk_epilogue rest
    bint follows            # the epilogue, after the micro-kernel
    const void *clip        # or what the micro-kernel does of it
    char *own               # panels
    char *rows              # a block of rows, copied
    char *sums              # a tile whose columns do not follow one another in C, and what is added to it
    int64_t packed, copied  # which panels and rows those are
    int64_t tap
    int64_t c_col[MAX_COLS]


cdef struct Run:
    void *nest
    const char *a
    const char *b
    char *c
    const char *add
    char *workspace
    int64_t batch, panel, panels  # the slab


cdef void multiply_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef Run *r = <Run *>argument
    (<Matmul>r.nest).multiply(r, slot, part, parts, portions)


cdef void pack_share(void *argument, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
    cdef Run *r = <Run *>argument
    (<Matmul>r.nest).pack_slab(r, part, parts, portions)


cdef class Matmul(Operation):
    """``c = epilogue(a @ b + bias + add)``, for each pair of matrices of a batch.

    Parameters
    ----------
    a, b, c : ndarray
        Of float32 or float64, of shapes (.., m, k), (.., k, n) and (.., m, n). The other axes of `a` and `b` are
        broadcast to those of `c`. Strides are any multiples of an element; `c` shares no memory with `a` and `b`.
    bias : ndarray, optional
        n numbers, as they are now.
    epilogue : Epilogue, optional
        Without tensors.
    add : ndarray, optional
        With the shape and strides of `c`; it may be `c`.
    constant : {"", "a", "b"}
        An operand that is kept as it is now. It is not among the arrays of a run.
    arrays : sequence of ndarray, optional
        The arrays of a run, of which the others are views; by default these themselves, in this order.
    threads : int
    """

    cdef lk_gemm_fn micro_kernel
    cdef lk_epilogue_fn epilogue_kernel
    cdef Moves moves
    cdef const lk_kernel *kernel_row
    cdef int mr, nr, lanes, item, threads, source
    cdef int place[4]                   # which array of a run a, b, c and add are views of, -1: none
    cdef int64_t begins[4]              # and where they begin there
    cdef int64_t batches, m, n, k
    cdef int64_t a_row, a_k, b_k, b_col, c_row, c_col  # strides
    cdef const int64_t *a_at            # offsets of the matrices of a batch
    cdef const int64_t *b_at
    cdef const int64_t *c_at
    cdef const int64_t *a_rows          # offsets of all rows; NULL: they are as far apart as a_row and c_row say
    cdef const int64_t *c_rows
    cdef bint swapped, packs_rows, buffered, prefetches
    cdef int64_t tiles, panels, blocks, groups, slab  # blocks of tiles, groups of panels, panels of a slab
    cdef int64_t pitch, panel_bytes, shared_bytes, own_bytes, rows_bytes, ws_thread
    cdef const char *constant_a
    cdef const char *constant_b         # packed
    cdef const char *bias
    cdef Epilogue epilogue
    cdef list kept                      # what pointers point to
    cdef int64_t a_step[MAX_ROWS]       # offsets of the rows of a tile
    cdef int64_t c_step[MAX_ROWS]
    cdef int64_t sums_step[MAX_ROWS]

    def __init__(self, a, b, c, *, bias=None, Epilogue epilogue=None, add=None, str constant="", arrays=None,
                 int threads=1):
        given = a, b, c, add
        names = "a", "b", "c", "add"
        _check(a, b, c, add, bias)
        if epilogue is not None and any([isinstance(step[2], str) for step in epilogue.steps]):
            raise ValueError("Matmul: an epilogue with tensors")
        if arrays is None:
            arrays = [x for name, x in zip(names, given) if x is not None and name != constant]
        self.bind(tuple(arrays))
        self.epilogue, self.item, self.threads, self.kept, self.batches = epilogue, c.itemsize, threads, [], 0
        if not c.size:
            return
        for i, name in enumerate(names):
            self.place[i] = -1
            if given[i] is not None and name != constant and given[i].size:
                self.place[i], self.begins[i] = place(given[i], arrays)
        per_column = bias is not None or epilogue is not None and any([step[2] is not None for step in epilogue.steps])
        way, cycles = best_way(a, b, c, constant, per_column)
        self.take_kernels(way)
        self.take_strides(way)
        self.take_constants(way, bias)
        self.take_threads(cycles)
        self.share_work(way.constant_b)
        if way.constant_b:
            self.pack_constant(way.b)

    cdef int take_kernels(self, way) except -1:
        types = TYPES[self.item]
        self.kernel_row = row_named(way.kernel.name)
        self.micro_kernel = <lk_gemm_fn>self.kernel_row.fn
        self.mr, self.nr, self.lanes = way.kernel.mr, way.kernel.nr, way.kernel.lanes
        self.epilogue_kernel = <lk_epilogue_fn>row_of(LK_EPILOGUE, types, self.kernel_row.isa).fn
        self.moves = moves_of(self.item)
        return 0

    cdef int take_strides(self, way) except -1:
        cdef int i
        self.swapped = way.swapped
        if way.swapped:
            self.place[0], self.place[1] = self.place[1], self.place[0]
            self.begins[0], self.begins[1] = self.begins[1], self.begins[0]
        self.m, self.n, self.k = way.m, way.n, way.k
        self.a_k, self.c_col = way.a.strides[-1], way.c.strides[-1]
        self.b_k, self.b_col = way.b.strides[-2], way.b.strides[-1]
        self.packs_rows, self.buffered = way.packs_rows, way.buffered
        self.tiles, self.panels = ceil_div(self.m, self.mr), ceil_div(self.n, self.nr)
        self.panel_bytes, self.pitch = aligned(self.k * self.nr * self.item), aligned(self.k * self.item) + LINE
        self.a_rows = self.c_rows = NULL
        self.a_row, self.c_row = way.rows[0][1:]
        if len(way.rows) > 1:
            self.a_rows, self.c_rows = self.keep(offsets(way.rows, 1)), self.keep(offsets(way.rows, 2))
        batch = [offsets(way.batch, i) for i in (1, 2, 3)]
        self.a_at, self.b_at, self.c_at = self.keep(batch[0]), self.keep(batch[1]), self.keep(batch[2])
        self.batches = batch[0].size
        for i in range(self.mr):
            self.a_step[i], self.c_step[i] = i * self.a_row, i * self.c_row
            if self.packs_rows:
                self.a_step[i] = i * self.pitch
            self.sums_step[i] = i * self.nr * self.item
        self.prefetches = not self.buffered and self.batches * self.m * self.n * self.item > PREFETCH_FROM_BYTES
        return 0

    cdef int64_t *keep(self, ndarray array) except NULL:
        """Where the elements of an array are, which lives as long as this does."""
        self.kept.append(array)
        return <int64_t *>PyArray_DATA(array)

    cdef int take_constants(self, way, bias) except -1:
        self.constant_a = self.constant_b = self.bias = NULL
        if way.constant_a:
            self.constant_a = <const char *>self.keep(way.a)
        if bias is not None:  # whole vectors of it are read
            padded = np.zeros(self.m if self.swapped else self.panels * self.nr, bias.dtype)
            padded[: bias.size] = bias
            self.bias = <const char *>self.keep(padded)
        return 0

    cdef int take_threads(self, double cycles) except -1:
        """As many as have enough to do."""
        cdef double moved = <double>self.item * self.batches * (self.m * self.k + self.k * self.n + self.m * self.n)
        cdef double work = max(cycles, moved / BYTES_PER_CYCLE)
        self.threads = <int>max(1.0, min(<double>self.threads, work / CYCLES_PER_THREAD))
        return 0

    cdef int share_work(self, bint constant) except -1:
        """From where panels come, and what a task is: a block of rows and a group of panels."""
        cdef int64_t row_bytes = max(1, self.k) * self.item, tasks, most
        cdef int64_t group = max(1, min(self.panels, GROUP_BYTES // max(1, self.panel_bytes)))
        self.slab = self.panels
        self.blocks = ceil_div(self.tiles, max(1, ROWS_BYTES // (row_bytes * self.mr)))
        tasks = self.batches * ceil_div(self.panels, group)
        if constant:
            self.source = CONSTANT
        elif self.tiles == 1 and self.b_col == self.item:
            self.source = IN_PLACE
        elif self.m * row_bytes <= SMALL_BYTES and (self.threads == 1 or tasks >= 2 * self.threads):
            self.source, self.blocks = OWN, 1
        else:
            self.source = SHARED
            self.slab = max(self.threads, min(self.panels, SLAB_BYTES // max(1, self.panel_bytes)))
        most = TASKS_PER_THREAD * self.threads if self.threads > 1 else 1
        if self.source == OWN:
            self.groups = ceil_div(self.panels, group)
            if self.batches * self.groups < most:
                self.groups = min(self.panels, ceil_div(most, self.batches))
        else:
            if self.batches * self.blocks * self.panels < most:  # few: of fewer rows
                self.blocks = min(self.tiles, ceil_div(most, self.batches * self.panels))
            self.groups = 1 if self.batches * self.blocks >= most and self.source != SHARED else self.panels
        self.shared_bytes = self.slab * self.panel_bytes if self.source == SHARED else 0
        self.own_bytes = self.rows_bytes = 0
        if self.source == OWN:
            self.own_bytes = ceil_div(self.panels, self.groups) * self.panel_bytes
        elif self.source == IN_PLACE:
            self.own_bytes = self.panel_bytes
        if self.packs_rows:
            self.rows_bytes = aligned(ceil_div(self.tiles, self.blocks) * self.mr * self.pitch)
        self.ws_thread = self.own_bytes + self.rows_bytes + LINE
        if self.buffered:
            self.ws_thread += 2 * aligned(self.mr * self.nr * self.item)
        self.workspace = self.shared_bytes + self.threads * self.ws_thread
        return 0

    cdef int pack_constant(self, ndarray b) except -1:
        cdef int64_t i, j
        packed = np.empty(self.batches * self.panels * self.panel_bytes + LINE, np.uint8)
        cdef char *to = <char *>aligned(<int64_t>self.keep(packed))
        cdef const char *at = <const char *>PyArray_DATA(b)
        self.constant_b = to
        with nogil:
            for i in range(self.batches):
                for j in range(self.panels):
                    self.pack_panel(at + self.b_at[i], j, to + (i * self.panels + j) * self.panel_bytes)
        return 0

    # ---- a run

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        cdef Run r
        cdef int64_t i, j
        if self.batches == 0:
            return
        r.nest, r.workspace, r.panel, r.panels = <void *>self, workspace, 0, self.panels
        r.a = self.operand(at, 0) if self.constant_a == NULL else self.constant_a
        r.b, r.c, r.add = self.operand(at, 1), self.operand(at, 2), self.operand(at, 3)
        if self.source != SHARED:
            share_out(self.threads, multiply_share, &r)
            return
        for i in range(self.batches):
            j = 0
            while j < self.panels:
                r.batch, r.panel, r.panels = i, j, min(self.slab, self.panels - j)
                share_out(<int>min(self.threads, r.panels), pack_share, &r)
                share_out(self.threads, multiply_share, &r)
                j += self.slab

    cdef inline char *operand(self, char **at, int i) noexcept nogil:
        return at[self.place[i]] + self.begins[i] if self.place[i] >= 0 else NULL

    cdef void multiply(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        """Tasks of a share, for as long as there are more."""
        cdef Work w
        cdef int64_t batches = 1 if self.source == SHARED else self.batches
        cdef int64_t groups = r.panels if self.source == SHARED else self.groups
        cdef int64_t tasks = batches * self.blocks * groups, task, last, batch, block, group
        enter(self.kernel_row)
        self.begin(&w, r, r.workspace + self.shared_bytes + slot * self.ws_thread)
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &task, &last):
            while task < last:
                batch = task // (self.blocks * groups)
                if self.source == OWN:  # panels stay where they are packed
                    group, block = task // self.blocks % groups, task % self.blocks
                else:                   # rows stay in L2
                    block, group = task // groups % self.blocks, task % groups
                if self.source == SHARED:
                    batch = r.batch
                self.multiply_block(&w, r, batch, block, r.panel + share(r.panels, groups, group),
                                    r.panel + share(r.panels, groups, group + 1))
                task += 1
        leave(self.kernel_row)

    cdef void begin(self, Work *w, const Run *r, char *workspace) noexcept nogil:
        """What is the same for all tasks."""
        cdef lk_gemm *tile = &w.tile
        cdef int j
        memset(tile, 0, sizeof(lk_gemm))
        w.own, w.rows = workspace, workspace + self.own_bytes
        w.sums = w.rows + self.rows_bytes
        w.packed = w.copied = -1
        w.tap = 0
        tile.tap, tile.taps, tile.blocks, tile.chunk, tile.period = &w.tap, 1, 1, CHUNK, NEVER
        tile.c_col = w.c_col
        for j in range(self.nr // self.lanes):
            w.c_col[j] = j * self.lanes * self.item
        memset(&w.rest, 0, sizeof(lk_epilogue))
        if self.epilogue is not None:
            w.rest = self.epilogue.f
        w.rest.channel_row, w.rest.channel_col = self.swapped, not self.swapped
        w.rest.add, w.clip = r.add, NULL
        w.follows = w.rest.steps > 0 or r.add != NULL
        if w.follows and not self.buffered:
            w.clip = clip_of(&w.rest, r.c, False)
            if w.clip != NULL and r.add == NULL:
                w.follows = False
            else:
                w.clip = NULL

    cdef inline int64_t a_offset(self, int64_t row) noexcept nogil:
        return row * self.a_row if self.a_rows == NULL else self.a_rows[row]

    cdef inline int64_t c_offset(self, int64_t row) noexcept nogil:
        return row * self.c_row if self.c_rows == NULL else self.c_rows[row]

    cdef void multiply_block(self, Work *w, const Run *r, int64_t batch, int64_t block, int64_t panel,
                             int64_t end) noexcept nogil:
        """A block of rows, by panels [panel, end)."""
        cdef int64_t first = share(self.tiles, self.blocks, block), last = share(self.tiles, self.blocks, block + 1)
        cdef int64_t row = share(self.m, self.tiles, first), k, stop, from_ = panel
        cdef const char *a = r.a + self.a_at[batch]
        cdef lk_gemm *tile = &w.tile
        if self.packs_rows and w.copied != batch * self.blocks + block:
            self.copy_rows(a, row, share(self.m, self.tiles, last), w.rows)
            w.copied = batch * self.blocks + block
        while panel < end:
            self.enter_panel(w, r, batch, panel, from_, end)
            tile.cols = <int>min(self.nr, self.n - panel * self.nr)
            tile.to_prefetch_bytes = 0
            if self.source == CONSTANT or self.source == SHARED:
                tile.to_prefetch_bytes = self.panel_bytes // (last - first) // LINE * LINE
            if self.buffered:
                self.run_tiles(w, r, a, batch, panel, first, last, 0, self.k)
            else:
                k = 0
                while k == 0 or k < self.k:
                    stop = min(self.k, k + K_BLOCK)
                    self.run_tiles(w, r, a, batch, panel, first, last, k, stop)
                    k = max(stop, 1)
            panel += 1

    cdef void enter_panel(self, Work *w, const Run *r, int64_t batch, int64_t panel, int64_t first,
                          int64_t end) noexcept nogil:
        """Point the tile to a panel; `first`, `end`: of the group."""
        cdef lk_gemm *tile = &w.tile
        cdef int64_t i, at = batch * self.panels + panel
        cdef const char *b = r.b + (self.b_at[batch] if r.b != NULL else 0)
        tile.ldb = self.nr
        if self.source == CONSTANT:
            tile.b = self.constant_b + at * self.panel_bytes
        elif self.source == SHARED:
            tile.b = r.workspace + (panel - r.panel) * self.panel_bytes
        elif self.source == IN_PLACE and min(self.nr, self.n - panel * self.nr) % self.lanes == 0:
            tile.b, tile.ldb = b + panel * self.nr * self.item, self.b_k // self.item
        elif self.source == IN_PLACE:
            tile.b = w.own
            if w.packed != at:
                self.pack_panel(b, panel, w.own)
                w.packed = at
        else:
            if w.packed != at - (panel - first):
                for i in range(first, end):
                    self.pack_panel(b, i, w.own + (i - first) * self.panel_bytes)
                w.packed = at - (panel - first)
            tile.b = w.own + (panel - first) * self.panel_bytes

    cdef void run_tiles(self, Work *w, const Run *r, const char *a, int64_t batch, int64_t panel, int64_t first,
                        int64_t last, int64_t k, int64_t stop) noexcept nogil:
        """Tiles [first, last) of a panel, by k up to `stop`."""
        cdef lk_gemm *tile = &w.tile
        cdef int64_t row0 = share(self.m, self.tiles, first), row = row0, ahead, t, column = panel * self.nr
        cdef char *c = r.c + self.c_at[batch] + column * self.item
        cdef const char *b = tile.b
        cdef bint last_k = stop == self.k
        tile.kb = tile.kb_last = stop - k
        tile.resume, tile.clip = k > 0, w.clip if last_k else NULL
        tile.b += k * tile.ldb * self.item
        tile.to_prefetch = b + self.panel_bytes
        for t in range(first, last):
            tile.rows = <int>(share(self.m, self.tiles, t + 1) - row)
            tile.row, tile.c_row, tile.c = self.a_step, self.c_step, c
            if self.packs_rows:
                tile.a = w.rows + (row - row0) * self.pitch
            elif self.a_rows != NULL:
                tile.a, tile.row = a, self.a_rows + row
            else:
                tile.a = a + row * self.a_row
            tile.a += k * self.item
            if self.c_rows != NULL:
                tile.c_row = self.c_rows + row
            else:
                tile.c += row * self.c_row
            tile.bias_row = tile.bias_col = NULL
            if self.bias != NULL and k == 0 and self.swapped:
                tile.bias_row = self.bias + row * self.item
            elif self.bias != NULL and k == 0:
                tile.bias_col = self.bias + column * self.item
            if self.buffered:
                self.run_buffered(w, r, batch, row, column)
            else:
                tile.next_c_row = NULL
                if self.prefetches and t + PREFETCH_TILES + 1 < last:
                    ahead = share(self.m, self.tiles, t + PREFETCH_TILES)
                    tile.next_c_row = tile.c_row if self.c_rows == NULL else self.c_rows + ahead
                    tile.next_c = c + ahead * self.c_row if self.c_rows == NULL else c
                self.micro_kernel(tile)
                if last_k and w.follows:
                    self.finish(w, r.c, tile.c - r.c, tile.c_row, row, column)
            row += tile.rows
            tile.to_prefetch += tile.to_prefetch_bytes
        tile.b = b

    cdef void finish(self, Work *w, char *y, int64_t offset, const int64_t *rows, int64_t row,
                     int64_t column) noexcept nogil:
        """The epilogue of a tile, at y + offset + rows[i]."""
        cdef lk_epilogue *f = &w.rest
        f.y, f.offset, f.row, f.rows, f.count = y, offset, rows, w.tile.rows, w.tile.cols
        f.channel = row if self.swapped else column
        self.epilogue_kernel(f)

    cdef void run_buffered(self, Work *w, const Run *r, int64_t batch, int64_t row, int64_t column) noexcept nogil:
        """A tile whose columns do not follow one another in C: it is made in a buffer, and moved."""
        cdef lk_gemm *tile = &w.tile
        cdef int64_t pitch = self.nr * self.item, first = self.c_at[batch] + column * self.c_col, i, at, rows
        cdef char *added = w.sums + aligned(self.mr * pitch)
        tile.c, tile.c_row = w.sums, self.sums_step
        self.micro_kernel(tile)
        if r.add != NULL:
            for i in range(tile.rows):
                at = first + self.c_offset(row + i)
                move(&self.moves, r.add + at, self.c_row, self.c_col, added + i * pitch, pitch, self.item, 1, tile.cols)
            w.rest.add = added
        if w.follows:
            self.finish(w, w.sums, 0, self.sums_step, row, column)
        i = 0
        while i < tile.rows:
            rows = 1 if self.c_rows != NULL else tile.rows
            at = first + self.c_offset(row + i)
            move(&self.moves, w.sums + i * pitch, pitch, self.item, r.c + at, self.c_row, self.c_col, rows, tile.cols)
            i += rows

    # ---- copies

    cdef void pack_slab(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil:
        cdef int64_t first, last, i
        while lk_claim(portions, share(r.panels, parts, part), share(r.panels, parts, part + 1), &first, &last):
            for i in range(first, last):
                self.pack_panel(r.b + self.b_at[r.batch], r.panel + i, r.workspace + i * self.panel_bytes)

    cdef void pack_panel(self, const char *b, int64_t panel, char *to) noexcept nogil:
        """Panel number `panel` of a matrix at b: [k][nr], the rest of the last vector of columns zeros."""
        cdef int64_t cols = min(self.nr, self.n - panel * self.nr), pitch = self.nr * self.item
        if cols % self.lanes:
            memset(to, 0, self.k * pitch)
        b += panel * self.nr * self.b_col
        move(&self.moves, b, self.b_k, self.b_col, to, pitch, self.item, self.k, cols)

    cdef void copy_rows(self, const char *a, int64_t row, int64_t end, char *to) noexcept nogil:
        """Rows [row, end) of a matrix, each with its numbers one after another."""
        cdef int64_t rows = 1 if self.a_rows != NULL else end - row
        while row < end:
            move(&self.moves, a + self.a_offset(row), self.a_row, self.a_k, to, self.pitch, self.item, rows, self.k)
            to += rows * self.pitch
            row += rows


def _check(a, b, c, add, bias):
    """Whether these can be multiplied."""
    (m, k), (l, n) = a.shape[-2:], b.shape[-2:]
    if k != l or c.shape[-2:] != (m, n) or not broadcasts(c.shape[:-2], a.shape[:-2], b.shape[:-2]):
        raise ValueError(f"Matmul: {a.shape} times {b.shape} into {c.shape}")
    for name, x in (("a", a), ("b", b), ("c", c), ("add", add), ("bias", bias)):
        if x is not None and (x.dtype != c.dtype or x.dtype.kind != "f" or x.itemsize not in TYPES):
            raise TypeError(f"Matmul: {name} is {x.dtype}, c is {c.dtype}; float32 or float64 are multiplied")
        if x is not None and any([step % x.itemsize for step in x.strides]):
            raise ValueError(f"Matmul: strides of {name} {x.strides} are no multiples of an element")
    if bias is not None and bias.shape != (n,):
        raise ValueError(f"Matmul: a bias of shape {bias.shape}, expected {(n,)}")
    if add is not None and (add.shape, add.strides) != (c.shape, c.strides):
        there, here = (add.shape, add.strides), (c.shape, c.strides)
        raise ValueError(f"Matmul: what is added has shape and strides {there}, the result {here}")
