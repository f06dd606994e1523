"""What every notation shares: a written layout before it is one, and the error for a malformed text."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol

MAX_RANK = 15  # as DimsOrder; oneDNN stops at 12
MAX_DIGITS = 9
ALPHABET = "abcdefghijklmno"


class Factor(NamedTuple):
    """One physical axis: a block of ``size`` elements of dimension ``dim``; size 0 is all that remains.

    Attributes
    ----------
    dim : int
        The dimension, in logical order.
    size : int
        Elements of the block; 0: all that remains.
    """

    dim: int
    size: int


class Written(NamedTuple):
    """What a text says of a layout: the arguments of `Layout.from_factors`."""

    factors: Sequence[tuple[int, int]]
    pitches: Sequence[int | None] | None = None
    dims: Sequence[str] | None = None
    named: bool = True


class Factored(Protocol):
    """What can be written: a `Layout`."""

    @property
    def factors(self) -> tuple[Factor, ...]: ...
    @property
    def pitches(self) -> tuple[int | None, ...]: ...
    @property
    def dims(self) -> tuple[str, ...]: ...
    @property
    def rank(self) -> int: ...


def is_dense(layout: Factored) -> bool:
    """Whether all strides follow from the shape."""
    return layout.pitches.count(None) == len(layout.pitches)


def is_plain(layout: Factored) -> bool:
    """Whether no dimension is blocked: a permutation, and one stride a dimension."""
    return len(layout.factors) == layout.rank


def block_of(layout: Factored, dim: int) -> int:
    """The number that dimension `dim` is padded up to a multiple of (1: not blocked)."""
    return prod(f.size for f in layout.factors if f.dim == dim and f.size)


def digits_of(layout: Factored, dim: int) -> tuple[int, ...]:
    """The factors of dimension `dim` by place, most significant first: the whole, then its blocks left to right."""
    digits = [k for k, f in enumerate(layout.factors) if f.dim == dim]
    return tuple(sorted(digits, key=lambda k: layout.factors[k].size > 0))


def order_of(layout: Factored) -> tuple[int, ...]:
    """The dimensions of a plain layout, outermost first."""
    return tuple(f.dim for f in layout.factors)


def bad(text: object, what: str, at: int | None = None) -> ValueError:
    """The error for a malformed text: what it is, what is wrong, and where."""
    where = "" if at is None else f" at position {at} ({str(text)[at : at + 12]!r})"
    return ValueError(f"format {text!r}: {what}{where}")
