"""Pixels innermost, in place: a convolution of NCHW whose input is only padded, neither gathered nor reordered.

Along the width one tap's pixels are the next one's, shifted: with stride 1 the rows of an image padded with zeros are
the panel of the register tile for every tap, and output channels, however few or odd, are its rows. What is lost is
what the last vector of a row lacks. Where channels are few, a tap would be a short sum: then the copy has the rows of
all channels beside one another for every line, and all that a tile sums is one loop by a list of the rows.
"""

from __future__ import annotations

from math import prod

from ..._core import planes as core
from ..._core.registry import Kernel
from ..geometry import geometry, pixels_innermost, spatial_strides, strides_of
from ..order import by_channel
from ..problem import ConvProblem
from .folded import Room, padded_room
from .sums import Algorithm, filters_pack, filters_strides_ok

LINE = 64  # bytes: rows of a copy that folds begin with one; the widest vector
FEW = 32  # channels, for whose sake it does


def planes_support(p: ConvProblem) -> str | None:
    """Why Planes cannot run on the layouts of `p` as they are; None if it can."""
    for layout, side in ((p.src, "input"), (p.dst, "output")):
        if not pixels_innermost(layout):
            return f"{side} layout {layout} does not have its pixels innermost, in order"
    if p.stride[-1] != 1:
        return f"stride {p.stride}: the pixels of a row that a tap reads are not consecutive"
    if prod(p.kernel) == 1:
        return "a kernel of one tap reads every pixel once, unpadded"
    if any(n < 0 for pair in p.padding for n in pair):
        return f"padding {p.padding} leaves out inputs"
    return None


def planes_room(p: ConvProblem, x_strides) -> Room:
    """The padded copy: always one, for whole vectors of its rows are read; [n][depth][height][C][width] if it folds."""
    room = padded_room(p, p.n if _folds(p) else p.n * p.ic, 4)._replace(behind=LINE)
    if not _folds(p):
        return room
    row = (*room.row[:2], room.row[2] + -sum(room.row) % LINE)
    above, inside, below = (p.ic * n for n in room.rows)
    rows = above, inside, below
    high, deep = p.ic * sum(row), sum(rows) * sum(row)
    by_dim = (sum(room.planes) * deep, sum(row), *(deep, high, 4)[3 - len(p.size) :])
    return room._replace(strides=tuple(by_dim[f.dim] for f in p.src.factors), rows=rows, row=row)


def _folds(p: ConvProblem) -> bool:
    """All taps are one loop: few channels would make short sums."""
    return p.ic // p.groups <= FEW


def planes_build(p: ConvProblem, kernel: Kernel, threads: int, x_strides, y_strides, gather: bool):
    """Executor for an input without padding and an output of these byte strides."""
    xs, ys = strides_of(p.src, p.src_shape, x_strides), strides_of(p.dst, p.dst_shape, y_strides)
    return core.Planes(
        kernel.name, geometry(p), threads,
        (xs[0][0].stride, xs[1][0].stride, *spatial_strides(xs)[:2]),
        (ys[0][0].stride, ys[1][0].stride, *spatial_strides(ys)[:2]), p.ic // p.groups,
        _folds(p), by_channel(p),
    )  # fmt: skip


def planes_estimate(p: ConvProblem, kernel: Kernel, lanes: int, flops: float, threads: int) -> float:
    """Seconds, by counting multiplications with the lanes that go empty at the ends of rows."""
    taps, rows = prod(p.kernel), p.n * prod(p.out[:-1]) * p.oc
    vectors, depth = -(-p.out[-1] // lanes), max(1, p.ic // p.groups)
    steps = depth * taps + 12 + 0.5 * taps  # and a tile's prologue and stores, and what a tap takes
    return 2 * lanes * vectors * rows * steps / (0.95 * flops * threads)


PLANES = Algorithm("planes", False, "pixels", planes_support, filters_pack, planes_build, filters_strides_ok, "planes",
                   estimate=planes_estimate, room=planes_room)  # fmt: skip
