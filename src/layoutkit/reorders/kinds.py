"""The ways to carry out a reorder, between which the cost table chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .leaves import Blocking, Nest
from .slabs import Slabs

MOST_TOLD = 3  # nests


class Kind(NamedTuple):
    """Whether stores bypass the caches, how long runs are, whether parts of the destination are made in scratch."""

    stream: bool
    blocking: Blocking
    slabs: bool = False

    @property
    def name(self) -> str:
        """What the cost table knows it by."""
        b = self.blocking
        if self.slabs:
            return "slabs"
        if b.panel:
            return f"panels x{b.dst_run}{' by destination' * (b.along == 2)}"
        runs = f"{b.src_run or 'all'}x{b.dst_run or 'all'}"
        return f"{'stream' if self.stream else 'store'} {runs}{' ahead' * b.ahead}{' by destination' * (b.along == 2)}"


_BLOCKINGS = (
    Blocking(0, 64, False, 1),
    Blocking(0, 0, False, 1),
    Blocking(128, 512, True, 1),
    Blocking(0, 64, True, 1),
    Blocking(0, 1024, True, 1),
    Blocking(0, 4096, True, 1),
    Blocking(1024, 0, True, 1),
    Blocking(0, 64, True, 2),
)
_PANELS = (
    Blocking(0, 128, False, 1, True),
    Blocking(0, 256, False, 1, True),
    Blocking(0, 1024, False, 1, True),
    Blocking(0, 256, False, 2, True),
)
KINDS = {
    k.name: k
    for k in (
        *(Kind(stream, b) for stream in (False, True) for b in _BLOCKINGS),
        *(Kind(True, b) for b in _PANELS),
        Kind(True, Blocking(0, 64, False, 1), slabs=True),
    )
}


def tell(nests: Sequence[Nest], kind: Kind, slab: Slabs | None) -> tuple[str, ...]:
    """A line for each of the first nests of a reorder: leaf and loops, outermost first; bytes of strides from > to."""

    def loops(of) -> str:
        return " ".join(f"{x.n}({x.src}>{x.dst})" for x in of if x.n > 1) or "once"

    lines = [f"slabs of {slab.bytes} bytes, loops {loops(slab.loops)}"] if slab else []
    for nest in nests[:MOST_TOLD]:
        panel = " in panels" if kind.blocking.panel and nest.family == "transpose" else ""
        lines.append(f"{nest.family} x{nest.bits}{panel}, leaf {loops(nest.leaf)}, loops {loops(nest.loops)}")
    if len(nests) > MOST_TOLD:
        lines.append(f"and {len(nests) - MOST_TOLD} more")
    return tuple(lines)
