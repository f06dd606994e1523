"""The padded input: a copy with zeros around it, for algorithms and filters that have to read the padding."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..memory.arrays import contiguous_strides
from .problem import ConvProblem


class PaddedInput(NamedTuple):
    """A copy of an input with zeros around it: its strides, and where the padding lies."""

    problem: ConvProblem  # on the copy
    strides: tuple[int, ...]  # of its physical axes, in bytes
    n: int
    planes: tuple[int, int, int]  # along the depth: zeros, the input, zeros
    rows: tuple[int, int, int]  # along the height
    row: tuple[int, int, int]  # along the width, in bytes
    behind: int = 0  # bytes past the end that vectors may read

    @property
    def bytes(self) -> int:
        """What the copy takes."""
        return self.n * sum(self.planes) * sum(self.rows) * sum(self.row) + self.behind


def padded_input(p: ConvProblem, images: int, pixel_bytes: int) -> PaddedInput:
    """The copy of an input padded on all sides: of `images` images, pixels of `pixel_bytes` bytes."""
    padded = [(a, n, b) for n, (a, b) in zip(p.size, p.padding)]
    size = tuple(map(sum, padded))
    planes, rows, (first, inner, last) = [(0, 1, 0)] * (3 - len(padded)) + padded
    return PaddedInput(
        replace(p, size=size, padding=((0, 0),) * len(size)),
        contiguous_strides(p.src, (p.n, p.ic, *size), p.types.src.itemsize),
        images,
        planes,
        rows,
        (pixel_bytes * first, pixel_bytes * inner, pixel_bytes * last),
    )
