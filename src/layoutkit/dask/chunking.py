"""The tiles of a result: cut as its input is chunked, as the caller says, or so that files are read well."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import dask
import numpy as np
from dask.array.core import normalize_chunks
from dask.utils import parse_bytes

from ..formats.layout import Layout
from .axes import Cuttable, ranges
from .sources import ChunkedArray, Source, StoredArray

MIN_SHARE = 8  # tiles of files have at least this part, an eighth, of dask's ``array.chunk-size``


class DimCuts(NamedTuple):
    """A dimension of a result and of the input that it is made of.

    Attributes
    ----------
    axis : Cuttable
    unit : int
        Cuts are at multiples of it; 0 where there can be none.
    follows : bool
        Whether it is cut where its input is by default.
    """

    axis: Cuttable
    unit: int
    follows: bool = True


def cuts_of(
    source: Source, src: Layout, dst: Layout, dims: Sequence[DimCuts], dtype: np.dtype, chunks: Any, what: str
) -> list[list[int]]:
    """By dimension of the result, where it is cut.

    Parameters
    ----------
    source : Chunks or Stored
    src, dst : Layout
        Of input and result.
    dims : sequence of Cutting
        By dimension.
    dtype : dtype
        Of the result.
    chunks : optional
        Of the physical array of the result, as dask takes them.

    Raises
    ------
    ValueError
        `chunks` cut a dimension where it cannot be.
    """
    if chunks is not None:
        return _as_given(dst, dims, dtype, chunks, what)
    if isinstance(source, StoredArray):
        return _for_file(source, src, dst, dims, dtype)
    return [_as_chunked(source, src, dim, cutting) for dim, cutting in enumerate(dims)]


def _as_chunked(source: ChunkedArray, src: Layout, dim: int, cutting: DimCuts) -> list[int]:
    if not cutting.unit or not cutting.follows:
        return sorted({0, cutting.axis.out})
    ends = source.ends[src.digits(dim)[0]]
    return cutting.axis.cuts([end * src.block(dim) for end in ends], cutting.unit)


def _as_given(dst: Layout, dims: Sequence[DimCuts], dtype: np.dtype, chunks: Any, what: str) -> list[list[int]]:
    shape = [cuts.axis.out for cuts in dims]
    physical = dst.physical_shape(shape)
    if not isinstance(chunks, str | int | tuple | list | dict):
        raise TypeError(f"{what}: chunks: expected sizes by physical axis, as dask takes them, got {chunks!r}")
    if isinstance(chunks, str | int) or any(isinstance(n, str) for n in chunks if not isinstance(n, tuple)):
        # dask may choose sizes of axes that can be cut
        free = [
            not f.size and dims[f.dim].unit == 1 and (chunks if isinstance(chunks, str | int) else chunks[k])
            for k, f in enumerate(dst.factors)
        ]
        chunks = tuple(n if n is not False else -1 for n in free)
    try:
        sizes_by_axis = normalize_chunks(chunks, shape=physical, dtype=dtype)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"{what}: chunks {chunks!r} are none of a result of shape {physical}: {error}") from None
    cuts = []
    for dim, (axis, unit, _) in enumerate(dims):
        axis_index, block = dst.digits(dim)[0], dst.block(dim)
        at = [0, *itertools.accumulate(int(n) * block for n in sizes_by_axis[axis_index])]
        wrong = [cut for cut in at[1:-1] if not unit or cut % unit]
        if wrong:
            why = f"cuts are at multiples of {unit}" if unit else "it cannot be cut"
            raise ValueError(f"{what}: chunks cut dimension {dst.dims[dim]} at {wrong[0]}: {why}")
        cuts.append(sorted({*at[:-1], axis.out}))
    for axis_index, (sizes, f) in enumerate(zip(sizes_by_axis, dst.factors)):
        if f.size and len(sizes) > 1:
            raise ValueError(f"{what}: chunks {sizes} of axis {axis_index}: blocks of {dst} cannot be cut")
    return cuts


class TileExtent(NamedTuple):
    """The extent along a dimension of tiles of so many chunks of a file.

    Attributes
    ----------
    read : int
        What all of them read, in whole chunks of the file.
    window, outputs : int
        Of the largest tile.
    """

    read: int
    window: int
    outputs: int


def _for_file(source: StoredArray, src: Layout, dst: Layout, dims: Sequence[DimCuts], dtype: np.dtype):
    """Tiles of whole chunks of the file: more of them while that saves reading, up to dask's ``array.chunk-size``
    for what a tile reads and writes together."""
    limit = parse_bytes(dask.config.get("array.chunk-size"))
    read_units = [source.read_unit[src.digits(d)[0]] * src.block(d) for d in range(src.rank)]
    counts = [1] * len(dims)  # chunks of the file in a tile, by dimension
    other_bytes = prod(src.padded_shape(source.shape)[len(dims) :]) * source.dtype.itemsize

    def cuts(dim: int, count: int) -> list[int]:
        axis, unit, follows = dims[dim]
        size = read_units[dim] * count
        return axis.cuts(range(size, axis.size, size), unit) if unit and follows else sorted({0, axis.out})

    @functools.cache
    def extent(dim: int, count: int) -> TileExtent:
        axis, read_unit, read, window = dims[dim].axis, read_units[dim], 0, 0
        tiles = ranges(cuts(dim, count))
        if len(tiles) == 1:
            return TileExtent(axis.size, axis.size, axis.out)
        for start, stop in tiles:
            low, high = axis.window(start, stop).inputs
            read += min(axis.size, -(-high // read_unit) * read_unit) - max(0, low) // read_unit * read_unit
            window = max(window, high - low)
        return TileExtent(read, window, max(stop - start for start, stop in tiles))

    def nbytes(counts: Sequence[int]) -> int:
        extents = [extent(dim, count) for dim, count in enumerate(counts)]
        return prod(e.window for e in extents) * other_bytes + prod(e.outputs for e in extents) * dtype.itemsize

    order = _innermost(src, dst, len(dims))
    while True:
        better: list[tuple[float, int, list[int]]] = []
        for rank, dim in enumerate(order):
            n, (axis, unit, follows) = counts[dim], dims[dim]
            if read_units[dim] * n >= axis.size or not unit or not follows:
                continue
            for count in (2 * n, n + max(1, n // 4)):
                grown = [count if d == dim else m for d, m in enumerate(counts)]
                if nbytes(grown) <= limit:
                    better.append((extent(dim, count).read / max(1, extent(dim, n).read), rank, grown))
                    break
        if not better:
            break
        ratio, _, grown = min(better)
        if ratio >= 1 and nbytes(counts) * MIN_SHARE >= limit:
            break
        counts = grown
    return [cuts(dim, count) for dim, count in enumerate(counts)]


def _innermost(src: Layout, dst: Layout, rank: int) -> list[int]:
    """Dimensions, innermost in memory first: those of source and result in turn."""
    each = [[f.dim for f in reversed(layout.factors) if not f.size and f.dim < rank] for layout in (src, dst)]
    return list(dict.fromkeys(dim for pair in itertools.zip_longest(*each) for dim in pair if dim is not None))
