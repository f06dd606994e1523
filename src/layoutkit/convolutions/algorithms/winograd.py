"""Winograd as an algorithm of convolution: what it supports, how the filter is packed, how the work is cut."""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core import registry
from ..._core import winograd as core
from ..._core.registry import Kernel
from ...choosing import machine
from ...memory.arrays import empty
from ...winograd import as_array, kernel_table, paired
from ..geometry import channels_innermost, geometry, spatial_strides, strides_of
from ..problem import ConvProblem

FEW_CHANNELS = 32
GROUP = 24 * 36  # products times tiles of a group
FEW = 12  # tiles: a group of fewer leaves rows of the gemm tile empty
BLOCK = 128  # output channels

# Bytes a second: of a filter met in memory or in the last cache, of the transforms on one core.
MEMORY, CACHE, L2 = 30e9, 35e9, 60e9
PACK = 0.7  # of a packed element, in reorders of one


def tile(p: ConvProblem, m: int) -> tuple[int, int]:
    """The tile of outputs: m x m, or 1 x m where the filter is one row."""
    return (m if geometry(p).kernel[1] == 3 else 1), m


def support(m: int, p: ConvProblem) -> str | None:
    """Why F(m x m, 3x3) cannot do `p` on its layouts as they are; None if it can."""
    g = geometry(p)
    kernel = "x".join(map(str, p.kernel))
    if g.kernel[1:] not in ((3, 3), (1, 3)):
        return f"winograd is for kernels of 3 and 3x3, not of {kernel}"
    if g.stride[1:] != (1, 1):
        return f"winograd is for stride 1, not {p.stride}"
    if g.dilation[2] != 1 or g.dilation[1] != 1 < g.kernel[1]:
        return f"winograd is for dilation 1, not {p.dilation}"
    for layout, channels, side in ((p.src, p.ic, "input"), (p.dst, p.oc, "output")):
        block = layout.block(1)
        if not channels_innermost(layout) or (block > 1 and block % 8):
            return f"{side} layout {layout} does not have its channels innermost, whole or in blocks of 8 or 16"
        if p.groups > 1 and channels // p.groups % block:
            return f"{channels // p.groups} {side} channels a group are no multiple of the block in {layout}"
    return None


def accuracy(m: int, p: ConvProblem) -> str:
    """The strictest accuracy that allows it: direct summation over few channels rounds little, F(4,3) does not."""
    if m == 2 or (m == 4 and p.ic // p.groups >= FEW_CHANNELS):
        return "standard"
    return "fast"


def columns(p: ConvProblem) -> int:
    """Output channels of a group that are written, pads included."""
    block = p.dst.block(1)
    return -(-(p.oc // p.groups) // block) * block


def pack(m: int, p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
    """Filter (O, I/G, *k) -> [G][products][panels][depth][channels][nr]; bias -> [G][panels * nr] or None."""
    g, per_group = geometry(p), p.oc // p.groups
    panels = -(-columns(p) // kernel.nr)
    mh, _ = tile(p, m)
    gw = as_array(paired(m).G)
    gh = gw if mh > 1 else np.ones((1, 1))
    shape = (p.groups, len(gh) * len(gw), panels, g.kernel[0], w.shape[1], kernel.nr)
    packed = empty(shape, np.dtype(np.float32), "filter")
    core.pack(w.reshape(*w.shape[:2], *g.kernel), gh, gw, packed)
    if bias is None:
        return packed, None
    padded = np.zeros((p.groups, panels * kernel.nr), np.float32)
    padded[:, :per_group] = bias.reshape(p.groups, per_group)
    return packed, padded


def _counts(p: ConvProblem, m: int) -> tuple[int, int, int]:
    """Tiles of the output, products of a tile, bytes of the packed filter but for its tails."""
    g = geometry(p)
    mh, mw = tile(p, m)
    tiles = p.n * g.out[0] * -(-g.out[1] // mh) * -(-g.out[2] // mw)
    products = (mh + 2 if mh > 1 else 1) * (mw + 2)
    return tiles, products, 4 * products * p.ic * g.kernel[0] * (p.oc // p.groups)


def cut(p: ConvProblem, m: int, kernel: Kernel, threads: int) -> tuple[int, int]:
    """Into how many groups the tiles are cut, and into how many blocks the output channels.

    The filter is read once per group, from the cache that holds it: groups are as large as hides that, and as
    small as keeps V and M in L2 beside it. Each thread shall have its share of the tasks.
    """
    tiles, products, filter_bytes = _counts(p, m)
    panels = max(1, -(-columns(p) // kernel.nr))
    rows = max(12, GROUP // products // 12 * 12)
    if filter_bytes > machine.last_level_cache() // 2:
        rows *= 2
    groups, blocks = max(1, -(-tiles // rows)), max(1, panels * kernel.nr // BLOCK)
    if p.groups * groups * blocks % threads:
        even = -(-groups // threads) * threads
        if tiles // even >= FEW or panels < threads:
            groups = min(even, max(1, tiles))
        else:
            blocks = min(panels, -(-blocks // threads) * threads)
    return groups, blocks


def estimate(m: int, p: ConvProblem, kernel: Kernel, lanes: int, flops: float, threads: int) -> float:
    """Seconds on `threads` that do `flops` a second each, in vectors of `lanes`."""
    tiles, products, filter_bytes = _counts(p, m)
    groups, _ = cut(p, m, kernel, threads)
    depth = p.ic // p.groups * geometry(p).kernel[0]
    per_group = -(-columns(p) // lanes) * lanes
    multiply = 2 * products * tiles * p.groups * (depth + 12) * per_group / (flops * threads)
    far = filter_bytes > machine.last_level_cache() // 2
    stream = groups * filter_bytes / (MEMORY if far else CACHE)
    moved = 4 * (products + prod(tile(p, m))) * tiles * p.groups * (depth + per_group)
    return max(multiply, stream) + moved / (L2 * threads)


def packs(m: int) -> float:
    """What `pack` takes, in reorders of the filter: as many times the elements, and arithmetic."""
    return ((m + 2) / 3) ** 2 * PACK


def build(m: int, p: ConvProblem, kernel: Kernel, threads: int, x_strides, y_strides, gather: bool):
    """Executor for input and output arrays of these byte strides."""
    g = geometry(p)
    xs, ys = strides_of(p.src, p.src_shape, x_strides), strides_of(p.dst, p.dst_shape, y_strides)
    ic, block, cols, y_block = p.ic // p.groups, p.src.block(1), columns(p), p.dst.block(1)
    held = -(-ic // block) * block
    mh, mw = tile(p, m)
    names = tuple(registry.find(f, kernel.types, kernel.isa, mh, mw).name for f in ("winograd_in", "winograd_out"))
    return core.Winograd(
        kernel.name, names, [float(k) for k in kernel_table(m)], g, threads,
        (xs[0][0].stride, *spatial_strides(xs)), ic,
        (held, block if block > 1 else max(1, held), xs[1][0].stride, ic // block * xs[1][0].stride),
        (ys[0][0].stride, *spatial_strides(ys)),
        (cols, y_block, ys[1][0].stride) if y_block > 1 else (cols, max(1, cols), 4 * max(1, cols)),
        *cut(p, m, kernel, threads),
    )  # fmt: skip
