"""First layers: few input channels, whole rows of taps folded into the sum over channels.

With 3 channels the sum of a tap has only 3 products, too few for the overhead of a tap. In an image that is padded
along its width, with channels innermost, the kw taps of a row are kw * C contiguous numbers: the convolution is one of
kd * kh taps and kw * C channels whose pixels overlap. The filter is packed as for direct convolution: [taps][C].

Narrow numbers are multiplied in units of `kr`. If kw * C is no multiple of it, the last unit is filled with weights of
zero, and reads on into the next pixels; this is done for integers only. Floats may be Inf or NaN there: instead, the
first two units overlap in one number, and each multiplies it by half its weight.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._core.nests.convolutions.pixel_rows import PixelRows
from ..._core.runtime.registry import Kernel
from ...formats.layout import Layout
from ..order import chunks
from ..padded import PaddedInput, padded_input
from ..problem import ConvProblem
from ..route import Arrays
from .base import CHANNELS_LAST, steps_at_once
from .sums import PixelSums

LARGEST_UNIT = 4  # the largest `kr`


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

    def fits(self, p: ConvProblem, kernel: Kernel) -> bool:
        """Not for K tiles that must be filled with zeros: a run reads on into the next pixels."""
        return super().fits(p, kernel) and kernel.k_step == kernel.kr

    def whole_runs(self, p: ConvProblem) -> tuple[int, ...]:
        return ()

    def packing(self, native: ConvProblem, kernel: Kernel) -> str:
        name = super().packing(native, kernel)
        name = name if kernel.kr == 1 else f"{self.name} {name}"  # units span several taps
        return f"{name} {self.variant}" if self.buffered else name

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        if kernel.kr == 1:
            return super().pack(p, kernel, w, bias)
        run = np.moveaxis(w, -1, 1).reshape(len(w), self.run_of(p), *w.shape[2:-1], 1)
        if self.overlaps(p, kernel):
            run = np.concatenate([run[:, :1], run], axis=1)
            bits = run.view(np.uint16)
            bits[:, 1], bits[:, 2] = halves(bits[:, 2])
        return super().pack(p, kernel, np.ascontiguousarray(run), bias)

    def padded(self, p: ConvProblem, x_strides: tuple[int, ...] | None) -> PaddedInput | None:
        width, reads_on = p.types.src.itemsize, p.types.integers and p.ic * p.kernel[-1] % LARGEST_UNIT
        if x_strides is not None and not any(p.padding[-1]) and not self.lacks_padding(p) and not reads_on:
            if self.takes_strides(p.src, p.src_shape, x_strides, width) and x_strides[-2] == width * p.ic:
                return None
        return padded_input(p, p.n, width * p.ic)._replace(behind=LARGEST_UNIT if reads_on else 0)

    def run_of(self, p: ConvProblem) -> int:
        return p.ic * p.kernel[-1]

    def overlaps(self, p: ConvProblem, kernel: Kernel) -> bool:
        """Whether the first two units of a run overlap in one number."""
        return not self.buffered and not p.types.integers and self.run_of(p) % kernel.kr > 0

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        seconds = super().estimate(folded(p, self.unit(kernel)), kernel, threads)
        # its runs are two, each of which takes a tile unit a step
        return 2 * seconds if steps_at_once(kernel) > 1 and self.overlaps(p, kernel) else seconds

    def unit(self, kernel: Kernel) -> int:
        """The numbers that runs are padded to a multiple of."""
        return 1 if self.buffered else kernel.kr  # a buffer fills runs up to whole units with zeros

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        computed, unit, run = folded(p, self.unit(kernel)), kernel.kr, self.run_of(p)
        x_channels = None
        if self.overlaps(p, kernel):
            x_channels = 2, p.types.src.itemsize, unit, run // unit * unit, 0
        return self.rows_of(computed, kernel, threads, arrays, chunks(p, unit, steps_at_once(kernel)), x_channels)


class FoldedIm2col(Folded):
    """The same runs of a block of pixels, gathered into a matrix: a K tile sums those of several rows of taps."""

    variant, gather = "im2col", True

    def redundant(self, p: ConvProblem) -> bool:
        return not p.types.narrow


def halves(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights, as bits of bfloat16, split into two halves. A half that would be denormal counts as 0: then the first
    part has the whole weight."""
    exponent = w & 0x7F80
    half = np.where(exponent == 0x7F80, w, w - 0x80).astype(w.dtype)
    return np.where(exponent > 0x80, half, w), np.where(exponent > 0x80, half, w & 0x8000)


def folded(p: ConvProblem, unit: int) -> ConvProblem:
    """The convolution that is computed: its channels are rows of taps, padded to whole units."""
    return replace(
        p,
        ic=-(-p.ic * p.kernel[-1] // unit) * unit,
        size=(*p.size[:-1], (p.out[-1] - 1) * p.stride[-1] + 1),
        kernel=(*p.kernel[:-1], 1),
        padding=(*p.padding[:-1], (0, 0)),
    )
