"""Depthwise k x k down strips of columns, stride 1 or 2, each input read once.

The fast algorithm for common depthwise convolutions; `depthwise` does the others (other kernels, dilation, blocks of
half a vector).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

import numpy as np

from ..._core.nests.convolutions import strips as core
from ..._core.nests.executor import LoopNest
from ..._core.runtime.registry import Kernel
from ...choosing.machine_profile import scale
from ...memory.arrays import empty
from ..geometry import channels_innermost, geometry, pixels_innermost, spatial_strides, strides_of
from ..order import VECTOR_BYTES
from ..problem import ConvProblem
from ..route import Arrays
from ..types import converted
from .base import Algorithm, flops_per_second

NARROW_COLUMNS = 4  # of the narrowest strip of 3x3
PEAK_SHARE = 0.75  # of the FMA peak: what the estimate expects
SCALED_SECONDS = 1.5e-10  # per element of 1x1, which loads, multiplies and stores it
PAGE_BYTES = 4096  # addresses a multiple of this apart fall into the same set of L1
# Of L1: a strip whose lines fall into at most so many sets evicts itself; 3x3 then takes so many rows at a time.
FEW_SETS, FEW_ROWS = 4, 8
SHARED_ROWS = 7  # of a task of 3x3 where whole strips cannot be shared evenly by threads; 3n + 1 waste nothing


class Strips(Algorithm):
    """Depthwise of square kernels."""

    name, variant, family, filters = "depthwise", "strips", "strips", "strips"
    detour, narrow = "blocks", True
    register_tile = "vectors of {lanes} channels"

    def supports(self, p: ConvProblem) -> str | None:
        if p.groups != p.ic or p.oc != p.ic:
            return f"{p.ic} > {p.oc} channels in {p.groups} groups are not one channel a group"
        sizes = [k.mr for k in super().kernels(p)]
        if p.kernel not in [(k, k) for k in sizes] or p.dilation != (1, 1) or p.stride not in ((1, 1), (2, 2)):
            squares = " or ".join(f"{k}x{k}" for k in sizes)
            return (f"strips are for {squares} with stride 1 or 2, not {p.kernel}, stride {p.stride}, "
                    f"dilation {p.dilation}")  # fmt: skip
        before, right = p.padding[1][0], (p.out[1] - 1) * p.stride[1] + 3 - p.padding[1][0] - p.size[1]
        if p.taps == 9 and (before > 1 or right > 1 or p.out[1] < NARROW_COLUMNS):
            least = f"strips of 3x3 are for {NARROW_COLUMNS} columns and more, padded by one at most"
            return f"{least}, not {p.out[1]}, {p.padding}"
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not channels_innermost(layout):
                return f"{side} layout {layout} does not have its channels innermost"
        blocks = {p.src.block(1), p.dst.block(1)} - {1}
        lanes = VECTOR_BYTES[-1] // p.types.sum.itemsize
        if len(blocks) > 1 or any(b % lanes for b in blocks):
            return f"the blocks of {p.src} and {p.dst} are no whole vectors, or differ"
        return None

    def natives(self, p: ConvProblem, reorders: bool = True) -> list[ConvProblem] | str:
        """From NCHW by way of blocked channels as well, which is usually faster than NHWC; never from other layouts."""
        natives = super().natives(p, reorders)
        if isinstance(natives, str) or (pixels_innermost(p.src) and pixels_innermost(p.dst)):
            return natives
        return natives[:1]

    def kernels(self, p: ConvProblem) -> Sequence[Kernel]:
        """Rows for the problem's taps."""
        return tuple(k for k in super().kernels(p) if k.mr == p.kernel[-1])

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        if p.taps == 1:
            return p.n * p.oc * prod(p.out) * SCALED_SECONDS * scale().copy_l2 / threads
        vectors = -(-p.oc // kernel.lanes)
        return p.flops * vectors * kernel.lanes / p.oc / (flops_per_second(kernel) * threads * PEAK_SHARE)

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (C, 1, k, k) -> [vectors][k][k][lanes]; bias -> [vectors][lanes] or None."""
        vectors = -(-p.oc // kernel.lanes)

        def by_lanes(values: np.ndarray) -> np.ndarray:
            out = empty((vectors, *values.shape[1:], kernel.lanes), values.dtype, "filter")
            whole = p.oc // kernel.lanes
            split = whole * kernel.lanes
            out[:whole] = np.moveaxis(values[:split].reshape(whole, kernel.lanes, *values.shape[1:]), 1, -1)
            out[whole:] = 0
            out[whole:, ..., : p.oc - split] = np.moveaxis(values[split:], 0, -1)
            return out

        w = converted(np.ascontiguousarray(w), p.types.elements[1], p.types.elements[2])
        return by_lanes(w.reshape(p.oc, p.taps)), None if bias is None else by_lanes(bias)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> core.Strips:
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        blocks = [layout.block(1) for layout in (p.src, p.dst)]
        run = max(blocks) if max(blocks) > 1 else p.oc
        tasks = max(1, p.n * -(-p.oc // run))
        sets = PAGE_BYTES // gcd(PAGE_BYTES, xs[3][0].stride, ys[3][0].stride)  # that a vector's pixels fall into
        several = run * p.types.src.itemsize > VECTOR_BYTES[-1]  # vectors of a pixel
        rows = FEW_ROWS if p.taps == 9 and several and sets <= FEW_SETS else p.out[0]
        if tasks * -(-p.out[0] // rows) % threads:
            rows = min(rows, SHARED_ROWS if p.taps == 9 else -(-p.out[0] // threads))
        chunks = -(-p.out[0] // rows)

        def strides(ds, block: int, width: int) -> tuple[int, ...]:
            return (ds[0][0].stride, ds[1][0].stride if block > 1 else width * run, *spatial_strides(ds)[1:])

        x_strides = strides(xs, blocks[0], p.types.src.itemsize)
        y_strides = strides(ys, blocks[1], p.types.dst.itemsize)
        padded = -(-p.oc // p.dst.block(1)) * p.dst.block(1)
        nest = LoopNest(kernel.name, geometry(p), threads, x_strides, y_strides, p.types.name)
        return core.Strips(nest, p.oc, padded, run, chunks)
