"""Programs: a reorder between arrays of exact strides, carried out by one variant."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from .._core.nests.moves.reorder import Program
from .._core.runtime import registry
from ..choosing.cache import plans
from ..choosing.problem import Choice
from ..formats.layout import Layout
from ..memory import spans
from ..memory.spans import Span
from . import reach
from .box import Box
from .estimate import fills_vectors
from .nest import Blocking, Nest
from .nests import copy_nests, fill_nests
from .slabs import Slab, slabs_of
from .tiles import rows_are_adjacent
from .variants import VARIANTS
from .windows import is_scattered, window_nests


class Transfer(NamedTuple):
    """What moves between two arrays: their layouts, byte strides, bytes of an element, and the box.

    `phase`: bytes from a line boundary to where the destination begins, if that is known; else 0.
    """

    src: Layout
    dst: Layout
    width: int
    src_strides: tuple[int, ...]
    dst_strides: tuple[int, ...]
    box: Box
    phase: int = 0

    @property
    def sides(self) -> tuple[tuple[Layout, tuple[int, ...]], tuple[Layout, tuple[int, ...]]]:
        """Layout and strides of the source, and of the destination."""
        return (self.src, self.src_strides), (self.dst, self.dst_strides)

    def __str__(self) -> str:
        return f"reorder {self.src} -> {self.dst} of {self.box.shape}"

    def check(self, read: Span, written: Span) -> None:
        """PlanError unless all that is read and written is within the two arrays."""
        box = self.box
        available = spans.of_array(self.src.physical_shape(box.src_shape), self.src_strides, self.width)
        spans.check(read, available, f"{self}: source")
        available = spans.of_array(self.dst.physical_shape(box.dst_shape), self.dst_strides, self.width)
        spans.check(written, available, f"{self}: destination")


class Stage(NamedTuple):
    """The nests of a reorder, or of all slabs of one shape: those that move elements, and those that fill pads."""

    moves: list[Nest]
    fills: list[Nest]
    slab: Slab | None = None

    @property
    def nests(self) -> list[Nest]:
        """All nests."""
        return [*self.moves, *self.fills, *([self.slab.out] if self.slab else [])]


def program(t: Transfer, name: str, pad: bytes) -> Program:
    """The program of a transfer by the variant `name`, ready to run; pads are filled with the element `pad`."""
    return plans.of(_program, t, name, pad, registry.isa())


def _program(t: Transfer, name: str, pad: bytes, isa: str) -> Program:
    stages = stages_of(t, name)
    check_reach(t, stages)
    variant = VARIANTS[name]
    nests = tuple(nest for stage in stages for nest in stage.nests)
    slabs = tuple((*x.slab[2:6], x.slab.bytes, x.slab.reads, x.slab.leads, len(x.nests)) for x in stages if x.slab)
    # Variants with the same nests share a program.
    return plans.of(_build, nests, t.width, pad, variant.stream, variant.blocking.panel, slabs, isa)


def _build(nests: tuple[Nest, ...], width: int, pad: bytes, stream: bool, panels: bool, slabs, isa: str) -> Program:
    return Program(nests, width, pad, stream, panels, slabs)


def check_reach(t: Transfer, stages: list[Stage]) -> None:
    """PlanError unless the nests stay within their arrays, and those of slabs within their buffer."""
    for stage in stages:
        read, written = reach.of_nests(stage.moves)
        _, filled = reach.of_nests(stage.fills)
        written = written.joined(filled)
        if stage.slab:
            copied, out = reach.of_nests([stage.slab.out])
            spans.check(written.joined(copied), Span(0, stage.slab.bytes), f"{t}: buffer of a slab")
            read, written = (x.plus(y) for x, y in zip(reach.of_slabs(stage.slab), (read, out)))
        t.check(read, written)


def aligned_choice(ranked: tuple[Choice, ...], t: Transfer) -> str:
    """The name of the first of `ranked` that suits a destination which begins `t.phase` bytes past a line boundary.

    The choices are ranked by their costs on destinations that begin at a line boundary. On others, a variant that
    streams must join rows to whole lines, or partial lines make it slow.
    """
    return next((c.candidate.name for c in ranked if suits_alignment(c.candidate.name, t)), ranked[0].candidate.name)


def suits_alignment(name: str, t: Transfer) -> bool:
    """Whether the variant `name` suits the alignment of the destination."""
    variant = VARIANTS[name]
    if not t.phase or not variant.stream or variant.slabs or variant.blocking.panel:
        return True
    moves = [nest for stage in stages_of(t, name) for nest in stage.moves]
    return all(n.fused or n.family == "copy" or rows_are_adjacent(*n.tile, n.bits // 8) for n in moves)


def slab_nests(slab: Slab, width: int, vector: int, blocking: Blocking) -> tuple[list[Nest], set[int]]:
    """The nests that assemble a slab, and the dimensions whose pads they also write."""
    windows = window_nests(slab.shape, slab.source, slab.buffer, width)
    tiles = copy_nests(slab.shape, slab.source, slab.buffer, width, vector, blocking)
    if windows and is_scattered(windows[0][0]) and not fills_vectors(tiles[0][0], vector):
        return windows
    return tiles


@lru_cache(8)
def vector_bytes(isa: str) -> int:
    """Bytes of a vector of the kernels that transpose."""
    return registry.best("transpose", "x32")[0].nr * 4


def stages_of(t: Transfer, name: str) -> list[Stage]:
    """The nests of a transfer by the variant `name`; those of slabs, if there are any, by their shapes."""
    variant, box, width = VARIANTS[name], t.box, t.width
    s, d = box.sides(t.src, t.src_strides, t.dst, t.dst_strides)
    vector = vector_bytes(registry.isa())
    blocking, full = variant.blocking._replace(phase=t.phase), t.dst.full_shape(box.shape)
    stages = []
    for slab in slabs_of(box.shape, full, s, d, width) if variant.slabs and box.whole else ():
        moves, done = slab_nests(slab, width, vector, variant.blocking)
        stages.append(Stage(moves, fill_nests(slab.shape, slab.full, slab.buffer, width, done), slab))
    if stages:
        return stages
    windows = window_nests(box.shape, s, d, width, box.whole) if variant.windows else None
    moves, done = windows or copy_nests(box.shape, s, d, width, vector, blocking, box.whole)
    return [Stage(moves, fill_nests(box.shape, full, d, width, done) if box.whole else [])]
