"""From an operation to a dask array: a task for each tile of the result, which depends on the chunks it reads alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import DataNode, Task, TaskRef

from ..choosing.plan import SlowPathWarning
from ..choosing.warn import without
from ..formats.layout import Layout
from ..memory.pool import pool
from .axes import Part, Range, Run, ranges
from .boxes import Box, Place, box_of
from .shared import Measured
from .sources import Checked, Chunks, Source, Stored, piece_of

KEPT_TILES = 2  # as much memory stays for the next ones
MOST_CARRIED = 4096  # bytes of work that each task carries
Pieces = list[tuple[tuple[int, ...], np.ndarray]]  # where each begins, by physical axis, and its array


class Tile(NamedTuple):
    """A tile of a result: which of its indices it has, by logical dimension, and by source the pieces it is made of."""

    outputs: tuple[Range, ...]
    places: tuple[tuple[Place, ...], ...]


class Work(Protocol):
    """What makes tiles: it travels to each worker once."""

    what: str
    kinds: tuple[str, ...]  # how the keys of its problems begin in the cost table
    measured: Measured | None  # what is known of them, if it travels

    @property
    def nbytes(self) -> int:
        """Of what it carries."""
        ...

    def scratch(self, outputs: Sequence[Range], gathers: bool) -> int:
        """Bytes that making a tile takes beside its input and itself; `gathers`: its input comes in pieces."""
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

    def outputs(self, by_dim: Sequence[Any]) -> list[Any]:
        """What a result has by dimension, for the dimensions of this input; of those that it has not, nothing."""
        return [*by_dim, *[[(0, 0)]] * self.layout.rank][: self.layout.rank]

    def box(self, outputs: Sequence[Range]) -> Box:
        """The box of what a tile reads."""
        more = [*outputs, *[(0, 0)] * self.layout.rank][: self.layout.rank]
        return box_of(self.layout, self.shape, [self.window(dim, found) for dim, found in enumerate(more)])

    def lengths(self, dim: int, outputs: Sequence[Range]) -> tuple[list[int], int]:
        """How much of the physical axis of a dimension's whole each tile reads, and how much is read at all."""
        found = []
        for each in outputs:
            one = [(0, 0)] * self.layout.rank
            one[dim] = self.window(dim, each)
            found.append(box_of(self.layout, self.shape, one).ranges[self.layout.digits(dim)[0]])
        once, last = 0, 0
        for start, stop in sorted(found):
            once += max(0, stop - max(start, last))
            last = max(last, stop)
        return [stop - start for start, stop in found], once

    def in_grains(self, by_dim: Sequence[Sequence[Range]]) -> list[int]:
        """By dimension, how much of the axis of its whole all tiles read in whole chunks of a file."""
        found = []
        for dim, outputs in enumerate(self.outputs(by_dim)):
            axis, total = self.layout.digits(dim)[0], 0
            grain, size = self.source.grain[axis], self.source.shape[axis]  # type: ignore[union-attr]
            for each in outputs:
                one = [(0, 0)] * self.layout.rank
                one[dim] = self.window(dim, each)
                start, stop = box_of(self.layout, self.shape, one).ranges[axis]
                total += min(size, -(-stop // grain) * grain) - max(0, start) // grain * grain
            found.append(total)
        return found

    def of_axes(self, at: Sequence[int], parts: Sequence[Sequence[list[Part]]]) -> list[list[Part]]:
        """By physical axis, the parts of the tile `at`; `parts` are those of the dimensions' wholes."""
        found = [self.source.split(axis, [Run(0, f.size, 0)]) for axis, f in enumerate(self.layout.factors)]
        for dim, of in enumerate(parts):
            found[self.layout.digits(dim)[0]] = of[at[dim] if dim < len(at) else 0]
        return found


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

    def chunk_at(self, at: Sequence[int]) -> list[int]:
        """The index of a chunk, from those of its dimensions."""
        found = [0] * len(self.layout.factors)
        for dim, k in enumerate(at):
            found[self.layout.digits(dim)[0]] = k
        return found


class About:
    """What `plan` says of an operation.

    Attributes
    ----------
    name : str
        Of the tasks that make its tiles.
    read, touched, copied : int
        Bytes that tiles read, that they read at least once, and that are copied from chunks for other tiles.
    """

    def __init__(self, name: str, work: Work, reads: Sequence[Reads], result: Result, shared: str, token: str) -> None:
        self.name, self.work, self.reads, self.result, self.shared = name, work, reads, result, shared
        self._parts = {r.source.parts_name(token): r.source for r in reads if isinstance(r.source, Chunks)}
        self._chunks = {r.source.array.name: r.source for r in reads if isinstance(r.source, Chunks)}
        self.names = [name, *self._parts, *self._chunks]
        self.shared_bytes = work.nbytes
        by_dim = [ranges(cuts) for cuts in result.cuts]
        found = [[r.lengths(dim, of) for dim, of in enumerate(r.outputs(by_dim))] for r in reads]
        whole = [r.source.dtype.itemsize * prod(f.size or 1 for f in r.layout.factors) for r in reads]
        self.read = sum(n * prod(sum(of) for of, _ in dims) for n, dims in zip(whole, found))
        self.touched = sum(n * prod(once for _, once in dims) for n, dims in zip(whole, found))
        self.copied = sum(r.source.copied_bytes() for r in reads)
        self.from_files = sum(
            n * prod(r.in_grains(by_dim)) for n, r in zip(whole, reads) if isinstance(r.source, Stored)
        )
        self._scratch: dict[tuple[int, ...], int] = {}

    def nbytes(self, key: tuple) -> int:
        """Of the result of a task that is one of `names`."""
        name, *index = key
        if name in self._parts:
            return self._parts[name].copied_bytes(tuple(index))
        chunks, dtype = self.result.chunks, self.result.dtype
        if name in self._chunks:
            chunks, dtype = self._chunks[name].chunks, self._chunks[name].dtype
        return dtype.itemsize * prod(sizes[i] for sizes, i in zip(chunks, index))

    def scratch(self, key: tuple) -> int:
        """Bytes that making a tile takes beside its inputs and itself, like those of other tiles of its size."""
        size = tuple(sizes[i] for sizes, i in zip(self.result.chunks, key[1:]))
        found = self._scratch.get(size)
        if found is None:
            at = [key[1 + self.result.layout.digits(dim)[0]] for dim in range(self.result.layout.rank)]
            outputs = [ranges(cuts)[k] for cuts, k in zip(self.result.cuts, at)]
            windows = [r.box(outputs) for r in self.reads]
            files = [
                prod(b.sizes) * r.source.dtype.itemsize + r.source.buffers(b.ranges)
                for r, b in zip(self.reads, windows)
                if isinstance(r.source, Stored)
            ]
            found = self._scratch[size] = sum(files) + self.work.scratch(outputs, not files)
        return found

    def line(self) -> str:
        """An operation in a line."""
        source, count = self.reads[0].source, prod(len(sizes) for sizes in self.result.chunks)
        where = "regions of a file"
        if isinstance(source, Chunks):
            where = f"{prod(len(sizes) for sizes in source.chunks)} chunks"
        else:
            times = self.from_files / max(1, prod(source.shape) * source.dtype.itemsize)
            where += f", whose chunks are read {times:.1f} times"
        of = f"{self.result.shape} {self.result.dtype} {self.result.layout}"
        return f"{self.work.what}: {count} tiles of {of}, from {where}"


def _made_by_us(source: Source) -> bool:
    return isinstance(source, Chunks) and hasattr(source.array.dask.layers.get(source.array.name), "about")


def run(work: Work, tile: Tile, checks: Sequence[Checked], *given: Any) -> np.ndarray:
    """Make a tile: what a task of the graph does."""
    left, pieces = iter(given), []
    for places, checked in zip(tile.places, checks):
        found = [(place.starts, piece_of(next(left), checked, place)) for place in places]
        pieces.append(found or [((0,) * checked.ndim, np.empty((0,) * checked.ndim, checked.dtype))])
    with without(SlowPathWarning):  # `tiled` warns, once
        made = work(tile, pieces)
    pool.release(KEPT_TILES * made.nbytes)  # memory of tiles of other sizes is not kept
    return made


def tiled(work: Work, reads: Sequence[Reads], result: Result) -> da.Array:
    """The dask array of an operation's result.

    The axes of blocks are in one chunk.
    """
    what = work.what
    if 0 in result.shape:
        return da.empty(result.layout.physical_shape(result.shape), dtype=result.dtype)
    token = tokenize(what, work, [r.source.token for r in reads], result)
    name, shared = f"{what}-{token}", f"{what}-work-{token}"
    # Work that carries little travels in each task where tiles are made of tiles: so dask makes one task of both.
    apart = work.nbytes > MOST_CARRIED or not any(_made_by_us(r.source) for r in reads)
    checks = tuple(Checked(what, r.source.name, r.source.dtype, len(r.layout.factors)) for r in reads)
    by_dim = [ranges(cuts) for cuts in result.cuts]
    along = [[[r.parts(dim, one) for one in found] for dim, found in enumerate(r.outputs(by_dim))] for r in reads]
    tiles = list(itertools.product(*[range(len(found)) for found in by_dim]))
    needed = [[list(itertools.product(*r.of_axes(at, parts))) for r, parts in zip(reads, along)] for at in tiles]
    for found in needed:
        for r, pieces in zip(reads, found):
            for piece in pieces:
                r.source.need(piece)
    graph: dict[Any, Any] = {}
    carried: Any = work
    if apart:
        work.measured = Measured(*work.kinds)
        graph[shared], carried = DataNode(shared, work), TaskRef(shared)
    for r in reads:
        graph |= r.source.nodes(token)
    for at, found in zip(tiles, needed):
        held = [[r.source.piece(piece, token) for piece in of] for r, of in zip(reads, found)]
        places = tuple(tuple(place for _, place in of) for of in held)
        tile = Tile(tuple(of[k] for of, k in zip(by_dim, at)), places)
        key = (name, *result.chunk_at(at))
        graph[key] = Task(key, run, carried, tile, checks, *[ref for of in held for ref, _ in of])
    layer = MaterializedLayer(graph)
    layer.about = about = About(name, work, reads, result, shared, token)  # type: ignore[attr-defined]
    about.scratch((name, *result.chunk_at([len(of) // 2 for of in by_dim])))  # plans a tile: slow ways are warned of
    arrays: list[Any] = [r.source.array for r in reads if isinstance(r.source, Chunks)]
    whole = HighLevelGraph.from_collections(name, layer, dependencies=arrays)
    meta = np.empty((0,) * len(result.layout.factors), result.dtype)
    return da.Array(whole, name, result.chunks, dtype=result.dtype, meta=meta)
