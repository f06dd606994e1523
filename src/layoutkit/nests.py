"""From two layouts to rectangular loop nests: the planning half of a reorder, on plain integers.

Both sides are written as digits of the logical index. Where their blocks do not line up (a ragged last
block, 12 against 16) a dimension is cut into pieces on which both are affine; a nest is one piece of each
dimension, its loops merged where neighbours stay adjacent on both sides, and ends in the leaf that fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import lcm
from typing import NamedTuple


class Digit(NamedTuple):
    """Logical index // unit, times stride bytes; the digits of a dimension go outermost first to unit 1."""

    unit: int
    stride: int


class Loop(NamedTuple):
    n: int
    src: int
    dst: int


class Piece(NamedTuple):
    """A part of one dimension on which both sides are affine."""

    start: int
    loops: tuple[Loop, ...]


class Nest(NamedTuple):
    """Loops around a leaf of two; offsets in bytes from the two arrays' addresses."""

    family: str
    loops: tuple[Loop, ...]
    leaf: tuple[Loop, Loop]
    src: int
    dst: int


Digits = tuple[Digit, ...]

CHUNK = 1 << 16  # bytes of one run: long copies are cut so that threads can share them


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


def merge(loops: Sequence[Loop]) -> list[Loop]:
    """Outermost first by destination stride, size-1 loops dropped, adjacent neighbours made one."""
    out: list[Loop] = []
    for loop in sorted((x for x in loops if x.n != 1), key=lambda x: (abs(x.dst), abs(x.src)), reverse=True):
        if out and out[-1].src == loop.n * loop.src and out[-1].dst == loop.n * loop.dst:
            out[-1] = Loop(out[-1].n * loop.n, loop.src, loop.dst)
        else:
            out.append(loop)
    return out


def leaf_nests(loops: Sequence[Loop], src: int, dst: int, width: int, panel: int) -> list[Nest]:
    """Nests of one rectangular region: choose the leaf, cut it to a size that caches and threads like.

    A transpose takes `panel` bytes of a source run along; its rows should stay in L1 and the TLB.
    """
    rest = merge(loops)
    inner = rest.pop() if rest else Loop(1, width, width)
    if inner.src == inner.dst == width:
        return _copies(rest, Loop(inner.n * width, 1, 1), src, dst)
    along = next((x for x in rest if x.src == width), None)
    if along is not None and inner.dst == width:
        rest.remove(along)
        nests = []
        step = panel // width
        whole = along.n // step
        if whole and inner.n > 1:
            panels = Loop(whole, step * along.src, step * along.dst)
            outer = sorted([*rest, panels], key=lambda x: abs(x.dst), reverse=True)
            nests.append(Nest("transpose", tuple(outer), (Loop(step, *along[1:]), inner), src, dst))
            src, dst = src + whole * panels.src, dst + whole * panels.dst
            along = along._replace(n=along.n % step)
        if along.n:
            nests.append(Nest("transpose", tuple(rest), (along, inner), src, dst))
        return nests
    second = min(rest, key=lambda x: abs(x.src), default=Loop(1, 0, 0))
    if second in rest:
        rest.remove(second)
    return [Nest("gather", tuple(rest), (second, inner), src, dst)]


def _copies(rest: list[Loop], run: Loop, src: int, dst: int) -> list[Nest]:
    nests = []
    whole = run.n // CHUNK
    if whole > 1:
        chunk = Loop(whole, CHUNK, CHUNK)
        nests.append(Nest("copy", (*rest, chunk), (Loop(1, 0, 0), Loop(CHUNK, 1, 1)), src, dst))
        run = run._replace(n=run.n - whole * CHUNK)
        src, dst = src + whole * CHUNK, dst + whole * CHUNK
        if not run.n:
            return nests
    second = rest[-1] if rest else Loop(1, 0, 0)
    return [*nests, Nest("copy", tuple(rest[:-1]), (second, run), src, dst)]


def copy_nests(
    shape: Sequence[int], src: Sequence[Digits], dst: Sequence[Digits], width: int, panel: int
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
            panel,
        )
    return nests


def fill_nests(shape: Sequence[int], padded: Sequence[int], dst: Sequence[Digits]) -> list[Nest]:
    """Nests that write every pad of `dst`: its elements inside `padded` and outside the logical `shape`."""
    nests = []
    for dim in range(len(shape)):
        ranges = [(0, n) for n in shape[:dim]] + [(shape[dim], padded[dim])] + [(0, n) for n in padded[dim + 1 :]]
        for region in itertools.product(*(pieces(a, b, d, d) for (a, b), d in zip(ranges, dst))):
            loops = merge([x for p in region for x in p.loops])
            while len(loops) < 2:
                loops.insert(0, Loop(1, 0, 0))
            start = sum(offset(p.start, d) for p, d in zip(region, dst))
            nests.append(Nest("fill", tuple(loops[:-2]), (loops[-2], loops[-1]), 0, start))
    return nests

