"""im2col: the taps of a block of output pixels are gathered into a matrix, then multiplied by the filter."""

from __future__ import annotations

from ..problem import ConvProblem
from .sums import FilterSums, PixelSums


class Im2colByPixels(PixelSums):
    """With channels innermost."""

    name, gather = "im2col", True

    def redundant(self, p: ConvProblem) -> bool:
        # direct convolution does without the copy, which narrow numbers may need to fill units
        return p.taps == 1 and not p.types.narrow


class Im2colByFilters(FilterSums):
    """With pixels innermost."""

    name, filters, gather = "im2col", "planes", True
