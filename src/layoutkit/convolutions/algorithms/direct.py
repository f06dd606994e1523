"""Direct convolution: implicit GEMM, which reads the input without a copy."""

from __future__ import annotations

from math import prod

from ..problem import ConvProblem
from .sums import FilterSums, PixelSums


class DirectByPixels(PixelSums):
    """With channels innermost: register tiles read every tap through pointers to pixels."""

    name = "direct"


class DirectByFilters(FilterSums):
    """1x1 with pixels innermost: the input itself is the panel."""

    name, filters = "direct", "filters"

    def supports(self, p: ConvProblem) -> str | None:
        if not prod(p.kernel) == prod(p.stride) == 1 or p.pads:
            return "only 1x1 with stride 1 and no padding reads NCHW without gathering"
        return super().supports(p)
