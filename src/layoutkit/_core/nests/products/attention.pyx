"""Attention over tiles of queries and blocks of keys:

    O[b][i][:] = sum over j of w[j] V[b][j][:],    w = softmax over j of scale * Q[b][i] . K[b][j] + mask[b][i][j]

The scores of a register tile of queries with a block of keys stay in L1, where they become weights; K and V of a block are
packed as panels, which stay in L2. Softmax is online: each block updates the maximum of the scores and the sum of the
weights of a row, and the sums of the blocks before are rescaled. Blocks depend on the shapes alone: the bits are the same
for any number of threads.

With `pairs` q, k, v and the weights are rounded to bfloat16 where they are packed, and multiplied two at a time: a unit of
four bytes is a pair of numbers along the sum, which is half as long. Scores and sums stay in float32.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t
from libc.string cimport memset

from operator import itemgetter

import numpy as np

from ...runtime import registry
from ..axes import addressable, merged, offsets, viewed_array
from .matmul_plan import TYPES, broadcasts, product_cycles

from ...kernels cimport LK_EPILOGUE, LK_WEIGHTS, lk_kernel
from ...kernels.attention cimport lk_weights, lk_weights_fn
from ...kernels.elementwise cimport LK_PER_CHANNEL, LK_STEP_MUL, lk_epilogue, lk_epilogue_fn, lk_step
from ...kernels.gemm cimport lk_gemm, lk_gemm_fn
from ...ndarray cimport PyArray_DATA, import_array, ndarray
from ...runtime.registry cimport row_named, row_of
from ...runtime.team cimport lk_claim, lk_portions
from ..executor cimport MAX_COLS, MAX_ROWS, aligned, ceil_div, enter, leave, share
from ..operation cimport Operation
from ..packing cimport Moves, begin_tile, move, moves_of, pack_panels

import_array()

cdef enum:
    BLOCK_BYTES = 512 << 10     # of K and V that are packed at a time, in L2
    MAX_KEYS = 1024             # of a block: a tile of scores stays in L1
    TASK_TILES = 8
    TASKS_PER_THREAD = 4
    CYCLES_PER_THREAD = 10000   # at least
    CYCLES_PER_SCORE = 2        # from a score to a weight
    ROUNDED_ROW_CYCLES = 6      # of a row of Q, K, V or weights that is rounded,
    ROUNDED_TAIL_CYCLES = 15    # if it is not of whole vectors: what a mask has stored is waited for

ROUNDED_CYCLES = 0.2  # of each number of such a row

cdef enum:  # operands
    Q, K, V, O, MASK, OPERANDS


cdef struct Work:  # of a thread
    lk_gemm tile
    lk_weights weights
    lk_epilogue scaling         # of rows of sums, each by a number
    lk_epilogue rounding        # of rows, to bfloat16
    lk_step step
    char *keys                  # a block of K and V, packed
    char *values
    char *queries               # a tile of Q, copied
    char *masks                 # of a tile, copied
    char *rounded               # rows of K or V that are packed
    char *scores                # of a tile
    char *sums                  # of a task
    char *maxima                # of the scores of each row of a task; then sums of weights, and factors for the sums
    int64_t k_at, v_at, block   # the offsets of the matrices and the block that are packed
    int64_t zero_tap
    int64_t c_col[MAX_COLS]
    char *operand[OPERANDS]


cdef class Attention(Operation):
    """``o = softmax(scale * q @ k.T + mask) @ v``, for each matrix of a batch.

    Parameters
    ----------
    q, k, v, o : ndarray
        Of float32 or float64, of shapes (.., queries, depth), (.., keys, depth), (.., keys, width), (.., queries, width).
        The other axes are broadcast to those of `o`. Any strides; `o` shares no memory with the others.
    mask : ndarray, optional
        Broadcast to (.., queries, keys). -Inf leaves a key out; where all are left out, results are NaN.
    scale : float
    constant_mask : bool
        The mask never changes. It is not among the arrays of a run.
    arrays : sequence of ndarray, optional
        The arrays of a run, of which the others are views; by default these themselves, in this order.
    threads : int
    pairs : bool
        Of float32 whose rows are contiguous, numbers may be rounded to bfloat16 and multiplied in pairs, where there are
        kernels for that.
    """

    cdef lk_gemm_fn micro_kernel
    cdef lk_weights_fn weights_kernel
    cdef lk_epilogue_fn epilogue_kernel
    cdef lk_epilogue_fn rounding_kernel   # NULL: nothing is rounded
    cdef Moves pair_moves
    cdef const lk_kernel *kernel_row
    cdef Moves moves
    cdef int mr, nr, lanes, item, threads
    cdef int array[OPERANDS]            # which array of a run an operand is a view of, -1: none
    cdef int64_t offset[OPERANDS]       # and its first element there, in bytes
    cdef const int64_t *matrix[OPERANDS]  # offsets of the matrices of a batch
    cdef int64_t row[OPERANDS]          # strides
    cdef int64_t col[OPERANDS]
    cdef int64_t batches, queries, keys, depth, width
    cdef int64_t steps                  # of a score: numbers, or pairs of them
    cdef int64_t tiles, tasks           # of queries: of a matrix
    cdef int64_t blocks, block_keys     # of keys; keys of a block
    cdef int64_t q_pitch, v_pitch, scores_pitch, sums_pitch    # bytes from a row to the next
    cdef int64_t keys_panel, values_panel, maxima_bytes
    cdef int64_t at_values, at_queries, at_rounded, at_masks, at_scores, at_sums, at_maxima, thread_bytes  # in a thread's workspace
    cdef bint packs_queries, gathers_mask, has_mask
    cdef const char *constant_mask
    cdef double scale
    cdef int64_t q_step[MAX_ROWS]
    cdef int64_t q_rounded[MAX_ROWS]    # offsets of rows of Q and K, and of V, that are rounded
    cdef int64_t v_rounded[MAX_ROWS]
    cdef int64_t scores_step[MAX_ROWS]
    cdef int64_t sums_step[MAX_ROWS]

    def __init__(self, q, k, v, o, mask=None, *, double scale=1, bint constant_mask=False, arrays=None, int threads=1,
                 bint pairs=False):
        operands = q, k, v, o, mask
        _check(q, k, v, o, mask)
        if arrays is None:
            arrays = [x for x in operands if x is not None and not (x is mask and constant_mask)]
        self.bind(tuple(arrays))
        self.item, self.threads, self.scale, self.batches = o.itemsize, threads, scale, 0
        if not o.size:
            return
        outer = o.shape[:-2]
        views = [np.broadcast_to(x, outer + x.shape[-2:]) for x in operands[:4]]
        self.constant_mask, self.has_mask = NULL, mask is not None
        if mask is not None:
            mask = np.ascontiguousarray(mask) if constant_mask else mask
            if constant_mask:
                self.owned.append(mask)
                self.constant_mask = <const char *>PyArray_DATA(<ndarray>mask)
            views.append(np.broadcast_to(mask, (*outer, q.shape[-2], k.shape[-2])))
        for i, x in enumerate(operands):
            self.array[i] = -1
            if x is not None and x.size and not (i == MASK and constant_mask):
                self.array[i], self.offset[i] = viewed_array(x, arrays)
        self.set_strides(views, outer)
        self.set_division(pairs)

    cdef int set_strides(self, views, outer) except -1:
        cdef int i
        views = [addressable(x) for x in views]
        axes = merged([(n, *(x.strides[i] for x in views)) for i, n in enumerate(outer)])
        for i, x in enumerate(views):
            self.matrix[i] = <const int64_t *>self.keep(offsets(axes, 1 + i))
            self.row[i], self.col[i] = x.strides[-2], x.strides[-1]
        self.batches = int(np.prod(outer, dtype=np.int64))
        self.queries, self.depth = views[Q].shape[-2:]
        self.keys, self.width = views[V].shape[-2:]
        self.packs_queries = self.col[Q] != self.item and self.depth > 1
        self.gathers_mask = self.has_mask and self.col[MASK] not in (0, self.item)
        return 0

    cdef int set_division(self, bint pairs) except -1:
        """The register tile, the blocks of keys, the tasks, and the workspace of a thread."""
        cdef int64_t item = self.item, rows, kr
        cdef int i
        cdef double cycles
        in_rows = [n < 2 or col == self.item for n, col in ((self.depth, self.col[Q]), (self.depth, self.col[K]),
                                                            (self.width, self.col[V]))]
        ways = self.ways(registry.best("gemm", TYPES[self.item]))
        if pairs and self.item == 4 and all(in_rows):
            ways += self.ways(_of_pairs())
        cycles, kernel = min(ways, key=itemgetter(0))
        kr, self.rounding_kernel = kernel.kr, NULL
        self.steps = ceil_div(self.depth, kr)
        cycles += CYCLES_PER_SCORE * self.queries * self.keys
        self.threads = <int>max(1.0, min(<double>self.threads, self.batches * cycles / CYCLES_PER_THREAD))
        self.kernel_row = row_named(kernel.name)
        self.micro_kernel = <lk_gemm_fn>self.kernel_row.fn
        self.weights_kernel = <lk_weights_fn>row_of(LK_WEIGHTS, TYPES[self.item], self.kernel_row.isa).fn
        self.epilogue_kernel = <lk_epilogue_fn>row_of(LK_EPILOGUE, TYPES[self.item], self.kernel_row.isa).fn
        if kr == 2:
            self.rounding_kernel = <lk_epilogue_fn>row_of(LK_EPILOGUE, "bf16", self.kernel_row.isa).fn
            self.pair_moves, self.packs_queries = moves_of(2), True
        self.mr, self.nr, self.lanes, self.moves = kernel.mr, kernel.nr, kernel.lanes, moves_of(self.item)
        self.tiles = ceil_div(self.queries, self.mr)
        self.tasks = ceil_div(self.tiles, TASK_TILES)
        if self.threads > 1 and self.batches * self.tasks < TASKS_PER_THREAD * self.threads:
            self.tasks = min(self.tiles, ceil_div(TASKS_PER_THREAD * self.threads, self.batches))
        self.block_keys = max(self.nr, min(MAX_KEYS, BLOCK_BYTES // (item * max(1, self.depth + self.width))))
        self.blocks = max(1, ceil_div(self.keys, self.block_keys))
        self.block_keys = ceil_div(ceil_div(self.keys, self.blocks), self.lanes) * self.lanes
        self.blocks = max(1, ceil_div(self.keys, max(1, self.block_keys)))
        self.q_pitch, self.scores_pitch = aligned(self.steps * item) + 64, aligned(self.block_keys * item) + 64
        self.v_pitch, self.sums_pitch = aligned(2 * self.width), aligned(self.width * item)
        self.keys_panel = self.steps * self.nr * item
        self.values_panel = ceil_div(self.block_keys, kr) * self.nr * item
        rows = ceil_div(self.tiles, self.tasks) * self.mr
        self.maxima_bytes = aligned(rows * item)
        self.at_values = aligned(ceil_div(self.block_keys, self.nr) * self.keys_panel)
        self.at_queries = self.at_values + aligned(ceil_div(self.width, self.nr) * self.values_panel)
        self.at_rounded = self.at_queries + (self.mr * self.q_pitch if self.packs_queries else 0)
        self.at_masks = self.at_rounded + (max(self.nr * self.q_pitch, MAX_ROWS * self.v_pitch) if kr == 2 else 0)
        self.at_scores = self.at_masks + (self.mr * self.scores_pitch if self.gathers_mask else 0)
        self.at_sums = self.at_scores + self.mr * self.scores_pitch
        self.at_maxima = self.at_sums + rows * self.sums_pitch
        self.thread_bytes = self.at_maxima + 3 * self.maxima_bytes + 64
        self.workspace = self.threads * self.thread_bytes
        for i in range(self.mr):
            self.q_step[i] = i * (self.q_pitch if self.packs_queries else self.row[Q])
            self.scores_step[i], self.sums_step[i] = i * self.scores_pitch, i * self.sums_pitch
        for i in range(MAX_ROWS):
            self.q_rounded[i], self.v_rounded[i] = i * self.q_pitch, i * self.v_pitch
        return 0

    cdef list ways(self, kernels):
        """Cycles of the products of a matrix by each of these kernels, and what is rounded for them."""
        cdef double rounding = 2 * ROUNDED_ROW_CYCLES * <double>(self.keys + self.queries)
        cdef int lanes = kernels[0].lanes if kernels else 1
        out = []
        rounding += ROUNDED_TAIL_CYCLES * (<double>(self.keys + self.queries) * (self.depth % lanes > 0)
                                           + <double>self.keys * (self.width % lanes > 0))
        rounding += ROUNDED_CYCLES * (self.keys * (self.depth + self.width) + self.queries * (self.depth + self.keys))
        for kernel in kernels:
            products = (self.keys, ceil_div(self.depth, kernel.kr)), (self.width, ceil_div(self.keys, kernel.kr))
            cycles = sum([product_cycles(kernel, self.queries, n, k) for n, k in products])
            out.append((cycles + (rounding if kernel.kr > 1 else 0), kernel))
        return out

    cdef void run(self, char **at, char *workspace) noexcept nogil:
        if self.batches:
            self.run_shares(self.threads, at, workspace)

    cdef void run_share(self, char **at, char *workspace, int slot, int part, int parts,
                        lk_portions *portions) noexcept nogil:
        cdef Work w
        cdef int64_t tasks = self.batches * self.tasks, task, last
        cdef int i
        enter(self.kernel_row)
        self.begin(&w, workspace + slot * self.thread_bytes)
        for i in range(OPERANDS):
            w.operand[i] = at[self.array[i]] + self.offset[i] if self.array[i] >= 0 else NULL
        if self.constant_mask != NULL:
            w.operand[MASK] = <char *>self.constant_mask
        while lk_claim(portions, share(tasks, parts, part), share(tasks, parts, part + 1), &task, &last):
            for task in range(task, last):
                self.attend_task(&w, task // self.tasks, task % self.tasks)
        leave(self.kernel_row)

    cdef void begin(self, Work *w, char *workspace) noexcept nogil:
        """Set what does not depend on the task: workspace, chunks of k, columns of a tile, the kernel that scales rows."""
        memset(w, 0, sizeof(Work))
        w.keys, w.values, w.queries = workspace, workspace + self.at_values, workspace + self.at_queries
        w.masks, w.scores, w.sums = workspace + self.at_masks, workspace + self.at_scores, workspace + self.at_sums
        w.maxima, w.block, w.rounded = workspace + self.at_maxima, -1, workspace + self.at_rounded
        begin_tile(&w.tile, &w.zero_tap, w.c_col, self.nr // self.lanes, self.lanes * self.item)
        w.tile.ldb = self.nr
        w.weights.s, w.weights.s_row, w.weights.scale = w.scores, self.scores_pitch, self.scale
        w.step.step, w.step.kind = LK_STEP_MUL, LK_PER_CHANNEL
        w.scaling.step, w.scaling.steps, w.scaling.channel_row = &w.step, 1, 1
        w.scaling.y, w.scaling.count = w.sums, self.width
        if self.rounding_kernel != NULL:
            memset(w.queries, 0, self.mr * self.q_pitch)  # the second number of a last pair that is none

    cdef void attend_task(self, Work *w, int64_t batch, int64_t task) noexcept nogil:
        """Some tiles of queries of a matrix, with one block of keys after another."""
        cdef int64_t first = share(self.tiles, self.tasks, task), last = share(self.tiles, self.tasks, task + 1)
        cdef int64_t row0 = share(self.queries, self.tiles, first), rows, row, t, block, i
        cdef char *o = w.operand[O] + self.matrix[O][batch]
        rows = share(self.queries, self.tiles, last) - row0
        for i in range(rows):
            self.set_number(w.maxima + i * self.item, -INFINITY)
            self.set_number(w.maxima + self.maxima_bytes + i * self.item, 0)
        for block in range(self.blocks):
            self.pack(w, batch, block)
            for t in range(first, last):
                row = share(self.queries, self.tiles, t)
                w.tile.rows = <int>(share(self.queries, self.tiles, t + 1) - row)
                self.attend_tile(w, batch, block, row, row - row0)
        for i in range(rows if self.keys else 0):
            self.invert(w.maxima + self.maxima_bytes + i * self.item)
        if self.keys:
            self.scale_rows(w, w.maxima + self.maxima_bytes, 0, rows)
        move(&self.moves, w.sums, self.sums_pitch, self.item, o + row0 * self.row[O], self.row[O], self.col[O], rows,
             self.width)

    cdef inline void set_number(self, char *at, double number) noexcept nogil:
        if self.item == 4:
            (<float *>at)[0] = <float>number
        else:
            (<double *>at)[0] = number

    cdef inline void invert(self, char *at) noexcept nogil:
        if self.item == 4:
            (<float *>at)[0] = 1 / (<float *>at)[0]
        else:
            (<double *>at)[0] = 1 / (<double *>at)[0]

    cdef void scale_rows(self, Work *w, const char *by, int64_t first, int64_t rows) noexcept nogil:
        """Multiply rows of the sums, from row `first` of the task on, each by its number."""
        cdef int64_t count
        while rows > 0:
            count = min(rows, self.mr)
            w.step.operand = by
            w.scaling.row, w.scaling.offset, w.scaling.channel = self.sums_step, first * self.sums_pitch, first
            w.scaling.rows = count
            self.epilogue_kernel(&w.scaling)
            first += count
            rows -= count

    cdef void pack(self, Work *w, int64_t batch, int64_t block) noexcept nogil:
        """Pack a block of K and V, unless the task before has packed it."""
        cdef int64_t k_at = self.matrix[K][batch], v_at = self.matrix[V][batch], key = block * self.block_keys
        cdef int64_t count = min(self.block_keys, self.keys - key)
        cdef const char *k = w.operand[K] + k_at + key * self.row[K]
        cdef const char *v = w.operand[V] + v_at + key * self.row[V]
        if w.block == block and w.k_at == k_at and w.v_at == v_at:
            return
        w.block, w.k_at, w.v_at = block, k_at, v_at
        if self.rounding_kernel != NULL:
            self.pack_pairs_of_keys(w, k, count)
            self.pack_pairs_of_values(w, v, count)
            return
        pack_panels(&self.moves, k, self.col[K], self.row[K], w.keys, self.keys_panel, self.nr, self.lanes, self.depth, count)
        pack_panels(&self.moves, v, self.row[V], self.col[V], w.values, self.values_panel, self.nr, self.lanes, count,
                    self.width)

    cdef void round_rows(self, Work *w, const char *x, int64_t x_row, char *y, const int64_t *y_row, int64_t rows,
                         int64_t count) noexcept nogil:
        """Round rows of numbers to bfloat16; they may begin at the same places."""
        w.rounding.sums, w.rounding.sums_row, w.rounding.y, w.rounding.row = <char *>x, x_row, y, y_row
        w.rounding.rows, w.rounding.count = rows, count
        self.rounding_kernel(&w.rounding)

    cdef void pack_pairs_of_keys(self, Work *w, const char *k, int64_t count) noexcept nogil:
        """Pack rows of K: the pairs of each are a column of a panel."""
        cdef int64_t first = 0, rows, i
        cdef char *panel = w.keys
        if self.depth % 2:
            memset(w.rounded, 0, self.nr * self.q_pitch)
        while first < count:
            rows, i = min(self.nr, count - first), 0
            while i < rows:
                self.round_rows(w, k + (first + i) * self.row[K], self.row[K], w.rounded + i * self.q_pitch,
                                self.q_rounded, min(MAX_ROWS, rows - i), self.depth)
                i += MAX_ROWS
            pack_panels(&self.moves, w.rounded, self.item, self.q_pitch, panel, self.keys_panel, self.nr, self.lanes,
                        self.steps, rows)
            first += rows
            panel += self.keys_panel

    cdef void pack_pairs_of_values(self, Work *w, const char *v, int64_t count) noexcept nogil:
        """Pack rows of V: two of them, side by side, are a row of each panel."""
        cdef int64_t first = 0, i, j, rows
        cdef char *to
        if self.width % self.lanes:
            memset(w.values, 0, ceil_div(self.width, self.nr) * self.values_panel)
        while first < count:
            rows = min(MAX_ROWS, count - first)
            self.round_rows(w, v + first * self.row[V], self.row[V], w.rounded, self.v_rounded, rows, self.width)
            if rows % 2:
                memset(w.rounded + rows * self.v_pitch, 0, self.v_pitch)
            for i in range(0, rows, 2):
                j = 0
                while j < self.width:
                    to = w.values + j // self.nr * self.values_panel + (first + i) // 2 * self.nr * self.item
                    move(&self.pair_moves, w.rounded + i * self.v_pitch + 2 * j, self.v_pitch, 2, to, 2, 4, 2,
                         min(self.nr, self.width - j))
                    j += self.nr
            first += rows

    cdef void attend_tile(self, Work *w, int64_t batch, int64_t block, int64_t row, int64_t at) noexcept nogil:
        """A tile of queries from `row` on, row `at` of its task, with a block of keys."""
        cdef lk_gemm *tile = &w.tile
        cdef lk_weights *weights = &w.weights
        cdef int64_t key = block * self.block_keys, count = min(self.block_keys, self.keys - key), j
        cdef int64_t item = self.item
        cdef const char *q = w.operand[Q] + self.matrix[Q][batch] + row * self.row[Q]
        cdef char *maxima = w.maxima + at * item
        if self.rounding_kernel != NULL:
            self.round_rows(w, q, self.row[Q], w.queries, self.q_rounded, tile.rows, self.depth)
            q = w.queries
        elif self.packs_queries:
            move(&self.moves, q, self.row[Q], self.col[Q], w.queries, self.q_pitch, item, tile.rows, self.depth)
            q = w.queries
        tile.a, tile.row, tile.kb, tile.kb_last, tile.resume = q, self.q_step, self.steps, self.steps, False
        tile.c_row = self.scores_step
        j = 0
        while j < count:
            tile.b, tile.c = w.keys + j // self.nr * self.keys_panel, w.scores + j * item
            tile.cols = <int>min(self.nr, count - j)
            self.micro_kernel(tile)
            j += self.nr
        weights.rows, weights.count = tile.rows, max(0, count)
        weights.maxima, weights.sums, weights.factors = maxima, maxima + self.maxima_bytes, maxima + 2 * self.maxima_bytes
        if self.has_mask:
            weights.mask = w.operand[MASK] + self.matrix[MASK][batch] + row * self.row[MASK] + key * self.col[MASK]
            weights.mask_row, weights.mask_col = self.row[MASK], self.col[MASK]
            if self.gathers_mask:
                move(&self.moves, weights.mask, self.row[MASK], self.col[MASK], w.masks, self.scores_pitch, item,
                     tile.rows, count)
                weights.mask, weights.mask_row, weights.mask_col = w.masks, self.scores_pitch, item
        self.weights_kernel(weights)
        if block:
            self.scale_rows(w, w.maxima + 2 * self.maxima_bytes, at, tile.rows)
        if self.rounding_kernel != NULL:  # weights behind the last one, up to a whole vector, are 0
            self.round_rows(w, w.scores, self.scores_pitch, w.scores, self.scores_step, tile.rows, count + count % 2)
            count = ceil_div(count, 2)
        tile.a, tile.row, tile.kb, tile.kb_last, tile.resume = w.scores, self.scores_step, count, count, block > 0
        tile.c_row = self.sums_step
        j = 0
        while j < self.width:
            tile.b, tile.c = w.values + j // self.nr * self.values_panel, w.sums + at * self.sums_pitch + j * item
            tile.cols = <int>min(self.nr, self.width - j)
            self.micro_kernel(tile)
            j += self.nr


def _of_pairs():
    """The rows that multiply pairs of bfloat16 in vectors, of the best instruction set in use that has any."""
    rows = [row for row in registry.kernels("gemm", "bf16") if row.kr == 2 and row.tile.cycles.rows_at_once == 1]
    return [row for row in rows if row.isa == rows[0].isa]


def _check(q, k, v, o, mask):
    """Raise an error if these operands do not fit together."""
    operands = {"q": q, "k": k, "v": v, "o": o, "mask": mask}
    for name, x in operands.items():
        if x is not None and (x.dtype != o.dtype or x.dtype.kind != "f" or x.itemsize not in TYPES):
            raise TypeError(f"Attention: {name} is {x.dtype}, o is {o.dtype}; expected float32 or float64")
        if x is not None and any([step % x.itemsize for step in x.strides]):
            raise ValueError(f"Attention: strides of {name} {x.strides} are no multiples of an element")
    (queries, depth), (keys, width), outer = q.shape[-2:], v.shape[-2:], o.shape[:-2]
    fits = k.shape[-2:] == (keys, depth) and o.shape[-2:] == (queries, width)
    fits = fits and broadcasts(outer, q.shape[:-2], k.shape[:-2], v.shape[:-2])
    if mask is not None:
        fits = fits and broadcasts((*outer, queries, keys), mask.shape)
    if not fits:
        shapes = ", ".join([f"{name} {x.shape}" for name, x in operands.items() if x is not None])
        raise ValueError(f"Attention: {shapes}")
