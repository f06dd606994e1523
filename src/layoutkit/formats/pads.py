"""The pads of a layout on a shape: the elements that exist only physically."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Set
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from . import algebra

if TYPE_CHECKING:
    from .layout import Layout


class Pads(Set):
    """The exact set of element offsets that hold no logical element but belong to the padded shape.

    Lazy: its length and membership cost nothing to build. Gaps that explicit strides leave are not in it.

    Parameters
    ----------
    layout : Layout
    shape : tuple of int
        The logical shape.
    """

    __slots__ = ("_full", "layout", "shape")

    def __init__(self, layout: Layout, shape: tuple[int, ...]) -> None:
        self.layout = layout
        self.shape = shape
        self._full = layout.full_shape(shape)

    @classmethod
    def _from_iterable(cls, offsets):
        return frozenset(offsets)  # what &, | and - of it give

    def __len__(self) -> int:
        if self.layout.is_one_to_one(self._full):
            return prod(self._full) - prod(self.shape)
        return len(set(self))

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int) or self.layout.index(offset, self.shape) is not None:
            return False
        return self.layout.index(offset, self._full) is not None

    def __iter__(self) -> Iterator[int]:
        overlap = not self.layout.is_one_to_one(self._full)
        seen: set[int] = set()
        for offset in self._walk():
            if overlap:
                if offset in seen or self.layout.index(offset, self.shape) is not None:
                    continue
                seen.add(offset)
            yield offset

    def _walk(self) -> Iterator[int]:
        """The offset of every padded index outside the shape: those that leave it first in dimension d."""
        offsets = [[algebra.apply(m, i) for i in range(n)] for m, n in zip(self.layout.modes(self.shape), self._full)]
        for d, inside in enumerate(self.shape):
            before = [x[:s] for x, s in zip(offsets[:d], self.shape)]
            for part in itertools.product(*before, offsets[d][inside:], *offsets[d + 1 :]):
                yield sum(part)

    def __repr__(self) -> str:
        return f"<{len(self)} pads of {self.layout} on {self.shape}>"


def pad_mask(layout: Layout, shape: tuple[int, ...]) -> np.ndarray:
    """Where the physical array of `layout` holds pads: booleans of its shape."""
    axes = layout.axes(shape)
    mask = np.zeros((1,) * len(axes), bool)
    for dim, size in enumerate(shape):
        index = np.zeros((1,) * len(axes), np.int64)
        for inside, axis in enumerate(reversed(axes)):
            if axis.dim == dim:
                index = index + axis.unit * np.arange(axis.extent).reshape(-1, *[1] * inside)
        mask = mask | (index >= size)
    return np.broadcast_to(mask, layout.physical_shape(shape))
