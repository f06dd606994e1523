"""The loops that nests are made of, of moves and of conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LINE = 64  # bytes


class Loop(NamedTuple):
    """`n` steps of `src` bytes in the source and `dst` bytes in the destination."""

    n: int
    src: int
    dst: int
    par: int = 0  # elements in a conversion's arrays of parameters


ONE = Loop(1, 0, 0)


def merge(loops: Sequence[Loop]) -> list[Loop]:
    """Outermost first by destination stride, size-1 loops dropped, adjacent neighbours made one."""
    out: list[Loop] = []
    for loop in sorted((x for x in loops if x.n != 1), key=lambda x: (abs(x.dst), abs(x.src)), reverse=True):
        if out and out[-1][1:] == (loop.n * loop.src, loop.n * loop.dst, loop.n * loop.par):
            out[-1] = loop._replace(n=out[-1].n * loop.n)
        else:
            out.append(loop)
    return out


def cut(loop: Loop, step: int, head: int = 0) -> list[tuple[Loop, Loop, int]]:
    """`loop` as its `head`, steps of `step` and what is left: (outer, inner, first index) of each."""
    n = loop.n - head
    step = max(1, min(step, n))
    cuts = [(ONE, loop._replace(n=head), 0)] if head else []
    cuts.append((Loop(n // step, step * loop.src, step * loop.dst, step * loop.par), loop._replace(n=step), head))
    if n % step:
        cuts.append((ONE, loop._replace(n=n % step), head + n // step * step))
    return cuts
