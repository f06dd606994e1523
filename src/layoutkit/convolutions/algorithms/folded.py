"""First layers: few input channels, whole rows of taps folded into the sum over channels.

A tap of a layer with 3 channels is a sum of 3, too short to pay for what a tap costs. In an image padded along its
width and with channels innermost, the kw taps of a row are kw * C consecutive floats: the convolution is one of
kd * kh taps with kw * C channels, whose pixels overlap. The filter is packed as for the direct way: [taps][C].
"""

from __future__ import annotations

from dataclasses import replace

from ..._core.pixel_rows import PixelRows
from ..._core.registry import Kernel
from ...formats.layout import Layout
from ..padded import PaddedInput, padded_input
from ..problem import ConvProblem
from ..route import Arrays
from .base import CHANNELS_LAST
from .sums import PixelSums


class Folded(PixelSums):
    """Rows of taps as one run of channels."""

    name, reads_padded = "folded", True

    def supports(self, p: ConvProblem) -> str | None:
        if p.groups > 1:
            return f"{p.groups} groups: the channels of a pixel are not all summed"
        if p.kernel[-1] == 1 or p.dilation[-1] > 1:
            return f"kernel {p.kernel} with dilation {p.dilation} has no consecutive taps along the width"
        if any(n < 0 for pair in p.padding for n in pair):
            return f"padding {p.padding} leaves out inputs"
        if p.src != Layout(CHANNELS_LAST[p.src.rank]):
            return f"input layout {p.src} is not {CHANNELS_LAST[p.src.rank]}"
        return super().supports(p)

    def padded(self, p: ConvProblem, x_strides: tuple[int, ...] | None) -> PaddedInput | None:
        width = p.types.src.itemsize
        if x_strides is not None and not any(p.padding[-1]) and not self.lacks_padding(p):
            if self.takes_strides(p.src, p.src_shape, x_strides, width) and x_strides[-2] == width * p.ic:
                return None
        return padded_input(p, p.n, width * p.ic)

    def run_of(self, p: ConvProblem) -> int:
        return p.ic * p.kernel[-1]

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        folded = replace(
            p,
            ic=p.ic * p.kernel[-1],
            size=(*p.size[:-1], (p.out[-1] - 1) * p.stride[-1] + 1),
            kernel=(*p.kernel[:-1], 1),
            padding=(*p.padding[:-1], (0, 0)),
        )
        return super().build(folded, kernel, threads, arrays)
