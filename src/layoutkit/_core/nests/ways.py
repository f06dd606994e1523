"""Ways to multiply matrices: which operand has the rows of the register tile, and which axes of a batch become rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..runtime import registry
from ..runtime.registry import Kernel
from .pixel_tiles import tile_cycles

# Cycles of an element that is packed: as a part of a run, transposed, on its own.
COPY_CYCLES, TRANSPOSE_CYCLES, GATHER_CYCLES = 0.12, 0.3, 2.0
TYPES = {4: "f32", 8: "f64"}  # of elements of so many bytes

Axis = tuple[int, ...]  # its extent, and its strides in several arrays


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
        self.kernel, self.swapped, self.joins = kernel, swapped, joins
        self.a, self.b, self.c = a, b, c
        self.constant_a, self.constant_b = constant == "ab"[swapped], constant == "ba"[swapped]
        self.k, self.n = b.shape[-2:]
        self._find_axes()

    def _find_axes(self) -> None:
        outer = self.c.shape[:-2]
        self.a, self.b = (np.broadcast_to(x, outer + x.shape[-2:]) for x in (self.a, self.b))
        three = self.a, self.b, self.c
        axes = [(n, *(x.strides[i] for x in three)) for i, n in enumerate(outer) if n != 1]
        folds = [axis for axis in axes if axis[2] == 0 and self.joins]
        inner = self.c.shape[-2], self.a.strides[-2], self.c.strides[-2]
        self.rows = joined([*((n, sa, sc) for n, sa, _, sc in folds), inner])
        self.batch = joined([axis for axis in axes if axis not in folds])
        self.m = prod(axis[0] for axis in self.rows)

    def settle(self) -> Way:
        """Copy a constant that has the rows, so that their numbers follow one another."""
        if self.constant_a:
            self.a = np.ascontiguousarray(self.a)
            self._find_axes()
        return self

    @property
    def packs_rows(self) -> bool:
        """Whether rows are copied: their numbers do not follow one another."""
        return self.k > 1 and self.a.strides[-1] != self.a.itemsize

    @property
    def buffered(self) -> bool:
        """Whether tiles of the result are written elsewhere first: their columns do not follow one another."""
        return self.n > 1 and self.c.strides[-1] != self.c.itemsize

    def cycles(self) -> float:
        """On one thread."""
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
    """The way that takes the least cycles, and how many; `per_column`: something differs by columns of `c`."""
    kernels = registry.best("gemm", TYPES[c.itemsize])
    ways = [
        Way(a, b, c, constant, kernel, swapped, not (swapped and per_column))
        for swapped in (False, True)
        for kernel in kernels
    ]
    cycles = [way.cycles() for way in ways]
    at = cycles.index(min(cycles))
    return ways[at].settle(), cycles[at]


def product_cycles(kernel: Kernel, m: int, n: int, k: int) -> float:
    """Of the tiles of a product of matrices, which share rows evenly."""
    tiles, total = -(-m // kernel.mr), 0.0
    assert kernel.tile is not None
    for count, columns in ((n // kernel.nr, kernel.nr), (1, n % kernel.nr)):
        if columns and count and tiles:
            vectors = -(-columns // kernel.lanes)
            total += count * tiles * tile_cycles(kernel.tile.cycles, m / tiles, vectors, k, max(1, k))
    return total


def _packing(x: np.ndarray, along: int, across: int) -> float:
    """Cycles of an element of which those that follow one another in the copy are `along` an axis of x."""
    if x.strides[along] == x.itemsize:
        return COPY_CYCLES
    return TRANSPOSE_CYCLES if x.strides[across] == x.itemsize else GATHER_CYCLES


def broadcasts(to: Sequence[int], *shapes: Sequence[int]) -> bool:
    """Whether shapes are broadcast to one."""
    given = [shape[::-1] for shape in shapes]
    return all(len(s) <= len(to) and all(n in (1, m) for n, m in zip(s, to[::-1])) for s in given)


def joined(axes: Sequence[Axis]) -> list[Axis]:
    """Axes, outermost first, where neighbours that are one axis in all of their arrays are joined."""
    kept: list[Axis] = []
    for n, *steps in axes:
        if kept and (n == 1 or all(have == n * step for have, step in zip(kept[-1][1:], steps))):
            kept[-1] = (kept[-1][0] * n, *(kept[-1][1:] if n == 1 else steps))
        elif kept and kept[-1][0] == 1:
            kept[-1] = (n, *steps)
        else:
            kept.append((n, *steps))
    return kept


def offsets(axes: Sequence[Axis], which: int) -> np.ndarray:
    """Of all indices of axes, in order, by strides number `which`."""
    at = np.zeros((), np.int64)
    for axis in axes:
        at = at[..., None] + np.arange(axis[0], dtype=np.int64) * axis[which]
    return np.ascontiguousarray(at.reshape(-1))


def place(view: np.ndarray, arrays: Sequence[np.ndarray]) -> tuple[int, int]:
    """Which of some arrays a view is of, and where it begins there, in bytes."""
    begin, end = _reach(view)
    for i, x in enumerate(arrays):
        first, last = _reach(x)
        if first <= begin and end <= last:
            return i, _address(view) - _address(x)
    raise ValueError(f"an operand of shape {view.shape} is no view of the arrays that are bound")


def _address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def _reach(x: np.ndarray) -> tuple[int, int]:
    """Where an array begins and ends in memory."""
    steps = [(n - 1) * s for n, s in zip(x.shape, x.strides)]
    at = _address(x)
    return at + sum(s for s in steps if s < 0), at + sum(s for s in steps if s > 0) + x.itemsize
