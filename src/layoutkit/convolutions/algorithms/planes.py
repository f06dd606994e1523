"""Convolution of NCHW from a padded copy of the input, which is neither gathered nor reordered.

Along the width the pixels of a tap are those of the next one, shifted. So with stride 1 the rows of a padded image are
the panel of the register tile for every tap, and output channels, however few, are its rows. Only the last vector of a
row may have unused lanes. With stride s the copy stores every s-th pixel of a row contiguously, one phase after
another, and a tap reads one phase. With few channels the sum of a tap would be short: then the copy stores the rows of
all channels side by side, and a tile sums over all taps and channels in one loop over a list of rows.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod

import numpy as np

from ..._core.nests.convolutions import planes as core
from ..._core.nests.convolutions.pixel_tiles import tile_cycles
from ..._core.nests.executor import LoopNest
from ..._core.runtime.registry import Kernel
from ...formats.layout import Layout
from ..geometry import geometry, pixels_innermost, spatial_strides, strides_of
from ..order import by_channel, chunks
from ..padded import PaddedInput, padded_input
from ..problem import ConvProblem
from ..route import Arrays
from .base import cycles_of
from .sums import SET_BYTES, FilterSums, filter_by_taps, seconds_of

LINE_BYTES = 64  # a cache line and the widest vector: rows of a folded copy are aligned to it
MAX_PHASES = 64  # of a row in the copy
APART_BYTES = 256  # planes of channels whose distances in L1 are multiples of less do not evict one another ..
MAX_MORE_ROWS = 3  # .. which so many more rows of zeros in each plane may bring about
FEW_CHANNELS = 32  # of a group: with at most so many, taps and channels are folded into one loop


class Planes(FilterSums):
    """Rows of a padded input as panels."""

    name, filters, reads_padded = "planes", "planes", True

    def supports(self, p: ConvProblem) -> str | None:
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not pixels_innermost(layout):
                return f"{side} layout {layout} does not have its pixels innermost, in order"
        if prod(p.kernel) == 1:
            return "a kernel of one tap reads every pixel once, unpadded"
        if any(n < 0 for pair in p.padding for n in pair):
            return f"padding {p.padding} leaves out inputs"
        if _phases(p) > MAX_PHASES:
            return f"a stride of {p.stride[-1]} along the width, at most {MAX_PHASES} copies of a row lie side by side"
        return None

    def padded(self, p: ConvProblem, x_strides: tuple[int, ...] | None) -> PaddedInput:
        """Always a copy, as rows are read in whole vectors: [n][C][depth][height][phase][width], or
        [n][depth][height][C][phase][width] if it is folded. A phase begins at a multiple of the stride: a negative
        padding removes zeros that are too many before a row."""
        width, folds, phases = p.types.src.itemsize, _folds(p), _phases(p)
        copy = padded_input(p, p.n if folds else p.n * p.ic, width)
        before, inside = (-(-n // phases) for n in (p.padding[-1][0], p.size[-1]))
        left_out = before * phases - p.padding[-1][0]
        reach = left_out + (p.out[-1] - 1) * phases + (p.kernel[-1] - 1) * p.dilation[-1] + 1
        behind = max(0, -(-reach // phases) - before - inside)
        columns = before + inside + behind
        problem = replace(
            copy.problem,
            size=(*copy.problem.size[:-1], columns * phases),
            padding=(*copy.problem.padding[:-1], (-left_out, reach - columns * phases)),
            src=_in_phases(p.src, phases),
        )
        fill = -(width * columns) % LINE_BYTES if folds else 0
        row = width * before, width * inside, width * behind + fill
        each = p.ic * phases if folds else phases  # rows of the copy for one of the input
        above, within, below = (each * n for n in copy.rows)
        phase, high = sum(row), each * sum(row)
        if not folds:
            below += each * _more_rows(sum(copy.planes) * (above + within + below) * phase, sum(copy.planes) * high)
        rows = above, within, below
        deep = sum(rows) * phase
        plane = sum(copy.planes) * deep
        image, channel = (plane, phases * phase) if folds else (p.ic * plane, plane)
        by_dim = image, channel, *(deep, high, width)[3 - len(p.size) :]
        strides = tuple(by_dim[f.dim] for f in p.src.factors) + (phase,) * (phases > 1)
        return copy._replace(problem=problem, strides=strides, rows=rows, row=row, behind=LINE_BYTES)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        steps, rows = p.ic // p.groups * p.taps, p.oc // p.groups
        vectors, tiles = -(-p.out[-1] // kernel.lanes), -(-rows // kernel.mr)
        panels = -(-vectors * kernel.lanes // kernel.nr)
        lines = 2 - 1 / p.kernel[-1]  # a vector that is shifted by a tap spans two cache lines
        if not tiles * panels * steps:
            return 0.0
        run = steps if _folds(p) else p.ic // p.groups
        each = tile_cycles(cycles_of(kernel), rows / tiles, vectors / panels, steps, run, lines)
        return seconds_of(p.n * p.groups * prod(p.out[:-1]) * panels * tiles * each, kernel) / threads

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        return filter_by_taps(p, w), bias

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> core.Planes:  # type: ignore[override]
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        strides = [(s[0][0].stride, s[1][0].stride, *spatial_strides(s)[:2]) for s in (xs, ys)]
        nest = LoopNest(kernel.name, geometry(p), threads, strides[0], strides[1], chunks=chunks(p))
        step, apart = _phases(p), arrays.x_strides[-1] // p.types.src.itemsize
        at = (k * p.dilation[-1] - p.padding[-1][0] for k in range(p.kernel[-1]))
        columns = tuple(i // step + i % step * apart for i in at)
        return core.Planes(nest, p.ic // p.groups, columns, _folds(p), by_channel(p))


def _more_rows(plane: int, row: int) -> int:
    """How many rows of zeros, of so many bytes each, keep planes of channels from falling into the same sets of L1."""
    return min(range(MAX_MORE_ROWS + 1), key=lambda n: max(APART_BYTES, gcd(plane + n * row, SET_BYTES)))


def _phases(p: ConvProblem) -> int:
    """The number of phases of a row; with a single output the stride does not matter."""
    return p.stride[-1] if p.out[-1] > 1 else 1


def _in_phases(layout: Layout, phases: int) -> Layout:
    """A layout with pixels innermost that stores every `phases`-th column contiguously."""
    if phases == 1:
        return layout
    *outer, last = ("abcde"[f.dim] for f in layout.factors)
    return Layout(f"{''.join(outer)}{last.upper()}{phases}{last}")


def _folds(p: ConvProblem) -> bool:
    """Whether all taps and channels are one loop: few channels make short sums."""
    return p.ic // p.groups <= FEW_CHANNELS
