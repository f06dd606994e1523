"""The inputs and the result of an operation on arrays past memory, and the interface of what makes its tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..formats.layout import Layout
from .axes import ChunkSlice, Range, Run, ranges
from .physical_windows import PhysicalWindow, PieceLocation, physical_window
from .shared_costs import SharedCosts
from .sources import Source

Pieces = list[tuple[tuple[int, ...], np.ndarray]]  # where each begins, by physical axis, and its array


class Tile(NamedTuple):
    """A tile of a result: its indices, by logical dimension, and by source the pieces that it is made of."""

    outputs: tuple[Range, ...]
    places: tuple[tuple[PieceLocation, ...], ...]


class TileMaker(Protocol):
    """What makes tiles; it is sent to each worker once."""

    what: str
    key_prefixes: tuple[str, ...]  # of its problems in the cost table
    shared_costs: SharedCosts | None  # of these problems, sent along

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        ...

    def scratch(self, outputs: Sequence[Range], gathers: bool) -> int:
        """Bytes of scratch memory for making a tile; `gathers`: its input is assembled from pieces."""
        ...

    def __call__(self, tile: Tile, pieces: Sequence[Pieces]) -> np.ndarray:
        """The physical array of a tile."""
        ...


class Reads(NamedTuple):
    """An input of an operation and what of it a tile reads.

    Attributes
    ----------
    window : callable
        ``window(dim, outputs)`` gives the range of the input's dimension that a range of outputs reads.
    runs : callable, optional
        ``runs(dim, start, stop)`` gives the sources of the values of a window, if not the window itself.
    """

    source: Source
    layout: Layout
    shape: tuple[int, ...]
    window: Callable[[int, Range], Range]
    runs: Callable[[int, int, int], list[Run]] | None = None

    def parts(self, dim: int, outputs: Range) -> list:
        """The parts of the physical axis of a dimension's whole that a range of outputs reads."""
        axis = self.layout.digits(dim)[0]
        if self.runs is not None and self.layout.block(dim) == 1:
            return self.source.split(axis, self.runs(dim, *self.window(dim, outputs)))
        first, last = self.span(dim, outputs)
        return self.source.split(axis, [Run(first, last - first, first)])

    def span(self, dim: int, outputs: Range) -> Range:
        """The range of the physical axis of a dimension's whole that a range of outputs reads."""
        one = [(0, 0)] * self.layout.rank
        one[dim] = self.window(dim, outputs)
        return physical_window(self.layout, self.shape, one).ranges[self.layout.digits(dim)[0]]

    def outputs(self, by_dim: Sequence[Any]) -> list[Any]:
        """What a result has by dimension, for the dimensions of this input: nothing for those that it lacks."""
        return [*by_dim, *[[(0, 0)]] * self.layout.rank][: self.layout.rank]

    def box(self, outputs: Sequence[Range]) -> PhysicalWindow:
        """The box of what a tile reads."""
        ranges_of = [*outputs, *[(0, 0)] * self.layout.rank][: self.layout.rank]
        window = [self.window(dim, outputs) for dim, outputs in enumerate(ranges_of)]
        return physical_window(self.layout, self.shape, window)

    def lengths(self, dim: int, outputs: Sequence[Range]) -> tuple[list[int], int]:
        """How much of the physical axis of a dimension's whole each tile reads, and how much is read at all."""
        spans = [self.span(dim, each) for each in outputs]
        once, last = 0, 0
        for start, stop in sorted(spans):
            once += max(0, stop - max(start, last))
            last = max(last, stop)
        return [stop - start for start, stop in spans], once

    def in_read_units(self, by_dim: Sequence[Sequence[Range]]) -> list[int]:
        """By dimension, how much of the axis of its whole all tiles read in whole chunks of a file."""
        totals = []
        for dim, outputs in enumerate(self.outputs(by_dim)):
            axis, total = self.layout.digits(dim)[0], 0
            read_unit, size = self.source.read_unit[axis], self.source.shape[axis]  # type: ignore[union-attr]
            for each in outputs:
                start, stop = self.span(dim, each)
                total += min(size, -(-stop // read_unit) * read_unit) - max(0, start) // read_unit * read_unit
            totals.append(total)
        return totals

    def of_axes(self, at: Sequence[int], parts: Sequence[Sequence[list[ChunkSlice]]]) -> list[list[ChunkSlice]]:
        """By physical axis, the parts of the tile `at`; `parts` are those of the dimensions' wholes."""
        pieces = [self.source.split(axis, [Run(0, f.size, 0)]) for axis, f in enumerate(self.layout.factors)]
        for dim, of in enumerate(parts):
            pieces[self.layout.digits(dim)[0]] = of[at[dim] if dim < len(at) else 0]
        return pieces


class Result(NamedTuple):
    """What an operation makes, cut into tiles: `cuts` by logical dimension, at multiples of the layout's blocks."""

    layout: Layout
    shape: tuple[int, ...]
    dtype: np.dtype
    cuts: Sequence[Sequence[int]]

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Of the physical array."""
        sizes_of_axes: list[tuple[int, ...]] = [(f.size,) for f in self.layout.factors]
        for dim, cuts in enumerate(self.cuts):
            block = self.layout.block(dim)
            sizes = tuple(-(-stop // block) - start // block for start, stop in ranges(cuts))
            sizes_of_axes[self.layout.digits(dim)[0]] = sizes
        return tuple(sizes_of_axes)

    def chunk_at(self, at: Sequence[int]) -> list[int]:
        """The index of a chunk, from those of its dimensions."""
        index = [0] * len(self.layout.factors)
        for dim, k in enumerate(at):
            index[self.layout.digits(dim)[0]] = k
        return index
