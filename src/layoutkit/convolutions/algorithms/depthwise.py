"""Depthwise convolutions and small groups: each output channel reads one input channel, or few.

The input channels of a vector of output channels must fit into a vector: for channel c of the groups, lane i reads
channel c of its group by a permutation. Plain depthwise convolutions need no permutation.

Native layouts have channels innermost (NHWC, nChw16c, nChw8c); for NCHW, `plane_strips` uses vectors of pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..._core.nests.convolutions import depthwise as core
from ..._core.nests.executor import LoopNest
from ..._core.runtime.registry import Kernel
from ...formats.layout import Layout
from ...memory.arrays import empty
from ..geometry import channels_innermost, geometry, spatial_strides, strides_of
from ..order import VECTOR_BYTES, unbroken, windows_of, within_vectors
from ..problem import ConvProblem
from ..route import Arrays
from .base import Algorithm, flops_per_second
from .strips import Strips

RUN_BYTES = 256  # of an NHWC pixel in a task: four cache lines, so that rows that are read again stay in L1
ONE_LANE = 2  # LK_ONE_LANE of depthwise.h: a vector of output channels is all of one group
WIDEST_BYTES = VECTOR_BYTES[-1]  # of vectors: blocks of fewer channels may share one


class ChannelVectors(Algorithm):
    """The base of depthwise convolutions and those of small groups."""

    family = filters = "depthwise"
    register_tile = "vectors of {lanes} channels"
    share: float  # of the FMA peak: what the estimate expects
    tile_seconds = 0.0  # for each row of a register tile, where kernels are one tap wide or have a stride

    def supports(self, p: ConvProblem) -> str | None:
        for layout, side in ((p.src, "input"), (p.dst, "output")):
            if not channels_innermost(layout):
                return f"{side} layout {layout} does not have its channels innermost"
        block = p.src.block(1)
        if block != p.dst.block(1):
            return f"input layout {p.src} and output layout {p.dst} have different blocks of channels"
        if block > 1:
            if block not in (8, 16, 32, 64):
                return f"blocks of {block} channels are no whole vectors"
            if p.oc != p.ic or block % (p.ic // p.groups):
                return f"{p.groups} groups of {p.ic} > {p.oc} channels do not keep to their blocks in {p.dst}"
            return None
        if not within_vectors(p):
            return f"{p.oc} output channels in {p.groups} groups read channels farther apart than a vector"
        return None

    def accuracy(self, p: ConvProblem, threads: int) -> str:
        return unbroken(p)

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Channels must be contiguous, and so must pixels of a row that share a vector; every other stride must be a
        multiple of an element."""
        shared = 1 < layout.block(1) < WIDEST_BYTES // width and _columns_beside(layout)
        return (not shared or strides[-2] == width * layout.block(1)) and super().takes_strides(
            layout, shape, strides, width
        )

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        """By counting multiplications, those of unused lanes included, and tiles."""
        vectors = _vectors(p, kernel)
        columns, outputs = -(-p.out[-1] // vectors.pixels), p.n * prod(p.out[:-1]) * -(-p.oc // vectors.each)
        rate = flops_per_second(kernel) * self.share / (1 if vectors.pixels == 1 else 2)
        seconds = 2 * kernel.lanes * outputs * columns * p.taps * (p.ic // p.groups) / rate
        if p.kernel[-1] == 1 or p.stride[-1] > 1:
            seconds += self.tile_seconds * outputs * -(-columns // kernel.nr)
        return seconds / threads

    def pack(self, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
        """Filter (O, I/G, *k) -> [vectors][I/G][taps][lanes]; bias -> [vectors][lanes] or None."""
        arrangement = _vectors(p, kernel)
        vectors = _count(p, arrangement)

        def by_lanes(values: np.ndarray) -> np.ndarray:
            padded = np.zeros((vectors * arrangement.each, *values.shape[1:]), values.dtype)
            padded[: p.oc] = values
            one = np.moveaxis(padded.reshape(vectors, arrangement.each, *values.shape[1:]), 1, -1)
            out = empty((*one.shape[:-1], kernel.lanes), values.dtype, "filter")
            out[...] = 0
            for pixel in range(arrangement.pixels):
                out[..., pixel * arrangement.each : (pixel + 1) * arrangement.each] = one
            return out

        return by_lanes(w.reshape(p.oc, p.ic // p.groups, p.taps)), None if bias is None else by_lanes(bias)

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> core.Depthwise:
        xs, ys = strides_of(p.src, arrays.x_strides), strides_of(p.dst, arrays.y_strides)
        vectors, block = _vectors(p, kernel), p.dst.block(1)
        whole = p.types.src.itemsize * vectors.run
        x_run, y_run = (xs[1][0].stride, ys[1][0].stride) if block > 1 else (whole, whole)
        x_strides, y_strides = ((s[0][0].stride, r, *spatial_strides(s)) for s, r in ((xs, x_run), (ys, y_run)))
        return core.Depthwise(
            LoopNest(kernel.name, geometry(p), threads, x_strides, y_strides), p.oc, -(-p.oc // block) * block,
            vectors.run, vectors.each, vectors.pixels, _lanes(p, vectors, kernel.lanes), block == 1,
        )  # fmt: skip


class Depthwise(ChannelVectors):
    """One input channel a group."""

    name, share = "depthwise", 0.6

    def supports(self, p: ConvProblem) -> str | None:
        if p.groups != p.ic:
            return f"{p.ic} input channels in {p.groups} groups are not one channel a group"
        return super().supports(p)

    def redundant(self, p: ConvProblem) -> bool:
        """Where strips support the same layouts, except for 3x3: there either may be faster."""
        own, strips = self.natives(p), Strips().natives(p)
        return p.taps != 9 and isinstance(own, list) and isinstance(strips, list) and own[0] in strips


class _Vectors(NamedTuple):
    """What a vector holds, and how many channels are contiguous."""

    pixels: int
    each: int  # channels
    run: int


def _vectors(p: ConvProblem, kernel: Kernel) -> _Vectors:
    lanes, block = kernel.lanes, p.dst.block(1)
    if block == 1:
        return _Vectors(1, lanes, RUN_BYTES // p.types.src.itemsize)
    if block < lanes:
        beside = p.stride[-1] == 1 and _columns_beside(p.src) and _columns_beside(p.dst)
        return _Vectors(lanes // block if beside else 1, block, block)
    return _Vectors(1, lanes, block)


def _columns_beside(layout: Layout) -> bool:
    """Whether the blocks of neighbouring columns are adjacent in memory in a contiguous array."""
    return layout.factors[-2].dim == layout.rank - 1


def _count(p: ConvProblem, vectors: _Vectors) -> int:
    """The number of vectors of output channels, in whole runs."""
    return -(-p.oc // vectors.run) * vectors.run // vectors.each


def _lanes(p: ConvProblem, layout: _Vectors, lanes: int):
    """What each vector reads and writes, as `core.Depthwise` takes it."""
    depth, block, count = p.ic // p.groups, p.dst.block(1), _count(p, layout)
    vectors, lane = np.arange(count)[:, None], np.arange(lanes)
    used = lane < layout.each * layout.pixels
    channel = vectors * layout.each + lane % layout.each
    bits = np.uint32(1) << lane.astype(np.uint32)

    def mask(which: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((which * bits).sum(-1, dtype=np.uint32))

    every = np.uint32((1 << lanes) - 1)
    y_lanes = mask(used & (channel < -(-p.oc // block) * block))
    if depth == 1 and p.oc == p.ic:
        x_lanes = mask(used & (channel < p.oc))[:, None].copy()
        x_at = order = None
    else:
        windows = windows_of(p, layout.each, count, lanes)
        assert windows is not None  # else `supports` says no
        reads = channel[:, None] // (p.oc // p.groups) * depth + np.arange(depth)[:, None] - windows[..., None]
        valid = (used & (channel < p.oc))[:, None] & np.ones((depth, 1), bool)
        # a pad permutes its own lane, which is masked to 0: 0 times an Inf of another lane would be NaN
        order = np.where(valid, reads + lane // layout.each * layout.each * (layout.pixels > 1), lane).astype(np.int32)
        at = lane % block if layout.pixels > 1 else lane
        readable = (windows[..., None] + at < p.ic) & valid.any(-1, keepdims=True)
        if block > 1:  # only channels of this block, not of the next one
            readable &= (windows % block)[..., None] + at < block
        x_lanes = mask(readable)
        x_at = np.ascontiguousarray(p.types.src.itemsize * (windows if block == 1 else windows % block), np.int64)
    full = ((y_lanes == every) & (x_lanes == every).all(1)).astype(np.uint32)
    if order is not None:
        full[full.astype(bool) & (order == order[..., :1]).all((1, 2))] = ONE_LANE
    return y_lanes, x_lanes, full, x_at, order
