"""Products of matrices, of batches of them, with any strides:

    C[b][i][j] = steps(sum over k of A[b][i][k] * B[b][k][j] + bias[j] + add[b][i][j])

Rows of A are broadcast: they are read in place, or from a copy where they are not contiguous. B is read in panels of `nr`
columns. matmul_plan.py plans: which operand is A, where panels are packed, and what a task is.

Sums go through k in order, in chunks, however matrices are packed and shared: the bits are the same.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

import numpy as np

from ..axes import offsets, viewed_array
from .matmul_plan import TYPES, best_product, check_operands, divide

from ...kernels cimport LK_EPILOGUE, lk_kernel
from ...kernels.elementwise cimport lk_epilogue, lk_epilogue_fn
from ...kernels.gemm cimport lk_gemm, lk_gemm_fn
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport row_named, row_of
from ...runtime.team cimport lk_claim, lk_portions, share_out
from ..executor cimport (
    MAX_COLS, MAX_ROWS, PREFETCH_FROM_BYTES, PREFETCH_TILES, aligned, ceil_div, clip_of, enter, leave, share,
)
from ..operation cimport Operation
from ..packing cimport PRODUCT_CHUNK, Moves, begin_tile, move, moves_of, pack_panels
from ..convolutions.route cimport Epilogue

import_array()

cdef enum:
    LINE = 64

cdef enum:  # where panels come from, see matmul_plan.py
    CONSTANT, OWN, SHARED, IN_PLACE

SOURCES = {"constant": CONSTANT, "own": OWN, "shared": SHARED, "in place": IN_PLACE}


cdef struct Work:  # of a thread
    lk_gemm tile
    lk_epilogue epilogue
    bint has_epilogue       # there is one, and the micro-kernel does not do it itself
    const void *clip        # limits, if the micro-kernel does it
    char *panels            # packed by this thread
    char *rows              # a block of rows, copied
    char *sums              # a tile of C whose rows are not contiguous, and the residual of one
    int64_t packed_panel, copied_block  # numbers of the first panel in `panels` and the block in `rows`
    int64_t zero_tap
    int64_t c_col[MAX_COLS]


cdef struct Run:
    void *nest
    const char *a
    const char *b
    char *c
    const char *add
    char *workspace
    int64_t batch, panel, panels  # of the slab


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
        n values, which never change.
    epilogue : Epilogue, optional
        Without tensors.
    add : ndarray, optional
        With the shape and strides of `c`; it may be `c`.
    constant : {"", "a", "b"}
        An operand whose values never change. It is not among the arrays of a run.
    arrays : sequence of ndarray, optional
        The arrays of a run, of which the others are views; by default these themselves, in this order.
    threads : int
    """

    cdef lk_gemm_fn micro_kernel
    cdef lk_epilogue_fn epilogue_kernel
    cdef Moves moves
    cdef const lk_kernel *kernel_row
    cdef int mr, nr, lanes, item, threads, source
    cdef int array[4]                   # which array of a run a, b, c and add are views of, -1: none
    cdef int64_t offset[4]              # and their first elements there, in bytes
    cdef int64_t batches, m, n, k
    cdef int64_t a_row, a_k, b_k, b_col, c_row, c_col  # strides
    cdef const int64_t *a_at            # offsets of the matrices of a batch
    cdef const int64_t *b_at
    cdef const int64_t *c_at
    cdef const int64_t *a_rows          # offsets of all rows; NULL: they are as far apart as a_row and c_row say
    cdef const int64_t *c_rows
    cdef bint swapped, packs_rows, buffered, prefetches
    cdef int64_t tiles, panels          # of rows; of columns
    cdef int64_t slice, blocks, groups, slab  # as of matmul_plan.Division
    cdef int64_t shared_bytes, own_bytes, rows_bytes, thread_bytes
    cdef int64_t pitch, panel_bytes     # from a copied row to the next; of a panel
    cdef const char *constant_a
    cdef const char *constant_b         # packed
    cdef const char *bias
    cdef Epilogue epilogue
    cdef int64_t a_step[MAX_ROWS]       # offsets of the rows of a tile
    cdef int64_t c_step[MAX_ROWS]
    cdef int64_t sums_step[MAX_ROWS]

    def __init__(self, a, b, c, *, bias=None, Epilogue epilogue=None, add=None, str constant="", arrays=None,
                 int threads=1):
        operands = {"a": a, "b": b, "c": c, "add": add}
        check_operands(a, b, c, add, bias)
        if epilogue is not None and any([isinstance(step[2], str) for step in epilogue.steps]):
            raise ValueError("Matmul: an epilogue with tensors")
        if arrays is None:
            arrays = [x for name, x in operands.items() if x is not None and name != constant]
        self.bind(tuple(arrays))
        self.epilogue, self.item, self.batches = epilogue, c.itemsize, 0
        if not c.size:
            return
        for i, (name, x) in enumerate(operands.items()):
            self.array[i] = -1
            if x is not None and name != constant and x.size:
                self.array[i], self.offset[i] = viewed_array(x, arrays)
        per_column = bias is not None or epilogue is not None and any([step[2] is not None for step in epilogue.steps])
        product, cycles = best_product(a, b, c, constant, per_column)
        self.set_kernels(product)
        self.set_strides(product)
        self.set_constants(product, bias)
        self.set_division(divide(product, threads, cycles, PRODUCT_CHUNK))
        if product.constant_b:
            self.pack_constant(product.b)

    cdef int set_kernels(self, product) except -1:
        types = TYPES[self.item]
        self.kernel_row = row_named(product.kernel.name)
        self.micro_kernel = <lk_gemm_fn>self.kernel_row.fn
        self.mr, self.nr, self.lanes = product.kernel.mr, product.kernel.nr, product.kernel.lanes
        self.epilogue_kernel = <lk_epilogue_fn>row_of(LK_EPILOGUE, types, self.kernel_row.isa).fn
        self.moves = moves_of(self.item)
        return 0

    cdef int set_strides(self, product) except -1:
        cdef int i
        self.swapped = product.swapped
        if product.swapped:
            self.array[0], self.array[1] = self.array[1], self.array[0]
            self.offset[0], self.offset[1] = self.offset[1], self.offset[0]
        self.m, self.n, self.k = product.m, product.n, product.k
        self.a_k, self.c_col = product.a.strides[-1], product.c.strides[-1]
        self.b_k, self.b_col = product.b.strides[-2], product.b.strides[-1]
        self.packs_rows, self.buffered = product.packs_rows, product.buffered
        self.tiles, self.panels = ceil_div(self.m, self.mr), ceil_div(self.n, self.nr)
        self.panel_bytes, self.pitch = aligned(self.k * self.nr * self.item), product.pitch
        self.a_rows = self.c_rows = NULL
        self.a_row, self.c_row = product.rows[0][1:]
        if len(product.rows) > 1:
            self.a_rows = <const int64_t *>self.keep(offsets(product.rows, 1))
            self.c_rows = <const int64_t *>self.keep(offsets(product.rows, 2))
        self.a_at = <const int64_t *>self.keep(offsets(product.batch, 1))
        self.b_at = <const int64_t *>self.keep(offsets(product.batch, 2))
        self.c_at = <const int64_t *>self.keep(offsets(product.batch, 3))
        self.batches = int(np.prod([axis[0] for axis in product.batch], dtype=np.int64))
        for i in range(self.mr):
            self.a_step[i], self.c_step[i] = i * self.a_row, i * self.c_row
            if self.packs_rows:
                self.a_step[i] = i * self.pitch
            self.sums_step[i] = i * self.nr * self.item
        self.prefetches = not self.buffered and self.batches * self.m * self.n * self.item > PREFETCH_FROM_BYTES
        return 0

    cdef int set_constants(self, product, bias) except -1:
        self.constant_a = self.constant_b = self.bias = NULL
        if product.constant_a:
            self.owned.append(product.a)
            self.constant_a = <const char *>PyArray_DATA(<ndarray>product.a)
        if bias is not None:  # it is read in vectors
            padded = np.zeros(self.m if self.swapped else self.panels * self.nr, bias.dtype)
            padded[: bias.size] = bias
            self.bias = self.keep(padded)
        return 0

    cdef int set_division(self, division) except -1:
        self.threads, self.source = division.threads, SOURCES[division.source]
        self.slice, self.blocks, self.groups, self.slab = division.slice, division.blocks, division.groups, division.slab
        self.shared_bytes, self.own_bytes = division.shared_bytes, division.own_bytes
        self.rows_bytes, self.thread_bytes = division.rows_bytes, division.thread_bytes
        self.workspace = self.shared_bytes + self.threads * self.thread_bytes
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
        return at[self.array[i]] + self.offset[i] if self.array[i] >= 0 else NULL

    cdef void multiply(self, const Run *r, int slot, int part, int parts, lk_portions *portions) noexcept nogil:
        """A share of the tasks."""
        cdef Work w
        cdef int64_t batches = 1 if self.source == SHARED else self.batches
        cdef int64_t groups = r.panels if self.source == SHARED else self.groups
        cdef int64_t tasks = batches * self.blocks * groups, task, last, batch, block, group
        enter(self.kernel_row)
        self.begin(&w, r, r.workspace + self.shared_bytes + slot * self.thread_bytes)
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
        """Set what does not depend on the task: workspace, chunks of k, columns of a tile, epilogue."""
        w.panels, w.rows = workspace, workspace + self.own_bytes
        w.sums = w.rows + self.rows_bytes
        w.packed_panel = w.copied_block = -1
        w.zero_tap = 0
        begin_tile(&w.tile, &w.zero_tap, w.c_col, self.nr // self.lanes, self.lanes * self.item)
        memset(&w.epilogue, 0, sizeof(lk_epilogue))
        if self.epilogue is not None:
            w.epilogue = self.epilogue.f
        w.epilogue.channel_row, w.epilogue.channel_col = self.swapped, not self.swapped
        w.epilogue.add, w.clip = r.add, NULL
        w.has_epilogue = w.epilogue.steps > 0 or r.add != NULL
        if w.has_epilogue and not self.buffered:
            w.clip = clip_of(&w.epilogue, False, False)
            if w.clip != NULL and r.add == NULL:
                w.has_epilogue = False
            else:
                w.clip = NULL

    cdef inline int64_t a_offset(self, int64_t row) noexcept nogil:
        return row * self.a_row if self.a_rows == NULL else self.a_rows[row]

    cdef inline int64_t c_offset(self, int64_t row) noexcept nogil:
        return row * self.c_row if self.c_rows == NULL else self.c_rows[row]

    cdef void multiply_block(self, Work *w, const Run *r, int64_t batch, int64_t block, int64_t first_panel,
                             int64_t end) noexcept nogil:
        """A block of rows, by panels [first_panel, end)."""
        cdef int64_t first = share(self.tiles, self.blocks, block), last = share(self.tiles, self.blocks, block + 1)
        cdef int64_t row = share(self.m, self.tiles, first), k = 0, stop, panel
        cdef const char *a = r.a + self.a_at[batch]
        cdef lk_gemm *tile = &w.tile
        if self.packs_rows and w.copied_block != batch * self.blocks + block:
            self.copy_rows(a, row, share(self.m, self.tiles, last), w.rows)
            w.copied_block = batch * self.blocks + block
        while k == 0 or k < self.k:
            stop = min(self.k, k + self.slice)
            for panel in range(first_panel, end):
                self.enter_panel(w, r, batch, panel, first_panel, end)
                tile.cols = <int>min(self.nr, self.n - panel * self.nr)
                tile.to_prefetch_bytes = 0
                if self.source == CONSTANT or self.source == SHARED:
                    tile.to_prefetch_bytes = (stop - k) * self.nr * self.item // (last - first) // LINE * LINE
                self.run_tiles(w, r, a, batch, panel, first, last, k, stop)
            k = max(stop, 1)

    cdef void enter_panel(self, Work *w, const Run *r, int64_t batch, int64_t panel, int64_t first,
                          int64_t end) noexcept nogil:
        """Set the B of tiles to a panel of the group [first, end), and pack it if need be."""
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
            tile.b = w.panels
            if w.packed_panel != at:
                self.pack_panel(b, panel, w.panels)
                w.packed_panel = at
        else:
            if w.packed_panel != at - (panel - first):
                for i in range(first, end):
                    self.pack_panel(b, i, w.panels + (i - first) * self.panel_bytes)
                w.packed_panel = at - (panel - first)
            tile.b = w.panels + (panel - first) * self.panel_bytes

    cdef void run_tiles(self, Work *w, const Run *r, const char *a, int64_t batch, int64_t panel, int64_t first,
                        int64_t last, int64_t k, int64_t stop) noexcept nogil:
        """Tiles [first, last) of a panel: products of `k` up to `stop`."""
        cdef lk_gemm *tile = &w.tile
        cdef int64_t row0 = share(self.m, self.tiles, first), row = row0, ahead, t, column = panel * self.nr
        cdef char *c = r.c + self.c_at[batch] + column * self.item
        cdef const char *b = tile.b
        cdef bint last_k = stop == self.k
        tile.kb = tile.kb_last = stop - k
        tile.resume, tile.clip = k > 0, w.clip if last_k else NULL
        tile.b += k * tile.ldb * self.item
        tile.to_prefetch = tile.b + self.panel_bytes
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
                if last_k and w.has_epilogue:
                    self.finish(w, r.c, tile.c - r.c, tile.c_row, row, column)
            row += tile.rows
            tile.to_prefetch += tile.to_prefetch_bytes
        tile.b = b

    cdef void finish(self, Work *w, char *y, int64_t offset, const int64_t *rows, int64_t row,
                     int64_t column) noexcept nogil:
        """The epilogue of a tile, whose rows are at y + offset + rows[i]."""
        cdef lk_epilogue *f = &w.epilogue
        f.y, f.offset, f.row, f.rows, f.count = y, offset, rows, w.tile.rows, w.tile.cols
        f.channel = row if self.swapped else column
        self.epilogue_kernel(f)

    cdef void run_buffered(self, Work *w, const Run *r, int64_t batch, int64_t row, int64_t column) noexcept nogil:
        """A tile of a C whose rows are not contiguous: it is computed in a buffer, and moved."""
        cdef lk_gemm *tile = &w.tile
        cdef int64_t pitch = self.nr * self.item, first = self.c_at[batch] + column * self.c_col, i, at, rows
        cdef char *residual = w.sums + aligned(self.mr * pitch)
        tile.c, tile.c_row = w.sums, self.sums_step
        self.micro_kernel(tile)
        if r.add != NULL:
            for i in range(tile.rows):
                at = first + self.c_offset(row + i)
                move(&self.moves, r.add + at, self.c_row, self.c_col, residual + i * pitch, pitch, self.item, 1, tile.cols)
            w.epilogue.add = residual
        if w.has_epilogue:
            self.finish(w, w.sums, 0, self.sums_step, row, column)
        i = 0
        while i < tile.rows:
            rows = 1 if self.c_rows != NULL else tile.rows
            at = first + self.c_offset(row + i)
            move(&self.moves, w.sums + i * pitch, pitch, self.item, r.c + at, self.c_row, self.c_col, rows, tile.cols)
            i += rows

    # ---- copies

    cdef void pack_slab(self, const Run *r, int part, int parts, lk_portions *portions) noexcept nogil:
        """A share of the panels of a slab."""
        cdef int64_t first, last, i
        while lk_claim(portions, share(r.panels, parts, part), share(r.panels, parts, part + 1), &first, &last):
            for i in range(first, last):
                self.pack_panel(r.b + self.b_at[r.batch], r.panel + i, r.workspace + i * self.panel_bytes)

    cdef void pack_panel(self, const char *b, int64_t panel, char *to) noexcept nogil:
        """Pack panel number `panel` of a matrix at b as [k][nr], with zeros up to whole vectors of columns."""
        pack_panels(&self.moves, b + panel * self.nr * self.b_col, self.b_k, self.b_col, to, 0, self.nr, self.lanes,
                    self.k, min(self.nr, self.n - panel * self.nr))

    cdef void copy_rows(self, const char *a, int64_t row, int64_t end, char *to) noexcept nogil:
        """Copy rows [row, end) of a matrix, so that each is contiguous."""
        cdef int64_t rows = 1 if self.a_rows != NULL else end - row
        while row < end:
            move(&self.moves, a + self.a_offset(row), self.a_row, self.a_k, to, self.pitch, self.item, rows, self.k)
            to += rows * self.pitch
            row += rows
