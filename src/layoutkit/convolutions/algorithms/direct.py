"""Direct convolution: implicit GEMM, the input read where it lies."""

from __future__ import annotations

from math import prod

from ..problem import ConvProblem
from .sums import FilterSums, PixelSums


class DirectByPixels(PixelSums):
    """Where channels are innermost, for every tap through pointers to pixels."""

    name = "direct"


class DirectByFilters(FilterSums):
    """Where pixels are innermost and one tap reads every one of them: the input's pixels are the panel."""

    name, filters = "direct", "filters"

    def supports(self, p: ConvProblem) -> str | None:
        if not prod(p.kernel) == prod(p.stride) == 1 or p.pads:
            return "only 1x1 with stride 1 and no padding reads NCHW without gathering"
        return super().supports(p)
