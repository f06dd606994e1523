"""How matrices are multiplied: which operand has the rows of the register tile, which axes of a batch become rows, and
how the work is divided among threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from ...runtime import registry
from ...runtime.registry import Kernel
from ..axes import addressable, merged
from ..convolutions.pixel_tiles import tile_cycles

# Cycles of an element that is packed: of a contiguous row, transposed, gathered.
COPY_CYCLES, TRANSPOSE_CYCLES, GATHER_CYCLES = 0.12, 0.3, 2.0
LINE = 64  # bytes
ROWS_BYTES = 384 << 10  # of a block of rows, in L2 beside a panel
SLICES = 8, 4, 3, 2  # chunks of the sum that a slice may have
GROUP_BYTES = 256 << 10  # of the panels that a thread packs at a time, in L2
SMALL_BYTES = 512 << 10  # of rows that are read again for each such group
SLAB_BYTES = 8 << 20  # of the panels that are packed for all threads at a time
TASKS_PER_THREAD = 8  # if there would be fewer, they are made smaller
CYCLES_PER_THREAD = 10000  # at least
BYTES_PER_CYCLE = 8  # of memory
TYPES = {4: "f32", 8: "f64"}  # of elements of so many bytes


class Product:
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
        axes = [(n, *(x.strides[i] for x in (self.a, self.b, self.c))) for i, n in enumerate(outer) if n != 1]
        as_rows = [axis for axis in axes if axis[2] == 0 and self.joins]
        inner = self.c.shape[-2], self.a.strides[-2], self.c.strides[-2]
        self.rows = merged([*((n, sa, sc) for n, sa, _, sc in as_rows), inner]) or [inner]
        self.batch = merged([axis for axis in axes if axis not in as_rows])
        self.m = prod(axis[0] for axis in self.rows)

    def with_contiguous_constant(self) -> Product:
        """The same; if the rows are constant, with a copy of them whose elements are contiguous."""
        if self.constant_a:
            self.a = np.ascontiguousarray(self.a)
            self._find_axes()
        return self

    @property
    def packs_rows(self) -> bool:
        """Whether rows are copied, because their elements are not contiguous."""
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
            total += _packing(self.a) * self.m * self.k
        if not self.constant_b and (tiles > 1 or self.b.strides[-1] != self.b.itemsize):
            total += _packing(self.b) * self.n * self.k
        if self.buffered:
            total += 2 * _packing(self.c) * self.m * self.n
        return total * prod(axis[0] for axis in self.batch)


def best_product(a: np.ndarray, b: np.ndarray, c: np.ndarray, constant: str, per_column: bool) -> tuple[Product, float]:
    """The product of least cycles, and these; `per_column`: the epilogue differs by columns of `c`."""
    products = [
        Product(a, b, c, constant, kernel, swapped, not (swapped and per_column))
        for swapped in (False, True)
        for kernel in registry.best("gemm", TYPES[c.itemsize])
    ]
    cycles, best = min(((product.cycles(), product) for product in products), key=itemgetter(0))
    return best.with_contiguous_constant(), cycles


def product_cycles(kernel: Kernel, m: int, n: int, k: int) -> float:
    """Cycles of all register tiles of a product of matrices; rows are divided evenly among tiles."""
    tiles, total = -(-m // kernel.mr), 0.0
    assert kernel.tile is not None
    for count, columns in ((n // kernel.nr, kernel.nr), (1, n % kernel.nr)):
        if columns and count and tiles:
            vectors = -(-columns // kernel.lanes)
            total += count * tiles * tile_cycles(kernel.tile.cycles, m / tiles, vectors, k, max(1, k))
    return total


def _packing(x: np.ndarray) -> float:
    """Cycles of an element that is packed; the last axis of x is contiguous in the copy."""
    if x.strides[-1] == x.itemsize:
        return COPY_CYCLES
    return TRANSPOSE_CYCLES if x.strides[-2] == x.itemsize else GATHER_CYCLES


class Division(NamedTuple):
    """How a product is divided: a task is a block of rows times a group of panels of columns.

    `source` says where panels come from: "constant" (packed once), "own" (a thread packs the panels of its task),
    "shared" (threads pack a slab of panels, then all use it) or "in place" (not packed, as each is read once).
    """

    source: str
    threads: int
    slice: int  # of k: a block of rows is multiplied by all of its panels, a slice after another
    blocks: int  # of rows
    groups: int  # of panels
    slab: int  # panels that are packed at a time
    shared_bytes: int  # of a slab
    own_bytes: int  # by thread: of its panels,
    rows_bytes: int  # of a block of rows that is copied,
    thread_bytes: int  # and in all


def _slice_and_blocks(product: Product, chunk: int) -> tuple[int, int]:
    """The slice of k, whole chunks, and the blocks of rows, of which what is multiplied at a time stays in L2.

    Columns that are packed once are read for each block, and the result is read and written again for each slice: those
    that move the least. Other columns, and rows that are copied, go by whole rows.
    """
    item, mr, m, n, k = product.c.itemsize, product.kernel.mr, product.m, product.n, max(1, product.k)
    tiles, longest = -(-m // mr), SLICES[0] * chunk

    def blocks(length: int) -> int:
        return -(-tiles // max(1, ROWS_BYTES // (length * item * mr)))

    if product.buffered or k <= longest:
        return k, blocks(k)
    if product.packs_rows or not product.constant_b:
        return longest, blocks(k)
    moved = {
        length: blocks(length) * k * n + 2 * (-(-k // length) - 1) * m * n for length in (c * chunk for c in SLICES)
    }
    length = min(moved, key=moved.__getitem__)
    return length, blocks(length)


def divide(product: Product, threads: int, cycles: float, chunk: int) -> Division:
    """The division of a product that takes so many cycles, for at most so many threads, in sums of whole chunks."""
    item, mr, nr = product.c.itemsize, product.kernel.mr, product.kernel.nr
    batches = prod(axis[0] for axis in product.batch)
    tiles, panels = -(-product.m // mr), -(-product.n // nr)
    moved = item * batches * (product.m * product.k + product.k * product.n + product.m * product.n)
    threads = int(max(1.0, min(threads, max(cycles, moved / BYTES_PER_CYCLE) / CYCLES_PER_THREAD)))
    tasks_wanted = TASKS_PER_THREAD * threads if threads > 1 else 1

    row_bytes, panel_bytes = max(1, product.k) * item, _aligned(product.k * nr * item)
    group = max(1, min(panels, GROUP_BYTES // max(1, panel_bytes)))
    (length, blocks), groups, slab = _slice_and_blocks(product, chunk), 1, panels
    if product.constant_b:
        source = "constant"
    elif tiles == 1 and product.b.strides[-1] == item:
        source = "in place"
    elif product.m * row_bytes <= SMALL_BYTES and (threads == 1 or batches * -(-panels // group) >= 2 * threads):
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
    rows_bytes = _aligned(-(-tiles // blocks) * mr * product.pitch) if product.packs_rows else 0
    thread_bytes = own_bytes + rows_bytes + LINE + (2 * _aligned(mr * nr * item) if product.buffered else 0)
    shared_bytes = slab * panel_bytes if source == "shared" else 0
    return Division(source, threads, length, blocks, groups, slab, shared_bytes, own_bytes, rows_bytes, thread_bytes)


def _aligned(nbytes: int) -> int:
    """Bytes of whole cache lines."""
    return -(-nbytes // LINE) * LINE


def broadcasts(to: Sequence[int], *shapes: Sequence[int]) -> bool:
    """Whether numpy broadcasts arrays of these shapes to the shape `to`."""
    return all(len(s) <= len(to) and all(n in (1, m) for n, m in zip(s[::-1], to[::-1])) for s in shapes)


def check_operands(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, add: np.ndarray | None, bias: np.ndarray | None
) -> None:
    """Raise an error if these operands cannot be multiplied."""
    (m, k), (l, n) = a.shape[-2:], b.shape[-2:]
    if k != l or c.shape[-2:] != (m, n) or not broadcasts(c.shape[:-2], a.shape[:-2], b.shape[:-2]):
        raise ValueError(f"Matmul: {a.shape} times {b.shape} into {c.shape}")
    for name, x in (("a", a), ("b", b), ("c", c), ("add", add), ("bias", bias)):
        if x is not None and (x.dtype != c.dtype or x.dtype.kind != "f" or x.itemsize not in TYPES):
            raise TypeError(f"Matmul: {name} is {x.dtype}, c is {c.dtype}; float32 or float64 are multiplied")
        if x is not None and any(step % x.itemsize for step in x.strides):
            raise ValueError(f"Matmul: strides of {name} {x.strides} are no multiples of an element")
    if bias is not None and bias.shape != (n,):
        raise ValueError(f"Matmul: a bias of shape {bias.shape}, expected {(n,)}")
    if add is not None and (add.shape, add.strides) != (c.shape, c.strides):
        raise ValueError(
            f"Matmul: add has shape and strides {(add.shape, add.strides)}, the result {(c.shape, c.strides)}"
        )
