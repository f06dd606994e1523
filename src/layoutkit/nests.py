"""From two layouts to rectangular loop nests: the planning half of a reorder, on plain integers.

Both sides are written as digits of the logical index. Where their blocks do not line up (a ragged last
block, 12 against 16) a dimension is cut into pieces on which both are affine; one piece of each dimension is a
rectangular region, and `layoutkit.leaves` makes nests of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import lcm
from typing import NamedTuple

from .leaves import ONE, Blocking, Loop, Nest, leaf_nests, merge


class Digit(NamedTuple):
    """Logical index // unit, times stride bytes; the digits of a dimension go outermost first to unit 1."""

    unit: int
    stride: int


class Piece(NamedTuple):
    """A part of one dimension on which both sides are affine."""

    start: int
    loops: tuple[Loop, ...]


Digits = tuple[Digit, ...]


def digits(axes: Sequence, strides: Sequence[int], rank: int) -> list[Digits]:
    """Per logical dimension the digits of an array with `axes` (Layout.axes) at `strides` bytes."""
    return [
        tuple(Digit(a.unit, s) for a, s in zip(axes, strides) if a.dim == dim) for dim in range(rank)
    ]


def offset(index: int, ds: Digits) -> int:
    """Byte offset of a logical index along one dimension."""
    total = 0
    for unit, stride in ds:
        total += index // unit * stride
        index %= unit
    return total


def pieces(lo: int, hi: int, src: Digits, dst: Digits) -> list[Piece]:
    """Cut [lo, hi) of one dimension into pieces on which both sides are affine."""
    if lo >= hi:
        return []
    while len(src) > 1 and lo // src[0].unit == (hi - 1) // src[0].unit:
        src = src[1:]  # constant here: part of the offset of the start
    while len(dst) > 1 and lo // dst[0].unit == (hi - 1) // dst[0].unit:
        dst = dst[1:]
    if len(src) == len(dst) == 1:
        return [Piece(lo, (Loop(hi - lo, src[0].stride, dst[0].stride),))]
    period = lcm(src[0].unit, dst[0].unit)
    first, last = -(-lo // period) * period, hi // period * period
    if first < last:
        step = Loop(
            (last - first) // period,
            period // src[0].unit * src[0].stride,
            period // dst[0].unit * dst[0].stride,
        )
        one = (pieces if step.n > 1 else pieces_cut)(first, first + period, src, dst)
        whole = [Piece(p.start, (step, *p.loops)) for p in one]
        return pieces(lo, first, src, dst) + whole + pieces(last, hi, src, dst)
    return pieces_cut(lo, hi, src, dst)


def pieces_cut(lo: int, hi: int, src: Digits, dst: Digits) -> list[Piece]:
    """As pieces, where no whole period fits: cut where an outermost digit changes."""
    cuts = {lo, hi}
    for unit in (src[0].unit, dst[0].unit):
        if unit > 1:
            cuts.update(range(-(-lo // unit) * unit, hi, unit))
    ends = sorted(cuts)
    return [p for a, b in itertools.pairwise(ends) for p in pieces(a, b, src, dst)]


def copy_nests(
    shape: Sequence[int], src: Sequence[Digits], dst: Sequence[Digits], width: int, blocking: Blocking
) -> list[Nest]:
    """Nests that move every logical element of `shape`."""
    nests = []
    for region in itertools.product(*(pieces(0, n, s, d) for n, s, d in zip(shape, src, dst))):
        starts = [p.start for p in region]
        nests += leaf_nests(
            [x for p in region for x in p.loops],
            sum(map(offset, starts, src)),
            sum(map(offset, starts, dst)),
            width,
            blocking,
        )
    return nests


def fill_nests(
    shape: Sequence[int], padded: Sequence[int], dst: Sequence[Digits], width: int
) -> list[Nest]:
    """Nests that write every pad of `dst`: its elements inside `padded` and outside the logical `shape`."""
    nests = []
    for dim in range(len(shape)):
        ranges = [(0, n) for n in shape[:dim]] + [(shape[dim], padded[dim])] + [(0, n) for n in padded[dim + 1 :]]
        for region in itertools.product(*(pieces(a, b, d, d) for (a, b), d in zip(ranges, dst))):
            loops = merge([x for p in region for x in p.loops])
            while len(loops) < 2:
                loops.insert(0, ONE)
            start = sum(offset(p.start, d) for p, d in zip(region, dst))
            nests.append(Nest("fill", 8 * width, tuple(loops[:-2]), (loops[-2], loops[-1]), 0, start))
    return nests

