"""The loops in the nests of moves and of conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LINE_BYTES = 64  # of a cache line


class Loop(NamedTuple):
    """`n` steps of `src` bytes in the source and `dst` bytes in the destination."""

    n: int
    src: int
    dst: int
    par: int = 0  # elements per step in a conversion's arrays of scales and zero points
    # If not empty, the offsets of the steps in the source, in place of a stride; None: a pad of the destination.
    offsets: tuple[int | None, ...] = ()


SINGLE_STEP = Loop(1, 0, 0)


def merge(loops: Sequence[Loop]) -> list[Loop]:
    """The same steps in fewer loops, outermost in the destination first: loops of one step are dropped, and two loops
    are merged where the outer continues the inner on all sides."""
    out: list[Loop] = []
    stepping = (x for x in loops if x.n != 1 or x.offsets)
    for loop in sorted(stepping, key=lambda x: (abs(x.dst), abs(x.src)), reverse=True):
        continued = (loop.n * loop.src, loop.n * loop.dst, loop.n * loop.par, ())
        if out and not loop.offsets and out[-1][1:] == continued:
            out[-1] = loop._replace(n=out[-1].n * loop.n)
        else:
            out.append(loop)
    return out


def directed(loops: Sequence[Loop], src_width: int, dst_width: int) -> tuple[tuple[Loop, ...], tuple[int, int]]:
    """The same steps, each loop in the direction that kernels know best: runs of the destination upwards, then runs of
    the source. An axis that is reversed on both sides is copied as one that is on neither. Loops with parameters or
    offsets stay. Also the bytes from where the steps began to where they begin now, in source and destination."""
    runs = any(abs(loop.dst) == dst_width and loop.src for loop in loops)
    result, src, dst = [], 0, 0
    for loop in loops:
        by_src = runs and abs(loop.dst) != dst_width and abs(loop.src) == src_width
        if (loop.src if by_src else loop.dst) < 0 and not loop.offsets and not loop.par:
            src, dst = src + (loop.n - 1) * loop.src, dst + (loop.n - 1) * loop.dst
            loop = loop._replace(src=-loop.src, dst=-loop.dst)
        result.append(loop)
    return tuple(result), (src, dst)


def cut(loop: Loop, step: int, head: int = 0) -> list[tuple[Loop, Loop, int]]:
    """`loop` in parts: its first `head` indices, blocks of `step`, and the rest. Each part is (outer loop, inner loop,
    first index)."""
    n = loop.n - head
    step = max(1, min(step, n))
    cuts = [(SINGLE_STEP, loop._replace(n=head), 0)] if head else []
    cuts.append((Loop(n // step, step * loop.src, step * loop.dst, step * loop.par), loop._replace(n=step), head))
    if n % step:
        cuts.append((SINGLE_STEP, loop._replace(n=n % step), head + n // step * step))
    return cuts


def ordered(loops: Sequence[Loop], side: int) -> tuple[Loop, ...]:
    """`loops` in the memory order of a side: 1 source, 2 destination; those of one step are dropped."""
    return tuple(sorted((x for x in loops if x.n > 1), key=lambda x: abs(x.src if side == 1 else x.dst), reverse=True))


def step_of_parts(n: int, parts: int, width: int) -> int:
    """The step that cuts `n` elements into about `parts` parts of whole lines."""
    line = LINE_BYTES // width or 1
    return max(line, -(-n // parts // line) * line)
