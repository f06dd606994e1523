"""Direct summation by GEMM micro-kernels: the rows of the register tile are output pixels, or output channels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd, prod

import numpy as np

from ..._core.nests.convolutions.filter_rows import FilterRows
from ..._core.nests.convolutions.pixel_rows import PixelRows
from ..._core.nests.convolutions.pixel_tiles import PixelTiles, tile_cycles
from ..._core.nests.convolutions.staged_rows import StagedRows
from ..._core.nests.executor import LoopNest
from ..._core.runtime.registry import Kernel
from ...choosing.machine_profile import scale
from ...formats.layout import Layout
from ...memory.arrays import contiguous_strides, empty
from ...reorders.nests import Digits
from ...reorders.once import reorder_once
from ...reorders.reorder import reorder
from .. import order
from ..geometry import (
    Geometry,
    channels_innermost,
    geometry,
    pixels_innermost,
    spatial_strides,
    strides_of,
)
from ..problem import ConvProblem
from ..route import Arrays
from .base import Algorithm, cycles_of, flops_per_second, steps_at_once

# Bytes of the input that a block of rows reads: the larger bound still stays in L2 together with a filter panel.
MIN_ROW_BLOCK_BYTES = 96 << 10
MAX_ROW_BLOCK_BYTES = 384 << 10
LINE_BYTES = 64  # of the cache
# Addresses so far apart are of the same set of L1, which holds so many lines: the pixels of a taller tile evict one
# another, and the tile takes so much longer.
SET_BYTES, SET_LINES, CROWDED = 4096, 8, 1.15
FILTER_SHARE = 3  # bytes of a filter that are read in the time of one that another core has written, about
MAX_PANEL_BYTES = 300 << 10  # of a filter panel; the sums of larger ones are split by taps
# What im2col's copy costs:
GATHER_BYTES_PER_SECOND = 50e9  # read and written in L2
GATHER_RUN_SECONDS = 4e-9  # overhead of each contiguous run that is copied
GATHER_RUN_PIXELS = 32  # of an NCHW row, at most, that are copied as one run
STAGED_RUN = 64  # units of k whose copies take as long as the pointers of rows, where several are loaded at once
COMPARED_POINTERS = 3  # that are looked at in the time of one, where all lie equally far apart
LOADED_BYTES_PER_SECOND = 300e9  # into tiles from L2, beyond the time that loads from L1 take
STRIDED_PIXELS_PER_RUN = 8  # pixels that are copied one by one in the time of a run


def columns_of(p: ConvProblem) -> int:
    """Output channels of a group that are written, pads included."""
    block = p.dst.block(1)
    return -(-(p.oc // p.groups) // block) * block


def panels_of(p: ConvProblem, kernel: Kernel) -> int:
    """Panels of the filter, of all groups."""
    return p.groups * -(-columns_of(p) // kernel.nr)


def threads_share_pixels(p: ConvProblem) -> bool:
    """Whether threads share pixels rather than output channels: each of them then reads the whole filter, but of the
    tensors mostly what it wrote itself in the layer before, into lines that no other core holds."""
    return p.groups == 1 and p.filter_bytes <= FILTER_SHARE * (p.src_bytes + p.dst_bytes)


def tiles_cycles(kernel: Kernel, rows: int, columns: int, steps: int, run: int, lines: float = 1.0) -> float:
    """Cycles of a product of `rows` x `columns`: tiles share rows evenly, columns are whole panels and a rest."""
    tiles = -(-rows // kernel.mr)
    whole, rest = divmod(columns, kernel.nr)
    counts = ((whole, kernel.nr // kernel.lanes), (1, -(-rest // kernel.lanes)))
    cycles = cycles_of(kernel)
    return sum(
        n * tiles * tile_cycles(cycles, rows / tiles, v, steps, run, lines) for n, v in counts if n and v and tiles
    )


def equidistant(p: ConvProblem) -> bool:
    """Whether all that the outputs of an image read for a tap lies equally far apart, in order."""
    ones = (1,) * len(p.size)
    return p.kernel == p.stride == ones and not p.pads


def in_lines(p: ConvProblem) -> bool:
    """Whether a tile unit can load pixels as they are: signs need no change, and channels cross no cache line."""
    block, item, channels = p.src.block(1), p.types.src.itemsize, p.ic // p.groups
    run = item * (min(block, channels) if block > 1 else channels)
    line = LINE_BYTES if run > LINE_BYTES // 2 else LINE_BYTES // 2 if run > LINE_BYTES // 4 else LINE_BYTES // 4
    starts = (item * block,) if block > 1 else (item * p.ic, item * channels)  # of pixels, and of groups
    return p.types.elements[0] != "s8" and all(start % line == 0 for start in starts)


def units_of(channels: int, kernel: Kernel) -> int:
    """The number of units of `kr` values that channels are packed into, rounded up to whole K tiles."""
    return -(-channels // kernel.k_step) * kernel.k_step // kernel.kr


def seconds_of(cycles: float, kernel: Kernel) -> float:
    """Seconds of so many cycles on one thread; a cycle is the time of two vector multiplications."""
    return cycles * 4 * kernel.lanes / flops_per_second(kernel)


class _Sums(Algorithm):
    """The part of the estimate that both kinds share: the copy of im2col."""

    def gathering(self, p: ConvProblem) -> float:
        """Seconds of copying taps into a matrix, on one thread."""
        if not self.gather:
            return 0.0
        copied = 2 * p.types.src.itemsize * p.ic * p.taps / GATHER_BYTES_PER_SECOND
        return self.pixels(p) * (copied + self.gathered_runs(p) * GATHER_RUN_SECONDS) * scale().cycle

    def pixels(self, p: ConvProblem) -> int:
        """Of the output, without channels."""
        return p.n * prod(p.out)

    def gathered_runs(self, p: ConvProblem) -> float:
        """Contiguous runs that are copied for each output pixel."""
        raise NotImplementedError


def pixels_read(p: ConvProblem) -> int:
    """Input pixels that one more output pixel adds to those that are read."""
    return prod(min(s, k) for s, k in zip(p.stride, p.kernel))


class PixelSums(_Sums):
    """Rows of the tile are output pixels: channels innermost on both sides."""

    filters, narrow, strided = "rows", True, True

    def supports(self, p: ConvProblem) -> str | None:
        for layout, channels, side in ((p.src, p.ic, "input"), (p.dst, p.oc, "output")):
            if not channels_innermost(layout):
                return f"{side} layout {layout} does not have its channels innermost"
            block = layout.block(1)
            if p.groups > 1 and channels // p.groups % block:
                return f"{channels // p.groups} {side} channels a group are no multiple of the block in {layout}"
        half = order.VECTOR_BYTES[-1] // p.types.sum.itemsize // 2
        if p.types.dst == p.types.sum and p.dst.block(1) > 1 and p.dst.block(1) % half:
            return f"output blocks of {p.dst.block(1)} channels are no multiple of {half}, half a vector"
        return None

    def accuracy(self, p: ConvProblem, threads: int) -> str:
        return order.by_taps(p)

    def gathered_runs(self, p: ConvProblem) -> float:
        return p.taps * p.ic / self.run_in_memory(p)

    def alignment(self, p: ConvProblem, kernel: Kernel) -> int:
        row_bytes = p.types.src.itemsize * kernel.kr * units_of(p.ic // p.groups, kernel) * p.taps
        return gcd(LINE_BYTES, row_bytes) if self.gather else 1  # the matrix begins on a line

    def whole_runs(self, p: ConvProblem) -> tuple[int, ...]:
        """Runs in memory, and the last run of a group, which may be shorter."""
        return () if self.gather else (self.run_in_memory(p), p.ic // p.groups)

    def run_of(self, p: ConvProblem) -> int:
        """Contiguous elements that a sum reads at a time."""
        return p.ic // p.groups * p.taps if self.gather else self.run_in_memory(p)

    def run_in_memory(self, p: ConvProblem) -> int:
        """Contiguous input channels of a group."""
        ic, block = max(1, p.ic // p.groups), p.src.block(1)
        return min(ic, block) if block > 1 else ic

    def depth(self, p: ConvProblem, kernel: Kernel) -> float:
        """Units that a sum has for each tap."""
        return units_of(p.ic // p.groups, kernel)

    def row_bytes(self, p: ConvProblem, kernel: Kernel) -> float:
        """Bytes that the sums of a pixel read: of all taps where they are gathered, else of one."""
        return p.types.src.itemsize * self.depth(p, kernel) * kernel.kr * (p.taps if self.gather else 1)

    def block_bytes(self, p: ConvProblem, kernel: Kernel) -> int:
        """Bytes that the rows of a block read."""
        channels = p.ic // p.groups if self.gather else p.ic  # of what a block reads
        panel_bytes = p.types.filter.itemsize * kernel.nr * channels * p.taps
        return min(max(panel_bytes, MIN_ROW_BLOCK_BYTES), MAX_ROW_BLOCK_BYTES)

    def tiles(self, p: ConvProblem, kernel: Kernel, threads: int) -> PixelTiles:
        """The tiles of its pixels, in blocks whose input stays in L2 together with a filter panel."""
        return self.tiles_of(geometry(p), p, self.row_bytes(p, kernel), kernel, threads)

    def tiles_of(self, g: Geometry, p: ConvProblem, row_bytes: float, kernel: Kernel, threads: int) -> PixelTiles:
        """The same of a geometry, where a row reads so many bytes."""
        units, run = self.depth(p, kernel), float(units_of(self.run_of(p), kernel))
        if (at_once := steps_at_once(kernel)) > 1:  # one pointer tells where all rows are, or they are copied
            summed = units * p.taps if self.gather else units
            units *= -(-summed // at_once) * at_once / max(1, summed)  # a last step takes as long as the others
            in_place = self.buffered or (equidistant(p) and in_lines(p))
            run = COMPARED_POINTERS * units * p.taps if in_place else min(STAGED_RUN, 2 * units)
        whole = not (self.gather or self.buffered)  # pixels of the input are read, of all groups
        read = row_bytes * (g.groups * pixels_read(p) if whole else 1)
        most = int(self.block_bytes(p, kernel) // max(1, read * kernel.mr))
        leaves_out = not self.buffered and not self.lacks_padding(p)
        leaves_out &= not p.types.integers or (kernel.family == "gemm" and at_once == 1)
        channels = columns_of(p), units, run
        sizes, cycles = (kernel.mr, kernel.nr, kernel.lanes), cycles_of(kernel)
        return PixelTiles(g, sizes, cycles, channels, leaves_out, most, threads, threads_share_pixels(p))

    def loading(self, p: ConvProblem, kernel: Kernel) -> float:
        """Seconds that a tile unit waits for the second cache, on one thread: each panel loads all pixels again, which
        the taps of a row find in the first cache."""
        if steps_at_once(kernel) == 1:
            return 0.0
        pixel = self.row_bytes(p, kernel)
        if not self.gather:
            pixel *= p.taps // p.kernel[-1] * min(p.stride[-1], p.kernel[-1])
        return panels_of(p, kernel) * self.pixels(p) * pixel / LOADED_BYTES_PER_SECOND * scale().copy_l2

    def crowded(self, p: ConvProblem, kernel: Kernel) -> bool:
        """Whether the pixels of a tile are read from a single set of L1, which is too small for them."""
        from_pixel_to_pixel = p.types.src.itemsize * p.stride[-1] * (p.src.block(1) if p.src.block(1) > 1 else p.ic)
        return not self.gather and not self.buffered and kernel.mr > SET_LINES and from_pixel_to_pixel % SET_BYTES == 0

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        cycles = self.tiles(p, kernel, threads).cycles * (CROWDED if self.crowded(p, kernel) else 1)
        return seconds_of(cycles, kernel) + (self.gathering(p) + self.loading(p, kernel)) / threads

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [G][panels][taps][channels][nr], of units [..][taps][units][nr][kr]; bias ->
        [G][panels][nr] or None."""
        columns, per_group = columns_of(p), p.oc // p.groups
        panels = -(-columns // kernel.nr)
        w = w.reshape(p.groups, per_group, *w.shape[1:])
        plain, layout, physical = _filter_form(kernel.k_step, kernel.kr, kernel.nr, w.shape)
        units = units_of(w.shape[2], kernel) * prod(w.shape[3:])
        packed = empty((p.groups, panels, units, kernel.nr * kernel.kr), w.dtype, "filter")
        if physical[1] < panels:  # whole panels of pads only
            packed[:, physical[1] :] = 0
        if w.size:
            # Reversed taps are written backwards, as a reorder reads memory forwards.
            ways = [slice(None, None, -1 if s < 0 else 1) for s in w.strides[3:]]
            out = packed[:, : physical[1]].reshape(physical)[(slice(None), slice(None), *ways)]
            reorder_once(w[(slice(None),) * 3 + tuple(ways)], plain, layout, out)
        return packed, padded_bias(p, bias, panels * kernel.nr)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        return self.rows_of(p, kernel, threads, arrays, order.chunks(p, kernel.kr, steps_at_once(kernel)))

    def rows_of(
        self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays, chunks: tuple[int, int],
        x_channels: tuple[int, ...] | None = None, tiles: PixelTiles | None = None, staged: StagedRows | None = None,
        columns: np.ndarray | None = None,
    ) -> PixelRows:  # fmt: skip
        """The nest that sums `p` in these chunks; `x_channels` and `tiles` replace those of its layout and pixels.
        `columns`: the kernel sums all groups at once, its columns in this order."""
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        x_channels = x_channels or self.channels_of(p, xs)
        g, count = (geometry(p), columns_of(p)) if columns is None else (geometry(p).together, p.oc)
        y_channels = count, p.dst.block(1) if p.dst.block(1) > 1 else 0, ys[1][0].stride
        strides = [(s[0][0].stride, *spatial_strides(s)) for s in (xs, ys)]
        nest = LoopNest(kernel.name, g, threads, strides[0], strides[1], p.types.name, chunks)
        tiles = tiles or self.tiles(p, kernel, threads)
        return PixelRows(nest, x_channels, y_channels, self.gather, tiles, MAX_PANEL_BYTES, staged, columns)

    def channels_of(self, p: ConvProblem, xs: list[Digits]) -> tuple[int, int, int, int, int]:
        """The input channels of a group, as `PixelRows` takes them; `xs`: the strides of the input."""
        ic, block, stride = p.ic // p.groups, p.src.block(1), xs[1][0].stride
        blocks = max(1, -(-ic // block)) if block > 1 else 1
        run = min(block, ic) if block > 1 else ic
        return blocks, stride, run, ic - (blocks - 1) * run, ic // block * stride


def filter_layouts(kernel: Kernel, rank: int) -> tuple[Layout, Layout]:
    """Layouts of a filter (G, O, I, *k): plain, and packed for tiles of pixels; `rank` does not count G."""
    return _filter_form(kernel.k_step, kernel.kr, kernel.nr, (1,) * (rank + 1))[:2]


@lru_cache(maxsize=256)  # filters of training are packed again in each step
def _filter_form(k_step: int, kr: int, nr: int, shape: tuple[int, ...]) -> tuple[Layout, Layout, tuple[int, ...]]:
    """The layouts of a filter of this shape, and its physical shape in the second."""
    spatial, units = "defgh"[: len(shape) - 3], k_step // kr  # of a K tile
    blocks = f"{units}c" * (units > 1) + f"{nr}b" + f"{kr}c" * (kr > 1)
    packed = Layout(f"aB{spatial}{'C' if k_step > 1 else 'c'}{blocks}")
    return Layout(f"abc{spatial}"), packed, packed.physical_shape(shape)


def padded_bias(p: ConvProblem, bias: np.ndarray | None, columns: int) -> np.ndarray | None:
    """A bias as [G][columns], the columns of a group filled up with zeros."""
    if bias is None:
        return None
    per_group = p.oc // p.groups
    padded = np.zeros((p.groups, columns), p.types.sum)
    padded[:, :per_group] = bias.reshape(p.groups, per_group)
    return padded


class FilterSums(_Sums):
    """Rows of the tile are output channels: pixels innermost on both sides."""

    via = "pixels"
    register_tile = "{mr} channels x {nr} pixels"

    def whole_runs(self, p: ConvProblem) -> tuple[int, ...]:
        return (p.ic // p.groups,)

    def supports(self, p: ConvProblem) -> str | None:
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not pixels_innermost(layout):
                return f"{side} layout {layout} does not have its pixels innermost, in order"
        return None

    def gathered_runs(self, p: ConvProblem) -> float:
        if p.stride[-1] != 1:
            return p.ic * p.taps / STRIDED_PIXELS_PER_RUN
        return p.ic * p.taps / min(max(1, p.out[-1]), GATHER_RUN_PIXELS)

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Pixels must be contiguous; every other stride must be a multiple of an element."""
        dense = tuple(strides[2:]) == contiguous_strides(layout, shape, width)[2:]
        return dense and all(s % width == 0 for s in strides)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        steps, lines = p.ic // p.groups * p.taps, 1 if self.gather else 2
        cycles = p.n * p.groups * tiles_cycles(kernel, p.oc // p.groups, prod(p.out), steps, steps, lines)
        return (seconds_of(cycles, kernel) + self.gathering(p)) / threads

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [O][taps][I/G], or unchanged where sums go by channel; the bias is unchanged."""
        return filter_by_taps(p, w), bias

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> FilterRows:
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        x_strides = xs[0][0].stride, xs[1][0].stride, *spatial_strides(xs)
        nest = LoopNest(
            kernel.name, geometry(p), threads, x_strides, (ys[0][0].stride, ys[1][0].stride), chunks=order.chunks(p)
        )
        return FilterRows(nest, (p.ic // p.groups, p.oc // p.groups), not self.gather, order.by_channel(p))


def filter_by_taps(p: ConvProblem, w: np.ndarray) -> np.ndarray:
    """Filter (O, I/G, *k) -> [O][taps][I/G], or unchanged where sums go by channel."""
    if p.taps == 1 or order.by_channel(p):
        return w
    return reorder(w.reshape(*w.shape[:2], p.taps), "abc", "acb")
