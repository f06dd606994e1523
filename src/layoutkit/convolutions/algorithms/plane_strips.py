"""Depthwise k x k of NCHW without reorders: vectors are pixels along the width, processed down strips.

Every tap loads its own vector, often across two cache lines, and with stride 2 picks every other element of two; but
each is used for a whole column of the filter, so that this is faster than reorders to channels innermost and back,
unless rows leave most of their last vector empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core.nests.convolutions import plane_strips as core
from ..._core.nests.executor import LoopNest
from ..._core.runtime.registry import Kernel
from ...choosing.machine_profile import scale
from ..geometry import geometry, pixels_innermost, spatial_strides, strides_of
from ..problem import ConvProblem
from ..route import Arrays
from .base import Algorithm, flops_per_second

VECTOR_SECONDS = 0.6e-9  # of each vector of a row, on top of its multiplications
ROW_SECONDS = 1e-9  # of each row
PAIRS_SECONDS = 0.7e-9  # of each vector and column of taps with stride 2: loads, and even and odd elements apart
FEW_PLANES = 8  # per thread: with more, uneven shares do not matter


class PlaneStrips(Algorithm):
    """Depthwise of square kernels, stride 1 or 2, pixels innermost."""

    name, variant, family, filters, via = "depthwise", "planes", "plane_strips", "plane strips", "pixels"
    register_tile = "vectors of {lanes} pixels"

    def supports(self, p: ConvProblem) -> str | None:
        if p.groups != p.ic or p.oc != p.ic:
            return f"{p.ic} > {p.oc} channels in {p.groups} groups are not one channel a group"
        sizes = [k.mr for k in super().kernels(p)]
        if p.kernel not in [(k, k) for k in sizes] or p.dilation != (1, 1) or p.stride not in ((1, 1), (2, 2)):
            squares = " or ".join(f"{k}x{k}" for k in sizes)
            return (f"strips of planes are for {squares} with stride 1 or 2, not {p.kernel}, stride {p.stride}, "
                    f"dilation {p.dilation}")  # fmt: skip
        if p.zeros and p.pads:  # the padded copy has channels innermost
            return "the padding is to be summed, since the filter is not finite"
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not pixels_innermost(layout):
                return f"{side} layout {layout} does not have its pixels innermost, in order"
        return None

    def kernels(self, p: ConvProblem) -> Sequence[Kernel]:
        """Rows for the problem's taps."""
        return tuple(k for k in super().kernels(p) if k.mr == p.kernel[-1])

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        each = -(-p.out[-1] // kernel.lanes)  # vectors of a row
        vector, row = VECTOR_SECONDS, ROW_SECONDS
        if p.stride[-1] == 2:
            vector, row = vector + PAIRS_SECONDS * p.kernel[-1], 2 * row
        multiplications = 2 * p.taps * kernel.lanes / flops_per_second(kernel)
        return p.n * p.oc * p.out[0] * (each * multiplications + (each * vector + row) * scale().fma_f32) / threads

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter and bias as they are."""
        return np.ascontiguousarray(w), bias

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> core.PlaneStrips:
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        x_strides, y_strides = ((s[0][0].stride, s[1][0].stride, spatial_strides(s)[1]) for s in (xs, ys))
        planes = p.n * p.oc
        chunks = min(p.out[0], threads) if planes < FEW_PLANES * threads and planes % threads else 1
        return core.PlaneStrips(LoopNest(kernel.name, geometry(p), threads, x_strides, y_strides), p.oc, chunks)
