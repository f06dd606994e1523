"""Pooling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...._core.nests.images.pooling import PlanePooling, Pooling
from ...._core.nests.operation import Operation
from ...._core.nests.reductions.reduce import Reduction
from ...._core.runtime import registry
from ....memory.arrays import reshaped
from ....reorders.program import vector_bytes
from ...ir import Node
from ...layout.factors import FLOAT
from ...operators.layouts import BLOCKED, PLAIN
from ...operators.pool import counts, window
from .building import ROW_TYPES, Build, Building, contiguously, real_type

Window = tuple[int, int, int, int]  # kernel, stride, dilation, padding before
# Of channels, and of a row of pixels, that are pooled as columns of planes: beyond, windows of pixels are faster than
# those of planes, but for the ones that keep in registers what rows have in common.
MOST_VECTORS, MOST_BYTES = 4, 12 << 10
BY_COLUMN = 3, 5  # taps: pixels of maxima by those of each column are faster, unless they leave most of a vector empty
IN_REGISTERS = [(1, 1, 1), (3, 1, 1), (3, 1, 1)]  # kernel, stride, dilation by axis


def _pooling(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    known, kind = program.known, kinds[0]
    x_shape = known[node.inputs[0]].shape
    spatial = x_shape[2:]
    windows = [(1, 1, 1, 0)] * (5 - len(x_shape))
    means: list[np.ndarray] | None = None
    if node.op.startswith("Global"):
        windows += [(n, 1, 1, 0) for n in spatial]
        average = [np.full(1, 1 / n, np.float32) for n in spatial]
    else:
        taps = window(node.attributes, spatial)
        windows += [(k, s, d, p) for k, s, d, (p, _) in zip(taps.kernel, taps.stride, taps.dilation, taps.pads)]
        average = [np.reciprocal(np.maximum(c, 1), dtype=np.float32) for c in counts(node.attributes, spatial)]
    if "Average" in node.op:
        means = [np.ones(1, np.float32)] * (5 - len(x_shape)) + average
    stored = known[node.inputs[0]].stored_type, known[node.outputs[0]].stored_type
    integers = kind != PLAIN and stored[0].integers and stored[0].dtype == stored[1].dtype
    real = real_type(known[node.outputs[0]]) if kind != PLAIN else FLOAT
    if integers:
        _of_integers(program, node, kind, windows, means)
        return
    operand, result = program.operand(node.inputs[0], kind, real), program.result(node.outputs[0], kind, real)
    threads, types = program.costs.threads, ROW_TYPES[real.dtype]

    six_axes = partial(_six_axes, kind=kind)
    y_shape = known[node.outputs[0]].shape

    def of_planes(x: np.ndarray, y: np.ndarray) -> Operation:
        if node.op.startswith("Global"):
            return Reduction("ReduceMean" if means else "ReduceMax", x, y, list(range(2, x.ndim)), threads)
        five = [reshaped(a, (*a.shape[:2], *(1,) * (5 - a.ndim), *a.shape[2:])) for a in (x, y)]
        return PlanePooling((x, y), five, windows, means, threads)

    def make(x: np.ndarray, y: np.ndarray) -> Operation | Callable[..., None]:
        if kind == PLAIN:
            rows = all(a.strides[-1] == a.itemsize or a.shape[-1] == 1 for a in (x, y))
            rows = rows and (y.flags.c_contiguous or not node.op.startswith("Global"))
            return of_planes(x, y) if rows else contiguously(of_planes, threads)(x, y)
        flat = _flat(six_axes(x, x_shape), six_axes(y, y_shape), windows, means) if types == "f32" else None
        if flat is not None:
            views, moved, factors = flat
            return PlanePooling((x, y), views, moved, factors, threads)
        return Pooling((x, y), (six_axes(x, x_shape), six_axes(y, y_shape)), types, windows, means, threads)

    program.operation(node, make, (operand,), (result,))


def _six_axes(array: np.ndarray, shape: tuple[int, ...], kind: int) -> np.ndarray:
    """With axes image, block of channels, depth, height, width, channel."""
    spatial = (1,) * (5 - len(shape)) + shape[2:]
    blocks = array.shape[1] if kind == BLOCKED else 1
    return reshaped(array, (shape[0], blocks, *spatial, array.shape[-1]))


def _of_integers(
    program: Building, node: Node, kind: int, windows: list[Window], means: list[np.ndarray] | None
) -> None:
    """Append the step that pools bytes, which stand for numbers, to bytes of the same type."""
    known, threads = program.known, program.costs.threads
    x_of, y_of = known[node.inputs[0]], known[node.outputs[0]]
    x_stored, y_stored = x_of.stored_type, y_of.stored_type
    meaning = x_stored.zero_point, x_stored.scale / y_stored.scale, y_stored.zero_point

    def make(x: np.ndarray, y: np.ndarray) -> Pooling:
        views = _six_axes(x, x_of.shape, kind), _six_axes(y, y_of.shape, kind)
        return Pooling((x, y), views, ROW_TYPES[x_stored.dtype], windows, means, threads, meaning)

    program.operation(node, make, (program.operand(node.inputs[0], kind),), (program.result(node.outputs[0], kind),))


def _flat(
    x: np.ndarray, y: np.ndarray, windows: list[Window], means: list[np.ndarray] | None
) -> tuple[list[np.ndarray], list[Window], list[np.ndarray] | None] | None:
    """Few channels, which lie together, as columns of planes: a pixel further is so many columns further. The views,
    windows and means of `PlanePooling`; None where that is not possible, or slower.

    `x` and `y`: image, block of channels, depth, height, width, channel.
    """
    channels, (taps, step, dilation, before) = x.shape[-1], windows[-1]
    lanes = vector_bytes(registry.isa()) // x.itemsize
    if step != 1 or not y.size or (means is None and y.shape[-2] == 1):
        return None  # means of one column, too, are summed in the order of wider images, of which it may be a tile
    if means is None and channels >= lanes and dilation == 1 and taps in BY_COLUMN:
        return None
    small = channels <= MOST_VECTORS * lanes and x.strides[3] <= MOST_BYTES
    if not small and [window[:3] for window in windows] != IN_REGISTERS:
        return None
    if any(a.strides[-1] != a.itemsize or a.strides[-2] != channels * a.itemsize for a in (x, y)):
        return None
    five = [reshaped(a, (*a.shape[:-2], a.shape[-2] * channels)) for a in (x, y)]
    if means is not None:
        means = [*means[:-1], np.repeat(np.broadcast_to(means[-1], y.shape[-2]), channels)]
    return five, [*windows[:-1], (taps, 1, dilation * channels, before * channels)], means


BUILDS: dict[str, Build] = dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _pooling)
