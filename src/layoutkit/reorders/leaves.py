"""From the loops of one rectangular region to nests around the leaf that fits, blocked for caches and threads.

The leaf is what a kernel does in one call: two loops. Where both sides run along different loops something has
to give; a `Blocking` says how long the runs are that one call reads and writes, and what is fetched ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from .loops import LINE, ONE, Loop, cut, merge


class Nest(NamedTuple):
    """Loops, outermost first, around a leaf of two; offsets in bytes from the two arrays' addresses."""

    family: str
    bits: int  # of an element; a copy's are bytes
    loops: tuple[Loop, ...]
    leaf: tuple[Loop, Loop]
    src: int
    dst: int
    ahead: int = 0  # bytes from what a leaf reads to what it fetches for a later one
    outer: tuple[int, int, int, int] = (0, 0, 0, 0)  # leaf loops of two digits, and
    valid: int = 0  # how much of a padded block the source has: see lk_move in kernels.h


class Blocking(NamedTuple):
    """Bytes of the source run and of the destination run that one leaf takes along; 0: all there is."""

    src_run: int
    dst_run: int
    ahead: bool  # whether a leaf fetches what a later one reads
    along: int  # the side whose order the leaves follow: 1 source, 2 destination
    panel: bool = False  # whether rows go through scratch: then dst_run is the least, where there is as much
    phase: int = 0  # bytes from the last whole line to where the destination begins


CHUNK = 1 << 16  # bytes of one run: long copies are cut so that threads can share them
TASKS = 8  # leaves that a nest has at least, so that threads can share it
MOST_LEAF = 32 << 20  # bytes that one leaf moves at most: between leaves a long call can be interrupted
MAX_DIGITS = 1024  # LK_MAX_DIGITS of kernels.h
AHEAD = 8192  # bytes that are fetched ahead at least
WIDE = (2, 4, 8, 16, 32, 64, 128, 256)  # bytes of a run that transposes move as one element
PANEL = 1 << 17  # bytes of scratch of one panel, at most, and
ROW = 128  # those of a row beside its elements: see LK_PANEL_IN in kernels.h
MOST_ROWS = 256  # of a panel whose destination runs are made longer
LONG = 2048  # bytes of a source run: shorter ones are made longer
HEADED = 64  # lines of runs at least of which a part of the first line is a nest of its own
SHIFTED = 1 << 17  # bytes of rows of the destination that are made into lines in one leaf


class Region(NamedTuple):
    """One rectangle of elements: its loops, in any order, and where it begins on both sides."""

    loops: tuple[Loop, ...]
    src: int
    dst: int
    block: Loop | None = None  # the destination's innermost block, of which
    valid: int = 0  # only so many elements exist in the source


def leaf_nests(region: Region, width: int, vector: int, blocking: Blocking) -> list[Nest]:
    """Nests of one region whose elements are `width` bytes, for kernels with vectors of `vector` bytes."""
    return [part for nest in _leaf_nests(region, width, vector, blocking) for part in shared(nest)]


def shared(nest: Nest) -> list[Nest]:
    """`nest` with its leaf cut where it is too large, or where it is all that threads could share."""
    tasks, size = prod(x.n for x in nest.loops), prod(x.n for x in nest.leaf) * nest.bits // 8
    parts = -(-size // MOST_LEAF)
    if nest.family in ("gather", "fill") and size >= CHUNK:
        parts = max(parts, -(-TASKS // tasks))
    if parts == 1 or any(nest.outer):  # leaves of two digits are small
        return [nest]
    at = 0 if nest.valid or nest.leaf[0].n >= nest.leaf[1].n else 1
    loop, found = nest.leaf[at], []
    for outer, part, first in cut(loop, -(-loop.n // parts)):
        loops = (outer, *nest.loops) if outer.n > 1 else nest.loops
        leaf = (part, nest.leaf[1]) if at == 0 else (nest.leaf[0], part)
        src, dst = nest.src + first * loop.src, nest.dst + first * loop.dst
        found.append(nest._replace(loops=loops, leaf=leaf, src=src, dst=dst))
    return found


def _leaf_nests(region: Region, width: int, vector: int, blocking: Blocking) -> list[Nest]:
    src, dst = region.src, region.dst
    rest = merge(region.loops)
    if region.block is not None:
        return _padded(rest, region, region.block, width, vector, blocking)
    inner = rest.pop() if rest else Loop(1, width, width)
    if inner.src == inner.dst == width:  # runs: moved whole, blocks of blocked layouts as one wide element
        run = inner.n * width
        if run not in WIDE or run == width or not rest or rest[-1].dst != run:
            return _copies(rest, run, src, dst)
        width, inner = run, rest.pop()
    along = next((x for x in rest if x.src == width), None)
    if along is not None and inner.dst == width:
        rest.remove(along)
        return _transposes(Transpose(rest, along, inner, src, dst, width), vector, blocking)
    return _gather(rest, inner, src, dst, width)


def _gather(rest: list[Loop], inner: Loop, src: int, dst: int, width: int, valid: int = 0) -> list[Nest]:
    second = min(rest, key=lambda x: abs(x.src), default=ONE)
    others = tuple(x for x in rest if x is not second)
    ahead = AHEAD if 0 < inner.src <= AHEAD // 32 else 0  # what touches some of the lines only is not foreseen
    nests = []
    for outer, part, first in cut(second, -(-second.n // TASKS)):
        at = src + first * second.src, dst + first * second.dst
        nests.append(Nest("gather", 8 * width, (*others, outer), (part, inner), *at, ahead, valid=valid))
    return nests


def _padded(rest: list[Loop], region: Region, block: Loop, width: int, vector: int, blocking: Blocking) -> list[Nest]:
    """A block of which the source has a part: the leaf writes the pads with it."""
    valid, src, dst = region.valid, region.src, region.dst
    if block.src == width:  # as one wide element
        wide = block.n * width
        near = next((x for x in rest if x.dst == wide), None) or (rest[-1] if rest else ONE)
        if near in rest:
            rest.remove(near)
        return _gather(rest, near, src, dst, wide, valid * width)
    along = next(x for x in rest if x.src == width)
    rest.remove(along)
    tiles = _panels if blocking.panel else _tiles
    nests = tiles(Transpose(rest, along, block, src, dst, width), blocking._replace(dst_run=0))
    return [n._replace(valid=valid) for n in nests]


def pads_with(region: Region, width: int, vector: int) -> bool:
    """Whether one leaf can write the block of `region` with its pads."""
    block = region.block
    if block is None:
        return False
    if block.src == width:
        return block.n * width in WIDE and 16 <= block.n * width <= LINE
    return width < 16 and block.n * width <= vector and any(x.src == width and x.n > 1 for x in region.loops)


def _ordered(loops: Sequence[Loop], side: int) -> tuple[Loop, ...]:
    return tuple(sorted((x for x in loops if x.n > 1), key=lambda x: abs(x[side]), reverse=True))


class Transpose(NamedTuple):
    """Loops whose source runs along one of them and whose destination along another."""

    rest: Sequence[Loop]
    along: Loop  # the source's
    inner: Loop  # the destination's
    src: int
    dst: int
    width: int
    whole: int = 0  # the side whose loop has two digits, and is not cut
    digits: tuple[int, int, int, int] = (0, 0, 0, 0)


def _transposes(t: Transpose, vector: int, b: Blocking) -> list[Nest]:
    """Tiles of both loops, in the order of one."""
    if b.panel:
        return _panels(t, b)
    tile = vector // t.width
    for side, loop in sorted(((1, t.along), (2, t.inner)), key=lambda x: x[1].n):  # the shorter one gains most
        beyond = _continued(loop, side, t.rest, t.width, tile)
        if beyond is not None:
            return _two_digits(t, side, beyond, b)
    return _tiles(t, b)


def _continued(loop: Loop, side: int, rest: Sequence[Loop], width: int, tile: int) -> Loop | None:
    """What `side` goes on along where `loop` is no longer than a tile."""
    if width > 8 or loop.n > tile:
        return None
    found = next((x for x in rest if x[side] == loop.n * width), None)
    return found if found is not None and found.n * loop.n >= tile else None


def _two_digits(t: Transpose, side: int, beyond: Loop, b: Blocking) -> list[Nest]:
    """A loop shorter than a tile taken together with a part of the one that continues it."""
    loop = t.along if side == 1 else t.inner
    step = max(1, MAX_DIGITS // loop.n)  # of `beyond`, in one leaf
    if (run := (b.src_run, b.dst_run)[side - 1]) and run // t.width > loop.n:
        step = min(step, run // t.width // loop.n)
    nests = []
    for e in _together(loop, side, beyond, step, t.rest, t.width):
        columns, rows = (e.loop, t.inner) if side == 1 else (t.along, e.loop)
        digits = (*e.digit, 0, 0) if side == 1 else (0, 0, *e.digit)
        nests += _tiles(Transpose(e.rest, columns, rows, t.src + e.src, t.dst + e.dst, t.width, side, digits), b)
    return nests


def follows(along: Loop, inner: Loop, width: int) -> bool:
    """Whether rows of the destination follow one another and a transpose makes whole lines of neighbours."""
    run = inner.n * width
    return along.dst == run and (run <= LINE or (width >= 16 and run <= SHIFTED and run % LINE == 0))


def _tiles(t: Transpose, b: Blocking) -> list[Nest]:
    """Nests over tiles of `along` x `inner`."""
    rest, along, inner, src, dst, width, whole, digits = t
    i_step, j_step = b.src_run // width or along.n, b.dst_run // width or inner.n
    if b.phase and follows(along, inner, width):
        i_step, j_step = min(along.n, max(1, SHIFTED // along.dst)), inner.n
    enough = max(1, TASKS // prod(x.n for x in rest))
    if -(-along.n // i_step) * -(-inner.n // j_step) < enough:  # too few to share: more of the longer one
        if along.n > inner.n:
            i_step = _shares(along.n, enough, width)
        else:
            j_step = _shares(inner.n, enough, width)
    if whole:  # the leaf's tables are small
        i_step, j_step = (along.n, min(j_step, MAX_DIGITS)) if whole == 1 else (min(i_step, MAX_DIGITS), inner.n)
    nests = []
    for i_outer, i, i_first in cut(along, i_step):
        for j_outer, j, j_first in cut(inner, j_step):
            outer = _ordered([*rest, i_outer, j_outer], b.along)
            ahead = 0
            if b.ahead and outer:  # so far along the innermost loop that a few lines of latency are hidden
                leaves = -(-AHEAD // (i.n * j.n * width))
                ahead = min(leaves, outer[-1].n - 1) * outer[-1].src
            src_at = src + i_first * along.src + j_first * inner.src
            dst_at = dst + i_first * along.dst + j_first * inner.dst
            nests.append(Nest("transpose", 8 * width, outer, (i, j), src_at, dst_at, ahead, digits))
    return nests


def _panels(t: Transpose, b: Blocking) -> list[Nest]:
    """Nests over panels: the source's runs as long as the caches hold, the destination's `dst_run` bytes or more."""
    rest, along, inner, src, dst, width = t[:6]
    nests = []
    least = min(max(1, b.dst_run // width), MOST_ROWS) if b.dst_run else inner.n
    run = inner.n * width
    if run <= LONG and any(x.dst == run for x in (along, *rest)):  # rows of the destination that follow one another
        least = max(least, inner.n)
    long = min(LONG, PANEL // max(LINE // width, least) - ROW) // width - along.n
    for columns in _extended(along, 1, long, rest, width):
        for rows in _extended(inner, 2, least, columns.rest, width):
            i_step, j_step = _panel(columns, rows, least, width)
            at = dst + columns.dst + rows.dst + b.phase
            head = _head(columns, rows, j_step, at, width) if b.dst_run else 0  # blocks with their pads stay whole
            order = 2 if not head and _ragged(columns, rows, at) else b.along  # so that panels go on where lines end
            for i_outer, i, i_first in cut(columns.loop, i_step):
                for j_outer, j, j_first in cut(rows.loop, j_step, head):
                    outer = _ordered([*rows.rest, i_outer, j_outer], order)
                    s = src + columns.src + rows.src + i_first * i.src + j_first * j.src
                    d = dst + columns.dst + rows.dst + i_first * i.dst + j_first * j.dst
                    digits = (*columns.digit, *rows.digit)
                    nests.append(Nest("transpose", 8 * width, outer, (i, j), s, d, 0, digits))
    return nests


def _head(columns: Extended, rows: Extended, step: int, at: int, width: int) -> int:
    """Rows before all runs of the destination, which begin at address `at` modulo a line, reach a whole line; 0 too
    where that takes a good part of them, or where panels go on where others end."""
    head, run = -at % LINE, rows.loop.n * width
    follow = step * width in (columns.loop.dst, columns.digit[1])
    if head % width or follow or rows.digit[0] or run < HEADED * LINE or _ragged(columns, rows, 0):
        return 0
    return head // width


def _ragged(columns: Extended, rows: Extended, at: int) -> bool:
    """Whether runs of the destination, the first one at address `at` modulo a line, begin within lines."""
    strides = columns.loop.dst, columns.digit[1], *(x.dst for x in rows.rest)
    return any(s % LINE for s in (at, *strides))


def _panel(columns: Extended, rows: Extended, least: int, width: int) -> tuple[int, int]:
    """Columns and rows of one panel; loops of two digits are whole already."""
    j = rows.loop.n if rows.digit[0] else min(rows.loop.n, least)
    i = columns.loop.n
    if not columns.digit[0]:
        most = max(1, (PANEL // j - ROW) // width)
        parts = -(-i // most)
        i = min(i, _shares(i, parts, width))  # of equal size, whole lines
    if not rows.digit[0] and i == columns.loop.n:
        most = min(max(j, PANEL // (i * width + ROW)), PANEL // max(LINE, width))
        j = min(rows.loop.n, _shares(rows.loop.n, -(-rows.loop.n // most), width))
    return i, j


class Extended(NamedTuple):
    """A loop taken together with a part of the one that continues it, and what is left beside it."""

    rest: Sequence[Loop]
    loop: Loop
    digit: tuple[int, int]  # how many make the lower digit, the other side's stride of the upper one; 0: one digit
    src: int
    dst: int


def _extended(loop: Loop, side: int, least: int, rest: Sequence[Loop], width: int) -> list[Extended]:
    """`loop`, along which `side` runs, with at least so many elements if another one continues it."""
    beyond = next((x for x in rest if x[side] == loop.n * width), None) if loop.n < least else None
    if beyond is None:
        return [Extended(rest, loop, (0, 0), 0, 0)]
    return _together(loop, side, beyond, -(-least // loop.n), rest, width)


def _together(loop: Loop, side: int, beyond: Loop, step: int, rest: Sequence[Loop], width: int) -> list[Extended]:
    others, found = [x for x in rest if x is not beyond], []
    for over, part, first in cut(beyond, step):
        n = part.n * loop.n
        both = Loop(n, width, loop.dst) if side == 1 else Loop(n, loop.src, width)
        digit = loop.n, beyond.dst if side == 1 else beyond.src
        found.append(Extended([*others, over], both, digit, first * beyond.src, first * beyond.dst))
    return found


def _shares(n: int, parts: int, width: int) -> int:
    """Steps that cut `n` elements into about `parts` of whole lines."""
    line = LINE // width or 1
    return max(line, -(-n // parts // line) * line)


def _copies(rest: list[Loop], run: int, src: int, dst: int) -> list[Nest]:
    """Runs of `run` bytes that lie dense on both sides."""
    nests = []
    whole = run // CHUNK
    if whole > 1:
        chunk = Loop(whole, CHUNK, CHUNK)
        nests.append(Nest("copy", 8, (*rest, chunk), (ONE, Loop(CHUNK, 1, 1)), src, dst))
        run, src, dst = run - whole * CHUNK, src + whole * CHUNK, dst + whole * CHUNK
    if run:
        near = rest[-1] if rest else ONE
        for outer, inner, first in cut(near, max(1, -(-near.n // TASKS)) if len(rest) == 1 else near.n):
            leaf = inner, Loop(run, 1, 1)
            loops = tuple(x for x in (*rest[:-1], outer) if x.n > 1)
            nests.append(Nest("copy", 8, loops, leaf, src + first * near.src, dst + first * near.dst))
    return nests
