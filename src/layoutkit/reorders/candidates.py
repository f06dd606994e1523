"""Moves: the ways to reorder a tensor, and the program of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from math import prod

import numpy as np

from .._core import registry
from .._core.reorder import Program
from ..choosing.keys import LAYOUT, THREADS, sizes
from ..choosing.machine import last_level_cache
from ..choosing.measuring import Contest, first_use, wanted
from ..choosing.model import describes
from ..choosing.plan import Candidate, Choice, mode, rank
from ..choosing.table import cost_table
from ..formats.layout import Layout
from ..formats.notation import key
from ..memory import spans
from ..memory.arrays import empty
from ..memory.spans import Span
from . import reach
from .box import Box
from .features import reorder_features
from .kinds import KINDS
from .leaves import follows
from .nests import copy_nests, fill_nests, is_ragged
from .slabs import slabs

SMALL = 1 << 18  # bytes below which a second thread costs more than it brings
COPY, CACHED = 12e9, 30e9  # bytes a second on a thread, read and written, where nothing was measured


def useful_threads(nbytes: int, threads: int) -> int:
    """How many of `threads` a reorder that writes `nbytes` uses."""
    return threads if nbytes >= SMALL else 1


def reorder_key(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int) -> str:
    """What the cost table knows a reorder by."""
    return f"reorder {'x'.join(map(str, shape))} {key(src)}>{key(dst)} x{8 * width} t{threads}"


KEY = f"reorder ({sizes(15)}|) ({LAYOUT})>({LAYOUT}) x(8|16|32|64|128)"  # of a reorder, without its threads
_KEY = re.compile(KEY)


def candidates(src: Layout, dst: Layout, shape: tuple[int, ...], width: int) -> Iterator[Candidate]:
    """The ways to move a tensor between contiguous arrays."""
    moved = 2 * width * prod(shape)
    large = moved > 2 * last_level_cache()
    args = (src, dst, shape, width, strides_of(src, shape, width), strides_of(dst, shape, width))
    ragged = is_ragged(shape, *Box.all_of(shape).sides(src, args[4], dst, args[5]))
    for i, (name, kind) in enumerate(KINDS.items()):
        if kind.slabs and not ragged:
            continue
        seconds = moved / (COPY if large else CACHED) * (1 + (kind.stream != large) + i / 100)
        yield Candidate(name, seconds, partial(program, *args, bytes(width), name))


def strides_of(layout: Layout, shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Bytes between neighbours of a contiguous array, per physical axis."""
    return tuple(width * s for s in layout.axis_strides(shape))


def parse_key(text: str) -> tuple[Layout, Layout, tuple[int, ...], int]:
    """Layouts, shape and bytes of an element of a reorder's key, without threads; ValueError if it is none."""
    found = _KEY.fullmatch(text)
    if not found:
        raise ValueError(f"not a reorder: {text!r}; expected one such as 'reorder 1x64x56x56 NCHW>NHWC x32'")
    extents, src, dst, bits = found.groups()
    shape, width, src, dst = tuple(map(int, filter(None, extents.split("x")))), int(bits) // 8, Layout(src), Layout(dst)
    if not src.rank == dst.rank == len(shape):
        raise ValueError(f"not a reorder: {text!r}; its shape and layouts do not fit together")
    return src, dst, shape, width


@describes("reorder", f"{KEY} {THREADS}")
def _describe(key: str):
    text, _, threads = key.rpartition(" t")
    src, dst, shape, width = parse_key(text)
    features = reorder_features(src, dst, shape, width, int(threads))
    return features, lambda: {c.name: c.estimate for c in candidates(src, dst, shape, width)}.get


def choices(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int) -> tuple[Choice, ...]:
    """The candidates in order, best first."""
    if mode() == "measure" and all(shape) and wanted(reorder_key(src, dst, shape, width, threads)):
        first_use(reorder_contest(src, dst, shape, width, threads))
    return _choices(src, dst, shape, width, threads, registry.isa(), cost_table.generation)


@lru_cache(4096)
def _choices(src, dst, shape, width, threads, isa, generation) -> tuple[Choice, ...]:
    return tuple(rank(reorder_key(src, dst, shape, width, threads), list(candidates(src, dst, shape, width))))


def _runner(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int):
    """What turns a program into a call on contiguous arrays that are touched."""
    dtype = np.dtype(f"V{width}" if width == 16 else f"u{width}")
    a, b = (empty(x.physical_shape(shape), dtype, "measure") for x in (src, dst))  # as `reorder` makes them
    for x in (a, b):
        x[...] = np.ones((), dtype)
    return lambda run: partial(run, a, b, threads)


def reorder_contest(src: Layout, dst: Layout, shape: tuple[int, ...], width: int, threads: int) -> Contest:
    """The ways to move a tensor between contiguous arrays, to be measured."""
    key = reorder_key(src, dst, shape, width, threads)
    found = list(candidates(src, dst, shape, width))
    return Contest(key, found, partial(_runner, src, dst, shape, width, threads))


def program(src, dst, shape, width: int, src_strides, dst_strides, pad: bytes | None = None,
            kind: str | None = None, box: Box | None = None, phase: int = 0) -> Program:  # fmt: skip
    """The reorder of arrays of exactly these strides, ready to run; by default the pads are zeros.

    Of a `box`, `shape` is the shape. It is fastest where the destination begins `phase` bytes past a whole line.
    """
    if kind is None:
        kind = choices(src, dst, shape, width, 1)[0].candidate.name
    pad = bytes(width) if pad is None else pad
    box = Box.all_of(shape) if box is None else box
    return _program(src, dst, shape, width, src_strides, dst_strides, pad, kind, box, phase, registry.isa())


@lru_cache(4096)
def _program(src, dst, shape, width, src_strides, dst_strides, pad, kind, box, phase, isa) -> Program:
    nests, slab, fills = nests_of(src, dst, shape, width, src_strides, dst_strides, kind, box, phase)
    _check_reach(src, dst, width, src_strides, dst_strides, box, nests, slab, fills)
    way = KINDS[kind]
    loops = slab and (slab.loops, slab.bytes)
    return Program(nests + fills, width, pad, way.stream and not slab, way.blocking.panel, loops)


def _check_reach(src, dst, width: int, src_strides, dst_strides, box: Box, nests, slab, fills) -> None:
    """PlanError unless the nests stay within their arrays, and those of slabs within a slab."""
    what = f"reorder {src} -> {dst} of {box.shape}"
    read, written = reach.of_nests(nests)
    _, filled = reach.of_nests(fills)
    if slab:
        spans.check(written.joined(filled), Span(0, slab.bytes), f"{what}: slab")
        begins, written = reach.of_slabs(slab)
        read, filled = begins.plus(read), spans.NOTHING
    spans.check(read, spans.of_array(src.physical_shape(box.src_shape), src_strides, width), f"{what}: source")
    has = spans.of_array(dst.physical_shape(box.dst_shape), dst_strides, width)
    spans.check(written.joined(filled), has, f"{what}: destination")


Given = tuple[Layout, Layout, tuple[int, ...], int, tuple[int, ...], tuple[int, ...]]  # layouts, shape, width, strides


def suited(found: tuple[Choice, ...], phase: int, given: Given, box: Box) -> str:
    """The first of `found` that writes whole lines where the destination begins `phase` bytes past one, by name.

    What they cost is known for destinations that begin with a line. `given` are the first arguments of `nests_of`.
    """
    for choice in found if phase else ():
        name = choice.candidate.name
        kind = KINDS[name]
        if not kind.stream or kind.slabs or kind.blocking.panel:
            return name
        nests = nests_of(*given, name, box, phase)[0]
        if all(n.family == "copy" or follows(n.leaf[0], n.leaf[1], n.bits // 8) for n in nests):
            return name
    return found[0].candidate.name


def nests_of(src, dst, shape, width, src_strides, dst_strides, kind, box, phase=0):
    """The nests that move elements, the slabs that they make, if they do, and the nests that fill pads."""
    s, d = box.sides(src, src_strides, dst, dst_strides)
    vector = registry.best("transpose", "x32")[0].nr * 4
    full = dst.full_shape(shape)
    slab = slabs(shape, full, s, d, width) if KINDS[kind].slabs and box.whole else None
    if slab:
        shape, full = slab.shape, dst.full_shape(slab.shape)
    nests, done = copy_nests(shape, s, d, width, vector, KINDS[kind].blocking._replace(phase=phase), box.whole)
    return nests, slab, fill_nests(shape, full, d, width, done) if box.whole else []
