"""Operators that move elements: most depend on the order of elements in the model's layout."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import Node
from .base import DataDependent, Follows, applied, constants, normal, operator, physical_axes, required, same_shape


def _reshape_shape(node, inputs):
    x, shape = required(inputs[0]), constants(node, inputs, 1)
    shape = [int(n) for n in shape or ()]
    if not node.attributes.get("allowzero"):
        shape = [x.shape[i] if n == 0 else n for i, n in enumerate(shape)]
    if shape.count(-1) == 1:
        rest = prod(n for n in shape if n != -1)
        shape[shape.index(-1)] = prod(x.shape) // rest if rest else 0
    if prod(shape) != prod(x.shape):
        raise ValueError(f"{x.shape} does not become {tuple(shape)}")
    return [(x.dtype, shape)]


@operator("Reshape", shape=_reshape_shape, moves=True)
def _reshape(inputs, attributes):
    x, shape = inputs[0], [int(n) for n in inputs[1]]
    if not attributes.get("allowzero"):
        shape = [x.shape[i] if n == 0 and i < x.ndim else n for i, n in enumerate(shape)]
    return [x.reshape(shape)]


def _flatten_shape(node, inputs):
    x = required(inputs[0])
    return [(x.dtype, _flat(x.shape, node.attributes.get("axis", 1)))]


def _flat(shape, axis):
    """The sizes of the axes before `axis`, and of the rest, multiplied; either may be an empty product."""
    rank = len(shape)
    if not -rank <= axis <= rank:
        raise ValueError(f"axis {axis} of a tensor with {rank} axes, expected {-rank} to {rank}")
    at = axis + rank if axis < 0 else axis
    return prod(shape[:at]), prod(shape[at:])


@operator("Flatten", shape=_flatten_shape, moves=True)
def _flatten(inputs, attributes):
    return [inputs[0].reshape(_flat(inputs[0].shape, attributes.get("axis", 1)))]


def _view_shape(node, inputs):
    """Found by running the operator on a broadcast view of one element."""
    x = required(inputs[0])
    for i in range(1, len(inputs)):
        constants(node, inputs, i)
    values = [np.broadcast_to(np.int8(0), x.shape), *(None if v is None else v.value for v in inputs[1:])]
    return [(x.dtype, applied(node, values)[0].shape)]


@operator("Transpose", shape=_view_shape, moves=True)
def _transpose(inputs, attributes):
    x, perm = inputs[0], attributes.get("perm")  # numpy takes numbers past 32 bits for others
    return [x.transpose(None if perm is None else [normal(int(a), x.ndim, "Transpose") for a in perm])]


def _follow_channels(attributes, layout, shapes):
    axis = physical_axes(layout)[1]
    return None if axis is None else {**attributes, "axis": axis}


@operator("ChannelShuffle", kind=Follows.FOLLOWS, shape=same_shape, follow=_follow_channels, moves=True)
def _channel_shuffle(inputs, attributes):
    """Channel j of group i becomes channel i of group j, as two Reshapes around a Transpose do."""
    x, axis, groups = inputs[0], attributes.get("axis", 1), attributes["group"]
    apart = x.reshape(*x.shape[:axis], groups, -1, *x.shape[axis + 1 :])
    return [apart.swapaxes(axis, axis + 1).reshape(x.shape)]


def _axes(inputs, attributes):
    axes = inputs[1] if len(inputs) > 1 and inputs[1] is not None else attributes.get("axes")
    return None if axes is None else [int(a) for a in np.reshape(axes, -1)]


@operator("Squeeze", shape=_view_shape, moves=True)
def _squeeze(inputs, attributes):
    axes = _axes(inputs, attributes)
    return [np.squeeze(inputs[0], None if axes is None else tuple(axes))]


@operator("Unsqueeze", shape=_view_shape, moves=True)
def _unsqueeze(inputs, attributes):
    return [np.expand_dims(inputs[0], tuple(_axes(inputs, attributes)))]


def _follow_slice(attributes, layout, shapes):
    """Along axes that are not in blocks."""
    if "axes" not in attributes:
        return None
    at, rank = physical_axes(layout), layout.rank
    axes = [at[normal(a, rank, "Slice")] for a in attributes["axes"]]
    return None if None in axes else {**attributes, "axes": axes}


@operator("Slice", kind=Follows.FOLLOWS, shape=_view_shape, follow=_follow_slice, moves=True)
def _slice(inputs, attributes):
    return [inputs[0][tuple(cuts_of(inputs[0].shape, inputs[1:], attributes))]]


def cuts_of(shape, inputs, attributes):
    """By axis what a Slice takes, from its inputs after the first one, or its attributes."""
    lists = dict(zip(("starts", "ends", "axes", "steps"), (None if v is None else v.tolist() for v in inputs)))
    starts, ends, axes, steps = (
        attributes.get(key) if lists.get(key) is None else lists[key] for key in ("starts", "ends", "axes", "steps")
    )
    cut = [slice(None)] * len(shape)
    for i, a in enumerate(range(len(starts)) if axes is None else axes):
        a = normal(int(a), len(shape), "Slice")
        n, step = shape[a], 1 if steps is None else int(steps[i])
        start, stop = (int(v) + n if v < 0 else int(v) for v in (starts[i], ends[i]))
        if attributes.get("of_sequence") and start >= n:
            raise ValueError(f"index {start // (stop - start)} of pieces of an axis of {n}")
        least, most = (0, n) if step > 0 else (-1, n - 1)
        start, stop = min(max(start, 0), most), min(max(stop, least), most)  # numpy's starts go down to -1 backwards
        cut[a] = slice(start, None if stop < 0 else stop, step)
    return cut


@operator("Shape", of_shape=True)
def _shape(inputs, attributes):
    shape = np.array(inputs[0].shape, np.int64)
    return [shape[attributes.get("start", 0) : attributes.get("end")]]


@operator("Size", of_shape=True)
def _size(inputs, attributes):
    return [np.array(inputs[0].size, np.int64)]


def _made_shape(node, inputs):
    for at in (name for name, x in zip(node.inputs, inputs) if x is not None and x.value is None):
        raise DataDependent(f"{node}: its shape depends on data", at)
    if node.op == "Range":
        start, limit, delta = (required(x).value.item() for x in inputs)
        return [(required(inputs[0]).dtype, [max(0, int(np.ceil((limit - start) / delta)))])]
    value = node.attributes.get("value", np.zeros(1, np.float32))
    return [(value.dtype, required(inputs[0]).value.tolist())]


def _along_shape(node, inputs):
    x, b = required(inputs[0]), required(inputs[1])
    behind = len(x.shape) - node.attributes["axis"] - len(b.shape)
    return [(b.dtype, (*(1,) * node.attributes["axis"], *b.shape, *(1,) * behind))]


@operator("AlongAxis", shape=_along_shape, of_shape=True)
def _along_axis(inputs, attributes):
    """The operand of an operator before version 7: its axes are those of the first input from `axis` on."""
    x, b = inputs
    axis = attributes["axis"]
    return [b.reshape((1,) * axis + b.shape + (1,) * (x.ndim - axis - b.ndim))]


@operator("ConstantOfShape", shape=_made_shape)
def _constant_of_shape(inputs, attributes):
    value = attributes.get("value", np.zeros(1, np.float32))
    return [np.full([int(n) for n in inputs[0]], value.reshape(-1)[0], value.dtype)]


@operator("Expand", shape=_view_shape)
def _expand(inputs, attributes):
    x = inputs[0]
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(n) for n in inputs[1])))]


def _tile_shape(node, inputs):
    x, times = required(inputs[0]), constants(node, inputs, 1) or []
    return [(x.dtype, [n * int(t) for n, t in zip(x.shape, times, strict=True)])]


@operator("Tile", shape=_tile_shape)
def _tile(inputs, attributes):
    return [np.tile(inputs[0], [int(n) for n in inputs[1]])]


@operator("Range", shape=_made_shape)
def _range(inputs, attributes):
    start, limit, delta = (x.item() for x in inputs)
    return [np.arange(start, limit, delta, inputs[0].dtype)]


def _blocks_shape(node, inputs):
    x, b = required(inputs[0]), node.attributes["blocksize"]
    n, c, h, w = x.shape
    if node.op == "DepthToSpace":
        if c % b**2:
            raise ValueError(f"{c} channels in blocks of {b} x {b}")
        return [(x.dtype, (n, c // b**2, h * b, w * b))]
    if h % b or w % b:
        raise ValueError(f"{h} x {w} pixels in blocks of {b} x {b}")
    return [(x.dtype, (n, c * b**2, h // b, w // b))]


class Order(NamedTuple):
    """The order of the elements of a tensor: its axes divided into these, and permuted."""

    inner: tuple[int, ...]
    perm: tuple[int, ...]

    def apply(self, x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """The elements of an array in this order, in another shape."""
        return x.reshape(self.inner).transpose(self.perm).reshape(shape)


def order_of(op, attributes, shape, layout=None) -> Order | None:
    """What an operator does to its input, of this logical shape, in the model's layout or another one; None if it would
    divide blocks of channels."""
    rank = len(shape)
    if op == "Transpose":
        perm = tuple(int(axis) for axis in attributes.get("perm") or range(rank)[::-1])
        return Order(tuple(shape), perm) if layout is None else None
    n, c, h, w = shape
    b, first = (
        attributes["blocksize"],
        attributes.get("mode", "DCR") == "DCR",
    )  # the physical_axes in a block come first
    block = 1 if layout is None else layout.block(1)
    if layout is not None and block > 1:
        each = c // b**2 if op == "DepthToSpace" else c
        if not first or each % block or layout.factors[-1].dim != 1:
            return None
        if op == "DepthToSpace":
            return Order((n, b, b, each // block, h, w, block), (0, 3, 4, 1, 5, 2, 6))
        return Order((n, c // block, h // b, b, w // b, b, block), (0, 3, 5, 1, 2, 4, 6))
    if layout is None:
        if op == "DepthToSpace" and first:
            return Order((n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2))
        if op == "DepthToSpace":
            return Order((n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3))
        return Order((n, c, h // b, b, w // b, b), (0, 3, 5, 1, 2, 4) if first else (0, 1, 3, 5, 2, 4))
    if physical_axes(layout) != [0, 3, 1, 2]:
        return None
    if op == "DepthToSpace" and first:
        return Order((n, h, w, b, b, c // b**2), (0, 1, 3, 2, 4, 5))
    if op == "DepthToSpace":
        return Order((n, h, w, c // b**2, b, b), (0, 1, 4, 2, 5, 3))
    return Order((n, h // b, b, w // b, b, c), (0, 1, 3, 2, 4, 5) if first else (0, 1, 3, 5, 2, 4))


def _follow_blocks(attributes, layout, shapes):
    order = order_of(attributes["op"], attributes, shapes[0], layout)
    if order is None:
        return None
    n, c, h, w = shapes[0]
    b = attributes["blocksize"]
    shape = (n, c // b**2, h * b, w * b) if attributes["op"] == "DepthToSpace" else (n, c * b**2, h // b, w // b)
    return {**attributes, "order": order, "physical": layout.physical_shape(shape)}


@operator("DepthToSpace", "SpaceToDepth", kind=Follows.FOLLOWS, shape=_blocks_shape, follow=_follow_blocks, moves=True)
def _blocks(inputs, attributes):
    x, b = inputs[0], attributes["blocksize"]
    if "order" in attributes:
        return [attributes["order"].apply(x, attributes["physical"])]
    n, c, h, w = x.shape
    shape = (n, c // b**2, h * b, w * b) if attributes["op"] == "DepthToSpace" else (n, c * b**2, h // b, w // b)
    return [order_of(attributes["op"], attributes, x.shape).apply(x, shape)]


TO_LAST, TO_FIRST = "to last", "to first"


def channels_moved(node: Node, rank: int) -> str | None:
    """Whether a Transpose moves the channels behind the pixels, or from there before them: then its result is its input
    in another layout."""
    if node.op != "Transpose" or rank not in (3, 4, 5):
        return None
    perm = tuple(node.attributes.get("perm") or ())
    if perm == (0, *range(2, rank), 1):
        return TO_LAST
    return TO_FIRST if perm == (0, rank - 1, *range(1, rank - 1)) else None
