"""The ways to sum the gradient of a filter, a class each: what it takes, what it costs, and the loop nest it builds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple, Protocol

from .._core import registry
from .._core.executor import WeightSums
from .._core.outer_sums import BLOCK_STEPS, FEW_STEPS, OuterSums
from .._core.registry import Kernel
from .._core.tap_sums import MOST_TAPS, TapSums
from ..choosing.profile import scale
from ..convolutions.algorithms.base import CHANNELS_LAST, flops_per_second, rows_of
from ..convolutions.geometry import channels_innermost, geometry, spatial_strides, strides_of
from ..convolutions.problem import ConvProblem
from ..convolutions.route import Arrays
from ..formats.layout import Layout

SLAB_PIXELS, MOST_SLABS, SLABS_BYTES = 4096, 16, 64 << 20  # pixels of a slab at least; the bytes of all
PACKED_BYTES = 512 << 10  # of dy, that stay in L2 beside what is read of x
PART_CHOICES = 4  # times the threads: into how many parts the sums of a slab are cut at most
SUMS_SHARE, TILE_SECONDS = 0.9, 40e-9  # of the FMA peak; of beginning and ending a register tile
PACK_BYTES_PER_SECOND = 16e9  # read and written by packing runs of channels
TRANSPOSED, GATHERED = 2.0, 8.0  # times what packing runs of pixels takes, and elements that lie apart
FOLDED_CHANNELS = 8  # at most
SIGNAL_SECONDS = 0.05  # between looks for signals


class Sums(NamedTuple):
    """A loop nest, and how what it sums lies in memory."""

    nest: WeightSums
    layout: Layout  # of (groups, O/groups, I/groups, *kernel)


class Algorithm(Protocol):
    """One way to sum the gradient of a filter.

    Attributes
    ----------
    name : str
        The name that `algorithm=` forces it by.
    accuracy : str
        The strictest that allows it.
    family : str
        Of the kernels it runs on.
    padded : bool
        Whether it reads x in channels last, padded along the width.
    """

    name: str
    accuracy: str
    family: str
    padded: bool

    def supports(self, p: ConvProblem) -> str | None:
        """Why it cannot do `p` on its layouts as they are; None if it can."""
        ...

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Whether an array of these byte strides, of elements of `width` bytes, is read where it lies."""
        ...

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        """Seconds, by counting what it would execute."""
        ...

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        """The loop nest for x and dy of these byte strides."""
        ...


def slabs_of(p: ConvProblem) -> int:
    """Into how many slabs the pixels are cut: it depends on the problem alone, so that sums do."""
    filter_bytes = p.types.sum.itemsize * p.oc * (p.ic // p.groups) * p.taps
    return max(1, min(p.n * prod(p.out) // SLAB_PIXELS, MOST_SLABS, SLABS_BYTES // max(1, filter_bytes)))


def chunks_of(seconds: float) -> int:
    """Into how many chunks a call of so many seconds is cut, between which signals are seen."""
    return max(1, int(seconds / SIGNAL_SECONDS))


def _stride(found: Sequence) -> int:
    return found[0].stride


class Direct:
    """Sums of outer products, whatever the layout: pixels and channels are packed as they are read."""

    name, accuracy, family, padded = "direct", "reproducible", "outer", False

    def supports(self, p: ConvProblem) -> str | None:
        for layout in (p.src, p.dst):
            digits = [sum(f.dim == dim for f in layout.factors) for dim in range(layout.rank)]
            if any(n > 1 for dim, n in enumerate(digits) if dim != 1) or digits[1] > 2:
                return f"layout {layout} blocks other dimensions than the channels, or these twice"
        return None

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Of whole elements."""
        return all(s % width == 0 for s in strides)

    def parts(self, p: ConvProblem, kernel: Kernel, threads: int) -> tuple[int, int, int]:
        """Into how many parts groups, panels of x and those of dy are cut: what keeps the busiest thread least busy."""
        x, y = (-(-n // p.groups // size) for n, size in ((p.ic, kernel.mr), (p.oc, kernel.nr)))
        pixels, slabs = p.n * prod(p.out), slabs_of(p)
        packed = (pixels if pixels <= FEW_STEPS else BLOCK_STEPS) * kernel.nr * p.types.sum.itemsize  # a panel of dy
        least = min(y, max(1, y * packed // PACKED_BYTES))
        pack_x, pack_y, work = (s / max(1, slabs * p.groups) for s in self._seconds(p, kernel))
        best, found = None, (1, 1, least)
        for pg in dict.fromkeys((1, min(p.groups, threads), p.groups)):
            for px in range(1, min(x, PART_CHOICES * threads) + 1):
                for py in range(least, min(y, max(least, PART_CHOICES * threads // px)) + 1):
                    tall, wide = -(-x // px) / x, -(-y // py) / y
                    each = -(-p.groups // pg) * (work * tall * wide + pack_x * tall + pack_y * wide)
                    seconds = -(-slabs * pg * px * py // threads) * each
                    if best is None or seconds < 0.99 * best:
                        best, found = seconds, (pg, px, py)
        return found

    def _seconds(self, p: ConvProblem, kernel: Kernel) -> tuple[float, float, float]:
        """Of packing x once, of packing dy once, and of the products, on one thread."""
        pixels, item = p.n * prod(p.out), p.types.sum.itemsize
        x, y = (-(-n // p.groups // size) for n, size in ((p.ic, kernel.mr), (p.oc, kernel.nr)))
        vectors = -(-(p.oc // p.groups) // kernel.lanes)
        flops = 2 * p.groups * p.taps * pixels * x * kernel.mr * vectors * kernel.lanes
        calls = p.groups * p.taps * x * y * max(1, pixels / BLOCK_STEPS)
        read = min(p.taps, prod(-(-k // s) for k, s in zip(p.kernel, p.stride))) if p.taps > 1 else 1
        rate = PACK_BYTES_PER_SECOND / scale().copy_l3
        pack_x = 2 * item * p.ic * pixels * min(read, 2) * self._packing(p.src, max(p.stride)) / rate
        pack_y = 2 * item * p.oc * pixels * self._packing(p.dst, 1) / rate
        return pack_x, pack_y, flops / (SUMS_SHARE * flops_per_second(kernel)) + calls * TILE_SECONDS * scale().run

    def _packing(self, layout: Layout, stride: int) -> float:
        """How much longer packing takes than that of runs of channels."""
        last = layout.factors[-1].dim
        if last == 1:
            return 1.0
        return TRANSPOSED if last == layout.rank - 1 and stride == 1 else GATHERED

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        pack_x, pack_y, work = self._seconds(p, kernel)
        pg, px, py = self.parts(p, kernel, threads)
        tasks = slabs_of(p) * pg * px * py
        return (pack_x * py + pack_y * px + work) / tasks * -(-tasks // threads)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        xs = _side(p.src, p.src_shape, arrays.x_strides, p.groups)
        ys = _side(p.dst, p.dst_shape, arrays.y_strides, p.groups)
        chunks = chunks_of(self.estimate(p, kernel, threads))
        nest = OuterSums(
            kernel.name, geometry(p), threads, slabs_of(p), chunks, xs[0], ys[0], xs[1], ys[1],
            self.parts(p, kernel, threads),
        )  # fmt: skip
        return Sums(nest, Layout(f"aCB{_taps(p)}{nest.mr}c{nest.nr}b"))


class Folded(Direct):
    """A row of taps as channels of one tap: x in channels last has them together. For few channels."""

    name, padded = "folded", True

    def supports(self, p: ConvProblem) -> str | None:
        if p.groups > 1 or p.ic > FOLDED_CHANNELS or p.kernel[-1] == 1:
            return f"{p.ic} channels in {p.groups} groups, taps {p.kernel}: folded is for a few, and rows of taps"
        if p.dilation[-1] > 1:
            return f"folded is for dilation 1 along the width, not {p.dilation}"
        if p.src != channels_last(p):
            return f"input layout {p.src} does not have its channels innermost"
        return super().supports(p)

    def folded(self, p: ConvProblem) -> ConvProblem:
        """The problem whose channels are those of a row of taps, without padding along the width."""
        width = (p.out[-1] - 1) * p.stride[-1] + 1
        return replace(
            p, ic=p.ic * p.kernel[-1], kernel=(*p.kernel[:-1], 1), size=(*p.size[:-1], width),
            padding=(*p.padding[:-1], (0, 0)), dilation=(*p.dilation[:-1], 1),
        )  # fmt: skip

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        return super().estimate(self.folded(p), kernel, threads)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        return super().build(self.folded(p), kernel, threads, arrays)


def _side(layout: Layout, shape: Sequence[int], strides: Sequence[int], groups: int) -> tuple[tuple, tuple]:
    """Of x or dy: the strides of an image and a pixel; the channels of a group, and how they lie: see `OuterSums`."""
    found = strides_of(layout, shape, strides)
    blocked = len(found[1]) > 1
    block, apart = (layout.block(1), _stride(found[1])) if blocked else (max(1, shape[1]), 0)
    return (_stride(found[0]), *spatial_strides(found)), (shape[1] // groups, block, apart, found[1][-1].stride)


class Depthwise:
    """Channels each by themselves, a vector of them at a time."""

    name, accuracy, family, padded = "depthwise", "strict", "tap_sums", False
    share = 0.4  # of the FMA peak: what the estimate expects

    def supports(self, p: ConvProblem) -> str | None:
        if not p.groups == p.ic == p.oc:
            return f"{p.ic} > {p.oc} channels in {p.groups} groups are not one channel a group"
        if p.taps > MOST_TAPS:
            return f"{p.taps} taps, it takes {MOST_TAPS}"
        for layout in (p.src, p.dst):
            if not channels_innermost(layout):
                return f"layout {layout} does not have its channels innermost"
            lanes = self._lanes(p)
            if layout.block(1) not in (1, lanes):
                return f"blocks of {layout.block(1)} channels are no vectors of {lanes}"
        return None

    def _lanes(self, p: ConvProblem) -> int:
        return rows_of(self.family, p.types.wide.rows, registry.isa())[0].lanes

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        return strides[-1] == width and all(s % width == 0 for s in strides)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        vectors = -(-p.oc // kernel.lanes)
        flops = 2 * kernel.lanes * vectors * p.n * prod(p.out) * (p.taps + 1)
        tasks = vectors * slabs_of(p)
        return flops / (self.share * flops_per_second(kernel)) / tasks * -(-tasks // threads)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        sides, whole = [], True
        for layout, shape, strides in (
            (p.src, p.src_shape, arrays.x_strides), (p.dst, p.dst_shape, arrays.y_strides)
        ):  # fmt: skip
            found = strides_of(layout, shape, strides)
            blocked = layout.block(1) > 1
            whole &= blocked
            vector = _stride(found[1]) if blocked else kernel.lanes * found[1][-1].stride
            sides.append((_stride(found[0]), *spatial_strides(found), vector))
        chunks = chunks_of(self.estimate(p, kernel, threads))
        nest = TapSums(kernel.name, geometry(p), threads, slabs_of(p), chunks, sides[0], sides[1], whole)
        return Sums(nest, Layout(f"Abc{_taps(p)}{kernel.lanes}a"))


def _taps(p: ConvProblem) -> str:
    """The letters of the kernel's axes in (groups, O, I, *kernel)."""
    return "def"[: len(p.kernel)]


def channels_last(p: ConvProblem) -> Layout:
    """Where a side has to be reordered."""
    return Layout(CHANNELS_LAST[p.src.rank])


ALGORITHMS: tuple[Algorithm, ...] = (Direct(), Folded(), Depthwise())
AUTO = "auto"
NAMES = (AUTO, *dict.fromkeys(a.name for a in ALGORITHMS))
