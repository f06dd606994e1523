"""Operators that move elements: most depend on the order of elements in the model's layout."""

from __future__ import annotations

from math import prod

import numpy as np

from .base import DataDependent, Follows, applied, constants, normal, operator, places, required, same_shape


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
    axis = places(layout)[1]
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


@operator("Slice", shape=_view_shape, moves=True)
def _slice(inputs, attributes):
    x, starts, ends, axes, steps = (*inputs, None, None, None, None)[:5]
    starts, ends = (attributes[key] if v is None else v for v, key in ((starts, "starts"), (ends, "ends")))
    axes = attributes.get("axes") if axes is None else axes
    axes = range(len(starts)) if axes is None else [int(a) for a in axes]
    cut = [slice(None)] * x.ndim
    for i, a in enumerate(axes):
        a = normal(a, x.ndim, "Slice")
        n, step = x.shape[a], 1 if steps is None else int(steps[i])
        start, stop = (int(v) + n if v < 0 else int(v) for v in (starts[i], ends[i]))
        least, most = (0, n) if step > 0 else (-1, n - 1)
        start, stop = min(max(start, 0), most), min(max(stop, least), most)  # numpy's starts go down to -1 backwards
        cut[a] = slice(start, None if stop < 0 else stop, step)
    return [x[tuple(cut)]]


def _gather_shape(node, inputs):
    x, at = required(inputs[0]), required(inputs[1])
    axis = normal(node.attributes.get("axis", 0), len(x.shape), "Gather")
    return [(x.dtype, (*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]))]


@operator("Gather", shape=_gather_shape)
def _gather(inputs, attributes):
    return [np.take(inputs[0], inputs[1], attributes.get("axis", 0))]


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


@operator("DepthToSpace", shape=_blocks_shape, moves=True)
def _depth_to_space(inputs, attributes):
    x, b = inputs[0], attributes["blocksize"]
    n, c, h, w = x.shape
    if attributes.get("mode", "DCR") == "DCR":
        y = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return [y.reshape(n, c // b**2, h * b, w * b)]


@operator("SpaceToDepth", shape=_blocks_shape, moves=True)
def _space_to_depth(inputs, attributes):
    x, b = inputs[0], attributes["blocksize"]
    n, c, h, w = x.shape
    order = (0, 3, 5, 1, 2, 4) if attributes.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(order)
    return [y.reshape(n, c * b**2, h // b, w // b)]
