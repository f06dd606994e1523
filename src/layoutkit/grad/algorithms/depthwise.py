"""The gradient of a depthwise filter."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ..._core.nests.gradients.tap_sums import MAX_TAPS, TapSums
from ..._core.runtime import registry
from ..._core.runtime.registry import Kernel
from ...convolutions.algorithms.base import flops_per_second, rows_of
from ...convolutions.geometry import channels_innermost, geometry, spatial_strides, strides_of
from ...convolutions.problem import ConvProblem
from ...convolutions.route import Arrays
from ...formats.layout import Layout
from .base import Sums, chunks_of, slabs_of, stride_of, taps_of


class Depthwise:
    """Vectors of channels, each multiplied by its own."""

    name, family, folds, saving = "depthwise", "tap_sums", 0, 1.0
    peak_share = 0.4  # of the FMA peak: what the estimate expects

    def supports(self, p: ConvProblem) -> str | None:
        if not p.groups == p.ic == p.oc:
            return f"{p.ic} > {p.oc} channels in {p.groups} groups are not one channel a group"
        if p.taps > MAX_TAPS:
            return f"{p.taps} taps, it takes {MAX_TAPS}"
        for layout in (p.src, p.dst):
            if not channels_innermost(layout):
                return f"layout {layout} does not have its channels innermost"
            lanes = self._lanes(p)
            if layout.block(1) not in (1, lanes):
                return f"blocks of {layout.block(1)} channels are no vectors of {lanes}"
        return None

    def _lanes(self, p: ConvProblem) -> int:
        return rows_of(self.family, p.types.wide.rows, registry.isa())[0].lanes

    def accuracy(self, p: ConvProblem) -> str:
        return "strict"

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        return strides[-1] == width and all(s % width == 0 for s in strides)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        vectors = -(-p.oc // kernel.lanes)
        flops = 2 * kernel.lanes * vectors * p.n * prod(p.out) * (p.taps + 1)
        tasks = vectors * slabs_of(p)
        return flops / (self.peak_share * flops_per_second(kernel)) / tasks * -(-tasks // threads)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        operands, blocked = [], True
        for layout, strides in ((p.src, arrays.x_strides), (p.dst, arrays.y_strides)):
            digits = strides_of(layout, strides)
            blocked &= layout.block(1) > 1
            vector = stride_of(digits[1]) if layout.block(1) > 1 else kernel.lanes * digits[1][-1].stride
            operands.append((stride_of(digits[0]), *spatial_strides(digits), vector))
        chunks = chunks_of(self.estimate(p, kernel, threads))
        nest = TapSums(kernel.name, geometry(p), threads, slabs_of(p), chunks, operands[0], operands[1], blocked)
        return Sums(nest, Layout(f"Abc{taps_of(p)}{kernel.lanes}a"))
