"""Depthwise 3x3 down strips of columns: whole vectors of channels, stride 1 or 2, each input read once.

The fast way to do the usual depthwise convolution; what it does not take (other kernels, dilation, ragged channels)
`depthwise` does.
"""

from __future__ import annotations

from math import gcd, prod

import numpy as np

from ..._core import strips as core
from ..._core.registry import Kernel
from ..geometry import channels_innermost, geometry, spatial_strides, strides_of
from ..order import LANES
from ..problem import ConvProblem
from .sums import Algorithm, rows_strides_ok

WHOLE = max(LANES.values())
NARROW = 4  # columns of the narrowest strip
RATE = 0.75  # of the FMA peak: what the estimate expects
PAGE = 4096  # bytes, after which the sets of the first cache begin anew
FEW = 4  # sets that do not hold the lines of a strip of many rows: its stores wait for one another
SHARED = 7  # rows of a task where there are too few for the threads: 3n + 1 waste nothing


def strips_support(p: ConvProblem) -> str | None:
    """Why `p` does not go by strips on its layouts as they are; None if it does."""
    if p.groups != p.ic or p.oc != p.ic:
        return f"{p.ic} > {p.oc} channels in {p.groups} groups are not one channel a group"
    if p.kernel != (3, 3) or p.dilation != (1, 1) or p.stride not in ((1, 1), (2, 2)):
        return f"strips are for 3x3 with stride 1 or 2, not {p.kernel}, stride {p.stride}, dilation {p.dilation}"
    before, right = p.padding[1][0], (p.out[1] - 1) * p.stride[1] + 3 - p.padding[1][0] - p.size[1]
    if before > 1 or right > 1 or p.out[1] < NARROW:
        return f"strips are for {NARROW} columns and more, padded by one at most, not {p.out[1]}, {p.padding}"
    for layout, side in ((p.src, "input"), (p.dst, "output")):
        if not channels_innermost(layout):
            return f"{side} layout {layout} does not have its channels innermost"
    blocks = {p.src.block(1), p.dst.block(1)} - {1}
    if len(blocks) > 1 or any(b % WHOLE for b in blocks) or p.ic % max([WHOLE, *blocks]):
        return f"{p.ic} channels are no whole vectors in {p.src} and {p.dst}"
    return None


def pack(p: ConvProblem, kernel: Kernel, w: np.ndarray, bias: np.ndarray | None):
    """Filter (C, 1, 3, 3) -> [vectors][3][3][lanes]; the bias as it is."""
    return np.ascontiguousarray(np.swapaxes(w.reshape(-1, LANES[kernel.isa], 9), 1, 2)), bias


def build(p: ConvProblem, kernel: Kernel, threads: int, x_strides, y_strides, gather: bool):
    """Executor for input and output arrays of these byte strides."""
    xs, ys = strides_of(p.src, p.src_shape, x_strides), strides_of(p.dst, p.dst_shape, y_strides)
    blocks = [layout.block(1) for layout in (p.src, p.dst)]
    run = max(blocks) if max(blocks) > 1 else p.oc
    tasks = max(1, p.n * -(-p.oc // run))
    sets = PAGE // gcd(PAGE, xs[3][0].stride, ys[3][0].stride)  # of the first cache, that a vector's pixels fall into
    rows = max(2, sets) if run > WHOLE and sets <= FEW else p.out[0]
    if tasks * -(-p.out[0] // rows) % threads:
        rows = min(rows, SHARED)
    chunks = -(-p.out[0] // rows)

    def strides(ds, block: int) -> tuple[int, ...]:
        return (ds[0][0].stride, ds[1][0].stride if block > 1 else 4 * run, *spatial_strides(ds)[1:])

    return core.Strips(
        kernel.name, geometry(p), threads, strides(xs, blocks[0]), strides(ys, blocks[1]), p.oc, run, chunks
    )


def estimate(p: ConvProblem, kernel: Kernel, lanes: int, peak: float, threads: int) -> float:
    """Seconds, by counting multiplications."""
    return 18 * p.n * p.oc * prod(p.out) / (peak * threads * RATE)


STRIPS = Algorithm("depthwise", False, "channels", strips_support, pack, build, rows_strides_ok, "strips",
                   variant="strips", family="strips", estimate=estimate)  # fmt: skip
