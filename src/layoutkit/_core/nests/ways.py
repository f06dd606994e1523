"""Ways to multiply matrices: which operand has the rows of the register tile, which axes of a batch become rows, and
how the work is divided among threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..runtime import registry
from ..runtime.registry import Kernel
from .axes import addressable, merged
from .pixel_tiles import tile_cycles

# Cycles of an element that is packed: of a contiguous row, transposed, gathered.
COPY_CYCLES, TRANSPOSE_CYCLES, GATHER_CYCLES = 0.12, 0.3, 2.0
LINE = 64  # bytes
ROWS_BYTES = 384 << 10  # of a block of rows, in L2 beside a panel
GROUP_BYTES = 256 << 10  # of the panels that a thread packs at a time, in L2
SMALL_BYTES = 512 << 10  # of rows that are read again for each such group
SLAB_BYTES = 8 << 20  # of the panels that are packed for all threads at a time
TASKS_PER_THREAD = 8  # if there would be fewer, they are made smaller
CYCLES_PER_THREAD = 10000  # at least
BYTES_PER_CYCLE = 8  # of memory
TYPES = {4: "f32", 8: "f64"}  # of elements of so many bytes


class Way:
    """``c = a @ b``, or, if `swapped`, the same with the transposes of all three: ``c.T = b.T @ a.T``.

    Attributes
    ----------
    a, b, c : ndarray
        In this order, a and b broadcast: rows, columns and the result.
    m, n, k : int
        Of each product of matrices. Axes of a batch along which `b` is the same have become rows.
    rows : list of (int, int, int)
        The axes of the rows: extents, and strides in `a` and `c`.
    batch : list of (int, int, int, int)
        The other axes: extents, and strides in `a`, `b` and `c`.
    """

    def __init__(
        self, a: np.ndarray, b: np.ndarray, c: np.ndarray, constant: str, kernel: Kernel, swapped: bool, joins: bool
    ) -> None:
        if swapped:
            a, b, c = (x.swapaxes(-1, -2) for x in (b, a, c))
        a, b = addressable(a), addressable(b)
        self.kernel, self.swapped, self.joins = kernel, swapped, joins
        self.a, self.b, self.c = a, b, c
        self.constant_a, self.constant_b = constant == "ab"[swapped], constant == "ba"[swapped]
        self.k, self.n = b.shape[-2:]
        self._find_axes()

    def _find_axes(self) -> None:
        outer = self.c.shape[:-2]
        self.a, self.b = (np.broadcast_to(x, outer + x.shape[-2:]) for x in (self.a, self.b))
        operands = self.a, self.b, self.c
        axes = [(n, *(x.strides[i] for x in operands)) for i, n in enumerate(outer) if n != 1]
        as_rows = [axis for axis in axes if axis[2] == 0 and self.joins]
        inner = self.c.shape[-2], self.a.strides[-2], self.c.strides[-2]
        self.rows = merged([*((n, sa, sc) for n, sa, _, sc in as_rows), inner]) or [inner]
        self.batch = merged([axis for axis in axes if axis not in as_rows])
        self.m = prod(axis[0] for axis in self.rows)

    def with_contiguous_constant(self) -> Way:
        """The same, with a copy of a constant that has the rows, if need be, so that their numbers are contiguous."""
        if self.constant_a:
            self.a = np.ascontiguousarray(self.a)
            self._find_axes()
        return self

    @property
    def packs_rows(self) -> bool:
        """Whether rows are copied, because their numbers are not contiguous."""
        return self.k > 1 and self.a.strides[-1] != self.a.itemsize

    @property
    def buffered(self) -> bool:
        """Whether tiles are computed in a buffer, because rows of the result are not contiguous."""
        return self.n > 1 and self.c.strides[-1] != self.c.itemsize

    @property
    def pitch(self) -> int:
        """Bytes from a row that is copied to the next."""
        return _aligned(self.k * self.c.itemsize) + LINE

    def cycles(self) -> float:
        """Estimated cycles on one thread."""
        tiles = -(-self.m // self.kernel.mr)
        total = product_cycles(self.kernel, self.m, self.n, self.k)
        if self.packs_rows and not self.constant_a:
            total += _packing(self.a, -1, -2) * self.m * self.k
        if not self.constant_b and (tiles > 1 or self.b.strides[-1] != self.b.itemsize):
            total += _packing(self.b, -1, -2) * self.n * self.k
        if self.buffered:
            total += 2 * _packing(self.c, -1, -2) * self.m * self.n
        return total * prod(axis[0] for axis in self.batch)


def best_way(a: np.ndarray, b: np.ndarray, c: np.ndarray, constant: str, per_column: bool) -> tuple[Way, float]:
    """The way that takes the fewest cycles, and how many; `per_column`: the epilogue differs by columns of `c`."""
    kernels = registry.best("gemm", TYPES[c.itemsize])
    ways = [
        Way(a, b, c, constant, kernel, swapped, not (swapped and per_column))
        for swapped in (False, True)
        for kernel in kernels
    ]
    cycles = [way.cycles() for way in ways]
    at = cycles.index(min(cycles))
    return ways[at].with_contiguous_constant(), cycles[at]


def product_cycles(kernel: Kernel, m: int, n: int, k: int) -> float:
    """Cycles of all register tiles of a product of matrices; rows are divided evenly among tiles."""
    tiles, total = -(-m // kernel.mr), 0.0
    assert kernel.tile is not None
    for count, columns in ((n // kernel.nr, kernel.nr), (1, n % kernel.nr)):
        if columns and count and tiles:
            vectors = -(-columns // kernel.lanes)
            total += count * tiles * tile_cycles(kernel.tile.cycles, m / tiles, vectors, k, max(1, k))
    return total


def _packing(x: np.ndarray, along: int, across: int) -> float:
    """Cycles of an element that is packed; axis `along` of x is contiguous in the copy, `across` is the other one."""
    if x.strides[along] == x.itemsize:
        return COPY_CYCLES
    return TRANSPOSE_CYCLES if x.strides[across] == x.itemsize else GATHER_CYCLES


class Division(NamedTuple):
    """How a product is divided: a task is a block of rows times a group of panels of columns.

    `source` says where panels come from: "constant" (packed once), "own" (a thread packs the panels of its task),
    "shared" (threads pack a slab of panels, then all use it) or "in place" (not packed, as each is read once).
    """

    source: str
    threads: int
    blocks: int  # of rows
    groups: int  # of panels
    slab: int  # panels that are packed at a time
    shared_bytes: int  # of a slab
    own_bytes: int  # by thread: of its panels,
    rows_bytes: int  # of a block of rows that is copied,
    thread_bytes: int  # and in all


def divided(way: Way, threads: int, cycles: float) -> Division:
    """The division of a product that takes so many cycles, for at most so many threads."""
    item, mr, nr = way.c.itemsize, way.kernel.mr, way.kernel.nr
    batches = prod(axis[0] for axis in way.batch)
    tiles, panels = -(-way.m // mr), -(-way.n // nr)
    moved = item * batches * (way.m * way.k + way.k * way.n + way.m * way.n)
    threads = int(max(1.0, min(threads, max(cycles, moved / BYTES_PER_CYCLE) / CYCLES_PER_THREAD)))
    tasks_wanted = TASKS_PER_THREAD * threads if threads > 1 else 1

    row_bytes, panel_bytes = max(1, way.k) * item, _aligned(way.k * nr * item)
    group = max(1, min(panels, GROUP_BYTES // max(1, panel_bytes)))
    blocks, groups, slab = -(-tiles // max(1, ROWS_BYTES // (row_bytes * mr))), 1, panels
    if way.constant_b:
        source = "constant"
    elif tiles == 1 and way.b.strides[-1] == item:
        source = "in place"
    elif way.m * row_bytes <= SMALL_BYTES and (threads == 1 or batches * -(-panels // group) >= 2 * threads):
        source, blocks = "own", 1
    else:
        source, slab = "shared", max(threads, min(panels, SLAB_BYTES // max(1, panel_bytes)))
    if source == "own":
        groups = -(-panels // group)
        if batches * groups < tasks_wanted:
            groups = min(panels, -(-tasks_wanted // batches))
    else:
        if batches * blocks * panels < tasks_wanted:
            blocks = min(tiles, -(-tasks_wanted // (batches * panels)))
        groups = 1 if batches * blocks >= tasks_wanted and source != "shared" else panels

    own_bytes = {"own": -(-panels // groups) * panel_bytes, "in place": panel_bytes}.get(source, 0)
    rows_bytes = _aligned(-(-tiles // blocks) * mr * way.pitch) if way.packs_rows else 0
    thread_bytes = own_bytes + rows_bytes + LINE + (2 * _aligned(mr * nr * item) if way.buffered else 0)
    shared_bytes = slab * panel_bytes if source == "shared" else 0
    return Division(source, threads, blocks, groups, slab, shared_bytes, own_bytes, rows_bytes, thread_bytes)


def _aligned(nbytes: int) -> int:
    """Bytes of whole cache lines."""
    return -(-nbytes // LINE) * LINE


def broadcasts(to: Sequence[int], *shapes: Sequence[int]) -> bool:
    """Whether numpy broadcasts arrays of these shapes to the shape `to`."""
    return all(len(s) <= len(to) and all(n in (1, m) for n, m in zip(s[::-1], to[::-1])) for s in shapes)
