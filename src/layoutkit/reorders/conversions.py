"""From loops with two element widths to nests around a tile that converts: the planning half of a conversion.

A tile takes up to three steps: move the source into a scratch buffer in the order of the destination, convert it run by
run, move the result from a scratch buffer to the destination. Runs that are contiguous on both sides are only
converted, and so are a few rows that are interleaved on one side (pixels to planes and back). Any other transpose needs
one of the moves, which is done in the narrower of the two types.

In a source of packed pairs all offsets and strides count elements. There a tile has one more step in front: it unpacks
what it reads to bytes in a scratch buffer, run by run, and the following steps read those.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from .loops import LINE_BYTES, SINGLE_STEP, Loop, cut, directed, merge, step_of_parts
from .pieces import Side, pieces

MAX_RUN_BYTES = 1 << 16  # longer runs are cut, so that threads can share them
MAX_INTERLEAVED = 16  # rows that are converted as they are interleaved: LK_MAX_INTERLEAVED of convert.h
MAX_UNPACKED = 1 << 15  # elements that a tile unpacks, one byte each
TILE_SCRATCH_BYTES = 1 << 15  # of a tile: it fits into L1 together with the tile's other side


class Move(NamedTuple):
    """A step of a tile that moves elements, or unpacks them: see lk_move and lk_packed in pairs.h."""

    family: str
    bits: int
    n: tuple[int, int]
    s: tuple[int, int]
    d: tuple[int, int]


class Convert(NamedTuple):
    """The step that converts: see lk_convert in convert.h."""

    n: tuple[int, int]
    s: tuple[int, int]
    d: tuple[int, int]
    par: tuple[int, int]


Tile = tuple[Move | None, Convert, Move | None]


class Nest(NamedTuple):
    """Loops, outermost first, around a tile; offsets are into source, destination and parameters."""

    loops: tuple[Loop, ...]
    before: Move | None
    convert: Convert
    after: Move | None
    offsets: tuple[int, int, int]
    prefetch_bytes: int = 0  # prefetch distance: from what a tile reads to what it fetches for a later one
    unpack: Move | None = None


class Widths(NamedTuple):
    """Bytes of an element of source and destination; of a source in packed pairs 1."""

    src: int
    dst: int
    sum: bool  # whether the result is added to the destination
    pairs: bool = False  # whether the source is in packed pairs


def nests(shape: Sequence[int], sides: Sequence[Sequence[Side]], widths: Widths) -> list[Nest]:
    """Nests that convert every logical element of `shape`; `sides` are source, destination, parameters per
    dimension."""
    result = []
    for region in itertools.product(*(pieces(0, n, s) for n, s in zip(shape, sides))):
        starts = [p.start for p in region]
        offsets = tuple(sum(s[k].offset(i) for s, i in zip(sides, starts)) for k in range(3))
        loops, (src, dst) = directed([Loop(n, s, d, par) for p in region for n, (s, d, par) in p.loops], *widths[:2])
        offsets = offsets[0] + src, offsets[1] + dst, offsets[2]
        result += _region_nests(merge(loops), offsets, widths)
    return result


def _region_nests(rest: list[Loop], offsets, w: Widths) -> list[Nest]:
    inner = rest.pop() if rest else Loop(1, w.src, w.dst)
    along = next((x for x in rest if x.src == w.src), None)
    most = MAX_RUN_BYTES // max(w[:2])
    most = min(most, MAX_UNPACKED) if w.pairs else most
    if inner.src == w.src and inner.dst == w.dst:
        second = rest.pop() if rest else SINGLE_STEP
        i_step, j_step = max(1, most // inner.n), most
        tile = _run
    elif inner.dst == w.dst and along is not None:
        rest.remove(along)
        second = along
        i_step, j_step = _steps(second.n, inner.n, w, w.src if w.sum else min(w[:2]))
        tile = _transpose
        if not w.sum and min(second.n, inner.n) <= MAX_INTERLEAVED:
            parts = (-(-x.n * max(w[:2]) // MAX_RUN_BYTES) for x in (second, inner))
            i_step, j_step = (max(1, step_of_parts(x.n, n, 1)) for x, n in zip((second, inner), parts))
            if w.pairs:
                i_step, j_step = (min(step, max(1, most // min(second.n, inner.n))) for step in (i_step, j_step))
            tile = _interleaved
    else:
        second = min(rest, key=lambda x: abs(x.src), default=SINGLE_STEP)
        if second in rest:
            rest.remove(second)
        i_step, j_step = _steps(second.n, inner.n, w, max(w[:2]))
        tile = _gather
    result = []
    for i_outer, i, i_first in cut(second, i_step):
        for j_outer, j, j_first in cut(inner, j_step):
            outer = [x for x in (*rest, i_outer, j_outer) if x.n > 1]
            outer.sort(key=lambda x: abs(x.src), reverse=True)
            at = tuple(o + i_first * a + j_first * b for o, a, b in zip(offsets, second[1:4], inner[1:4]))
            prefetch_bytes = outer[-1].src if tile is _transpose and outer and not w.pairs else 0
            before, convert, after = tile(i, j, w)
            nest = Nest(tuple(outer), before, convert, after, at, prefetch_bytes)
            result.append(_unpacked(nest) if w.pairs else nest)
    return result


def _steps(i: int, j: int, w: Widths, width: int) -> tuple[int, int]:
    """The size of a tile of at most i x j elements of `width` bytes that fits into the scratch buffer. Along i, the
    runs of the source, it has at least four cache lines of the wider type; j uses the rest of the buffer."""
    elements = TILE_SCRATCH_BYTES // width
    least = min(i, 4 * LINE_BYTES // max(w[:2]))
    j_step = _lines(min(j, elements // least), j, w.dst)
    return _lines(min(i, elements // j_step), i, w.src), j_step


def _lines(n: int, most: int, width: int) -> int:
    """`n` elements, rounded down to whole cache lines if they are at least one line, and fewer than `most`."""
    line = LINE_BYTES // width
    return n if n == most or n < line else n // line * line


def _pitch(n: int, width: int) -> int:
    """Bytes between rows of a scratch buffer. Long rows are padded by a line, so that they do not all begin in the same
    cache set."""
    return n * width + (LINE_BYTES if n * width >= 512 else 0)


def _run(i: Loop, j: Loop, w: Widths) -> Tile:
    return None, Convert((i.n, j.n), (i.src, w.src), (i.dst, w.dst), (i.par, j.par)), None


def _interleaved(i: Loop, j: Loop, w: Widths) -> Tile:
    """i is contiguous in the source, j in the destination, and one of them is short."""
    rows, along = (i, j) if i.n <= j.n else (j, i)
    s, d = (rows.src, along.src), (rows.dst, along.dst)
    return None, Convert((rows.n, along.n), s, d, (rows.par, along.par)), None


def _transpose(i: Loop, j: Loop, w: Widths) -> Tile:
    """i is contiguous in the source, j in the destination."""
    if w.src <= w.dst or w.sum:
        pitch = _pitch(j.n, w.src)
        move = Move("transpose", 8 * w.src, (i.n, j.n), (w.src, j.src), (pitch, w.src))
        return move, Convert((i.n, j.n), (pitch, w.src), (i.dst, w.dst), (i.par, j.par)), None
    pitch = _pitch(i.n, w.dst)
    move = Move("transpose", 8 * w.dst, (i.n, j.n), (w.dst, pitch), (i.dst, w.dst))
    return None, Convert((j.n, i.n), (j.src, w.src), (pitch, w.dst), (j.par, i.par)), move


def _gather(i: Loop, j: Loop, w: Widths) -> Tile:
    before, after = None, None
    s0, d0 = i.src, i.dst
    if j.src != w.src:
        s0 = j.n * w.src
        before = Move("gather", 8 * w.src, (i.n, j.n), (i.src, j.src), (s0, w.src))
    if j.dst != w.dst:
        d0 = j.n * w.dst
        after = Move("gather", 8 * w.dst, (i.n, j.n), (d0, w.dst), (i.dst, j.dst))
    return before, Convert((i.n, j.n), (s0, w.src), (d0, w.dst), (i.par, j.par)), after


def _unpacked(nest: Nest) -> Nest:
    """The nest of a source in packed pairs: a tile unpacks what it reads to rows of bytes, along the loop that is
    contiguous in the source, or else along the runs of the destination. Adjacent rows are merged."""
    step: Move | Convert = nest.before or nest.convert
    along = 0 if step.s[0] == 1 != step.s[1] and step.n[0] > 1 else 1
    (rows, run), (row_stride, stride) = ((x[1 - along], x[along]) for x in (step.n, step.s))
    if stride == 1 and (rows == 1 or row_stride == run):
        unpack, pitch = Move("unpack", 4, (1, rows * run), (0, 1), (rows * run, 1)), run
    else:
        pitch = _pitch(run, 1)
        unpack = Move("unpack", 4, (rows, run), (row_stride, stride), (pitch, 1))
    s = (1, pitch) if along == 0 else (pitch, 1)
    if nest.before:
        return nest._replace(unpack=unpack, before=nest.before._replace(s=s))
    return nest._replace(unpack=unpack, convert=nest.convert._replace(s=s))
