"""Operators that move elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...._core.nests.blend import Interpolation
from ...._core.nests.operation import Operation
from ...._core.nests.reorders import Reorders
from ...._core.nests.take import Take
from ....memory.arrays import reshaped
from ....reorders.binding import compiled
from ...ir import Node
from ...layout.costs import FLOAT, array_type
from ...operators.indices import TAKING, in_layout, indices_of
from ...operators.kernels.moves import ORDERS
from ...operators.layouts import LAST, PLAIN, layouts_of
from ...operators.moves import order_of
from ...operators.resize import resized, taps_of
from .building import Build, Building, Make


def _shuffle(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """As a reorder of groups and the channels of each."""
    kind, of, kept = kinds[0], program.known[node.inputs[0]], program.known[node.outputs[0]].kept
    images, channels, pixels, groups = of.shape[0], of.shape[1], prod(of.shape[2:]), node.attributes["group"]
    each, threads = channels // groups, program.costs.threads
    src, dst = ("abc", "acb") if kind == LAST else ("abcd", "acbd")
    shape = (images * pixels, groups, each) if kind == LAST else (images, groups, each, pixels)
    exchanged = tuple(shape["abcd".index(letter)] for letter in dst)
    at, to = program.operand(node.inputs[0], kind, kept), program.result(node.outputs[0], kind)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        move = compiled(reshaped(x, shape), src, dst, shape, y.reshape(exchanged), threads)
        return Reorders((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, make, (at,), (to,))


def _take(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """Elements by indices along each axis."""
    known, kind, threads = program.known, kinds[0], program.costs.threads
    x, kept = known[node.inputs[0]], known[node.outputs[0]].kept
    indices = indices_of(node, known)
    assert indices is not None
    if kind != PLAIN:
        indices = in_layout(indices, layouts_of(len(x.shape))[kind], x.shape)
        assert indices is not None
    fill = np.array(node.attributes.get("value", 0)).astype(array_type(kept.dtype))
    at, to = program.operand(node.inputs[0], kind, kept), program.result(node.outputs[0], kind, kept)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        lengths = [len(each) for each in indices]
        source = x.reshape((1,) * (len(indices) - x.ndim) + x.shape)
        return Take(x, y, indices, fill, threads, (source, reshaped(y, lengths)))

    program.operation(node, make, (at,), (to,))


def _resize(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    if node.attributes.get("mode", "nearest") == "nearest":
        _take(program, node, kinds)
        return
    known, kind, threads = program.known, kinds[0], program.costs.threads
    shape = known[node.inputs[0]].shape
    along = {
        axis: taps_of(shape[axis], n, ratio, node.attributes)
        for axis, n, ratio in resized(shape, node.attributes, None, None)
    }
    axes = range(min(along), max(along) + 1)
    first = axes.start - (kind == LAST)
    at, to = program.operand(node.inputs[0], kind, FLOAT), program.result(node.outputs[0], kind, FLOAT)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        unit = prod(x.shape[first + len(axes) :])
        return Interpolation(x, y, first, unit, [along.get(axis) for axis in axes], threads)

    program.operation(node, of_whole(make), (at,), (to,))


def _order(program: Building, node: Node, kinds: tuple[int, int]) -> None:
    """The elements in another order."""
    x, kept, kind = program.known[node.inputs[0]], program.known[node.outputs[0]].kept, kinds[0]
    order = order_of(node.op, node.attributes, x.shape, None if kind == PLAIN else layouts_of(len(x.shape))[kind])
    assert order is not None
    src, threads = "abcdefghijkl"[: len(order.inner)], program.costs.threads
    dst, permuted = "".join(src[i] for i in order.perm), tuple(order.inner[i] for i in order.perm)
    at, to = program.operand(node.inputs[0], kind, kept), program.result(node.outputs[0], kind)

    def make(x: np.ndarray, y: np.ndarray) -> Operation:
        move = compiled(reshaped(x, order.inner), src, dst, order.inner, y.reshape(permuted), threads)
        return Reorders((x, y), [] if move is None else [(move[0], 0, 0, 1, 0, move[1])])

    program.operation(node, of_whole(make), (at,), (to,))


def of_whole(make: Make) -> Make:
    """As `make`, for inputs that may be parts of other arrays: these are copied."""

    def bound(x: np.ndarray, y: np.ndarray) -> Operation | Callable[..., None]:
        if x.flags.c_contiguous:
            return make(x, y)
        whole = make(np.empty(x.shape, x.dtype), y)
        return lambda x, y: whole(np.ascontiguousarray(x), y)

    return bound


BUILDS: dict[str, Build] = {
    **dict.fromkeys(TAKING, _take),
    **dict.fromkeys(ORDERS, _order),
    "Resize": _resize,
    "ChannelShuffle": _shuffle,
}
