"""From an operation to a dask array: a task for each tile of the result, which depends on the chunks it reads alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import DataNode, Task, TaskRef

from ..formats.layout import Layout
from .axes import Range, Run, ranges
from .boxes import Place, box_of
from .sources import Checked, Chunks, Source, piece_of

Pieces = list[tuple[tuple[int, ...], np.ndarray]]  # where each begins, by physical axis, and its array


class Tile(NamedTuple):
    """A tile of a result: which of its indices it has, by logical dimension, and by source the pieces it is made of."""

    outputs: tuple[Range, ...]
    places: tuple[tuple[Place, ...], ...]


class Work(Protocol):
    """What makes tiles: it travels to each worker once."""

    what: str

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
        ``runs(dim, start, stop)`` says where the values of a window come from, if not from there.
    """

    source: Source
    layout: Layout
    shape: tuple[int, ...]
    window: Callable[[int, Range], Range]
    runs: Callable[[int, int, int], list[Run]] | None = None

    def parts(self, dim: int, outputs: Range) -> list:
        """The parts of the physical axis of a dimension's whole that a range of outputs reads."""
        start, stop = self.window(dim, outputs)
        axis = self.layout.digits(dim)[0]
        if self.runs is not None and self.layout.block(dim) == 1:
            return self.source.split(axis, self.runs(dim, start, stop))
        one = [(0, 0)] * self.layout.rank
        one[dim] = start, stop
        first, last = box_of(self.layout, self.shape, one).ranges[axis]
        return self.source.split(axis, [Run(first, last - first, first)])


class Result(NamedTuple):
    """What an operation makes, cut into tiles: `cuts` by logical dimension, at multiples of the layout's blocks."""

    layout: Layout
    shape: tuple[int, ...]
    dtype: np.dtype
    cuts: Sequence[Sequence[int]]

    @property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """Of the physical array."""
        found: list[tuple[int, ...]] = [(f.size,) for f in self.layout.factors]
        for dim, cuts in enumerate(self.cuts):
            block = self.layout.block(dim)
            sizes = tuple(-(-stop // block) - start // block for start, stop in ranges(cuts))
            found[self.layout.digits(dim)[0]] = sizes
        return tuple(found)


def run(work: Work, tile: Tile, checks: Sequence[Checked], *given: Any) -> np.ndarray:
    """Make a tile: what a task of the graph does."""
    left, pieces = iter(given), []
    for places, checked in zip(tile.places, checks):
        pieces.append([(place.starts, piece_of(next(left), checked, place)) for place in places])
    return work(tile, pieces)


def tiled(work: Work, reads: Sequence[Reads], result: Result, flops: int) -> da.Array:
    """The dask array of an operation's result, which takes so many floating-point operations.

    The axes of blocks are in one chunk.
    """
    what = work.what
    token = tokenize(what, work, [r.source.token for r in reads], result)
    name, shared = f"{what}-{token}", f"{what}-work-{token}"
    graph: dict[Any, Any] = {shared: DataNode(shared, work)}
    for r in reads:
        graph |= r.source.nodes()
    checks = tuple(Checked(what, r.source.name, r.source.dtype) for r in reads)
    by_dim = [ranges(cuts) for cuts in result.cuts]
    places = [result.layout.digits(dim)[0] for dim in range(result.layout.rank)]
    along = [[[r.parts(dim, outputs) for outputs in found] for dim, found in enumerate(by_dim)] for r in reads]
    blocks = [
        {axis: r.source.split(axis, [Run(0, f.size, 0)]) for axis, f in enumerate(r.layout.factors) if f.size}
        for r in reads
    ]
    tiles: dict[Any, Any] = {}
    for at in itertools.product(*[range(len(found)) for found in by_dim]):
        refs, held = [], []
        for r, of_dims, of_blocks in zip(reads, along, blocks):
            of_axes: list[Any] = [of_blocks.get(axis) for axis in range(len(r.layout.factors))]
            for dim, k in enumerate(at):
                of_axes[r.layout.digits(dim)[0]] = of_dims[dim][k]
            found = list(r.source.pieces(of_axes, graph, token))
            refs += [ref for ref, _ in found]
            held.append(tuple(place for _, place in found))
        index = [0] * len(result.layout.factors)
        for axis, k in zip(places, at):
            index[axis] = k
        tile = Tile(tuple(found[k] for found, k in zip(by_dim, at)), tuple(held))
        key = (name, *index)
        tiles[key] = Task(key, run, TaskRef(shared), tile, checks, *refs)
    layer = MaterializedLayer({**graph, **tiles})
    arrays: list[Any] = [r.source.array for r in reads if isinstance(r.source, Chunks)]
    whole = HighLevelGraph.from_collections(name, layer, dependencies=arrays)
    meta = np.empty((0,) * len(result.layout.factors), result.dtype)
    return da.Array(whole, name, result.chunks, dtype=result.dtype, meta=meta)
