"""Boxes: parts of tensors that a reorder reads and writes, wherever blocks begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

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
        """The box of a reorder of a whole tensor to a whole tensor."""
        zero = (0,) * len(shape)
        return cls(shape, shape, zero, shape, zero, True)

    def sides(self, src: Layout, src_strides, dst: Layout, dst_strides) -> tuple[list[Side], list[Side]]:
        """The sides of source and destination in each dimension; strides in bytes."""
        s = digits(src, src_strides)
        d = digits(dst, dst_strides)
        return list(map(Side, s, self.src_at)), list(map(Side, d, self.dst_at))


def box_of(src_shape: tuple[int, ...], region: Any, at: Any, out_shape: tuple[int, ...] | None, what: str) -> Box:
    """The box of the arguments `region` and `at` of a reorder; `out_shape`: the shape of the tensor in `out`."""
    rank = len(src_shape)
    starts, shape = [0] * rank, list(src_shape)
    for dim, (start, stop, step) in enumerate(bounds(src_shape, region, what)):
        if step != 1:
            raise ValueError(f"{what}: region of dimension {dim} has a step of {step}, which plans do not take")
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


def bounds(shape: tuple[int, ...], region: Any, what: str) -> list[tuple[int, int, int]]:
    """(start, stop, step) of each dimension of `region`, with numpy's meaning of ends counted from the end."""
    if region is None:
        return [(0, n, 1) for n in shape]
    parts = _sequence(region, len(shape), "region", what)
    return [_bounds(part, dim, size, what, region) for dim, (part, size) in enumerate(zip(parts, shape))]


def _sequence(value: Any, rank: int, name: str, what: str) -> Sequence:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != rank:
        raise ValueError(f"{what}: {name} must say something of each of {rank} dimensions, got {value!r}")
    return value


def _bounds(part: Any, dim: int, size: int, what: str, region: Any) -> tuple[int, int, int]:
    """(start, stop, step) of None, a slice or a pair; negative ends count from the end."""
    if part is None:
        return 0, size, 1
    try:
        start, stop, step = (part.start, part.stop, part.step) if isinstance(part, slice) else (*part, None)
        step = 1 if step is None else index(step)
        first, last = (0, size) if step > 0 else (size - 1, -1)
        start = first if start is None else index(start) + size * (start < 0)
        stop = last if stop is None else index(stop) + size * (stop < 0)
    except (TypeError, ValueError):
        raise TypeError(f"{what}: region takes None, (start, stop) or slices, got {region!r}") from None
    if size == 0 and isinstance(part, slice) and step:
        return 0, 0, 1
    inside = 0 <= start <= stop <= size if step > 0 else -1 <= stop <= start < size
    if step == 0 or not inside:
        ends = (part.start, part.stop, part.step) if isinstance(part, slice) else part
        spelled = ":".join("" if n is None else f"{n}" for n in ends).rstrip(":")
        raise ValueError(
            f"{what}: region {spelled} of dimension {dim} lies outside its size {size}, or is empty backwards"
        )
    return start, stop, step
