"""The variants of a reorder, which the cost table knows by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..choosing.problem import Description
from .nest import Blocking, Nest
from .slabs import Slab

MAX_DESCRIBED_NESTS = 3


class Variant(NamedTuple):
    """A way to carry out a reorder."""

    stream: bool  # whether stores bypass the caches
    blocking: Blocking
    slabs: bool = False  # whether the destination is assembled in slabs
    windows: bool = False  # whether its elements are shuffled from windows of the source, where that is possible

    @property
    def name(self) -> str:
        """Its key in the cost table. Stored tables have these names, so they must never change."""
        b = self.blocking
        if self.slabs:
            return "slabs"
        if self.windows:
            return "windows"
        if b.joined:
            return "joined"
        if b.scattered:
            return "scattered"
        if b.fused:
            return f"fused x{b.src_run}"
        if b.panel:
            return f"panels x{b.dst_run}{' by destination' * (b.order == 2)}"
        runs = f"{b.src_run or 'all'}x{b.dst_run or 'all'}"
        prefetch, order = " ahead" * b.prefetch, " by destination" * (b.order == 2)
        return f"{'stream' if self.stream else 'store'} {runs}{prefetch}{order}"

    def words(self) -> Description:
        """A description in words."""
        b = self.blocking
        if self.slabs:
            return Description("slab by slab, each put together in a buffer")
        if self.windows:
            return Description("vectors shuffled together of windows of the source")
        if b.joined:
            return Description("short runs joined to whole lines")
        if b.scattered:
            return Description("runs in the order of the source, joined to whole lines where they go")
        if b.fused:
            return Description(f"loops fused to long runs, {b.src_run} bytes of the source at a time")
        if b.panel:
            order = ", in the order of the destination" * (b.order == 2)
            return Description(f"packed into panels of {b.dst_run} bytes{order}")
        text = "tile by tile" + ", past the caches" * self.stream
        runs = [f"{n} bytes {side}" for n, side in ((b.src_run, "read"), (b.dst_run, "written")) if n]
        text += f", {' and '.join(runs)} at a time" if runs else ", whole runs at a time"
        return Description(text + ", fetched ahead" * b.prefetch + ", in the order of the destination" * (b.order == 2))


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
_RUN = 1 << 14  # bytes of the runs of the destination that fused loops aim at
_FUSED = tuple(Blocking(panel, _RUN, False, 1, fused=True) for panel in (64, 256, 1024))
VARIANTS = {
    v.name: v
    for v in (
        *(Variant(stream, b) for stream in (False, True) for b in _BLOCKINGS),
        *(Variant(True, b) for b in _PANELS),
        Variant(True, Blocking(0, 0, False, 1), slabs=True),
        *(Variant(True, b) for b in _FUSED),
        Variant(True, Blocking(1024, _RUN, False, 1, fused=True, joined=True)),
        Variant(False, Blocking(0, 64, False, 1), windows=True),
        Variant(True, Blocking(0, 0, False, 1, scattered=True)),
    )
}
# Those for sources and destinations within the caches, where every other one is hardly ever faster.
CACHED_VARIANTS = {"store allxall", "store allx64", "store allx1024 ahead", "fused x1024", "joined", "windows"}


def describe_nests(nests: Sequence[Nest], variant: Variant, slab: Slab | None) -> tuple[str, ...]:
    """A line for each of the first nests of a reorder: its tile and its loops, outermost first; a loop is written as
    count(source stride>destination stride), in bytes."""

    def loops(of) -> str:
        return " ".join(f"{x.n}({x.src}>{x.dst})" for x in of if x.n > 1) or "once"

    lines = [f"slabs of {slab.bytes} bytes, loops {loops([*slab.boxes, *slab.loops])}"] if slab else []
    for nest in nests[:MAX_DESCRIBED_NESTS]:
        panel = " in panels" if variant.blocking.panel and nest.family == "transpose" else ""
        lines.append(f"{nest.family} x{nest.bits}{panel}, tile {loops(nest.tile)}, loops {loops(nest.loops)}")
    if len(nests) > MAX_DESCRIBED_NESTS:
        lines.append(f"and {len(nests) - MAX_DESCRIBED_NESTS} more")
    return tuple(lines)
