"""Groups of 4, 8 or 16 channels of integers by dot products: a vector of the input, with the channels of several groups
side by side, is multiplied as it is, and each lane sums what its unit of four channels adds to an output of its group.

Direct convolution would broadcast each unit to the columns of one group, a fourth of a vector or less. The order of the
columns and of the weights is that of `_core/kernels/gemm/gemm_groups.h`.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core.nests.convolutions.pixel_rows import PixelRows
from ..._core.nests.convolutions.pixel_tiles import PixelTiles
from ..._core.runtime.registry import Kernel
from ...memory.arrays import empty
from .. import order
from ..geometry import geometry
from ..problem import ConvProblem
from ..route import Arrays
from .base import cycles_of
from .sums import MAX_ROW_BLOCK_BYTES, PixelSums, units_of

DEPTHS = 4, 8, 16  # channels of a group that fill whole units, and divide the 16 bytes that shuffles reach


class GroupedDot(PixelSums):
    """As many output as input channels in each group."""

    name, variant, family, filters = "grouped", "dot", "gemm_groups", "groups"
    widens: tuple[str, ...] = ()
    strided = False
    register_tile = "{mr} pixels x {nr} channels of whole groups"

    def supports(self, p: ConvProblem) -> str | None:
        depth, per_group = p.ic // p.groups, p.oc // p.groups
        if p.groups == 1 or depth not in DEPTHS or depth != per_group:
            return f"{p.groups} groups of {depth} and {per_group} channels are not several of 4, 8 or 16 on both sides"
        if p.types.dst == p.types.sum:
            return f"sums that are the result, {p.types.dst}, are left to direct convolution"
        if p.src.block(1) > 1:
            return f"input layout {p.src} has its channels in blocks"
        if p.oc % p.dst.block(1):
            return f"output layout {p.dst} has channels that are padding"
        return super().supports(p)

    def tiles(self, p: ConvProblem, kernel: Kernel, threads: int) -> PixelTiles:
        """All channels of a pixel are of the same block of rows."""
        units = units_of(p.ic // p.groups, kernel)
        most = int(MAX_ROW_BLOCK_BYTES // max(1, p.ic * kernel.mr))
        sizes = kernel.mr, kernel.nr, kernel.lanes
        return PixelTiles(
            geometry(p).together, sizes, cycles_of(kernel), (p.oc, units, units), False, most, threads, True
        )

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [panels][taps][I/G][lanes][4]; bias -> [panels][nr] or None."""
        depth, taps, panels = p.ic // p.groups, prod(p.kernel), -(-p.oc // kernel.nr)
        units, groups = depth // kernel.kr, kernel.nr // depth  # of a panel
        wide = np.zeros((panels * groups, depth, units, kernel.kr, taps), w.dtype)
        wide[: p.groups] = w.reshape(p.groups, depth, units, kernel.kr, taps)
        packed = empty((panels, taps, depth, groups, units, kernel.kr), w.dtype, "filter")
        packed[...] = wide.reshape(panels, groups, *wide.shape[1:]).transpose(0, 5, 2, 1, 3, 4)
        if bias is None:
            return packed, None
        padded = np.zeros((panels, kernel.nr), p.types.sum)
        padded.reshape(-1)[: p.oc] = bias
        return packed, np.ascontiguousarray(padded[:, _order(p, kernel)])

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        depth = p.ic // p.groups
        channels = 1, 0, depth, depth, 0
        return self.rows_of(p, kernel, threads, arrays, order.chunks(p), channels, columns=_order(p, kernel))


def _order(p: ConvProblem, kernel: Kernel) -> np.ndarray:
    """The columns of a panel in the order of its sums: of four vectors, whose lanes are four for every 16 columns."""
    vector, piece, lane = np.ogrid[:4, : kernel.lanes // 4, :4]
    within = {4: 4 * lane + vector, 8: 8 * (lane % 2) + 2 * vector + lane // 2, 16: 4 * vector + lane}
    return np.ascontiguousarray((16 * piece + within[p.ic // p.groups]).reshape(-1), np.int64)
