"""Layout: how the elements of a logical tensor lie in memory.

A layout is an ordered list of *factors*, outermost first. Each factor is a whole logical dimension or
one block of it, so ``nChw16c`` is the five factors  n, C (what is left of c), h, w, 16c.
The physical array that holds a tensor has one axis per factor. Sizes and strides of the logical tensor
are always given in logical order (N C [D] H W; O I [D] H W), whatever the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple


class Factor(NamedTuple):
    """One physical axis: a block of ``size`` elements of dimension ``dim``; size 0 is all that remains."""

    dim: int
    size: int


class Axis(NamedTuple):
    """A factor on an exact shape: axis digit x stands for logical index ``unit * x`` along ``dim``."""

    dim: int
    unit: int
    extent: int


class Layout:
    """A memory format: a value, frozen and hashable, equal when it means the same.

    Parameters
    ----------
    text : str or Layout
        A tag, abstract (``"aBcd16b"``) or named (``"nChw16c"``, ``"NHWC"``).

    Raises
    ------
    ValueError
        The text is not a format; the message says what is wrong and where.
    """

    __slots__ = ("_hash", "factors", "rank")
    factors: tuple[Factor, ...]
    rank: int

    def __new__(cls, text: str | Layout) -> Layout:
        if isinstance(text, Layout):
            return text
        if not isinstance(text, str):
            raise TypeError(f"Layout: expected a tag such as 'NHWC' or 'nChw16c', got {type(text).__name__}")
        from .notation import parse

        return parse(text)

    @classmethod
    def from_factors(cls, factors: Sequence[tuple[int, int]]) -> Layout:
        """Build from (dim, size) pairs, outermost first; exactly one size-0 factor per dimension."""
        self = object.__new__(cls)
        fs = tuple(Factor(int(d), int(s)) for d, s in factors)
        rank = 1 + max((f.dim for f in fs), default=-1)
        whole = sorted(f.dim for f in fs if f.size == 0)
        if whole != list(range(rank)):
            raise ValueError(f"Layout: dimensions {whole} given once each as a whole, expected 0..{rank - 1}")
        seen_whole = set()
        for f in fs:
            if f.size == 0:
                seen_whole.add(f.dim)
            elif f.size < 1:
                raise ValueError(f"Layout: block size {f.size} of dimension {f.dim} must be positive")
            elif f.dim not in seen_whole:
                raise ValueError(f"Layout: a block of dimension {f.dim} lies outside the dimension itself")
        object.__setattr__(self, "factors", fs)
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "_hash", hash(fs))
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Layout is frozen")

    def __eq__(self, other: object) -> bool:
        return self.factors == other.factors if isinstance(other, Layout) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self):
        return Layout.from_factors, (self.factors,)

    @property
    def tag(self) -> str:
        """The canonical abstract tag, such as ``"acdb"`` or ``"aBcd16b"``."""
        from .notation import abstract_tag

        return abstract_tag(self)

    def __str__(self) -> str:
        from .notation import name

        return name(self) or self.tag

    def __repr__(self) -> str:
        return f"Layout({str(self)!r})"

    def block(self, dim: int) -> int:
        """The number that dimension `dim` is padded up to a multiple of (1: not blocked)."""
        return prod(f.size for f in self.factors if f.dim == dim and f.size)

    def check_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """`shape` as a tuple of ints, or ValueError naming this layout."""
        shape = tuple(int(s) for s in shape)
        if len(shape) != self.rank:
            raise ValueError(f"layout {self} has {self.rank} dimensions, shape {shape} has {len(shape)}")
        if any(s < 0 for s in shape):
            raise ValueError(f"layout {self}: negative size in shape {shape}")
        return shape

    def axes(self, shape: Sequence[int]) -> tuple[Axis, ...]:
        """The factors on an exact logical shape, outermost first."""
        shape = self.check_shape(shape)
        unit = [1] * self.rank
        axes = []
        for dim, size in reversed(self.factors):
            extent = size or -(-shape[dim] // unit[dim])
            axes.append(Axis(dim, unit[dim], extent))
            unit[dim] *= extent
        return tuple(reversed(axes))

    def physical_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Shape of the array that holds a tensor of logical `shape`, padding included."""
        return tuple(a.extent for a in self.axes(shape))

    def padded_shape(self, physical: Sequence[int]) -> tuple[int, ...]:
        """The largest logical shape that an array of shape `physical` holds."""
        physical = tuple(int(s) for s in physical)
        if len(physical) != len(self.factors):
            raise ValueError(
                f"layout {self} is held by an array of {len(self.factors)} axes, got shape {physical}"
            )
        shape = [1] * self.rank
        for (dim, size), extent in zip(self.factors, physical):
            if size and extent != size:
                raise ValueError(f"layout {self}: block axis of {size} has size {extent} in shape {physical}")
            shape[dim] *= extent
        return tuple(shape)
