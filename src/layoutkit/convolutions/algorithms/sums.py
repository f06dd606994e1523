"""The ways to do a convolution: one row each, with what it needs and what it is made of.

An algorithm works on native layouts and packs the filter its own way. `supports` says why it cannot do a
problem, `estimate` what it costs, `build` makes the executor for arrays of exact strides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from ..._core.filter_rows import FilterRows
from ..._core.pixel_rows import PixelRows
from ..._core.registry import Kernel
from ...formats.layout import Layout
from ...memory.arrays import empty
from ...reorders.reorder import reorder
from ...winograd import PAIRS
from .. import order
from ..geometry import (
    channels_innermost,
    contiguous_strides,
    geometry,
    pixels_innermost,
    spatial_strides,
    strides_of,
)
from ..problem import ConvProblem
from . import winograd as winograd_conv

# Bytes of input that a block of rows may span: at least, and at most what stays in L2 beside a filter panel.
ROW_BLOCK = 96 << 10, 384 << 10

GFLOPS = {"portable": 16e9, "avx2": 120e9, "avx512": 240e9}
PANEL = 300 << 10  # bytes of a filter panel past which the sum is split by taps


# ---- pixels as rows: channels innermost on both sides


def rows_support(p: ConvProblem) -> str | None:
    """Why PixelRows cannot run on the layouts of `p` as they are; None if it can."""
    for layout, channels, side in ((p.src, p.ic, "input"), (p.dst, p.oc, "output")):
        if not channels_innermost(layout):
            return f"{side} layout {layout} does not have its channels innermost"
        block = layout.block(1)
        if p.groups > 1 and channels // p.groups % block:
            return f"{channels // p.groups} {side} channels a group are no multiple of the block in {layout}"
    if p.dst.block(1) > 1 and p.dst.block(1) % 8:
        return f"output blocks of {p.dst.block(1)} channels are no multiple of 8"
    return None


def rows_columns(p: ConvProblem) -> int:
    """Output channels of a group that are written, pads included."""
    block = p.dst.block(1)
    return -(-(p.oc // p.groups) // block) * block


def rows_filter_layouts(kernel: Kernel, rank: int) -> tuple[Layout, Layout]:
    """Layouts of a filter (G, O, I, *k) as it comes and as `kernel` reads it; `rank` is that of an OIHW."""
    spatial = "defgh"[: rank - 2]
    return Layout(f"abc{spatial}"), Layout(f"aB{spatial}c{kernel.nr}b")


def rows_pack(p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
    """Filter (O, I/G, *k) -> [G][panels][taps][channels][nr]; bias -> [G][panels][nr] or None."""
    columns, per_group = rows_columns(p), p.oc // p.groups
    panels = -(-columns // kernel.nr)
    plain, layout = rows_filter_layouts(kernel, w.ndim)
    w = w.reshape(p.groups, per_group, *w.shape[1:])
    packed = empty((p.groups, panels, prod(w.shape[2:]), kernel.nr), w.dtype, "filter")
    held = layout.physical_shape(w.shape)
    if held[1] < panels:  # whole panels of pads only
        packed[:, held[1] :] = 0
    if w.size:
        reorder(w, plain, layout, out=packed[:, : held[1]].reshape(held), shape=w.shape)
    if bias is None:
        return packed, None
    padded = np.zeros((p.groups, panels * kernel.nr), np.float32)
    padded[:, :per_group] = bias.reshape(p.groups, per_group)
    return packed, padded


def rows_build(p: ConvProblem, kernel: Kernel, threads: int, x_strides, y_strides, gather: bool):
    """Executor for input and output arrays of these byte strides."""
    xs, ys = strides_of(p.src, p.src_shape, x_strides), strides_of(p.dst, p.dst_shape, y_strides)
    ic, block = p.ic // p.groups, p.src.block(1)
    blocks = max(1, -(-ic // block)) if block > 1 else 1
    run = block if block > 1 else ic
    x_channels = (
        blocks, xs[1][0].stride, run, ic - (blocks - 1) * run,
        ic // block * xs[1][0].stride,
    )  # fmt: skip
    y_block = p.dst.block(1) if p.dst.block(1) > 1 else 0
    y_channels = (rows_columns(p), y_block, ys[1][0].stride)
    panel = 4 * kernel.nr * ic * prod(p.kernel)
    row_block = min(max(panel, ROW_BLOCK[0]), ROW_BLOCK[1])
    return PixelRows(
        kernel.name, geometry(p), threads,
        (xs[0][0].stride, *spatial_strides(xs)), x_channels, (ys[0][0].stride, *spatial_strides(ys)), y_channels,
        gather, row_block, PANEL,
    )  # fmt: skip


def rows_strides_ok(layout: Layout, strides: Sequence[int], shape: Sequence[int]) -> bool:
    """Channels run dense; every other stride is whole floats."""
    return strides[-1] == 4 and all(s % 4 == 0 for s in strides)


# ---- filters as rows: pixels innermost on both sides


def filters_support(p: ConvProblem) -> str | None:
    """Why FilterRows cannot run on the layouts of `p` as they are; None if it can."""
    for layout, side in ((p.src, "input"), (p.dst, "output")):
        if not pixels_innermost(layout):
            return f"{side} layout {layout} does not have its pixels innermost, in order"
    return None


def filters_in_place(p: ConvProblem) -> bool:
    """The input's pixels are the panel: 1x1, stride 1, no padding."""
    return prod(p.kernel) == prod(p.stride) == 1 and not any(map(any, p.padding))


def filters_pack(p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
    """Filter (O, I/G, *k) -> [O][taps][I/G], or as it is where sums go by channel; the bias as it is."""
    taps = prod(w.shape[2:])
    return w if taps == 1 or order.by_channel(p) else reorder(w.reshape(*w.shape[:2], taps), "abc", "acb"), bias


def filters_build(p: ConvProblem, kernel: Kernel, threads: int, x_strides, y_strides, gather: bool):
    """Executor for input and output arrays of these byte strides."""
    xs, ys = strides_of(p.src, p.src_shape, x_strides), strides_of(p.dst, p.dst_shape, y_strides)
    return FilterRows(
        kernel.name, geometry(p), threads,
        (xs[0][0].stride, xs[1][0].stride, *spatial_strides(xs)), (ys[0][0].stride, ys[1][0].stride),
        (p.ic // p.groups, p.oc // p.groups), not gather, order.by_channel(p),
    )  # fmt: skip


def filters_strides_ok(layout: Layout, strides: Sequence[int], shape: Sequence[int]) -> bool:
    """Pixels lie dense; every other stride is whole floats."""
    return tuple(strides[2:]) == contiguous_strides(layout, shape)[2:] and all(s % 4 == 0 for s in strides)


@dataclass(frozen=True)
class Algorithm:
    """A row: what forcing calls it, the layouts it goes through when it cannot take the problem's own."""

    name: str
    gather: bool
    via: str  # native layout (2-D name of it) where a side has to be reordered
    supports: Callable
    pack: Callable
    build: Callable
    strides_ok: Callable
    packing: str  # filters packed alike are packed once
    accuracy: Callable = order.reproducible  # the strictest that allows it, for a problem
    variant: str = ""  # one of several ways that share the name
    estimate: Callable | None = None  # seconds, where they are not those of the problem's flops
    packs: float = 1.0  # what packing takes, in reorders of the filter
    family: str = "gemm"  # of the kernels it runs on
    room: Callable | None = None  # (problem, input's strides) -> the padded copy to read instead, or None
    detour: str = ""  # native layout that may be worth a reorder there and back, though it takes the problem's own


def _filters_direct(p: ConvProblem) -> str | None:
    if not filters_in_place(p):
        return "only 1x1 with stride 1 and no padding reads NCHW without gathering"
    return filters_support(p)


def _winograd(m: int) -> Algorithm:
    name = f"F({m},3)"
    return Algorithm(
        "winograd", False, "channels", partial(winograd_conv.support, m), partial(winograd_conv.pack, m),
        partial(winograd_conv.build, m), rows_strides_ok, f"winograd {name}",
        partial(winograd_conv.accuracy, m), name, partial(winograd_conv.estimate, m),
        packs=winograd_conv.packs(m),
    )  # fmt: skip


ALGORITHMS = (
    Algorithm("direct", False, "channels", rows_support, rows_pack, rows_build, rows_strides_ok, "rows",
              order.by_taps),
    Algorithm("direct", False, "pixels", _filters_direct, filters_pack, filters_build, filters_strides_ok,
              "filters"),
    Algorithm("im2col", True, "channels", rows_support, rows_pack, rows_build, rows_strides_ok, "rows",
              order.by_taps),
    Algorithm("im2col", True, "pixels", filters_support, filters_pack, filters_build, filters_strides_ok,
              "planes"),
    *map(_winograd, PAIRS),
)  # fmt: skip
