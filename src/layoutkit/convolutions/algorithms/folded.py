"""First layers: few input channels, whole rows of taps folded into the sum over channels.

A tap of a layer with 3 channels is a sum of 3, too short to pay for what a tap costs. In an image padded along its
width and with channels innermost, the kw taps of a row are kw * C consecutive floats: the convolution is one of
kd * kh taps with kw * C channels, whose pixels overlap. The filter is packed as for the direct way: [taps][C].

Narrow numbers are multiplied in units. Where kw * C is not whole units, weights of zero fill the last one: of integers
it reads on into the next pixels. Of floats, which may be Inf or NaN there, the copy has pixels of whole units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._core.pixel_rows import PixelRows
from ..._core.registry import Kernel
from ...formats.layout import Layout
from ..order import chunks
from ..padded import PaddedInput, padded_input
from ..problem import ConvProblem
from ..route import Arrays
from .base import CHANNELS_LAST
from .sums import PixelSums

LARGEST_UNIT = 4  # numbers


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

    def natives(self, p: ConvProblem) -> list[ConvProblem] | str:
        found, unit = super().natives(p), self.kernels(p)[0].unit
        if isinstance(found, str) or p.types.integers or not p.ic * p.kernel[-1] % unit:
            return found
        filled = Layout(f"a{'cde'[: p.src.rank - 2]}B{unit}b")
        return [replace(native, src=filled) for native in found]

    def unit_runs(self, p: ConvProblem) -> tuple[int, ...]:
        return () if p.types.integers else (self.run_of(p),)

    def packing(self, native: ConvProblem, kernel: Kernel) -> str:
        name = super().packing(native, kernel)
        return name if kernel.unit == 1 else f"{self.name} {name}"  # units reach from tap to tap

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        if kernel.unit == 1:
            return super().pack(p, kernel, w, bias)
        filled = np.zeros((w.shape[0], _held(p), *w.shape[2:]), w.dtype)
        filled[:, : w.shape[1]] = w
        run = np.moveaxis(filled, -1, 1).reshape(len(w), self.run_of(p), *w.shape[2:-1], 1)
        return super().pack(p, kernel, np.ascontiguousarray(run), bias)

    def padded(self, p: ConvProblem, x_strides: tuple[int, ...] | None) -> PaddedInput | None:
        width, reads_on = p.types.src.itemsize, p.types.integers and p.ic * p.kernel[-1] % LARGEST_UNIT
        if x_strides is not None and not any(p.padding[-1]) and not self.lacks_padding(p) and not reads_on:
            if self.takes_strides(p.src, p.src_shape, x_strides, width) and x_strides[-2] == width * p.ic:
                return None
        return padded_input(p, p.n, width * _held(p))._replace(behind=LARGEST_UNIT if reads_on else 0)

    def run_of(self, p: ConvProblem) -> int:
        return _held(p) * p.kernel[-1]

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        return super().estimate(_folded(p, kernel.unit), kernel, threads)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        folded = _folded(p, kernel.unit)
        if p.src != folded.src:
            arrays = arrays._replace(x_strides=(*arrays.x_strides[:-2], arrays.x_strides[-1]))
        return self.rows_of(folded, kernel, threads, arrays, chunks(p, kernel.unit))


def _folded(p: ConvProblem, unit: int) -> ConvProblem:
    """The convolution that is summed: rows of taps, filled up to whole units, are its channels."""
    return replace(
        p,
        ic=-(-_held(p) * p.kernel[-1] // unit) * unit,
        src=Layout(CHANNELS_LAST[p.src.rank]),
        size=(*p.size[:-1], (p.out[-1] - 1) * p.stride[-1] + 1),
        kernel=(*p.kernel[:-1], 1),
        padding=(*p.padding[:-1], (0, 0)),
    )


def _held(p: ConvProblem) -> int:
    """Channels of a pixel in memory."""
    return -(-p.ic // p.src.block(1)) * p.src.block(1)
