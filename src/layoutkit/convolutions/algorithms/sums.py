"""Direct summation by the shared register tile: its rows are output pixels, or output channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..._core.executor import LoopNest
from ..._core.filter_rows import FilterRows
from ..._core.pixel_rows import PixelRows
from ..._core.registry import Kernel
from ...formats.layout import Layout
from ...memory.arrays import contiguous_strides, empty
from ...reorders.reorder import reorder
from .. import order
from ..geometry import (
    channels_innermost,
    geometry,
    pixels_innermost,
    spatial_strides,
    strides_of,
)
from ..problem import ConvProblem
from ..route import Arrays, move_seconds
from .base import Algorithm, flops_per_second

# The input that a block of rows spans: no less than the first, no more than what stays in L2 beside a filter panel.
MIN_ROW_BLOCK_BYTES, MAX_ROW_BLOCK_BYTES = 96 << 10, 384 << 10
PANEL_BYTES = 300 << 10  # of a filter panel, past which the sum is split by taps
TILE_STEPS = 12  # overhead of a tile, its prologue and stores, in steps of its sum
TAP_STEPS = 1.5  # overhead of a tap, in the same


def columns_of(p: ConvProblem) -> int:
    """Output channels of a group that are written, pads included."""
    block = p.dst.block(1)
    return -(-(p.oc // p.groups) // block) * block


class _Sums(Algorithm):
    """What both kinds share: parts of the estimate."""

    def work(self, p: ConvProblem, kernel: Kernel, rows: int, columns: int, waste: float) -> tuple[float, float]:
        """Seconds of the multiplications on one thread, with the lanes and rows that go empty; steps of a sum."""
        waste *= 1 + 0.02 * (kernel.mr * -(-rows // kernel.mr) / max(1, rows) - 1)
        return p.flops * waste / flops_per_second(kernel), p.ic // p.groups * p.taps

    def gathering(self, p: ConvProblem) -> float:
        """Seconds of copying taps into a matrix, on one thread."""
        if not self.gather:
            return 0.0
        return move_seconds(2 * p.types.src.itemsize * p.ic * p.taps * p.n * prod(p.out))


class PixelSums(_Sums):
    """Rows of the tile are output pixels: channels innermost on both sides."""

    filters = "rows"

    def supports(self, p: ConvProblem) -> str | None:
        for layout, channels, side in ((p.src, p.ic, "input"), (p.dst, p.oc, "output")):
            if not channels_innermost(layout):
                return f"{side} layout {layout} does not have its channels innermost"
            block = layout.block(1)
            if p.groups > 1 and channels // p.groups % block:
                return f"{channels // p.groups} {side} channels a group are no multiple of the block in {layout}"
        half = order.VECTOR_BYTES[-1] // p.types.dst.itemsize // 2
        if p.dst.block(1) > 1 and p.dst.block(1) % half:
            return f"output blocks of {p.dst.block(1)} channels are no multiple of {half}, half a vector"
        return None

    def accuracy(self, p: ConvProblem, threads: int) -> str:
        return order.by_taps(p)

    def run_of(self, p: ConvProblem) -> int:
        """Elements that a tap of the sum runs along."""
        return p.ic // p.groups * (p.taps if self.gather else 1)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        columns, lanes = p.oc // p.groups, kernel.lanes
        waste = -(-columns // lanes) * lanes / columns if columns else 1.0
        seconds, steps = self.work(p, kernel, p.n * prod(p.out), columns, waste)
        vectors = max(1, -(-min(kernel.nr, columns) // lanes))
        loads = 1 / kernel.mr + 1 / vectors  # per FMA: above one for every two, loads limit the rate
        overhead = 1 + TILE_STEPS / max(1, steps) + TAP_STEPS / max(1, self.run_of(p))
        overhead *= 1 + 1.2 * max(0.0, loads - 0.58) + 1 / (kernel.mr * vectors)
        return (seconds * overhead + self.gathering(p)) / threads

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [G][panels][taps][channels][nr]; bias -> [G][panels][nr] or None."""
        columns, per_group = columns_of(p), p.oc // p.groups
        panels = -(-columns // kernel.nr)
        plain, layout = filter_layouts(kernel, w.ndim)
        w = w.reshape(p.groups, per_group, *w.shape[1:])
        packed = empty((p.groups, panels, prod(w.shape[2:]), kernel.nr), w.dtype, "filter")
        held = layout.physical_shape(w.shape)
        if held[1] < panels:  # whole panels of pads only
            packed[:, held[1] :] = 0
        if w.size:
            reorder(w, plain, layout, out=packed[:, : held[1]].reshape(held), shape=w.shape)
        return packed, padded_bias(p, bias, panels * kernel.nr)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> PixelRows:
        xs, ys = strides_of(p.src, p.src_shape, arrays.x_strides), strides_of(p.dst, p.dst_shape, arrays.y_strides)
        ic, block = p.ic // p.groups, p.src.block(1)
        blocks = max(1, -(-ic // block)) if block > 1 else 1
        run = block if block > 1 else ic
        x_block = xs[1][0].stride
        x_channels = blocks, x_block, run, ic - (blocks - 1) * run, ic // block * x_block
        y_channels = columns_of(p), p.dst.block(1) if p.dst.block(1) > 1 else 0, ys[1][0].stride
        panel_bytes = p.types.filter.itemsize * kernel.nr * ic * p.taps
        row_block_bytes = min(max(panel_bytes, MIN_ROW_BLOCK_BYTES), MAX_ROW_BLOCK_BYTES)
        strides = [(s[0][0].stride, *spatial_strides(s)) for s in (xs, ys)]
        nest = LoopNest(kernel.name, geometry(p), threads, *strides)
        return PixelRows(nest, x_channels, y_channels, self.gather, row_block_bytes, PANEL_BYTES)


def filter_layouts(kernel: Kernel, rank: int) -> tuple[Layout, Layout]:
    """Layouts of a filter (G, O, I, *k) as it comes and as rows of pixels read it; `rank` is that of an OIHW."""
    spatial = "defgh"[: rank - 2]
    return Layout(f"abc{spatial}"), Layout(f"aB{spatial}c{kernel.nr}b")


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

    def supports(self, p: ConvProblem) -> str | None:
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not pixels_innermost(layout):
                return f"{side} layout {layout} does not have its pixels innermost, in order"
        return None

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Pixels lie dense; every other stride is whole elements."""
        dense = tuple(strides[2:]) == contiguous_strides(layout, shape, width)[2:]
        return dense and all(s % width == 0 for s in strides)

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        columns = prod(p.out)
        waste = -(-columns // kernel.nr) * kernel.nr / max(1, columns)
        seconds, steps = self.work(p, kernel, p.oc // p.groups, columns, waste)
        return (seconds * (1 + TILE_STEPS / max(1, steps)) + self.gathering(p)) / threads

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [O][taps][I/G], or as it is where sums go by channel; the bias as it is."""
        return filter_by_taps(p, w), bias

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> FilterRows:
        xs, ys = strides_of(p.src, p.src_shape, arrays.x_strides), strides_of(p.dst, p.dst_shape, arrays.y_strides)
        x_strides = xs[0][0].stride, xs[1][0].stride, *spatial_strides(xs)
        nest = LoopNest(kernel.name, geometry(p), threads, x_strides, (ys[0][0].stride, ys[1][0].stride))
        return FilterRows(nest, (p.ic // p.groups, p.oc // p.groups), not self.gather, order.by_channel(p))


def filter_by_taps(p: ConvProblem, w: np.ndarray) -> np.ndarray:
    """Filter (O, I/G, *k) -> [O][taps][I/G], or as it is where sums go by channel."""
    if p.taps == 1 or order.by_channel(p):
        return w
    return reorder(w.reshape(*w.shape[:2], p.taps), "abc", "acb")
