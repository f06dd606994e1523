"""Sums of outer products, whatever the layout; for few channels, with taps as channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ..._core.nests.gradients.outer_sums import BLOCK_PIXELS, IN_PLACE_PANELS, SINGLE_BLOCK_PIXELS, OuterSums
from ..._core.runtime.registry import Kernel
from ...choosing.machine_profile import scale
from ...convolutions.algorithms.base import flops_per_second
from ...convolutions.geometry import geometry
from ...convolutions.problem import ConvProblem
from ...convolutions.route import Arrays
from ...formats.layout import Layout
from .base import Operand, Sums, channels_last, chunks_of, operand, slabs_of, taps_of

PACKED_BYTES = 512 << 10  # of dy that stay in L2 together with what is read of x
PART_CHOICES = 4  # parts of the sums of a slab for each thread, at most
PEAK_SHARE = 0.9  # of the FMA peak that sums reach
TILE_SECONDS = 40e-9  # to begin and end a register tile
PACK_BYTES_PER_SECOND = 20e9  # read and written by packing runs of channels
TRANSPOSED_PACK_COST = 1.2  # of packing runs of pixels, in packing runs of channels
GATHERED_PACK_COST = 7.0  # of packing single elements, in packing runs of channels
FOLDED_CHANNELS = 8  # at most


class Direct:
    """Sums of outer products, whatever the layout: pixels and channels are packed as they are read."""

    name, family, folds, saving = "direct", "outer", 0, 1.0

    def supports(self, p: ConvProblem) -> str | None:
        for layout in (p.src, p.dst):
            digits = [sum(f.dim == dim for f in layout.factors) for dim in range(layout.rank)]
            if any(n > 1 for dim, n in enumerate(digits) if dim != 1) or digits[1] > 2:
                return f"layout {layout} blocks other dimensions than the channels, or these twice"
        return None

    def accuracy(self, p: ConvProblem) -> str:
        return "reproducible"

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Of whole elements."""
        return all(s % width == 0 for s in strides)

    def parts(self, p: ConvProblem, kernel: Kernel, threads: int) -> tuple[int, int, int]:
        """Parts of groups, of panels of x and of panels of dy: those with the least work for the busiest thread."""
        x, y = (-(-n // p.groups // size) for n, size in ((p.ic, kernel.mr), (p.oc, kernel.nr)))
        pixels, slabs = p.n * prod(p.out), slabs_of(p)
        block = pixels if pixels <= SINGLE_BLOCK_PIXELS else BLOCK_PIXELS
        packed = block * kernel.nr * p.types.sum.itemsize  # a panel of dy
        least = min(y, max(1, y * packed // PACKED_BYTES))
        pack_x, pack_y, work = (s / max(1, slabs * p.groups) for s in self._seconds(p, kernel))
        best, parts = None, (1, 1, least)
        for pg in dict.fromkeys((1, min(p.groups, threads), p.groups)):
            for px in range(1, min(x, PART_CHOICES * threads) + 1):
                for py in range(least, min(y, max(least, PART_CHOICES * threads // px)) + 1):
                    x_share, y_share = -(-x // px) / x, -(-y // py) / y
                    each = -(-p.groups // pg) * (work * x_share * y_share + pack_x * x_share + pack_y * y_share)
                    seconds = -(-slabs * pg * px * py // threads) * each
                    if best is None or seconds < 0.99 * best:
                        best, parts = seconds, (pg, px, py)
        return parts

    def _seconds(self, p: ConvProblem, kernel: Kernel) -> tuple[float, float, float]:
        """Of packing x once, of packing dy once, and of the products, on one thread."""
        pixels, item = p.n * prod(p.out), p.types.sum.itemsize
        x, y = (-(-n // p.groups // size) for n, size in ((p.ic, kernel.mr), (p.oc, kernel.nr)))
        vectors = -(-(p.oc // p.groups) // kernel.lanes)
        flops = 2 * p.groups * p.taps * pixels * x * kernel.mr * vectors * kernel.lanes
        calls = p.groups * p.taps * x * y * max(1, pixels / BLOCK_PIXELS)
        read = min(p.taps, prod(-(-k // s) for k, s in zip(p.kernel, p.stride))) if p.taps > 1 else 1
        rate = PACK_BYTES_PER_SECOND / scale().copy_l3
        disjoint = any(s > 1 and (k - 1) * d < s for k, s, d in zip(p.kernel, p.stride, p.dilation))  # windows
        pack_x = 2 * item * p.ic * pixels * min(read, 2) * self._packing(p.src, disjoint) / rate
        unpacked = (
            p.dst == channels_last(p) and p.oc <= IN_PLACE_PANELS * kernel.nr and p.oc // p.groups % kernel.lanes == 0
        )
        pack_y = 0 if unpacked else 2 * item * p.oc * pixels * self._packing(p.dst, False) / rate
        return pack_x, pack_y, flops / (PEAK_SHARE * flops_per_second(kernel)) + calls * TILE_SECONDS * scale().run

    def _packing(self, layout: Layout, strided: bool) -> float:
        """The cost of packing, in packing of runs of channels; `strided`: of pixels that are not contiguous."""
        last = layout.factors[-1].dim
        if last == 1:
            return 1.0
        return TRANSPOSED_PACK_COST if last == layout.rank - 1 and not strided else GATHERED_PACK_COST

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        pack_x, pack_y, work = self._seconds(p, kernel)
        pg, px, py = self.parts(p, kernel, threads)
        tasks = slabs_of(p) * pg * px * py
        return (pack_x * py + pack_y * px + work) / tasks * -(-tasks // threads)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        return self._build(p, kernel, threads, arrays, operand(p.src, p.src_shape, arrays.x_strides, p.groups))

    def _build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays, xs: Operand) -> Sums:
        ys = operand(p.dst, p.dst_shape, arrays.y_strides, p.groups)
        chunks = chunks_of(self.estimate(p, kernel, threads))
        nest = OuterSums(
            kernel.name, geometry(p), threads, slabs_of(p), chunks, xs[0], ys[0], xs[1], ys[1],
            self.parts(p, kernel, threads),
        )  # fmt: skip
        return Sums(nest, Layout(f"aCB{taps_of(p)}{nest.mr}c{nest.nr}b"))


class Folded(Direct):
    """Taps along the last axes as channels of one tap: those of a row are contiguous. For few channels."""

    def __init__(self, name: str, folds: int) -> None:
        self.name, self.folds = name, folds

    def supports(self, p: ConvProblem) -> str | None:
        taps = p.kernel[-self.folds :]
        if p.groups > 1 or p.ic > FOLDED_CHANNELS or len(taps) < self.folds or 1 in taps:
            few = "a few, and two taps or more along each axis"
            return f"{p.ic} channels in {p.groups} groups, taps {p.kernel}: {self.name} is for {few}"
        if p.dilation[-1] > 1:
            return f"{self.name} is for dilation 1 along the width, not {p.dilation}"
        if p.src != channels_last(p):
            return f"input layout {p.src} does not have its channels innermost"
        return super().supports(p)

    def folded(self, p: ConvProblem) -> ConvProblem:
        """The problem whose channels are those of so many taps, without padding along their axes."""
        n, ones = self.folds, (1,) * self.folds
        reached = tuple((n - 1) * s + 1 for n, s in zip(p.out[-n:], p.stride[-n:]))
        return replace(
            p, ic=p.ic * prod(p.kernel[-n:]), kernel=(*p.kernel[:-n], *ones), size=(*p.size[:-n], *reached),
            padding=(*p.padding[:-n], *((0, 0),) * n), dilation=(*p.dilation[:-n], *ones),
        )  # fmt: skip

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        return super().estimate(self.folded(p), kernel, threads)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        folded = self.folded(p)
        pixels, (*_, step) = operand(p.src, p.src_shape, arrays.x_strides, 1)
        row = p.ic * p.kernel[-1]  # of taps
        row_stride = pixels[-2] * p.dilation[-2] if self.folds > 1 else 0
        return self._build(folded, kernel, threads, arrays, (pixels, (folded.ic, row, row_stride, step)))
