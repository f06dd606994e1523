"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...._core.nests.axes import is_contiguous
from ...._core.nests.images.blend import Interpolation
from ...._core.nests.moves.reorder_operation import ReorderOperation
from ...._core.nests.moves.take import Take
from ...._core.nests.operation import Operation
from ....memory.arrays import reshaped
from ....reorders.binding import compiled
from ...ir import Node
from ...layout.factors import array_type
from ...operators.indices import in_layout, indices_of
from ...operators.kernels.moves import ORDERS, TAKEN
from ...operators.layouts import LAST, PLAIN, layouts_of
from ...operators.moves import order_of
from ...operators.resize import resized, sampling_weights
from .building import ROW_TYPES, Build, Building, contiguously, real_type


def _shuffle(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """As a reorder of groups and the channels of each."""
    kind, x_shape, stored = kinds[0], program.known[node.inputs[0]].shape, program.known[node.outputs[0]].stored_type
    (images, channels), pixels, groups = x_shape[:2], prod(x_shape[2:]), node.attributes["group"]
    each, threads = channels // groups, program.costs.threads
    src, dst = ("abc", "acb") if kind == LAST else ("abcd", "acbd")
    shape = (images * pixels, groups, each) if kind == LAST else (images, groups, each, pixels)
    permuted = tuple(shape["abcd".index(letter)] for letter in dst)
    operand, result = program.operand(node.inputs[0], kind, stored), program.result(node.outputs[0], kind)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        move = compiled(reshaped(x, shape), src, dst, shape, y.reshape(permuted), threads)
        return ReorderOperation((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, make, (operand,), (result,))


def take(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """Elements by indices along each axis."""
    known, kind, threads = program.known, kinds[0], program.costs.threads
    x, stored = known[node.inputs[0]], known[node.outputs[0]].stored_type
    indices = indices_of(node, known)
    assert indices is not None
    if kind != PLAIN:
        indices = in_layout(indices, layouts_of(x)[kind], x.shape)
        assert indices is not None
    fill = np.array(node.attributes.get("value", 0)).astype(array_type(stored.dtype))
    operand, result = program.operand(node.inputs[0], kind, stored), program.result(node.outputs[0], kind, stored)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        lengths = [len(of_axis) for of_axis in indices]
        source = x.reshape((1,) * (len(indices) - x.ndim) + x.shape)
        return Take(x, y, indices, fill, threads, (source, reshaped(y, lengths)))

    program.operation(node, make, (operand,), (result,))


def _resize(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    if node.attributes.get("mode", "nearest") == "nearest":
        take(program, node, kinds)
        return
    known, kind, threads = program.known, kinds[0], program.costs.threads
    shape = known[node.inputs[0]].shape
    along = {
        axis: sampling_weights(shape[axis], n, ratio, node.attributes)
        for axis, n, ratio in resized(shape, node.attributes, None, None)
    }
    axes = range(min(along), max(along) + 1)
    first = axes.start - (kind == LAST)
    real = real_type(known[node.outputs[0]])
    operand, result = program.operand(node.inputs[0], kind, real), program.result(node.outputs[0], kind, real)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        inner = first + len(axes)
        taps, types = [along.get(axis) for axis in axes], ROW_TYPES[real.dtype]
        return Interpolation(x, y, first, prod(x.shape[inner:]), taps, threads, types)

    def bound(x: np.ndarray, y: np.ndarray) -> Operation | Callable[..., None]:
        inner = first + len(axes)
        in_place = x.flags.c_contiguous and is_contiguous(y.shape[inner:], y.strides[inner:], y.itemsize)
        return make(x, y) if in_place else contiguously(make, threads)(x, y)

    program.operation(node, bound, (operand,), (result,))


def _order(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """The elements in another order, by a reorder."""
    x, stored, kind = program.known[node.inputs[0]], program.known[node.outputs[0]].stored_type, kinds[0]
    order = order_of(node.op, node.attributes, x.shape, None if kind == PLAIN else layouts_of(x)[kind])
    assert order is not None
    src, threads = "abcdefghijkl"[: len(order.inner)], program.costs.threads
    dst, permuted = "".join(src[i] for i in order.perm), tuple(order.inner[i] for i in order.perm)
    operand, result = program.operand(node.inputs[0], kind, stored), program.result(node.outputs[0], kind)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        move = compiled(reshaped(x, order.inner), src, dst, order.inner, y.reshape(permuted), threads)
        return ReorderOperation((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, contiguously(make, threads), (operand,), (result,))


BUILDS: dict[str, Build] = {
    **dict.fromkeys(TAKEN, take),
    **dict.fromkeys(ORDERS, _order),
    "Resize": _resize,
    "ChannelShuffle": _shuffle,
}
