"""Which tiles a result is cut into: as its input is chunked, as the caller says, or as files are read best."""

from __future__ import annotations

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
from .sources import Chunks, Source, Stored

LEAST_SHARE = 8  # of the size of chunks that dask is configured for, tiles of files have an eighth at least


class Cutting(NamedTuple):
    """A dimension of a result and of the input that it is made of.

    Attributes
    ----------
    axis : Cuttable
    unit : int
        Cuts are at multiples of it; 0 where there can be none.
    follows : bool
        Whether it is cut where its input is, without being asked.
    """

    axis: Cuttable
    unit: int
    follows: bool = True


def cuts_of(
    source: Source, src: Layout, dst: Layout, dims: Sequence[Cutting], dtype: np.dtype, chunks: Any, what: str
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
    if isinstance(source, Stored):
        return _of_file(source, src, dst, dims, dtype)
    return [_as_chunked(source, src, dim, found) for dim, found in enumerate(dims)]


def _as_chunked(source: Chunks, src: Layout, dim: int, found: Cutting) -> list[int]:
    if not found.unit or not found.follows:
        return sorted({0, found.axis.out})
    ends = source.ends[src.digits(dim)[0]]
    return found.axis.cuts([end * src.block(dim) for end in ends], found.unit)


def _as_given(dst: Layout, dims: Sequence[Cutting], dtype: np.dtype, chunks: Any, what: str) -> list[list[int]]:
    shape = [found.axis.out for found in dims]
    physical = dst.physical_shape(shape)
    if isinstance(chunks, str | int) or any(isinstance(n, str) for n in chunks if not isinstance(n, tuple)):
        # dask may choose sizes of axes that can be cut
        free = [
            not f.size and dims[f.dim].unit == 1 and (chunks if isinstance(chunks, str | int) else chunks[k])
            for k, f in enumerate(dst.factors)
        ]
        chunks = tuple(n if n is not False else -1 for n in free)
    try:
        found = normalize_chunks(chunks, shape=physical, dtype=dtype)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what}: chunks {chunks!r} are none of a result of shape {physical}: {error}") from None
    cuts = []
    for dim, (axis, unit, _) in enumerate(dims):
        place, block = dst.digits(dim)[0], dst.block(dim)
        at = [0, *itertools.accumulate(int(n) * block for n in found[place])]
        wrong = [cut for cut in at[1:-1] if not unit or cut % unit]
        if wrong:
            why = f"cuts are at multiples of {unit}" if unit else "it cannot be cut"
            raise ValueError(f"{what}: chunks cut dimension {dst.dims[dim]} at {wrong[0]}: {why}")
        cuts.append(sorted({*at[:-1], axis.out}))
    for place, (sizes, f) in enumerate(zip(found, dst.factors)):
        if f.size and len(sizes) > 1:
            raise ValueError(f"{what}: chunks {sizes} of axis {place}: blocks of {dst} cannot be cut")
    return cuts


def _of_file(source: Stored, src: Layout, dst: Layout, dims: Sequence[Cutting], dtype: np.dtype) -> list[list[int]]:
    """Tiles of whole chunks of the file, as many as dask's ``array.chunk-size`` allows and as save reading twice."""
    limit = parse_bytes(dask.config.get("array.chunk-size"))
    grains = [source.grain[src.digits(d)[0]] * src.block(d) for d in range(src.rank)]
    counts = [1] * len(dims)  # chunks of the file in a tile, by dimension

    def cuts(dim: int, count: int) -> list[int]:
        axis, unit, _ = dims[dim]
        size = grains[dim] * count
        return axis.cuts(range(size, axis.size, size), unit) if unit else sorted({0, axis.out})

    def read(dim: int, count: int) -> tuple[int, int]:
        """What all tiles read of a dimension, in whole chunks of the file, and what the largest does."""
        axis, grain, found = dims[dim].axis, grains[dim], []
        if not dims[dim].unit:
            return axis.size, axis.size
        for start, stop in ranges(cuts(dim, count)):
            low, high = axis.window(start, stop).inputs
            found.append(min(axis.size, -(-high // grain) * grain) - max(0, low) // grain * grain)
        return sum(found), max(found)

    def nbytes(of: Sequence[int]) -> int:
        window = prod(read(dim, count)[1] for dim, count in enumerate(of)) * prod(
            src.padded_shape(source.shape)[len(of) :]
        )
        return (
            window * source.dtype.itemsize
            + prod(max(b - a for a, b in ranges(cuts(d, n))) for d, n in enumerate(of)) * dtype.itemsize
        )

    order = [f.dim for f in reversed(src.factors) if not f.size and f.dim < len(dims)]  # innermost first
    while True:
        better: list[tuple[float, int, list[int]]] = []
        for rank, dim in enumerate(order):
            if grains[dim] * counts[dim] >= dims[dim].axis.size or not dims[dim].unit:
                continue
            more = [2 * n if d == dim else n for d, n in enumerate(counts)]
            if nbytes(more) <= limit:
                gain = read(dim, more[dim])[0] / max(1, read(dim, counts[dim])[0])
                better.append((gain, rank, more))
        if not better:
            break
        gain, _, more = min(better)
        if gain >= 1 and nbytes(counts) * LEAST_SHARE >= limit:
            break
        counts = more
    return [cuts(dim, count) for dim, count in enumerate(counts)]
