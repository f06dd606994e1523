"""Programs: a reorder between arrays of exact strides, carried out by one variant."""

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
from .nest import Nest
from .nests import copy_nests, fill_nests
from .staging import Staging, staging_of
from .tiles import follows
from .variants import VARIANTS


class Transfer(NamedTuple):
    """What moves between two arrays: their layouts, byte strides and bytes of an element, and the box of it.

    `phase`: bytes from a line boundary to where the destination begins, if that is known; else 0.
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
    """What a program is made of: nests that move elements, the staging buffer that they write to, if any, and nests
    that fill pads."""

    moves: list[Nest]
    staging: Staging | None
    fills: list[Nest]


def program(t: Transfer, name: str, pad: bytes) -> Program:
    """The program of a transfer by the variant `name`, ready to run; pads are filled with the element `pad`."""
    return plans.of(_program, t, name, pad, registry.isa())


def _program(t: Transfer, name: str, pad: bytes, isa: str) -> Program:
    found = nests_of(t, name)
    check_reach(t, found)
    variant, staging = VARIANTS[name], found.staging
    staged = staging and (staging.loops, staging.bytes)
    stream = variant.stream and not staging  # the staging buffer stays in the caches and is streamed out itself
    # Variants that are the same nests here are one program.
    return plans.of(_made, (*found.moves, *found.fills), t.width, pad, stream, variant.blocking.panel, staged, isa)


def _made(nests: tuple[Nest, ...], width: int, pad: bytes, stream: bool, panels: bool, staged, isa: str) -> Program:
    return Program(nests, width, pad, stream, panels, staged)


def check_reach(t: Transfer, found: Nests) -> None:
    """PlanError unless the nests stay within their arrays, and those that write to a staging buffer within that."""
    read, written = reach.of_nests(found.moves)
    _, filled = reach.of_nests(found.fills)
    if found.staging:
        spans.check(written.joined(filled), Span(0, found.staging.bytes), f"{t}: staging buffer")
        begins, written = reach.of_staging(found.staging)
        read, filled = begins.plus(read), spans.NOTHING
    t.check(read, written.joined(filled))


def suited(found: tuple[Choice, ...], t: Transfer) -> str:
    """The name of the first of `found` that suits a destination which begins `t.phase` bytes past a line boundary.

    The choices are ranked by their costs on destinations that begin at a line boundary. On others, a variant that
    streams must join rows to whole lines, or partial lines make it slow.
    """
    return next((c.candidate.name for c in found if suits(c.candidate.name, t)), found[0].candidate.name)


def suits(name: str, t: Transfer) -> bool:
    """Whether the variant `name` suits the place of the destination."""
    variant = VARIANTS[name]
    if not t.phase or not variant.stream or variant.staged or variant.blocking.panel:
        return True
    moves = nests_of(t, name).moves
    return all(n.fused or n.family == "copy" or follows(*n.tile, n.bits // 8) for n in moves)


def nests_of(t: Transfer, name: str) -> Nests:
    """The nests of a transfer by the variant `name`."""
    variant, box, width = VARIANTS[name], t.box, t.width
    shape = box.shape
    s, d = box.sides(t.src, t.src_strides, t.dst, t.dst_strides)
    vector = registry.best("transpose", "x32")[0].nr * 4
    full = t.dst.full_shape(shape)
    staging = staging_of(shape, full, s, d, width) if variant.staged and box.whole else None
    if staging:
        shape, full = staging.shape, t.dst.full_shape(staging.shape)
    moves, done = copy_nests(shape, s, d, width, vector, variant.blocking._replace(phase=t.phase), box.whole)
    return Nests(moves, staging, fill_nests(shape, full, d, width, done) if box.whole else [])
