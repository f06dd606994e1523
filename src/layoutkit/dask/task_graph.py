"""The dask array of an operation: a task for each tile of the result, which depends on the chunks that it reads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.task_spec import DataNode, Task, TaskRef

from ..choosing.plan import SlowPathWarning
from ..choosing.warn import without
from ..memory.pool import pool
from .axes import ranges
from .operation_info import OperationInfo
from .reads import Reads, Result, Tile, TileMaker
from .shared_costs import SharedCosts
from .sources import ChunkCheck, ChunkedArray, Source, piece_of

KEPT_TILES = 2  # whose memory stays for the next ones
MAX_CARRIED = 4096  # bytes of a maker that is part of each task


class Layer(MaterializedLayer):
    """The tasks of an operation; its info, for `plan`, is not pickled with them."""

    info: OperationInfo

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "info"}


def _made_by_us(source: Source) -> bool:
    return isinstance(source, ChunkedArray) and hasattr(source.array.dask.layers.get(source.array.name), "info")


def run(work: TileMaker, tile: Tile, checks: Sequence[ChunkCheck], *chunks: Any) -> np.ndarray:
    """Make a tile: what a task of the graph does."""
    remaining, pieces = iter(chunks), []
    for places, checked in zip(tile.places, checks):
        located = [(place.starts, piece_of(next(remaining), checked, place)) for place in places]
        pieces.append(located or [((0,) * checked.ndim, np.empty((0,) * checked.ndim, checked.dtype))])
    with without(SlowPathWarning):  # `tiled` warns, once
        result = work(tile, pieces)
    pool.release(KEPT_TILES * result.nbytes)  # memory of tiles of other sizes is not kept
    return result


def tiled(work: TileMaker, reads: Sequence[Reads], result: Result) -> da.Array:
    """The dask array of an operation's result.

    The axes of blocks are in one chunk.
    """
    what = work.what
    if 0 in result.shape:
        return da.empty(result.layout.physical_shape(result.shape), dtype=result.dtype)
    token = tokenize(what, work, [r.source.token for r in reads], result)
    name, maker_key = f"{what}-{token}", f"{what}-work-{token}"
    # A small maker is part of each task where tiles are made of tiles: so dask fuses both tasks.
    is_separate = work.nbytes > MAX_CARRIED or not any(_made_by_us(r.source) for r in reads)
    checks = tuple(ChunkCheck(what, r.source.name, r.source.dtype, len(r.layout.factors)) for r in reads)
    by_dim = [ranges(cuts) for cuts in result.cuts]
    parts_of = [[[r.parts(dim, x) for x in outputs] for dim, outputs in enumerate(r.outputs(by_dim))] for r in reads]
    tiles = list(itertools.product(*[range(len(outputs)) for outputs in by_dim]))
    needed = [[list(itertools.product(*r.of_axes(at, parts))) for r, parts in zip(reads, parts_of)] for at in tiles]
    for read in needed:
        for r, pieces in zip(reads, read):
            for piece in pieces:
                r.source.need(piece)
    graph: dict[Any, Any] = {}
    carried: Any = work
    if is_separate:
        work.shared_costs = SharedCosts(*work.key_prefixes)
        graph[maker_key], carried = DataNode(maker_key, work), TaskRef(maker_key)
    for r in reads:
        graph |= r.source.nodes(token)
    for at, read in zip(tiles, needed):
        located = [[r.source.piece(piece, token) for piece in pieces] for r, pieces in zip(reads, read)]
        places = tuple(tuple(place for _, place in pieces) for pieces in located)
        tile = Tile(tuple(of[k] for of, k in zip(by_dim, at)), places)
        key = (name, *result.chunk_at(at))
        graph[key] = Task(key, run, carried, tile, checks, *[ref for pieces in located for ref, _ in pieces])
    layer = Layer(graph)
    layer.info = info = OperationInfo(name, work, reads, result, maker_key, token)
    info.scratch((name, *result.chunk_at([len(of) // 2 for of in by_dim])))  # plans a tile, which warns of slow paths
    arrays: list[Any] = [r.source.array for r in reads if isinstance(r.source, ChunkedArray)]
    whole = HighLevelGraph.from_collections(name, layer, dependencies=arrays)
    meta = np.empty((0,) * len(result.layout.factors), result.dtype)
    return da.Array(whole, name, result.chunks, dtype=result.dtype, meta=meta)
