"""From the loops of one rectangular region to nests around the leaf that fits, blocked for caches and threads.

The leaf is what a kernel does in one call: two loops. Where both sides run along different loops something has
to give; a `Blocking` says how long the runs are that one call reads and writes, and what is fetched ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple


class Loop(NamedTuple):
    """`n` steps of `src` bytes in the source and `dst` bytes in the destination."""

    n: int
    src: int
    dst: int


class Nest(NamedTuple):
    """Loops, outermost first, around a leaf of two; offsets in bytes from the two arrays' addresses."""

    family: str
    bits: int  # of an element; a copy's are bytes
    loops: tuple[Loop, ...]
    leaf: tuple[Loop, Loop]
    src: int
    dst: int
    ahead: int = 0  # bytes from what a leaf reads to what it fetches for a later one


class Blocking(NamedTuple):
    """Bytes of the source run and of the destination run that one leaf takes along; 0: all there is."""

    src_run: int
    dst_run: int
    ahead: bool  # whether a leaf fetches what a later one reads
    along: int  # the side whose order the leaves follow: 1 source, 2 destination


CHUNK = 1 << 16  # bytes of one run: long copies are cut so that threads can share them
TASKS = 8  # leaves that a nest has at least, so that threads can share it
LINE = 64
AHEAD = 2048  # bytes that are fetched ahead at least
WIDE = (16, 32, 64)  # bytes of a run that transposes move as one element
ONE = Loop(1, 0, 0)


def merge(loops: Sequence[Loop]) -> list[Loop]:
    """Outermost first by destination stride, size-1 loops dropped, adjacent neighbours made one."""
    out: list[Loop] = []
    for loop in sorted((x for x in loops if x.n != 1), key=lambda x: (abs(x.dst), abs(x.src)), reverse=True):
        if out and out[-1].src == loop.n * loop.src and out[-1].dst == loop.n * loop.dst:
            out[-1] = Loop(out[-1].n * loop.n, loop.src, loop.dst)
        else:
            out.append(loop)
    return out


def leaf_nests(loops: Sequence[Loop], src: int, dst: int, width: int, blocking: Blocking) -> list[Nest]:
    """Nests of one rectangular region whose elements are `width` bytes."""
    rest = merge(loops)
    inner = rest.pop() if rest else Loop(1, width, width)
    if inner.src == inner.dst == width:  # runs: moved whole, blocks of blocked layouts as one wide element
        run = inner.n * width
        if run not in WIDE or not rest or rest[-1].dst != run:
            return _copies(rest, run, src, dst)
        width, inner = run, rest.pop()
    along = next((x for x in rest if x.src == width), None)
    if along is not None and inner.dst == width:
        rest.remove(along)
        return _transposes(rest, along, inner, src, dst, width, blocking)
    second = min(rest, key=lambda x: abs(x.src), default=ONE)
    if second in rest:
        rest.remove(second)
    return [Nest("gather", 8 * width, tuple(rest), (second, inner), src, dst)]


def _cut(loop: Loop, step: int) -> list[tuple[Loop, Loop, int]]:
    """`loop` in steps of `step` and what is left: (outer, inner, first index) of each."""
    step = max(1, min(step, loop.n))
    whole = loop.n // step * step
    cuts = [(Loop(loop.n // step, step * loop.src, step * loop.dst), loop._replace(n=step), 0)]
    if whole < loop.n:
        cuts.append((ONE, loop._replace(n=loop.n - whole), whole))
    return cuts


def _ordered(loops: Sequence[Loop], side: int) -> tuple[Loop, ...]:
    return tuple(sorted((x for x in loops if x.n > 1), key=lambda x: abs(x[side]), reverse=True))


def _transposes(rest, along: Loop, inner: Loop, src: int, dst: int, width: int, b: Blocking) -> list[Nest]:
    """The source runs along one loop, the destination along the other: tiles of both, in the order of one."""
    i_step, j_step = b.src_run // width or along.n, b.dst_run // width or inner.n
    enough = max(1, TASKS // prod(x.n for x in rest))
    if -(-along.n // i_step) * -(-inner.n // j_step) < enough:  # too few to share: more of the longer one
        if along.n > inner.n:
            i_step = _shares(along.n, enough, width)
        else:
            j_step = _shares(inner.n, enough, width)
    nests = []
    for i_outer, i, i_first in _cut(along, i_step):
        for j_outer, j, j_first in _cut(inner, j_step):
            outer = _ordered([*rest, i_outer, j_outer], b.along)
            ahead = 0
            if b.ahead and outer:  # so far along the innermost loop that a few lines of latency are hidden
                leaves = -(-AHEAD // (i.n * j.n * width))
                ahead = min(leaves, outer[-1].n - 1) * outer[-1].src
            src_at = src + i_first * along.src + j_first * inner.src
            dst_at = dst + i_first * along.dst + j_first * inner.dst
            nests.append(Nest("transpose", 8 * width, outer, (i, j), src_at, dst_at, ahead))
    return nests


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
        for outer, inner, first in _cut(near, max(1, -(-near.n // TASKS)) if len(rest) == 1 else near.n):
            leaf = inner, Loop(run, 1, 1)
            loops = tuple(x for x in (*rest[:-1], outer) if x.n > 1)
            nests.append(Nest("copy", 8, loops, leaf, src + first * near.src, dst + first * near.dst))
    return nests
