"""From two layouts to rectangular loop nests: the planning half of a reorder, on plain integers.

Both sides are written as digits of the logical index. Where their blocks do not line up (a ragged last block, blocks
of 12 and of 16) a dimension is cut into pieces on which both are affine. One piece of each dimension makes a
rectangular region, which `tiles.py` turns into nests.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..formats.layout import Layout
from ..formats.written import digits_of_all, units_of
from .fused import MAX_TABLE, ragged_nests
from .loops import SINGLE_STEP, Loop, merge
from .nest import Blocking, Nest
from .pieces import Digit, Piece, Side, pieces
from .tiles import Region, pads_with, region_nests, shared

Digits = tuple[Digit, ...]


def digits(layout: Layout, strides: Sequence[int]) -> list[Digits]:
    """The digits of each logical dimension of an array of `layout` with these byte strides."""
    factors = [Digit(unit, s) for (_, unit, _), s in zip(units_of(layout.factors), strides)]
    return [tuple([factors[k] for k in of_dim]) for of_dim in digits_of_all(layout.factors)]


def regions(shape: Sequence[int], src: Sequence[Side], dst: Sequence[Side]) -> list[list[Piece]]:
    """Rectangles of pieces, on which both sides are affine, that cover the logical elements of `shape`."""
    return [list(r) for r in itertools.product(*(pieces(0, n, (s, d)) for n, s, d in zip(shape, src, dst)))]


def _loops(parts: Sequence[Piece]) -> tuple[Loop, ...]:
    return tuple(Loop(n, s, d) for p in parts for n, (s, d) in p.loops)


def _region(parts: Sequence[Piece], src: Sequence[Side], dst: Sequence[Side]) -> Region:
    at, to = (sum(side.offset(p.start) for side, p in zip(sides, parts)) for sides in (src, dst))
    return Region(_loops(parts), at, to)


def copy_nests(
    shape: Sequence[int],
    src: Sequence[Side],
    dst: Sequence[Side],
    width: int,
    vector: int,
    blocking: Blocking,
    whole: bool = True,
) -> tuple[list[Nest], set[int]]:
    """Nests that move every logical element of `shape`, and the dimensions whose pads they also write.

    Pads are written only where the destination is `whole`, not a box within a larger tensor.
    """
    if blocking.fused and (fused := _with_tables(shape, src, dst, width, vector, blocking, whole)):
        return fused
    boxes = regions(shape, src, dst)
    dim = next((d for d, (ds, _) in enumerate(dst) if len(ds) == 2 and ds[1].stride == width), None)
    if whole and dim is not None and shape[dim] % dst[dim].digits[0].unit:
        padded = _with_pads(boxes, dim, shape[dim], src, dst, width, vector)
        if padded is not None:
            return [n for r in padded for n in region_nests(r, width, vector, blocking)], {dim}
    plain = [_region(parts, src, dst) for parts in boxes]
    return [n for r in plain for n in region_nests(r, width, vector, blocking)], set()


def _with_tables(shape, src, dst, width: int, vector: int, blocking: Blocking, whole: bool):
    """As `copy_nests`, but dimensions that would be cut into pieces, or whose last block has pads, become loops without
    a stride, so that they do not end a run of the destination. None if no nest can fuse such a loop."""
    cut = [[DimSpan(p.start, _loops([p])) for p in pieces(0, n, (s, d))] for n, s, d in zip(shape, src, dst)]
    padded, tables = set(), {}
    for dim, (n, s, d, parts) in enumerate(zip(shape, src, dst, cut)):
        if len(d.digits) == 1 and 1 < len(parts) and n <= MAX_TABLE:
            tables[dim] = [_table(s, d, 0, n, n)]
        elif whole and len(d.digits) == 2 and n % d.digits[0].unit and d.digits[0].unit <= MAX_TABLE:
            unit = d.digits[0].unit
            start = n // unit * unit
            tables[dim] = [*(p for p in parts if p.start < start), _table(s, d, start, n, unit)]
            padded.add(dim)
    while tables:
        nests: list[Nest] = []
        unfused: set[int] = set()
        for chosen in itertools.product(*(tables.get(dim, parts) for dim, parts in enumerate(cut))):
            at, to = (sum(side.offset(p.start) for side, p in zip(sides, chosen)) for sides in (src, dst))
            region = Region(tuple(x for p in chosen for x in p.loops), at, to)
            if any(x.offsets for x in region.loops):
                ragged, loops = ragged_nests(region.loops, width, at, to, blocking)
                unfused |= {dim for dim in tables if set(loops).intersection(chosen[dim].loops)}
                nests += ragged
            else:
                nests += region_nests(region, width, vector, blocking)
        if not unfused:
            return nests, padded & tables.keys()
        for dim in unfused:
            del tables[dim]
    return None


class DimSpan(NamedTuple):
    """A part of a dimension: its first index, and loops."""

    start: int
    loops: tuple[Loop, ...]


def _table(src: Side, dst: Side, start: int, stop: int, n: int) -> DimSpan:
    """The indices from `start` on as a loop of `n` steps without a stride in the source; those from `stop` on are
    pads."""
    offsets = [src.offset(i) - src.offset(start) for i in range(start, stop)]
    return DimSpan(start, (Loop(n, 0, dst.digits[-1].stride, 0, (*offsets, *[None] * (n - stop + start))),))


def _with_pads(boxes, dim: int, size: int, src, dst, width: int, vector: int) -> list[Region] | None:
    """The regions, those at the end of `dim` with the pads of their block; None where tiles cannot write them."""
    unit = dst[dim].digits[0].unit
    result = []
    for parts in boxes:
        last = parts[dim]
        if last.start < size // unit * unit:
            result.append(_region(parts, src, dst))
            continue
        if last.start % unit or len(last.loops) != 1 or last.loops[0][0] != size % unit:
            return None
        valid, (stride, _) = last.loops[0]
        if valid == 1 and stride != width:
            stride = 0  # the stride of a single element may be any number, and multiples of it could overflow
        rest = _region([*parts[:dim], last._replace(loops=()), *parts[dim + 1 :]], src, dst)
        region = rest._replace(block=Loop(unit, stride, width), valid=valid)
        if not pads_with(region, width, vector):
            return None
        result.append(region)
    return result


def fill_nests(
    shape: Sequence[int], padded: Sequence[int], dst: Sequence[Side], width: int, done: Collection[int] = ()
) -> list[Nest]:
    """Nests that write every pad of `dst`: its elements inside `padded` and outside the logical `shape`.

    Pads along the dimensions `done` whose other indices are logical are skipped: `copy_nests` writes them with the
    elements.
    """
    nests = []
    order = sorted(range(len(shape)), key=lambda d: d in done)
    for at, dim in enumerate(order[: len(shape) - len(done)]):
        ranges = [(0, padded[d]) if order.index(d) > at else (0, shape[d]) for d in range(len(shape))]
        ranges[dim] = (shape[dim], padded[dim])
        for region in itertools.product(*(pieces(a, b, (d, d)) for (a, b), d in zip(ranges, dst))):
            loops = merge(_loops(region))
            while len(loops) < 2:
                loops.insert(0, SINGLE_STEP)
            start = sum(d.offset(p.start) for p, d in zip(region, dst))
            nests += shared(Nest("fill", 8 * width, tuple(loops[:-2]), (loops[-2], loops[-1]), 0, start))
    return nests
