"""Nests whose loops have several digits: fused and joined transposes, and runs. See lk_fused in kernels.h.

A loop of a transpose goes on in another loop where that begins where the first one ends in memory. Taking it in, so
that both count as one, makes runs long however short a single dimension is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from .loops import LINE_BYTES, Loop, ordered, shares
from .nest import Blocking, Fused, Nest, Transpose

MAX_PANEL_COLUMNS = 1024  # LK_MAX_FUSED_PANEL of kernels.h, as are those of the next line
MAX_JOINED_ROWS, MAX_JOINED_RUN_BYTES = 1024, 2048  # LK_MAX_JOINED_ROWS and _RUN_BYTES of kernels.h
MIN_RUN_BYTES = 64  # LK_MIN_RUN_BYTES of kernels.h
MAX_DIGITS = 16  # of one loop: LK_MAX_FUSED of kernels.h; only runs have no other limit that is lower
MAX_PADDED_RUNS = (
    4  # the pads between runs of the source are read as well if they are not longer than so many runs less 1
)
UNIT_BYTES = 4096  # of the destination of a column in one task


class Digits(NamedTuple):
    """The loops of a fused transpose: columns are contiguous in the source, rows in the destination."""

    columns: Sequence[Loop]
    rows: Sequence[Loop]
    rest: Sequence[Loop]
    valid: int  # as in `Fused`

    def runs(self, width: int) -> tuple[int, int]:
        """Bytes of a run of the source and of one of the destination."""
        return width * prod(x.n for x in self.columns), width * prod(x.n for x in self.rows)


def fused_digits(rest: Sequence[Loop], along: Loop, inner: Loop, width: int, b: Blocking) -> Digits:
    """Both loops take in those that they go on in until they are as long as `b` asks; the one that lacks more first."""
    rest, valid = list(rest), 0
    run = along.n * width
    after = min((x.src for x in rest if x.src >= run), default=0)
    if run < after <= MAX_PADDED_RUNS * run and run < b.src_run and after % width == 0:
        along, valid = along._replace(n=after // width), along.n
    sides = {1: ([along], b.src_run), 2: ([inner], b.dst_run)}
    while True:
        found = []
        for side, (loops, least) in sides.items():
            run = width * prod(x.n for x in loops)
            if run < least:
                found += [(run / least, side, x) for x in rest if x[side] == run][:1]
        if not found:
            return Digits(sides[1][0], sides[2][0], rest, valid)
        _, side, loop = min(found, key=lambda f: f[0])
        sides[side][0].append(loop)
        rest.remove(loop)


def joined_digits(rest: Sequence[Loop], along: Loop, inner: Loop, width: int) -> Digits | None:
    """The rows take in loops until the columns follow one another in the destination; None if they never do."""
    rest, rows, run = list(rest), [inner], inner.n * width
    while run <= MAX_JOINED_RUN_BYTES and run <= MAX_JOINED_ROWS * width:
        if along.dst == run:
            return Digits([along], rows, rest, 0)
        beyond = next((x for x in rest if x.dst == run), None)
        if beyond is None:
            return None
        rows.append(beyond)
        rest.remove(beyond)
        run *= beyond.n
    return None


def transposes(t: Transpose, b: Blocking) -> list[Nest]:
    """A nest of joined transposes, if `b` asks for them and there are any, or of fused ones."""
    joined = joined_digits(t.rest, t.along, t.inner, t.width) if b.joined else None
    found = joined or fused_digits(t.rest, t.along, t.inner, t.width, b)
    count, run = prod(x.n for x in found.columns), found.runs(t.width)[1]
    if found.valid:
        count -= found.columns[0].n - found.valid
    lines = LINE_BYTES // t.width
    most = min(MAX_PANEL_COLUMNS, (b.src_run or count * t.width) // t.width)
    panel = min(count, shares(count, -(-count // most), t.width))
    unit = max(1, UNIT_BYTES // run // lines) * lines if joined else UNIT_BYTES // t.width
    columns = tuple((x.n, x.dst) for x in found.columns)
    digits = Fused(columns, tuple((x.n, x.src) for x in found.rows), found.valid, panel, unit)
    tile = Loop(count, t.width, found.columns[0].dst), Loop(run // t.width, found.rows[0].src, t.width)
    loops = ordered(found.rest, 2 if joined else b.order)
    return [Nest("joined" if joined else "fused", 8 * t.width, loops, tile, t.src, t.dst, fused=digits)]


def runs(rest: list[Loop], run: int, src: int, dst: int) -> list[Nest]:
    """A nest of runs of `run` bytes, as many as follow one another in the destination."""
    rest, size = list(rest), run
    rows: list[Loop] = []
    while rest and rest[-1].dst == size and len(rows) < MAX_DIGITS:
        rows.append(rest.pop())
        size *= rows[-1].n
    digits = Fused(((run, 1),), tuple((x.n, x.src) for x in rows), 0, 1, max(1, UNIT_BYTES // run))
    tile = Loop(run, 1, 1), Loop(size // run, rows[0].src, run)
    return [Nest("runs", 8, tuple(rest), tile, src, dst, fused=digits)]
