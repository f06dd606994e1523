"""Nests whose loops have several digits: fused and joined transposes, and runs. See lk_fused in transpose.h.

A loop of a transpose continues in another loop that begins in memory where the first one ends. Fusing the two into one
makes runs long, however short a single dimension is. Loops without a stride in the source are fused as tables.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import NamedTuple

from .loops import LINE_BYTES, Loop, merge, ordered, step_of_parts
from .nest import Blocking, Digits, Fused, Nest, Transpose

# Limits of the kernels, as in transpose.h.
MAX_PANEL_COLUMNS = 1024  # LK_MAX_FUSED_PANEL
MAX_JOINED_ROWS = 1024  # LK_MAX_JOINED_ROWS
MAX_JOINED_RUN_BYTES = 2048  # LK_MAX_JOINED_RUN_BYTES
MAX_TABLE = 4096  # LK_MAX_FUSED_TABLE
MAX_DIGITS = 15  # of one loop next to a table: LK_MAX_FUSED less 1; only runs reach it
MIN_RUN_BYTES = 16  # shorter runs of equal size are moved as elements
MAX_PADDED_RUNS = 4  # pads between runs are also read if a run with its pads is at most so many times as long
TASK_BYTES = 4096  # that one task writes of a column of the destination


class FusedLoops(NamedTuple):
    """The loops of a fused transpose: columns are contiguous in the source, rows in the destination."""

    columns: Sequence[Loop]
    rows: Sequence[Loop]
    rest: Sequence[Loop]
    valid: int = 0  # if not 0, how many indices of the columns' first loop exist; the others are pads of the source

    def runs(self, width: int) -> tuple[int, int]:
        """Bytes of a run of the source and of one of the destination."""
        return width * prod(x.n for x in self.columns), width * prod(x.n for x in self.rows)


def fused_loops(rest: Sequence[Loop], src_loop: Loop, dst_loop: Loop, width: int, b: Blocking) -> FusedLoops:
    """Fuse both loops with those that continue them until they are as long as `b` asks, starting with the shorter."""
    rest, valid = list(rest), 0
    run = src_loop.n * width
    after = min((x.src for x in rest if x.src >= run), default=0)
    if run < after <= MAX_PADDED_RUNS * run and run < b.src_run and after % width == 0:
        src_loop, valid = src_loop._replace(n=after // width), src_loop.n
    sides = {1: ([src_loop], b.src_run), 2: ([dst_loop], b.dst_run)}
    while True:
        longer = []
        for side, (loops, least) in sides.items():
            run = width * prod(x.n for x in loops)
            if run < least:
                longer += [(run / least, side, x) for x in rest if x[side] == run and _fits(loops, x)][:1]
        if not longer:
            return FusedLoops(sides[1][0], sides[2][0], rest, valid)
        _, side, loop = min(longer, key=lambda f: f[0])
        sides[side][0].append(loop)
        rest.remove(loop)


def _fits(loops: Sequence[Loop], loop: Loop) -> bool:
    """Whether no table is needed, or one holds `loops` together with another loop."""
    return not loop.offsets or prod(x.n for x in loops) * loop.n <= MAX_TABLE


def joined_loops(rest: Sequence[Loop], src_loop: Loop, dst_loop: Loop, width: int) -> FusedLoops | None:
    """Fuse loops into the rows until columns are adjacent in the destination; None if they never are."""
    rest, rows, run = list(rest), [dst_loop], dst_loop.n * width
    while run <= MAX_JOINED_RUN_BYTES and run <= MAX_JOINED_ROWS * width:
        if src_loop.dst == run:
            return FusedLoops([src_loop], rows, rest)
        next_loop = next((x for x in rest if x.dst == run), None)
        if next_loop is None:
            return None
        rows.append(next_loop)
        rest.remove(next_loop)
        run *= next_loop.n
    return None


def transposes(t: Transpose, b: Blocking) -> list[Nest]:
    """A nest of joined transposes, if `b` asks for them and there are any, or of fused ones."""
    joined = joined_loops(t.rest, t.src_loop, t.dst_loop, t.width) if b.joined else None
    fused = joined or fused_loops(t.rest, t.src_loop, t.dst_loop, t.width, b)
    count, run = prod(x.n for x in fused.columns), fused.runs(t.width)[1]
    first = fused.columns[0]
    columns = Digits(tuple((x.n, x.dst) for x in fused.columns))
    if fused.valid:
        table = *(i * first.dst for i in range(fused.valid)), *[None] * (first.n - fused.valid)
        columns = columns._replace(table=table)
        count -= first.n - fused.valid
    lines = LINE_BYTES // t.width
    most = min(MAX_PANEL_COLUMNS, (b.src_run or count * t.width) // t.width)
    panel = min(count, step_of_parts(count, -(-count // most), t.width))
    unit = max(1, TASK_BYTES // run // lines) * lines if joined else TASK_BYTES // t.width
    digits = Fused(columns, _in_source(fused.rows), panel, unit)
    tile = Loop(count, t.width, first.dst), Loop(run // t.width, fused.rows[0].src, t.width)
    loops = ordered(fused.rest, 2 if joined else b.order)
    return [Nest("joined" if joined else "fused", 8 * t.width, loops, tile, t.src, t.dst, fused=digits)]


def _in_source(loops: Sequence[Loop]) -> Digits:
    """The offsets in the source of all indices of the fused loops, the first loop varying fastest."""
    last = max((k for k, x in enumerate(loops) if x.offsets), default=-1)
    table: list[int | None] = [0]
    for x in loops[: last + 1]:
        steps = x.offsets or [i * x.src for i in range(x.n)]
        table = [None if a is None or s is None else a + s for s in steps for a in table]
    upper = tuple((x.n, x.src) for x in loops[last + 1 :])
    return Digits(((len(table), 0), *upper), tuple(table)) if last >= 0 else Digits(upper)


def runs(rest: Sequence[Loop], dst_loop: Loop, width: int, src: int, dst: int) -> list[Nest]:
    """A nest of the runs of `inner`, together with those that follow them in the destination."""
    rest = list(rest)
    pieces = _pieces(dst_loop, width) if dst_loop.offsets else [(0, dst_loop.n * width)]
    rows: list[Loop] = []
    size = dst_loop.n * width
    while rest and rest[-1].dst == size and len(rows) < MAX_DIGITS:
        if rest[-1].offsets and len(pieces) * prod(x.n for x in (*rows, rest[-1])) > MAX_TABLE:
            break
        rows.append(rest.pop())
        size *= rows[-1].n
    sizes: tuple[int, ...] = ()
    starts = _in_source(rows) if rows else Digits(((1, 0),))
    if len(pieces) == 1 and pieces[0][0] is not None:
        run = pieces[0][1]
    else:  # the table begins with the pieces
        table, upper = (starts.table, starts.digits[1:]) if starts.table else ((0,), starts.digits)
        table = tuple(None if a is None or at is None else a + at for at in table for a, _ in pieces)
        sizes = tuple(n for _, n in pieces) * (len(table) // len(pieces))
        starts, run = Digits(((len(table), 0), *upper), table), sum(sizes)
    unit = max(1, TASK_BYTES // run) * max(1, len(sizes))
    digits = Fused(Digits(((run, 1),)), starts, 1, unit, sizes)
    tile = Loop(run, 1, 1), Loop(size // run, 0, run)
    return [Nest("runs", 8, tuple(rest), tile, src, dst, fused=digits)]


def _pieces(loop: Loop, width: int) -> list[tuple[int | None, int]]:
    """The runs of the source in a loop without a stride: offset and bytes; the offset of pads is None."""
    runs_of: list[tuple[int | None, int]] = []
    for at in loop.offsets:
        before, n = runs_of[-1] if runs_of else (0, 0)
        if n and at == (None if before is None else before + n):
            runs_of[-1] = before, n + width
        else:
            runs_of.append((at, width))
    return runs_of


def ragged_nests(
    loops: Sequence[Loop], width: int, src: int, dst: int, b: Blocking
) -> tuple[list[Nest], Collection[Loop]]:
    """Nests of loops some of which have no stride in the source, and those of them that cannot be fused; if there are
    any, there are no nests."""
    nests = _ragged_nests(loops, width, src, dst, b)
    unfused = {x for nest in nests for x in nest.loops if x.offsets} if nests else {x for x in loops if x.offsets}
    return ([] if unfused else nests), unfused


def _ragged_nests(loops: Sequence[Loop], width: int, src: int, dst: int, b: Blocking) -> list[Nest]:
    rest = merge(loops)
    dst_loop = rest.pop() if rest else Loop(1, width, width)
    if not dst_loop.offsets and dst_loop.src == dst_loop.dst == width:
        run = dst_loop.n * width
        if run not in (2, 4, 8) or not rest or rest[-1].dst != run:
            return runs(rest, dst_loop, width, src, dst)
        width, dst_loop = run, rest.pop()
    src_loop = next((x for x in rest if x.src == width and not x.offsets), None)
    if src_loop is not None and dst_loop.dst == width and width <= 8:
        rest.remove(src_loop)
        return transposes(Transpose(rest, src_loop, dst_loop, src, dst, width), b)
    if dst_loop.offsets and dst_loop.dst == width:
        return runs(rest, dst_loop, width, src, dst)
    return []
