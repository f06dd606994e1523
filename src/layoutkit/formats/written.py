"""What every notation shares: a written layout before it is one, and the error for a malformed text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple, Protocol

MAX_RANK = 15  # as DimsOrder; oneDNN stops at 12
MAX_DIGITS = 9
MAX_KNOWN = 1024  # lists of factors about which it is remembered what follows from them
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
    return digits_of_all(layout.factors)[dim]


@lru_cache(MAX_KNOWN)
def digits_of_all(factors: tuple[Factor, ...]) -> tuple[tuple[int, ...], ...]:
    """By dimension, the factors by place, most significant first."""
    places: list[list[int]] = [[] for f in factors if not f.size]
    for k, f in enumerate(factors):
        places[f.dim].append(k)
    return tuple(tuple(sorted(of_dim, key=lambda k: factors[k].size > 0)) for of_dim in places)


@lru_cache(MAX_KNOWN)
def units_of(factors: tuple[Factor, ...]) -> tuple[tuple[int, int, int], ...]:
    """Of each factor the dimension, the elements of it from one index to the next, and the size, 0 for a whole."""
    units = [0] * len(factors)
    for of_dim in digits_of_all(factors):
        unit = 1
        for k in reversed(of_dim):
            units[k] = unit
            unit *= factors[k].size
    return tuple((f.dim, unit, f.size) for f, unit in zip(factors, units))


def order_of(layout: Factored) -> tuple[int, ...]:
    """The dimensions of a plain layout, outermost first."""
    return tuple(f.dim for f in layout.factors)


def bad(text: object, what: str, at: int | None = None) -> ValueError:
    """The error for a malformed text: what it is, what is wrong, and where."""
    where = "" if at is None else f" at position {at} ({str(text)[at : at + 12]!r})"
    return ValueError(f"format {text!r}: {what}{where}")
