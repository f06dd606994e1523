"""Windows of tensors as parts of physical arrays, and the array of a window, gathered from pieces.

A window of a logical tensor is a box of the physical array: along a dimension in blocks it has whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..formats.layout import Layout
from ..memory.arrays import empty
from .axes import Range


class PieceLocation(NamedTuple):
    """The place of a piece of a window in its array, and in the chunk, or part of one, that the task is given."""

    starts: tuple[int, ...]
    shape: tuple[int, ...]
    take: tuple[slice, ...] | None  # of what the task is given; None: all of it
    part: int | None  # its number, if the task is given a list of parts
    source_shape: tuple[int, ...]  # of the chunk, part of it or array that holds the piece
    chunk: tuple[int, ...]  # its index, for errors


class PhysicalWindow(NamedTuple):
    """The part of a physical array that holds a window of its tensor.

    Attributes
    ----------
    ranges : tuple of Range
        By physical axis.
    shape : tuple of int
        The logical shape of what it holds.
    skip : tuple of int
        By dimension, elements of it before the window: the window begins within a block.
    """

    ranges: tuple[Range, ...]
    shape: tuple[int, ...]
    skip: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Shape of the physical array."""
        return tuple(stop - start for start, stop in self.ranges)


def physical_window(layout: Layout, shape: Sequence[int], window: Sequence[Range]) -> PhysicalWindow:
    """The box of a window, by dimension, of a tensor of such a shape; only plain dimensions may begin before 0."""
    ranges: list[Range] = [(0, f.size) for f in layout.factors]
    sizes, skip = [], []
    for dim, ((start, stop), size) in enumerate(zip(window, shape)):
        block = layout.block(dim)
        first, last = start // block, max(start // block, -(-stop // block))
        ranges[layout.digits(dim)[0]] = first, last
        sizes.append(stop - start if block == 1 else min(size, last * block) - first * block)
        skip.append(start - first * block)
    return PhysicalWindow(tuple(ranges), tuple(sizes), tuple(skip))


def gathered(
    pieces: Sequence[tuple[tuple[int, ...], np.ndarray]], ranges: Sequence[Range], allow_gaps: bool = False
) -> np.ndarray:
    """The array at `ranges`, from pieces (starts, array): a view of one, or a copy of several.

    With `allow_gaps` it is 0 where there is no piece.
    """
    shape = tuple(stop - start for start, stop in ranges)
    for starts, array in pieces:
        if all(s <= a and b <= s + n for s, (a, b), n in zip(starts, ranges, array.shape)):
            return array[tuple(slice(a - s, b - s) for s, (a, b) in zip(starts, ranges))]
    result, filled = empty(shape, pieces[0][1].dtype, "dask"), 0
    if allow_gaps:
        result[...] = 0
    for starts, array in pieces:
        dst, src = [], []
        for s, n, (a, b) in zip(starts, array.shape, ranges):
            low, high = s if s > a else a, s + n if s + n < b else b
            if low >= high:
                break
            dst.append(slice(low - a, high - a))
            src.append(slice(low - s, high - s))
        else:
            part = array[tuple(src)]
            result[tuple(dst)] = part
            filled += part.size
    assert allow_gaps or filled == prod(shape), f"{filled} of {prod(shape)} elements of a window were given"
    return result
