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

from .leaves import ONE, Blocking, Loop, Nest, Region, leaf_nests, merge, pads_with


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


def regions(shape: Sequence[int], src: Sequence[Digits], dst: Sequence[Digits]) -> list[list[Piece]]:
    """The logical elements of `shape` in rectangles on which both sides are affine."""
    return [list(r) for r in itertools.product(*(pieces(0, n, s, d) for n, s, d in zip(shape, src, dst)))]


def _region(parts: Sequence[Piece], src: Sequence[Digits], dst: Sequence[Digits]) -> Region:
    starts = [p.start for p in parts]
    loops = tuple(x for p in parts for x in p.loops)
    return Region(loops, sum(map(offset, starts, src)), sum(map(offset, starts, dst)))


def copy_nests(
    shape: Sequence[int],
    src: Sequence[Digits],
    dst: Sequence[Digits],
    width: int,
    vector: int,
    blocking: Blocking,
) -> tuple[list[Nest], int | None]:
    """Nests that move every logical element of `shape`; and the dimension whose pads they write as well."""
    found = regions(shape, src, dst)
    dim = next((d for d, ds in enumerate(dst) if len(ds) == 2 and ds[1].stride == width), None)
    if dim is not None and shape[dim] % dst[dim][0].unit:
        padded = _with_pads(found, dim, shape[dim], src, dst, width, vector)
        if padded is not None:
            return [n for r in padded for n in leaf_nests(r, width, vector, blocking)], dim
    plain = [_region(parts, src, dst) for parts in found]
    return [n for r in plain for n in leaf_nests(r, width, vector, blocking)], None


def _with_pads(found, dim: int, size: int, src, dst, width: int, vector: int) -> list[Region] | None:
    """The regions, those at the end of `dim` with the pads of their block; None where a leaf cannot do that."""
    unit = dst[dim][0].unit
    result = []
    for parts in found:
        last = parts[dim]
        if last.start < size // unit * unit:
            result.append(_region(parts, src, dst))
            continue
        if last.start % unit or len(last.loops) != 1 or last.loops[0].n != size % unit:
            return None
        loop = last.loops[0]
        rest = _region([*parts[:dim], last._replace(loops=()), *parts[dim + 1 :]], src, dst)
        region = rest._replace(block=Loop(unit, loop.src, width), valid=loop.n)
        if not pads_with(region, width, vector):
            return None
        result.append(region)
    return result


def fill_nests(
    shape: Sequence[int], padded: Sequence[int], dst: Sequence[Digits], width: int, done: int | None = None
) -> list[Nest]:
    """Nests that write every pad of `dst`: its elements inside `padded` and outside the logical `shape`.

    Those of dimension `done` beside logical elements of the other dimensions are written already.
    """
    nests = []
    order = [d for d in range(len(shape)) if d != done] + ([] if done is None else [done])
    for at, dim in enumerate(order if done is None else order[:-1]):
        ranges = [(0, padded[d]) if order.index(d) > at else (0, shape[d]) for d in range(len(shape))]
        ranges[dim] = (shape[dim], padded[dim])
        for region in itertools.product(*(pieces(a, b, d, d) for (a, b), d in zip(ranges, dst))):
            loops = merge([x for p in region for x in p.loops])
            while len(loops) < 2:
                loops.insert(0, ONE)
            start = sum(offset(p.start, d) for p, d in zip(region, dst))
            nests.append(Nest("fill", 8 * width, tuple(loops[:-2]), (loops[-2], loops[-1]), 0, start))
    return nests

