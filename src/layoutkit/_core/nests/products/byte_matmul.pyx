"""Products of matrices of bytes that stand for numbers, and of batches of them, with any strides:

    C[b][i][j] = saturated(rounded(scale * sum over k of (A[b][i][k] - a_zero) * (B[b][k][j] - b_zero)) + c_zero)

The micro-kernel multiplies u8 of A by s8 of B in units of four along k; where A is s8 or B is u8, their first bits are
flipped, and zero points are 128 farther. Zero points become biases of the sums, which stay exact:

    sum of (A - a_zero) * (B - b_zero) = sum of A * B - a_zero * columns[j] - b_zero * rows[i] + k * a_zero * b_zero

A task is a block of rows by a group of panels of columns, which a thread packs once for all blocks that it has. Rows whose
units do not lie one after another are copied. Sums of columns are products with a row of ones.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from operator import itemgetter

import numpy as np

from ...runtime import registry
from ..axes import merged, offsets, viewed_array
from .matmul_plan import broadcasts, product_cycles

from ...kernels cimport lk_kernel
from ...kernels.gemm cimport lk_gemm, lk_gemm_fn, lk_rounding
from ...ndarray cimport import_array
from ...runtime.registry cimport row_named
from ...runtime.team cimport lk_claim, lk_portions
from ..executor cimport MAX_COLS, MAX_ROWS, aligned, ceil_div, enter, leave, share
from ..operation cimport Operation
from ..packing cimport Moves, begin_tile, flip_run, move, moves_of

import_array()

cdef enum:
    UNIT = 4                    # bytes that are multiplied in one step
    SIGNS = 0x80808080          # of a unit
    GROUP_BYTES = 256 << 10     # of the panels that a thread packs at a time, in L2
    ROWS_BYTES = 256 << 10      # of a block of rows that is copied
    TASKS_PER_THREAD = 4
    CYCLES_PER_THREAD = 10000   # at least
    WORDS = 128                 # of eight bytes, whose sums of pairs of bytes are below 2^16

MAX_K = 1 << 15  # sums of products are below 2^31
MAX_SCALE = 0.5  # results before saturation, too

cdef enum:  # operands
    A, B, C, OPERANDS


cdef inline uint64_t by_pairs(uint64_t word) noexcept nogil:
    """Four sums of two bytes each, of 16 bits."""
    cdef uint64_t evens = 0x00ff00ff00ff00ff
    return (word & evens) + (word >> 8 & evens)


cdef inline int64_t total_of(uint64_t pairs) noexcept nogil:
    """The sum of four numbers of 16 bits."""
    return (pairs & 0xffff) + (pairs >> 16 & 0xffff) + (pairs >> 32 & 0xffff) + (pairs >> 48)


cdef struct Work:  # of a thread
    lk_gemm tile
    lk_gemm ones            # the same for sums of columns
    lk_rounding rounding
    char *panels
    char *rows              # a block, copied
    char *columns           # by panel: what a sum of each column begins with
    char *sums              # a tile of C whose rows are not contiguous
    int64_t batch, group    # whose panels are packed
    int64_t zero_tap
    int32_t row_bias[MAX_ROWS]
    int64_t c_col[MAX_COLS]


cdef class ByteMatmul(Operation):
    """``c = round(scale * (a - a_zero) @ (b - b_zero)) + c_zero``, saturated, for each pair of matrices of a batch.

    Parameters
    ----------
    a, b, c : ndarray
        Of uint8 or int8, of shapes (.., m, k), (.., k, n) and (.., m, n), k at most MAX_K. The other axes of `a` and `b`
        are broadcast to those of `c`. Any strides; `c` shares no memory with `a` and `b`.
    zeros : (int, int, int)
        What stands for 0 in a, b and c.
    scale : float
        At most MAX_SCALE.
    arrays : sequence of ndarray, optional
        The arrays of a run, of which the others are views; by default these themselves, in this order.
    threads : int
    """

    cdef lk_gemm_fn micro_kernel
    cdef const lk_kernel *kernel_row
    cdef Moves bytes_moves, unit_moves
    cdef int mr, nr, lanes, threads
    cdef int array[OPERANDS]            # which array of a run an operand is a view of
    cdef int64_t offset[OPERANDS]       # and its first element there
    cdef const int64_t *matrix[OPERANDS]  # offsets of the matrices of a batch
    cdef int64_t row[OPERANDS]          # strides
    cdef int64_t col[OPERANDS]
    cdef int64_t batches, m, n, k, units
    cdef int64_t tiles, panels, groups, blocks  # a task is a block of the tiles by a group of the panels
    cdef int64_t pitch, panel_bytes
    cdef int64_t at_rows, at_columns, at_sums, thread_bytes  # in a thread's workspace
    cdef int a_zero, b_zero             # of what the micro-kernel multiplies
    cdef uint32_t a_flip, b_flip
    cdef bint copies_rows, buffered
    cdef const char *ones               # a row of A
    cdef float scale
    cdef int c_zero
    cdef bint c_signed
    cdef int64_t a_step[MAX_ROWS]
    cdef int64_t c_step[MAX_ROWS]
    cdef int64_t sums_step[MAX_ROWS]

    def __init__(self, a, b, c, zeros, double scale, *, arrays=None, int threads=1):
        _check(a, b, c, zeros, scale)
        arrays = [a, b, c] if arrays is None else arrays
        self.bind(tuple(arrays))
        self.threads, self.batches = threads, 0
        if not c.size:
            return
        for i, x in enumerate((a, b, c)):
            self.array[i], self.offset[i] = viewed_array(x, arrays) if x.size else (C, 0)
        self.set_strides(a, b, c)
        self.set_zeros(a.dtype.kind == "i", b.dtype.kind == "u", c.dtype.kind == "i", zeros, scale)
        self.set_division()

    cdef int set_strides(self, a, b, c) except -1:
        outer = c.shape[:-2]
        views = [np.broadcast_to(x, outer + x.shape[-2:]) for x in (a, b, c)]
        axes = merged([(n, *[x.strides[i] for x in views]) for i, n in enumerate(outer)])
        for i, x in enumerate(views):
            self.matrix[i] = <const int64_t *>self.keep(offsets(axes, 1 + i))
            self.row[i], self.col[i] = x.strides[-2], x.strides[-1]
        self.batches = int(np.prod(outer, dtype=np.int64))
        (self.m, self.k), self.n = a.shape[-2:], b.shape[-1]
        self.units = ceil_div(self.k, UNIT)
        return 0

    cdef int set_zeros(self, bint a_signed, bint b_unsigned, bint c_signed, zeros, double scale) except -1:
        self.a_flip, self.b_flip = SIGNS if a_signed else 0, SIGNS if b_unsigned else 0
        self.a_zero, self.b_zero = zeros[0] + 128 * a_signed, zeros[1] - 128 * b_unsigned
        self.scale, self.c_zero, self.c_signed = scale, zeros[2], c_signed
        return 0

    cdef int set_division(self) except -1:
        """The register tile, the tasks, and the workspace of a thread."""
        cdef int64_t i, block, group
        cycles, kernel = best_kernel(self.m, self.n, self.k)
        self.kernel_row = row_named(kernel.name)
        self.micro_kernel = <lk_gemm_fn>self.kernel_row.fn
        self.mr, self.nr, self.lanes = kernel.mr, kernel.nr, kernel.lanes
        self.bytes_moves, self.unit_moves = moves_of(1), moves_of(UNIT)
        self.threads = <int>max(1.0, min(<double>self.threads, self.batches * cycles / CYCLES_PER_THREAD))
        self.copies_rows = (self.k > 1 and self.col[A] != 1) or self.k % UNIT != 0
        self.buffered = self.n > 1 and self.col[C] != 1
        self.pitch, self.panel_bytes = aligned(self.units * UNIT) + 64, aligned(self.units * UNIT * self.nr)
        self.tiles, self.panels = ceil_div(self.m, self.mr), ceil_div(self.n, self.nr)
        self.groups = ceil_div(self.panels, max(1, GROUP_BYTES // max(1, self.panel_bytes)))
        self.blocks = 1
        if self.copies_rows:
            self.blocks = ceil_div(self.tiles, max(1, ROWS_BYTES // (self.mr * self.pitch)))
        if self.threads > 1 and self.batches * self.groups * self.blocks < TASKS_PER_THREAD * self.threads:
            self.blocks = min(self.tiles, ceil_div(TASKS_PER_THREAD * self.threads, self.batches * self.groups))
        group, block = ceil_div(self.panels, self.groups), ceil_div(self.tiles, self.blocks)
        self.at_rows = group * self.panel_bytes
        self.at_columns = self.at_rows + (block * self.mr * self.pitch if self.copies_rows else 0)
        self.at_sums = self.at_columns + aligned(group * self.nr * sizeof(int32_t))
        self.thread_bytes = self.at_sums + aligned(self.mr * self.nr) + 64
        self.workspace = self.threads * self.thread_bytes
        ones = np.zeros(self.units * UNIT, np.uint8)
        ones[: self.k] = 1
        self.ones = self.keep(ones)
        for i in range(self.mr):
            self.a_step[i] = i * (self.pitch if self.copies_rows else self.row[A])
            self.c_step[i], self.sums_step[i] = i * self.row[C], i * self.nr
        return 0

    # ---- a run

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.batches:
            self.run_shares(self.threads, at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef Work w
        cdef int64_t tasks = self.batches * self.groups * self.blocks, task, last
        enter(self.kernel_row)
        self.begin(&w, workspace + slot * self.thread_bytes)
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &task, &last):
            for task in range(task, last):
                self.multiply_block(&w, at, task // self.blocks // self.groups, task // self.blocks % self.groups,
                                    task % self.blocks)
        leave(self.kernel_row)

    cdef void begin(self, Work *w, char *workspace) noexcept nogil:
        """Set what does not depend on the task."""
        cdef int i
        w.panels, w.rows, w.columns = workspace, workspace + self.at_rows, workspace + self.at_columns
        w.sums, w.batch, w.zero_tap = workspace + self.at_sums, -1, 0
        begin_tile(&w.tile, &w.zero_tap, w.c_col, self.nr // self.lanes, self.lanes * sizeof(int32_t))
        w.tile.chunk = <int64_t>1 << 62  # integers need no totals
        w.tile.ldb, w.tile.kb, w.tile.kb_last = self.nr, self.units, self.units
        w.ones = w.tile
        w.ones.a, w.ones.row, w.ones.c_row, w.ones.rows = self.ones, &w.zero_tap, &w.zero_tap, 1
        w.tile.row, w.tile.flip, w.tile.out = self.a_step, self.a_flip, &w.rounding
        w.tile.bias_row = w.row_bias if self.b_zero else NULL
        memset(&w.rounding, 0, sizeof(lk_rounding))
        memset(w.rounding.most, 255, sizeof(w.rounding.most))
        for i in range(self.nr):
            w.rounding.mul[i] = self.scale
        w.rounding.sign = 128 if self.c_signed else 0
        w.rounding.zero, w.rounding.shifts = self.c_zero + w.rounding.sign, self.c_zero != 0

    cdef inline char *operand(self, char **at, int i, int64_t batch) noexcept nogil:
        return at[self.array[i]] + self.offset[i] + self.matrix[i][batch]

    cdef void multiply_block(self, Work *w, char **at, int64_t batch, int64_t group, int64_t block) noexcept nogil:
        """A block of rows by a group of panels, which are packed unless the task before has packed them."""
        cdef int64_t first = share(self.tiles, self.blocks, block), last = share(self.tiles, self.blocks, block + 1)
        cdef int64_t first_panel = share(self.panels, self.groups, group)
        cdef int64_t end_panel = share(self.panels, self.groups, group + 1), panel, t, row, row0, i
        cdef const char *a = self.operand(at, A, batch)
        cdef char *c = self.operand(at, C, batch)
        cdef lk_gemm *tile = &w.tile
        if w.batch != batch or w.group != group:
            self.pack(w, self.operand(at, B, batch), first_panel, end_panel)
            w.batch, w.group = batch, group
        row0 = share(self.m, self.tiles, first)
        if self.copies_rows:
            self.copy_rows(a, row0, share(self.m, self.tiles, last), w.rows)
        for t in range(first, last):
            row = share(self.m, self.tiles, t)
            tile.rows = <int>(share(self.m, self.tiles, t + 1) - row)
            tile.a = w.rows + (row - row0) * self.pitch if self.copies_rows else a + row * self.row[A]
            if self.b_zero:
                for i in range(tile.rows):
                    w.row_bias[i] = self.b_zero * <int32_t>(self.k * self.a_zero - self.sum_of(tile.a + self.a_step[i]))
            for panel in range(first_panel, end_panel):
                tile.b = w.panels + (panel - first_panel) * self.panel_bytes
                tile.cols = <int>min(self.nr, self.n - panel * self.nr)
                tile.bias_col = w.columns + (panel - first_panel) * self.nr * sizeof(int32_t) if self.a_zero else NULL
                tile.c, tile.c_row = c + row * self.row[C] + panel * self.nr * self.col[C], self.c_step
                if self.buffered:
                    tile.c, tile.c_row = w.sums, self.sums_step
                self.micro_kernel(tile)
                if self.buffered:
                    move(&self.bytes_moves, w.sums, self.nr, 1, c + row * self.row[C] + panel * self.nr * self.col[C],
                         self.row[C], self.col[C], tile.rows, tile.cols)

    cdef int64_t sum_of(self, const char *a) noexcept nogil:
        """The sum of a row as the micro-kernel takes it. Bytes behind the last one are 0 there."""
        cdef int64_t total = 0, words = self.units // 2, first = 0, i
        cdef uint64_t word, pairs, flip = <uint64_t>self.a_flip << 32 | self.a_flip
        while first < words:
            pairs = 0
            for i in range(first, min(words, first + WORDS)):
                memcpy(&word, a + 8 * i, 8)
                pairs += by_pairs(word ^ flip)
            total += total_of(pairs)
            first += WORDS
        if self.units % 2:
            word = 0
            memcpy(&word, a + 8 * words, UNIT)
            total += total_of(by_pairs(word ^ self.a_flip))
        return total

    # ---- copies

    cdef void copy_rows(self, const char *a, int64_t row, int64_t end, char *to) noexcept nogil:
        """Copy rows [row, end) of a matrix, padded to whole units by what the micro-kernel takes for 0."""
        cdef int64_t i
        cdef int rest = self.k % UNIT
        if rest:
            for i in range(end - row):
                memset(to + i * self.pitch + self.k, self.a_flip & 0xff, UNIT - rest)
        move(&self.bytes_moves, a + row * self.row[A], self.row[A], self.col[A], to, self.pitch, 1, end - row, self.k)

    cdef void pack(self, Work *w, const char *b, int64_t first, int64_t end) noexcept nogil:
        """Pack panels [first, end) of a matrix, and find what sums of their columns begin with."""
        cdef int64_t panel, cols, j
        cdef char *to = w.panels
        cdef int32_t *columns = <int32_t *>w.columns
        for panel in range(first, end):
            cols = min(self.nr, self.n - panel * self.nr)
            self.pack_panel(b + panel * self.nr * self.col[B], to, cols)
            if self.a_zero:
                w.ones.b, w.ones.c, w.ones.cols = to, <char *>columns, <int>(ceil_div(cols, self.lanes) * self.lanes)
                self.micro_kernel(&w.ones)
                for j in range(cols):
                    columns[j] *= -self.a_zero
            to += self.panel_bytes
            columns += self.nr

    cdef void pack_panel(self, const char *b, char *to, int64_t cols) noexcept nogil:
        """Pack columns of a matrix as [units][nr][4]."""
        cdef int64_t row_bytes = self.nr * UNIT, whole = self.k // UNIT, unit
        if cols % self.lanes or self.k % UNIT:
            memset(to, 0, self.panel_bytes)
        if self.row[B] == 1:  # units lie one after another
            move(&self.unit_moves, b, UNIT, self.col[B], to, row_bytes, UNIT, whole, cols)
        else:
            for unit in range(whole):
                move(&self.bytes_moves, b + unit * UNIT * self.row[B], self.row[B], self.col[B], to + unit * row_bytes, 1,
                     UNIT, UNIT, cols)
        if self.k % UNIT:
            move(&self.bytes_moves, b + whole * UNIT * self.row[B], self.row[B], self.col[B], to + whole * row_bytes, 1,
                 UNIT, self.k % UNIT, cols)
        if self.b_flip:
            flip_run(to, self.units * row_bytes, self.b_flip)


def best_kernel(m, n, k):
    """Cycles of the products of a matrix, and the kernel that takes the fewest; None without kernels that round to bytes."""
    rows = [row for row in registry.kernels("gemm", "u8s8") if row.lanes > 4 and row.tile.cycles.rows_at_once == 1]
    ways = [(product_cycles(row, m, n, ceil_div(k, UNIT)), row) for row in rows if row.isa == rows[0].isa]
    return min(ways, key=itemgetter(0)) if ways else None


def _check(a, b, c, zeros, scale):
    """Raise an error if these operands cannot be multiplied."""
    (m, k), (l, n) = a.shape[-2:], b.shape[-2:]
    if k != l or c.shape[-2:] != (m, n) or not broadcasts(c.shape[:-2], a.shape[:-2], b.shape[:-2]):
        raise ValueError(f"ByteMatmul: {a.shape} times {b.shape} into {c.shape}")
    if k > MAX_K or not 0 <= scale <= MAX_SCALE:
        raise ValueError(f"ByteMatmul: sums of {k} products by a scale of {scale}, at most {MAX_K} and {MAX_SCALE}")
    for name, x, zero in zip("abc", (a, b, c), zeros):
        if x.dtype not in (np.uint8, np.int8):
            raise TypeError(f"ByteMatmul: {name} is {x.dtype}, expected uint8 or int8")
        if not np.iinfo(x.dtype).min <= zero <= np.iinfo(x.dtype).max:
            raise ValueError(f"ByteMatmul: the zero point {zero} of {name} is no {x.dtype}")
