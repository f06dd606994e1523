"""Programs: a reorder between arrays of exact strides, as one of the ways carries it out."""

from __future__ import annotations

from typing import NamedTuple

from .._core import registry
from .._core.reorder import Program
from ..choosing.cache import plans
from ..choosing.problem import Choice
from ..formats.layout import Layout
from ..memory import spans
from ..memory.spans import Span
from . import reach
from .box import Box
from .kinds import KINDS
from .leaves import Nest, follows
from .nests import copy_nests, fill_nests
from .slabs import Slabs, slabs


class Transfer(NamedTuple):
    """What moves between two arrays: their layouts, byte strides and bytes of an element, and the box of it.

    `phase`: bytes from the last whole line to where the destination begins, where it is known.
    """

    src: Layout
    dst: Layout
    width: int
    src_strides: tuple[int, ...]
    dst_strides: tuple[int, ...]
    box: Box
    phase: int = 0

    def __str__(self) -> str:
        return f"reorder {self.src} -> {self.dst} of {self.box.shape}"

    def check(self, read: Span, written: Span) -> None:
        """PlanError unless what is read and what is written lies within the two arrays."""
        box = self.box
        has = spans.of_array(self.src.physical_shape(box.src_shape), self.src_strides, self.width)
        spans.check(read, has, f"{self}: source")
        has = spans.of_array(self.dst.physical_shape(box.dst_shape), self.dst_strides, self.width)
        spans.check(written, has, f"{self}: destination")


class Nests(NamedTuple):
    """What a program is made of: nests that move, the slabs that they make, if they do, and nests that fill pads."""

    moves: list[Nest]
    slabs: Slabs | None
    fills: list[Nest]


def program(t: Transfer, kind: str, pad: bytes) -> Program:
    """The program of a transfer, ready to run; pads are filled with the element `pad`."""
    return plans.of(_program, t, kind, pad, registry.isa())


def _program(t: Transfer, kind: str, pad: bytes, isa: str) -> Program:
    found = nests_of(t, kind)
    check_reach(t, found)
    way, slab = KINDS[kind], found.slabs
    loops = slab and (slab.loops, slab.bytes)
    return Program(found.moves + found.fills, t.width, pad, way.stream and not slab, way.blocking.panel, loops)


def check_reach(t: Transfer, found: Nests) -> None:
    """PlanError unless the nests stay within their arrays, and those of slabs within a slab."""
    read, written = reach.of_nests(found.moves)
    _, filled = reach.of_nests(found.fills)
    if found.slabs:
        spans.check(written.joined(filled), Span(0, found.slabs.bytes), f"{t}: slab")
        begins, written = reach.of_slabs(found.slabs)
        read, filled = begins.plus(read), spans.NOTHING
    t.check(read, written.joined(filled))


def suited(found: tuple[Choice, ...], t: Transfer) -> str:
    """The first of `found` that writes whole lines where the destination begins `t.phase` bytes past one, by name.

    What they cost is known for destinations that begin with a line.
    """
    for choice in found if t.phase else ():
        name = choice.candidate.name
        kind = KINDS[name]
        if not kind.stream or kind.slabs or kind.blocking.panel:
            return name
        moves = nests_of(t, name).moves
        if all(n.family == "copy" or follows(n.leaf[0], n.leaf[1], n.bits // 8) for n in moves):
            return name
    return found[0].candidate.name


def nests_of(t: Transfer, kind: str) -> Nests:
    """The nests of a transfer by the way that is named `kind`."""
    box, width = t.box, t.width
    shape = box.shape
    s, d = box.sides(t.src, t.src_strides, t.dst, t.dst_strides)
    vector = registry.best("transpose", "x32")[0].nr * 4
    full = t.dst.full_shape(shape)
    slab = slabs(shape, full, s, d, width) if KINDS[kind].slabs and box.whole else None
    if slab:
        shape, full = slab.shape, t.dst.full_shape(slab.shape)
    moves, done = copy_nests(shape, s, d, width, vector, KINDS[kind].blocking._replace(phase=t.phase), box.whole)
    return Nests(moves, slab, fill_nests(shape, full, d, width, done) if box.whole else [])
