"""The padded input: a copy of it with zeros around, where an algorithm or a filter needs padding to be there."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ..memory.arrays import contiguous_strides
from .problem import ConvProblem


class PaddedInput(NamedTuple):
    """A copy of an input padded with zeros: where everything lies that is not the input's."""

    problem: ConvProblem  # on the copy
    strides: tuple[int, ...]  # of its physical axes, in bytes
    n: int
    planes: tuple[int, int, int]  # along the depth: before, the input's, after
    rows: tuple[int, int, int]  # along the height
    row: tuple[int, int, int]  # bytes of a row
    behind: int = 0  # bytes that vectors read behind it

    @property
    def bytes(self) -> int:
        """What the copy takes."""
        return self.n * sum(self.planes) * sum(self.rows) * sum(self.row) + self.behind


def padded_input(p: ConvProblem, images: int, pixel_bytes: int) -> PaddedInput:
    """The copy of an input padded on all sides: so many images, pixels of so many bytes."""
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
