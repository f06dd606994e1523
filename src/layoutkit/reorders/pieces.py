"""Pieces of a dimension on which the offset is affine in the index, on any number of sides at once.

A side is an array that the dimension is walked in: source, destination, scales per channel. Its digits give the
offset of an index; its shift is the index at which the walk begins, not 0 for a box within a larger tensor.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import inf, lcm
from typing import NamedTuple

TOO_MANY = "blocks that do not line up cut a dimension into more pieces than allowed"


class Digit(NamedTuple):
    """Adds (index // unit) * stride to the offset, the outer digits taken off the index before. The digits of a
    dimension are ordered outermost first; the last one has unit 1."""

    unit: int
    stride: int


class Side(NamedTuple):
    """One array's view of a dimension: step i of the walk is index ``i + shift``."""

    digits: tuple[Digit, ...]
    shift: int = 0

    def offset(self, step: int) -> int:
        """The offset of a step."""
        index, total = step + self.shift, 0
        for unit, stride in self.digits:
            total += index // unit * stride
            index %= unit
        return total


class Piece(NamedTuple):
    """A part of the walk: its first step, and loops outermost first: (count, a stride per side)."""

    start: int
    loops: tuple[tuple[int, tuple[int, ...]], ...]


def pieces(lo: int, hi: int, sides: Sequence[Side], most: float = inf) -> list[Piece]:
    """Cut the steps [lo, hi) of one dimension into pieces on which all sides are affine.

    Raises
    ------
    ValueError
        They are more than `most`. This takes time in proportion to `most`, not to the number of pieces.
    """
    if lo >= hi:
        return []
    if most < 1:
        raise ValueError(TOO_MANY)
    sides = [_inside(side, lo, hi) for side in sides]
    if all(len(s.digits) == 1 for s in sides):
        return [Piece(lo, ((hi - lo, tuple(s.digits[0].stride for s in sides)),))]
    period = lcm(*(s.digits[0].unit for s in sides))
    blocked = next(s for s in reversed(sides) if len(s.digits) > 1)  # the period begins at a block of this side
    first = lo + -(lo + blocked.shift) % period
    count = (hi - first) // period
    if count < 1:
        return _cut(lo, hi, sides, most)
    last = first + count * period
    step = count, tuple(period // s.digits[0].unit * s.digits[0].stride for s in sides)
    narrower = count > 1 or any(_inside(s, first, last) != s for s in sides)
    one = (pieces if narrower else _cut)(first, first + period, sides, most)
    whole = [Piece(p.start, (step, *p.loops)) for p in one]
    before = pieces(lo, first, sides, most - len(whole))
    return before + whole + pieces(last, hi, sides, most - len(whole) - len(before))


def _inside(side: Side, lo: int, hi: int) -> Side:
    """The side without the outer digits that are constant on [lo, hi): they only add to the offset of the start."""
    digits, shift = side
    while len(digits) > 1 and (lo + shift) // digits[0].unit == (hi - 1 + shift) // digits[0].unit:
        digits = digits[1:]
    return Side(digits, shift)


def _cut(lo: int, hi: int, sides: Sequence[Side], most: float) -> list[Piece]:
    """`pieces` where no whole period fits: cut wherever an outermost digit changes."""
    if any(len(digits) > 1 and (hi - lo) // digits[0].unit > most for digits, _ in sides):
        raise ValueError(TOO_MANY)
    cuts = {lo, hi}
    for digits, shift in sides:
        if len(digits) > 1:
            cuts.update(range(lo + -(lo + shift) % digits[0].unit, hi, digits[0].unit))
    result: list[Piece] = []
    for a, b in itertools.pairwise(sorted(cuts)):
        result += pieces(a, b, sides, most - len(result))
    return result
