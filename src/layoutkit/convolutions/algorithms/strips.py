"""Depthwise 3x3 down strips of columns: whole vectors of channels, stride 1 or 2, each input read once.

The fast way to do the usual depthwise convolution; what it does not take (other kernels, dilation, ragged channels)
`depthwise` does.
"""

from __future__ import annotations

from math import gcd, prod

import numpy as np

from ..._core import strips as core
from ..._core.executor import LoopNest
from ..._core.registry import Kernel
from ..geometry import channels_innermost, geometry, spatial_strides, strides_of
from ..problem import ConvProblem
from ..route import Arrays
from .base import Algorithm, flops_per_second
from .depthwise import WIDEST_BYTES

NARROW_COLUMNS = 4  # of the narrowest strip
PEAK_SHARE = 0.75  # of the FMA peak: what the estimate expects
PAGE_BYTES = 4096  # the period of the sets of L1: addresses so far apart share a set
FEW_SETS = 4  # of L1: a strip whose lines fall into so few evicts itself, and is cut into fewer rows
SHARED_ROWS = 7  # of a task, where whole strips are too few for the threads; 3n + 1 rows waste nothing


class Strips(Algorithm):
    """Depthwise 3x3 of whole vectors."""

    name, variant, family, filters = "depthwise", "strips", "strips", "strips"

    def supports(self, p: ConvProblem) -> str | None:
        if p.groups != p.ic or p.oc != p.ic:
            return f"{p.ic} > {p.oc} channels in {p.groups} groups are not one channel a group"
        if p.kernel != (3, 3) or p.dilation != (1, 1) or p.stride not in ((1, 1), (2, 2)):
            return f"strips are for 3x3 with stride 1 or 2, not {p.kernel}, stride {p.stride}, dilation {p.dilation}"
        before, right = p.padding[1][0], (p.out[1] - 1) * p.stride[1] + 3 - p.padding[1][0] - p.size[1]
        if before > 1 or right > 1 or p.out[1] < NARROW_COLUMNS:
            least = f"strips are for {NARROW_COLUMNS} columns and more, padded by one at most"
            return f"{least}, not {p.out[1]}, {p.padding}"
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not channels_innermost(layout):
                return f"{side} layout {layout} does not have its channels innermost"
        blocks = {p.src.block(1), p.dst.block(1)} - {1}
        lanes = WIDEST_BYTES // p.types.sum.itemsize
        if len(blocks) > 1 or any(b % lanes for b in blocks) or p.ic % max([lanes, *blocks]):
            return f"{p.ic} channels are no whole vectors in {p.src} and {p.dst}"
        return None

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        return 18 * p.n * p.oc * prod(p.out) / (flops_per_second(kernel) * threads * PEAK_SHARE)

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (C, 1, 3, 3) -> [vectors][3][3][lanes]; the bias as it is."""
        return np.ascontiguousarray(np.swapaxes(w.reshape(-1, kernel.lanes, 9), 1, 2)), bias

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> core.Strips:
        xs, ys = strides_of(p.src, p.src_shape, arrays.x_strides), strides_of(p.dst, p.dst_shape, arrays.y_strides)
        blocks = [layout.block(1) for layout in (p.src, p.dst)]
        run = max(blocks) if max(blocks) > 1 else p.oc
        tasks = max(1, p.n * -(-p.oc // run))
        sets = PAGE_BYTES // gcd(PAGE_BYTES, xs[3][0].stride, ys[3][0].stride)  # that a vector's pixels fall into
        rows = max(2, sets) if run * p.types.src.itemsize > WIDEST_BYTES and sets <= FEW_SETS else p.out[0]
        if tasks * -(-p.out[0] // rows) % threads:
            rows = min(rows, SHARED_ROWS)
        chunks = -(-p.out[0] // rows)

        def strides(ds, block: int, width: int) -> tuple[int, ...]:
            return (ds[0][0].stride, ds[1][0].stride if block > 1 else width * run, *spatial_strides(ds)[1:])

        x_strides = strides(xs, blocks[0], p.types.src.itemsize)
        y_strides = strides(ys, blocks[1], p.types.dst.itemsize)
        return core.Strips(LoopNest(kernel.name, geometry(p), threads, x_strides, y_strides), p.oc, run, chunks)
