"""From the loops of one rectangular region to nests around tiles, blocked for caches and threads.

A tile is what one call of a micro-kernel moves: two loops. Where source and destination are contiguous along
different loops, runs cannot be long on both sides; a `Blocking` says how long they are, and whether to prefetch.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from . import fused, scattered
from .loops import LINE_BYTES, SINGLE_STEP, Loop, cut, directed, merge, ordered, step_of_parts
from .nest import Blocking, Nest, Transpose

CHUNK_BYTES = 1 << 16  # longer runs are copied in chunks of this size, so that threads can share them
MIN_TASKS = 8  # a nest of fewer tiles is cut further, so that threads can share it
MAX_TILE_BYTES = 32 << 20  # a long call can be interrupted between tiles only
MAX_DIGITS = 1024  # elements of a loop of two digits: LK_MAX_DIGITS of move.h
MIN_PREFETCH_BYTES = 8192  # enough to hide the latency of memory
MAX_PREFETCH_STRIDE_BYTES = MIN_PREFETCH_BYTES // 32  # gathers of longer strides skip most lines: prefetch is wasted
WIDE_RUN_BYTES = (2, 4, 8, 16, 32, 64, 128, 256)  # runs that the transposes and gathers can move as one element
MAX_PANEL_BYTES = 1 << 17  # scratch of one panel
PANEL_ROW_EXTRA_BYTES = 128  # scratch of a panel's row besides its elements: see LK_PANEL_IN_BYTES in transpose.h
MAX_PANEL_ROWS = 256  # up to which rows are added to lengthen the runs of the destination
LONG_RUN_BYTES = 2048  # runs of the source in a panel are extended to this length
MIN_HEADED_RUN_LINES = 64  # shorter runs of the destination are not worth a nest of their own for an unaligned head
MAX_SHIFTED_ROWS_BYTES = 1 << 17  # rows of an unaligned destination that one tile joins to whole lines


class Region(NamedTuple):
    """One rectangle of elements: its loops, in any order, and the byte offsets at which it begins on both sides."""

    loops: tuple[Loop, ...]
    src: int
    dst: int
    block: Loop | None = None  # the destination's innermost block, if its pads are written with it
    valid: int = 0  # how many elements of that block exist in the source


def region_nests(region: Region, width: int, vector: int, blocking: Blocking) -> list[Nest]:
    """Nests of one region whose elements are `width` bytes, for kernels with vectors of `vector` bytes."""
    if region.block is None:  # `pads_with` found loops that suit padded blocks as they are
        loops, (src, dst) = directed(region.loops, width, width)
        region = region._replace(loops=loops, src=region.src + src, dst=region.dst + dst)
    return [part for nest in _region_nests(region, width, vector, blocking) for part in shared(nest)]


def shared(nest: Nest) -> list[Nest]:
    """`nest` with its tile cut if it is too large, or if there are too few tiles for the threads."""
    tasks, size = prod(x.n for x in nest.loops), prod(x.n for x in nest.tile) * nest.bits // 8
    parts = -(-size // MAX_TILE_BYTES)
    if nest.family in ("gather", "fill") and size >= CHUNK_BYTES:
        parts = max(parts, -(-MIN_TASKS // tasks))
    if parts == 1 or any(nest.outer) or nest.fused:  # tiles of two digits are small, fused ones are shared by rows
        return [nest]
    at = 0 if nest.valid or nest.tile[0].n >= nest.tile[1].n else 1
    loop, nests = nest.tile[at], []
    for outer, part, first in cut(loop, -(-loop.n // parts)):
        loops = (outer, *nest.loops) if outer.n > 1 else nest.loops
        tile = (part, nest.tile[1]) if at == 0 else (nest.tile[0], part)
        src, dst = nest.src + first * loop.src, nest.dst + first * loop.dst
        nests.append(nest._replace(loops=loops, tile=tile, src=src, dst=dst))
    return nests


def _region_nests(region: Region, width: int, vector: int, blocking: Blocking) -> list[Nest]:
    src, dst = region.src, region.dst
    rest = merge(region.loops)
    if region.block is not None:
        return _padded(rest, region, region.block, width, vector, blocking)
    dst_loop = rest.pop() if rest else Loop(1, width, width)
    if dst_loop.src == dst_loop.dst == width:  # runs are moved whole, blocks of blocked layouts as one wide element
        run = dst_loop.n * width
        if blocking.scattered and (nests := scattered.nests(rest, run, src, dst)):
            return nests
        if blocking.fused and run >= fused.MIN_RUN_BYTES and rest and rest[-1].dst == run:
            return fused.runs(rest, dst_loop, width, src, dst)
        if run not in WIDE_RUN_BYTES or run == width or not rest or rest[-1].dst != run:
            return _copies(rest, run, src, dst)
        width, dst_loop = run, rest.pop()
    src_loop = next((x for x in rest if x.src == width), None)
    if src_loop is not None and dst_loop.dst == width and dst_loop.src:
        rest.remove(src_loop)
        return _transposes(Transpose(rest, src_loop, dst_loop, src, dst, width), vector, blocking)
    return _gather(rest, dst_loop, src, dst, width)


def _gather(rest: list[Loop], dst_loop: Loop, src: int, dst: int, width: int, valid: int = 0) -> list[Nest]:
    near = abs(dst_loop.src) < LINE_BYTES  # if not, rows that read the same lines follow one another
    least = min((abs(x.dst if near else x.src) for x in rest), default=0)
    close = [x for x in rest if abs(x.dst if near else x.src) <= max(least, LINE_BYTES)]
    second = max(close, key=lambda x: x.n, default=SINGLE_STEP)
    others = tuple(x for x in rest if x is not second)
    prefetch_bytes = MIN_PREFETCH_BYTES if 0 < dst_loop.src <= MAX_PREFETCH_STRIDE_BYTES else 0
    nests, parts = [], -(-MIN_TASKS // prod(x.n for x in others))
    for outer, part, first in cut(second, -(-second.n // parts)):
        at = src + first * second.src, dst + first * second.dst
        nests.append(Nest("gather", 8 * width, (*others, outer), (part, dst_loop), *at, prefetch_bytes, valid=valid))
    return nests


def _padded(rest: list[Loop], region: Region, block: Loop, width: int, vector: int, blocking: Blocking) -> list[Nest]:
    """Nests of a padded block, whose tiles write the pads together with the elements."""
    valid, src, dst = region.valid, region.src, region.dst
    if block.src == width:  # as one wide element
        wide = block.n * width
        neighbour = next((x for x in rest if x.dst == wide), None) or (rest[-1] if rest else SINGLE_STEP)
        if neighbour in rest:
            rest.remove(neighbour)
        return _gather(rest, neighbour, src, dst, wide, valid * width)
    src_loop = next(x for x in rest if x.src == width)
    rest.remove(src_loop)
    tiles = _panels if blocking.panel else _tiles
    nests = tiles(Transpose(rest, src_loop, block, src, dst, width), blocking._replace(dst_run=0))
    return [n._replace(valid=valid) for n in nests]


def pads_with(region: Region, width: int, vector: int) -> bool:
    """Whether a tile can write the padded block of `region` with its pads."""
    block = region.block
    if block is None:
        return False
    if block.src == width:
        return block.n * width in WIDE_RUN_BYTES and 16 <= block.n * width <= LINE_BYTES
    return width < 16 and block.n * width <= vector and any(x.src == width and x.n > 1 for x in region.loops)


def _transposes(t: Transpose, vector: int, b: Blocking) -> list[Nest]:
    """Nests of a transpose: in panels, or over tiles of `src_loop` x `dst_loop`."""
    if b.fused and t.width <= 8 and not t.whole:
        return fused.transposes(t, b)
    if b.panel:
        return _panels(t, b)
    lanes = vector // t.width  # rows and columns of a register tile
    for side, loop in sorted(((1, t.src_loop), (2, t.dst_loop)), key=lambda x: x[1].n):  # the shorter loop gains most
        next_loop = _continued(loop, side, t.rest, t.width, lanes)
        if next_loop is not None:
            return _two_digits(t, side, next_loop, b)
    return _tiles(t, b)


def _continued(loop: Loop, side: int, rest: Sequence[Loop], width: int, lanes: int) -> Loop | None:
    """The loop that continues `loop` on `side`, if `loop` is too short to fill a register tile."""
    if width > 8 or loop.n > lanes:
        return None
    next_loop = next((x for x in rest if x[side] == loop.n * width), None)
    return next_loop if next_loop is not None and next_loop.n * loop.n >= lanes else None


def _two_digits(t: Transpose, side: int, next_loop: Loop, b: Blocking) -> list[Nest]:
    """Nests where a loop shorter than a register tile is joined to a part of `beyond`, the loop that continues it: a
    loop of two digits."""
    loop = t.src_loop if side == 1 else t.dst_loop
    step = max(1, MAX_DIGITS // loop.n)  # steps of `beyond` in one tile
    if (run := (b.src_run, b.dst_run)[side - 1]) and run // t.width > loop.n:
        step = min(step, run // t.width // loop.n)
    nests = []
    for e in _joined(loop, side, next_loop, step, t.rest, t.width):
        columns, rows = (e.loop, t.dst_loop) if side == 1 else (t.src_loop, e.loop)
        digits = (*e.digit, 0, 0) if side == 1 else (0, 0, *e.digit)
        nests += _tiles(Transpose(e.rest, columns, rows, t.src + e.src, t.dst + e.dst, t.width, side, digits), b)
    return nests


def rows_are_adjacent(src_loop: Loop, dst_loop: Loop, width: int) -> bool:
    """Whether rows of the destination are adjacent in memory, so that a transpose can join them to whole lines even
    where they begin within lines."""
    run = dst_loop.n * width
    lines = width >= 16 and run <= MAX_SHIFTED_ROWS_BYTES and run % LINE_BYTES == 0
    return src_loop.dst == run and (run <= LINE_BYTES or lines)


def _tiles(t: Transpose, b: Blocking) -> list[Nest]:
    """Nests over tiles of `src_loop` x `dst_loop`."""
    rest, src_loop, dst_loop, src, dst, width, whole, digits = t
    i_step, j_step = b.src_run // width or src_loop.n, b.dst_run // width or dst_loop.n
    if b.phase and rows_are_adjacent(src_loop, dst_loop, width):
        i_step, j_step = min(src_loop.n, max(1, MAX_SHIFTED_ROWS_BYTES // src_loop.dst)), dst_loop.n
    enough = max(1, MIN_TASKS // prod(x.n for x in rest))
    if -(-src_loop.n // i_step) * -(-dst_loop.n // j_step) < enough:  # cut the longer loop further
        if src_loop.n > dst_loop.n:
            i_step = step_of_parts(src_loop.n, enough, width)
        else:
            j_step = step_of_parts(dst_loop.n, enough, width)
    if whole:  # the micro-kernel has a table of MAX_DIGITS offsets
        i_step, j_step = (src_loop.n, min(j_step, MAX_DIGITS)) if whole == 1 else (min(i_step, MAX_DIGITS), dst_loop.n)
    nests = []
    for i_outer, i, i_first in cut(src_loop, i_step):
        for j_outer, j, j_first in cut(dst_loop, j_step):
            outer = ordered([*rest, i_outer, j_outer], b.order)
            prefetch_bytes = 0
            if b.prefetch and outer:  # whole tiles ahead along the innermost loop, at least MIN_PREFETCH_BYTES of them
                tiles = -(-MIN_PREFETCH_BYTES // (i.n * j.n * width))
                prefetch_bytes = min(tiles, outer[-1].n - 1) * outer[-1].src
            src_at = src + i_first * src_loop.src + j_first * dst_loop.src
            dst_at = dst + i_first * src_loop.dst + j_first * dst_loop.dst
            nests.append(Nest("transpose", 8 * width, outer, (i, j), src_at, dst_at, prefetch_bytes, digits))
    return nests


def _panels(t: Transpose, b: Blocking) -> list[Nest]:
    """Nests over panels: runs of the source as long as the scratch allows, runs of the destination of `dst_run` bytes
    or more."""
    rest, src_loop, dst_loop, src, dst, width = t[:6]
    nests = []
    least = min(max(1, b.dst_run // width), MAX_PANEL_ROWS) if b.dst_run else dst_loop.n
    run = dst_loop.n * width
    if run <= LONG_RUN_BYTES and any(x.dst == run for x in (src_loop, *rest)):  # rows are adjacent in memory
        least = max(least, dst_loop.n)
    longest = MAX_PANEL_BYTES // max(LINE_BYTES // width, least) - PANEL_ROW_EXTRA_BYTES  # that fits the scratch
    long = min(LONG_RUN_BYTES, longest) // width - src_loop.n
    for columns in _extended(src_loop, 1, long, rest, width):
        for rows in _extended(dst_loop, 2, least, columns.rest, width):
            i_step, j_step = _panel(columns, rows, least, width)
            at = dst + columns.dst + rows.dst + b.phase
            head = _head(columns, rows, j_step, at, width) if b.dst_run else 0  # blocks with pads stay whole
            # In the order of the destination a panel completes the last line of the one before.
            order = 2 if not head and _ragged(columns, rows, at) else b.order
            for i_outer, i, i_first in cut(columns.loop, i_step):
                for j_outer, j, j_first in cut(rows.loop, j_step, head):
                    outer = ordered([*rows.rest, i_outer, j_outer], order)
                    s = src + columns.src + rows.src + i_first * i.src + j_first * j.src
                    d = dst + columns.dst + rows.dst + i_first * i.dst + j_first * j.dst
                    digits = (*columns.digit, *rows.digit)
                    nests.append(Nest("transpose", 8 * width, outer, (i, j), s, d, 0, digits))
    return nests


def _head(columns: Extended, rows: Extended, step: int, at: int, width: int) -> int:
    """How many rows come before the first whole line of every run of the destination, which begins at address `at`
    modulo a line; 0 also if runs are too short for a head, or if panels complete the lines of others."""
    head, run = -at % LINE_BYTES, rows.loop.n * width
    follow = step * width in (columns.loop.dst, columns.digit[1])
    if head % width or follow or rows.digit[0] or run < MIN_HEADED_RUN_LINES * LINE_BYTES or _ragged(columns, rows, 0):
        return 0
    return head // width


def _ragged(columns: Extended, rows: Extended, at: int) -> bool:
    """Whether runs of the destination, the first one at address `at` modulo a line, begin within lines."""
    strides = columns.loop.dst, columns.digit[1], *(x.dst for x in rows.rest)
    return any(s % LINE_BYTES for s in (at, *strides))


def _panel(columns: Extended, rows: Extended, least: int, width: int) -> tuple[int, int]:
    """Columns and rows of one panel; those of loops with two digits are fixed already."""
    j = rows.loop.n if rows.digit[0] else min(rows.loop.n, least)
    i = columns.loop.n
    if not columns.digit[0]:
        most = max(1, (MAX_PANEL_BYTES // j - PANEL_ROW_EXTRA_BYTES) // width)
        parts = -(-i // most)
        i = min(i, step_of_parts(i, parts, width))  # equal parts of whole lines
    if not rows.digit[0] and i == columns.loop.n:
        most = max(j, MAX_PANEL_BYTES // (i * width + PANEL_ROW_EXTRA_BYTES))
        most = min(most, MAX_PANEL_BYTES // max(LINE_BYTES, width))
        j = min(rows.loop.n, step_of_parts(rows.loop.n, -(-rows.loop.n // most), width))
    return i, j


class Extended(NamedTuple):
    """A loop joined to a part of the loop that continues it: a loop of two digits."""

    rest: Sequence[Loop]  # the other loops
    loop: Loop
    digit: tuple[int, int]  # size of the lower digit, and the other side's stride of the upper one; 0: one digit only
    src: int  # where this part begins, bytes
    dst: int


def _extended(loop: Loop, side: int, least: int, rest: Sequence[Loop], width: int) -> list[Extended]:
    """`loop`, contiguous on `side`, extended to `least` elements if another loop continues it."""
    next_loop = next((x for x in rest if x[side] == loop.n * width), None) if loop.n < least else None
    if next_loop is None:
        return [Extended(rest, loop, (0, 0), 0, 0)]
    return _joined(loop, side, next_loop, -(-least // loop.n), rest, width)


def _joined(loop: Loop, side: int, next_loop: Loop, step: int, rest: Sequence[Loop], width: int) -> list[Extended]:
    others, pairs = [x for x in rest if x is not next_loop], []
    for over, part, first in cut(next_loop, step):
        n = part.n * loop.n
        both = Loop(n, width, loop.dst) if side == 1 else Loop(n, loop.src, width)
        digit = loop.n, next_loop.dst if side == 1 else next_loop.src
        pairs.append(Extended([*others, over], both, digit, first * next_loop.src, first * next_loop.dst))
    return pairs


def _copies(rest: list[Loop], run: int, src: int, dst: int) -> list[Nest]:
    """Nests that copy runs of `run` bytes, contiguous on both sides."""
    nests = []
    whole = run // CHUNK_BYTES
    if whole > 1:
        chunk = Loop(whole, CHUNK_BYTES, CHUNK_BYTES)
        nests.append(Nest("copy", 8, (*rest, chunk), (SINGLE_STEP, Loop(CHUNK_BYTES, 1, 1)), src, dst))
        run, src, dst = run - whole * CHUNK_BYTES, src + whole * CHUNK_BYTES, dst + whole * CHUNK_BYTES
    if run:
        neighbour = rest[-1] if rest else SINGLE_STEP
        step = max(1, -(-neighbour.n // MIN_TASKS)) if len(rest) == 1 else neighbour.n
        for outer, rows, first in cut(neighbour, step):
            tile = rows, Loop(run, 1, 1)
            loops = tuple(x for x in (*rest[:-1], outer) if x.n > 1)
            nests.append(Nest("copy", 8, loops, tile, src + first * neighbour.src, dst + first * neighbour.dst))
    return nests
