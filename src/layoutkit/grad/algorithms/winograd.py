"""Winograd's F(3x3, 4x4): the transpose of the convolution's F(4x4, 3x3)."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm

from ..._core.nests.gradients.winograd_sums import BLOCK_TILES, WinogradSums
from ..._core.runtime.registry import Kernel
from ...choosing.machine_profile import scale
from ...convolutions.algorithms.base import flops_per_second
from ...convolutions.algorithms.winograd import L2_BYTES_PER_SECOND, has_transforms, transform_row
from ...convolutions.geometry import channels_innermost, geometry
from ...convolutions.problem import ConvProblem
from ...convolutions.route import Arrays
from ...convolutions.winograd_matrices import gradient_tables
from ...formats.layout import Layout
from .base import Sums, chunks_of, operand, slabs_of, taps_of

FEW_TILES = 4  # below so many, direct summation rounds far less
PART_CHANNELS = 128  # of x and of dy in a part, whose sums then stay in L2 or nearly so
PART_CHOICES = 2  # parts for each thread; more only for the caches
PEAK_SHARE = 0.8  # of the FMA peak that sums reach
TILE_SECONDS = 20e-9  # to begin and end a register tile
TRANSFORM_SECONDS = 60e-9  # to begin and end a transform


class Winograd:
    """Tiles of 4 x 4 outputs in 36 products; of kernels of one row 1 x 4 in 6."""

    name, family, folds, saving = "winograd", "outer", 0, 4.0

    def supports(self, p: ConvProblem) -> str | None:
        g = geometry(p)
        if p.types.wide.rows != "f32" or not has_transforms(p.types.wide):
            return f"winograd has no transforms of {p.types.wide.name}"
        if g.kernel not in ((1, 3, 3), (1, 1, 3)):
            return f"winograd is for kernels of 3 and 3x3, not of {p.kernel}"
        if g.stride != (1, 1, 1) or g.dilation != (1, 1, 1):
            return f"winograd is for stride and dilation 1, not {p.stride} and {p.dilation}"
        for layout, channels, what in ((p.src, p.ic, "input"), (p.dst, p.oc, "output")):
            block = layout.block(1)
            if not channels_innermost(layout) or (block not in (1, 8) and block % 16):
                return (
                    f"{what} layout {layout} does not have its channels innermost, whole or in blocks of 8, 16, 32, .."
                )
            if p.groups > 1 and channels // p.groups % block:
                return f"{channels // p.groups} {what} channels a group are no multiple of the block in {layout}"
        return None

    def accuracy(self, p: ConvProblem) -> str:
        """Sums over many tiles round up to three times as much as direct ones, those over a single one seven times."""
        return "standard" if _tiles(p) >= FEW_TILES else "fast"

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Of channels that follow one another."""
        return strides[-1] == width and all(s % width == 0 for s in strides)

    def _parts(self, p: ConvProblem, kernel: Kernel, threads: int) -> tuple[float, int, int]:
        """The fastest division of the channels of x and dy into parts: its seconds, and how many parts of each."""
        wanted = -(-PART_CHOICES * threads // max(1, slabs_of(p) * p.groups))
        sides = []
        for layout, channels, panel in ((p.src, p.ic, kernel.mr), (p.dst, p.oc, kernel.nr)):
            unit = lcm(panel, kernel.lanes, layout.block(1))
            units = max(1, -(-channels // p.groups // unit))
            sides.append((units * unit, units, -(-units * unit // PART_CHANNELS)))
        (x, x_units, least_x), (y, y_units, least_y) = sides
        return min(
            (self._seconds(p, kernel, threads, x, y, px, py), px, py)
            for px in range(least_x, max(least_x, min(x_units, wanted)) + 1)
            for py in range(least_y, max(least_y, min(y_units, -(-wanted // px))) + 1)
        )

    def _seconds(self, p: ConvProblem, kernel: Kernel, threads: int, x: int, y: int, px: int, py: int) -> float:
        """With `x` and `y` channels of a group, cut into `px` and `py` parts: each transforms what it reads."""
        height, _ = _tile(p)
        products = 36 if height > 1 else 6
        tiles, slabs = _tiles(p), slabs_of(p)
        sums = products * (x // kernel.mr) * (y // kernel.nr) * max(1, tiles / BLOCK_TILES)
        calls = sums * TILE_SECONDS + 2 * tiles * px * py * TRANSFORM_SECONDS
        multiply = 2 * products * tiles * x * y / (PEAK_SHARE * flops_per_second(kernel)) + calls * scale().run
        moved = 4 * (products + 4 * height) * (tiles * (x * py + y * px) + slabs * x * y)
        tasks = slabs * p.groups * px * py
        each = p.groups * (multiply + moved / L2_BYTES_PER_SECOND * scale().copy_l2) / tasks
        return each * -(-tasks // threads)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        return self._parts(p, kernel, threads)[0]

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        xs = operand(p.src, p.src_shape, arrays.x_strides, p.groups)
        ys = operand(p.dst, p.dst_shape, arrays.y_strides, p.groups)
        seconds, px, py = self._parts(p, kernel, threads)
        nest = WinogradSums(
            (kernel.name, transform_row("in", p.types.wide.tiles, _tile(p))), geometry(p), threads, slabs_of(p),
            chunks_of(seconds), xs[0], ys[0], xs[1], ys[1], (px, py),
            gradient_tables(_tile(p)[0]),
        )  # fmt: skip
        return Sums(nest, Layout(f"aCB{taps_of(p)}{nest.mr}c{nest.nr}b"))


def _tile(p: ConvProblem) -> tuple[int, int]:
    """Outputs of a tile."""
    return (4 if geometry(p).kernel[1] == 3 else 1), 4


def _tiles(p: ConvProblem) -> int:
    (depth, high, wide), (mh, mw) = geometry(p).out, _tile(p)
    return p.n * depth * -(-high // mh) * -(-wide // mw)
