"""Depthwise convolutions of integers by dot products: a lane sums the products of four rows of taps at once.

The input rows of one or two output rows are interleaved by fours (quads), once for all taps along the width and for
both output rows. Native layouts have channels innermost, in no blocks or in blocks of a multiple of 16.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np

from ..._core.nests.convolutions import depthwise_dot as core
from ..._core.nests.executor import LoopNest
from ..._core.runtime.registry import Kernel
from ...formats.layout import Layout
from ...memory.arrays import empty
from ..geometry import channels_innermost, geometry, spatial_strides, strides_of
from ..problem import ConvProblem
from ..route import Arrays
from .base import Algorithm, flops_per_second

PIECE = 16  # channels that are gathered at a time
MAX_COLUMNS = 1 << 22  # of a row
MAX_PANEL_BYTES = 1 << 20  # of the gathered columns of a tile
# Times, in those of a multiplication of vectors:
COLUMN_STEPS = 1.0  # gathering a column of a quad
OUTPUT_STEPS = 3.0  # storing an output
PART_STEPS = 40.0  # gathering a column in another order


class Rows(NamedTuple):
    """How many output rows are summed at once, and which rows of the input they read."""

    at_once: int
    at: tuple[tuple[int, int], ...]  # their depth and height, relative to the first tap of the first output row
    of: tuple[tuple[int, ...], ...]  # for each output row, the indices in `at` of the rows that its taps read


class DepthwiseDot(Algorithm):
    """One input channel a group."""

    name, variant, family, filters = "depthwise", "dot", "depthwise_dot", "depthwise dot"
    detour, narrow, widens = "blocks", True, ()
    register_tile = "vectors of {lanes} channels"

    def supports(self, p: ConvProblem) -> str | None:
        if p.groups != p.ic:
            return f"{p.ic} input channels in {p.groups} groups are not one channel a group"
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not channels_innermost(layout):
                return f"{side} layout {layout} does not have its channels innermost"
            if layout.block(1) > 1 and layout.block(1) % PIECE:
                return f"{side} blocks of {layout.block(1)} channels are no multiple of {PIECE}"
        step, apart, _ = _columns(p)
        reach = (p.kernel[-1] - 1) * apart + 1
        bytes_of_row = 256 * (8 * step + reach) // 4  # of the input, in the panel
        if (p.out[-1] - 1) * step + reach > MAX_COLUMNS or p.taps // p.kernel[-1] * bytes_of_row > MAX_PANEL_BYTES:
            return f"a tile of {p.kernel}, stride {p.stride}, dilation {p.dilation} reads more than is kept"
        return None

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        """By counting the vector operations of one or two output rows."""
        rows, (step, *_), out = _rows(p), _columns(p), geometry(p).out
        quads = -(-len(rows.at) // 4)
        pieces = kernel.lanes // 4  # of a run
        runs, left = divmod(-(-_padded(p) // PIECE), pieces)
        shares = 1  # columns whose last, short runs share a vector
        if left and pieces % left == 0 and p.oc == p.groups and p.types.dst.itemsize == 1:
            shares = pieces // left
        vectors = 4 * (runs + (1 / shares if left else 0))
        gathered = quads * step * vectors * (PART_STEPS if p.oc > p.groups else COLUMN_STEPS)
        column = rows.at_once * vectors * (quads * p.kernel[-1] + OUTPUT_STEPS) + gathered
        columns = p.n * out[0] * -(-out[1] // rows.at_once) * out[2]
        return 2 * kernel.lanes * columns * column / (flops_per_second(kernel) * threads)

    def packing(self, native: ConvProblem, kernel: Kernel) -> str:
        """The name also says which rows of the input are shared, and how many pieces there are, which a last run
        repeats."""
        rows = _rows(native)
        shared = f" {rows.at_once} rows {native.stride[-2]} {native.dilation[-2]}" if rows.at_once > 1 else ""
        return f"{self.filters}{shared} {4 * kernel.lanes} {-(-_padded(native) // PIECE)}"

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, 1, *k) -> [runs][quads][kw][vectors][rows][lanes][4]; bias -> [runs][vectors][lanes] or None."""
        rows, lanes, kw = _rows(p), kernel.lanes, p.kernel[-1]
        channels = _channels(p, kernel)
        runs = len(channels)
        quads = -(-len(rows.at) // 4)
        taps = w.reshape(p.oc, len(rows.of[0]), kw)
        wide = np.zeros((max(_padded(p), channels.max(initial=0) + 1), 4 * quads, kw, rows.at_once), w.dtype)
        for r, where in enumerate(rows.of):
            wide[..., r][: p.oc, list(where)] = taps
        split = wide[channels].reshape(runs, 4, lanes, quads, 4, kw, rows.at_once).transpose(0, 3, 5, 1, 6, 2, 4)
        packed = empty(split.shape, w.dtype, "filter")
        packed[...] = split
        if bias is None:
            return packed, None
        padded = np.zeros(len(wide), p.types.sum)
        padded[: p.oc] = bias
        return packed, np.ascontiguousarray(padded[channels])

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> core.DepthwiseDot:
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        strides = [(s[0][0].stride, *spatial_strides(s)) for s in (xs, ys)]
        rows = _rows(p)
        table = np.array(rows.at, np.int64).T.copy()
        nest = LoopNest(kernel.name, geometry(p), threads, strides[0], strides[1], p.types.name)
        block = p.dst.block(1) if p.dst.block(1) > 1 else 1 << 62
        return core.DepthwiseDot(
            nest, (p.oc, _padded(p), block), _pieces(p, kernel, xs[1][0].stride, ys[1][0].stride),
            (rows.at_once, table[0], table[1]), _columns(p),
        )  # fmt: skip


def _padded(p: ConvProblem) -> int:
    """Output channels that are written, pads included."""
    return -(-p.oc // p.dst.block(1)) * p.dst.block(1)


def _channels(p: ConvProblem, kernel: Kernel) -> np.ndarray:
    """The output channels of the lanes of each run: those of every piece by fours, the order in which bytes are
    interleaved. A last run with fewer pieces repeats them."""
    each = kernel.lanes // 4  # pieces of a run
    pieces = -(-_padded(p) // PIECE)
    runs = -(-pieces // each)
    channels = np.empty((runs, 4, each, 4), np.int64)
    for run in range(runs):
        piece = run * each + np.arange(each) % min(each, pieces - run * each)
        channels[run] = PIECE * piece[:, None] + 4 * np.arange(4)[:, None, None] + np.arange(4)
    return channels.reshape(runs, 4 * kernel.lanes)


def _rows(p: ConvProblem) -> Rows:
    """Two output rows at once if they need no more quads than one, else one."""
    g = geometry(p)
    kernel, stride, dilation = g.kernel, g.stride, g.dilation
    every = [[(a * dilation[0], r * stride[1] + b * dilation[1]) for a in range(kernel[0]) for b in range(kernel[1])]
             for r in range(2)]  # fmt: skip
    both = tuple(dict.fromkeys(every[0] + every[1]))
    count = 2 if -(-len(both) // 4) == -(-len(every[0]) // 4) and g.out[1] > 1 else 1
    at = both if count == 2 else tuple(every[0])
    index = {row: i for i, row in enumerate(at)}
    return Rows(count, at, tuple(tuple(index[row] for row in rows) for rows in every[:count]))


def _columns(p: ConvProblem) -> tuple[int, int, bool]:
    """How far apart outputs and taps are in columns of the panel; whether the panel has only columns that are read."""
    g = geometry(p)
    stride, dilation, kernel = g.stride[2], g.dilation[2], g.kernel[2]
    each = gcd(stride, dilation) if kernel > 1 else stride
    if stride // each > kernel:  # most columns in between would not be read
        return kernel, 1, True
    return stride // each, dilation // each, False


def _pieces(p: ConvProblem, kernel: Kernel, x_block: int, y_block: int):
    """For each piece of 16 output channels the input that it reads, and offsets, as `core.DepthwiseDot` takes them."""
    count = -(-_padded(p) // (4 * kernel.lanes)) * 4 * kernel.lanes // PIECE
    first = np.arange(count) * PIECE
    each = max(1, p.oc // p.groups)
    last = np.minimum(first + PIECE, p.oc) - 1
    begin, end = first // each, last // each + 1
    x_bytes = np.where(first < p.oc, end - begin, 0)
    begin = np.where(first < p.oc, begin, 0)
    order = None
    if each > 1:
        reads = np.minimum(first[:, None] + np.arange(PIECE), max(0, p.oc - 1)) // each - begin[:, None]
        order = np.ascontiguousarray(np.clip(reads, 0, PIECE - 1), np.int8)
    x_at = _within(begin, p.src, x_block, p.types.src.itemsize)
    y_at = _within(first, p.dst, y_block, p.types.dst.itemsize)
    return x_at, np.ascontiguousarray(x_bytes, np.int64), order, y_at


def _within(channel: np.ndarray, layout: Layout, block_stride: int, item: int) -> np.ndarray:
    """The offsets of channels within a pixel, in bytes."""
    block = layout.block(1)
    if block == 1:
        return np.ascontiguousarray(channel * item, np.int64)
    return np.ascontiguousarray(channel // block * block_stride + channel % block * item, np.int64)
