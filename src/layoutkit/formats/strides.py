"""The order that sizes and strides say."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index

from .written import Written


def of_strides(shape: Sequence[int], strides: Sequence[int]) -> tuple[Written, tuple[int, ...]]:
    """The plain layout of these element strides (logical order), dense if it can be; the dimensions left open.

    Raises
    ------
    ValueError
        Their lengths differ, or one is negative.
    """
    try:
        shape, strides = tuple(map(index, shape)), tuple(map(index, strides))
    except TypeError:
        raise TypeError(f"expected a shape and strides of integers, got {shape!r} and {strides!r}") from None
    if len(shape) != len(strides):
        raise ValueError(f"{len(shape)} sizes {shape} but {len(strides)} strides {strides}")
    if any(x < 0 for x in shape + strides):
        raise ValueError(f"negative size or stride: shape {shape}, strides {strides}")
    # Of equal strides, the dimension of size 1 (or 0, which counts as 1) lies inside the other.
    dims = sorted(range(len(shape)), key=lambda d: (-strides[d], shape[d] <= 1, d))
    free = tuple(range(len(shape))) if 0 in shape else tuple(d for d, s in enumerate(shape) if s == 1)
    pitches: list[int | None] = []
    inner = 1
    for d in reversed(dims):
        fits = d in free or strides[d] == inner
        pitches.append(None if fits else strides[d])
        inner = (inner if fits else strides[d]) * max(shape[d], 1)
    if prod(shape) == 0:
        pitches = [None] * len(shape)
    names = {4: "nchw", 5: "ncdhw"}.get(len(shape))
    return Written([(d, 0) for d in dims], pitches[::-1], names, named=False), free
