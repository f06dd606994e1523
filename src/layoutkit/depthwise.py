"""Depthwise convolutions: as many groups as input channels, each output channel reads one.

Natively on channels innermost (NHWC, nChw16c, nChw8c). Vectors of the pixels of NCHW were tried: rows that begin and
end in the middle of a vector, unaligned ones for every tap, and no use of a load for two taps made them two to four
times slower than a reorder to NHWC and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ._core import depthwise as core
from ._core.registry import Kernel
from .algorithms import LANES, Algorithm, rows_strides_ok
from .arrays import empty
from .geometry import channels_innermost, geometry, spatial_strides, strides_of
from .layout import Layout
from .problem import ConvProblem

RUN = 64  # channels that a task takes of an NHWC pixel: four lines, so that what the next row reads again is in L1
RATE = 0.6  # of the FMA peak: what the estimate expects


def support(p: ConvProblem) -> str | None:
    """Why the layouts of `p` cannot be convolved by vectors of channels; None if they can."""
    if p.groups != p.ic:
        return f"{p.ic} input channels in {p.groups} groups are not one channel a group"
    for layout, side in ((p.src, "input"), (p.dst, "output")):
        if not channels_innermost(layout):
            return f"{side} layout {layout} does not have its channels innermost"
    if p.src.block(1) != p.dst.block(1):
        return f"input layout {p.src} and output layout {p.dst} have different blocks of channels"
    if p.src.block(1) > 1:
        if p.oc != p.ic:
            return f"channels multiplied by {p.oc // p.ic} lie in other blocks in {p.dst}"
        if p.src.block(1) not in (8, 16, 32, 64):
            return f"blocks of {p.src.block(1)} channels are no whole vectors"
    return None


class _Vectors(NamedTuple):
    """What a vector holds, and how many channels lie together."""

    pixels: int
    each: int  # channels
    run: int


def _vectors(p: ConvProblem, kernel: Kernel) -> _Vectors:
    lanes, block = LANES[kernel.isa], p.dst.block(1)
    if block == 1:
        return _Vectors(1, lanes, RUN)
    if block < lanes:
        return _Vectors(lanes // block if p.stride[-1] == 1 else 1, block, block)
    return _Vectors(1, lanes, block)


def pack(p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
    """Filter (O, 1, *k) -> [vectors][rows of taps][kw][lanes], bias -> [vectors][lanes] or None."""
    found = _vectors(p, kernel)
    vectors = -(-p.oc // found.run) * found.run // found.each

    def lanes(values: np.ndarray) -> np.ndarray:
        padded = np.zeros((vectors * found.each, values.shape[1]), np.float32)
        padded[: p.oc] = values
        one = padded.reshape(vectors, found.each, values.shape[1]).transpose(0, 2, 1)
        out = empty((vectors, values.shape[1], LANES[kernel.isa]), np.dtype(np.float32), "filter")
        out[...] = 0
        for pixel in range(found.pixels):
            out[:, :, pixel * found.each : (pixel + 1) * found.each] = one
        return out

    return lanes(w.reshape(p.oc, prod(p.kernel))), None if bias is None else lanes(bias.reshape(p.oc, 1))


def build(p: ConvProblem, kernel: Kernel, threads: int, x_strides, y_strides, gather: bool):
    """Executor for input and output arrays of these byte strides."""
    xs, ys = strides_of(p.src, p.src_shape, x_strides), strides_of(p.dst, p.dst_shape, y_strides)
    found, block = _vectors(p, kernel), p.dst.block(1)
    if block > 1:
        x_run, y_run = xs[1][0].stride, ys[1][0].stride
    else:
        x_run = y_run = 4 * found.run
    return core.Depthwise(
        kernel.name, geometry(p), threads,
        (xs[0][0].stride, x_run, *spatial_strides(xs)), (ys[0][0].stride, y_run, *spatial_strides(ys)),
        p.oc, -(-p.oc // block) * block, found.run, found.each, found.pixels, p.oc // p.ic,
    )  # fmt: skip


def strides_ok(layout: Layout, strides: Sequence[int], shape: Sequence[int]) -> bool:
    """Channels run dense, in blocks the pixels of a row as well; every other stride is whole floats."""
    dense = layout.block(1) == 1 or strides[-2] == 4 * layout.block(1)
    return dense and rows_strides_ok(layout, strides, shape)


def estimate(p: ConvProblem, kernel: Kernel, lanes: int, peak: float, threads: int) -> float:
    """Seconds, by counting multiplications with the lanes that go empty."""
    found = _vectors(p, kernel)
    columns, outputs = -(-p.out[-1] // found.pixels), p.n * prod(p.out[:-1]) * -(-p.oc // found.each)
    rate = peak * threads * (RATE if p.oc == p.ic and found.pixels == 1 else RATE / 2)
    return 2 * lanes * outputs * columns * prod(p.kernel) / rate


DEPTHWISE = Algorithm("depthwise", False, "channels", support, pack, build, strides_ok, "depthwise",
                      family="depthwise", estimate=estimate)  # fmt: skip
