"""Boxes: parts of tensors that a reorder reads and writes, wherever blocks begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

from ..formats.layout import Layout
from .nests import digits
from .pieces import Side


class Box(NamedTuple):
    """What moves: a box of `shape`, from index `src_at` of a tensor of `src_shape` to `dst_at` in one of `dst_shape`.

    `whole`: the box fills the destination, so its pads are written too.
    """

    shape: tuple[int, ...]
    src_shape: tuple[int, ...]
    src_at: tuple[int, ...]
    dst_shape: tuple[int, ...]
    dst_at: tuple[int, ...]
    whole: bool

    @classmethod
    def all_of(cls, shape: tuple[int, ...]) -> Box:
        """The box of a whole tensor that becomes a whole tensor."""
        zero = (0,) * len(shape)
        return cls(shape, shape, zero, shape, zero, True)

    def sides(self, src: Layout, src_strides, dst: Layout, dst_strides) -> tuple[list[Side], list[Side]]:
        """The sides of source and destination in each dimension; strides in bytes."""
        s = digits(src.axes(self.src_shape), src_strides, src.rank)
        d = digits(dst.axes(self.dst_shape), dst_strides, dst.rank)
        return list(map(Side, s, self.src_at)), list(map(Side, d, self.dst_at))


def box_of(src_shape: tuple[int, ...], region: Any, at: Any, out_shape: tuple[int, ...] | None, what: str) -> Box:
    """The box of the arguments `region` and `at` of a reorder; `out_shape`: the shape of the tensor in `out`."""
    rank = len(src_shape)
    starts, shape = [0] * rank, list(src_shape)
    if region is not None:
        parts = _sequence(region, rank, "region", what)
        for dim, (part, size) in enumerate(zip(parts, src_shape)):
            start, stop = _bounds(part, size, what, region)
            if not 0 <= start <= stop <= size:
                raise ValueError(f"{what}: region {start}:{stop} of dimension {dim} lies outside its size {size}")
            starts[dim], shape[dim] = start, stop - start
    if at is None:
        return Box(tuple(shape), src_shape, tuple(starts), tuple(shape), (0,) * rank, True)
    if out_shape is None:
        raise ValueError(f"{what}: at={at!r} is a place in out, and there is none")
    try:
        dst_at = tuple(map(index, _sequence(at, rank, "at", what)))
    except TypeError:
        raise TypeError(f"{what}: at must be integers, got {at!r}") from None
    if any(a < 0 or a + n > size for a, n, size in zip(dst_at, shape, out_shape)):
        raise ValueError(f"{what}: a box of {tuple(shape)} at {dst_at} lies outside out, which holds {out_shape}")
    return Box(tuple(shape), src_shape, tuple(starts), out_shape, dst_at, False)


def _sequence(given: Any, rank: int, name: str, what: str) -> Sequence:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != rank:
        raise ValueError(f"{what}: {name} must say something of each of {rank} dimensions, got {given!r}")
    return given


def _bounds(part: Any, size: int, what: str, region: Any) -> tuple[int, int]:
    """(start, stop) of None, a slice of step 1, or a pair."""
    if part is None:
        return 0, size
    if isinstance(part, slice) and part.step in (None, 1):
        return (0 if part.start is None else index(part.start)), (size if part.stop is None else index(part.stop))
    try:
        start, stop = map(index, part)
    except (TypeError, ValueError):
        raise TypeError(f"{what}: region takes None, (start, stop) or slices of step 1, got {region!r}") from None
    return start, stop
