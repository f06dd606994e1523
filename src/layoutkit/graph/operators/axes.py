"""Operators along axes: in a permuted layout they are the same, with the axes renumbered."""

from __future__ import annotations

from math import prod

import numpy as np

from ..._core.nests.element_types import COMPARED
from ..._core.nests.reductions.places import BestAlong
from ...choosing.threads import check_threads
from .base import Follows, constants, mean, normal, operator, physical_axes, required, result, same_shape


def _follow_axis(attributes, layout, shapes):
    rank = layout.rank
    place = physical_axes(layout)[normal(attributes.get("axis", 0), rank, attributes["op"])]
    return None if place is None else {**attributes, "axis": place}


def _follow_concat(attributes, layout, shapes):
    """Blocked inputs are concatenated block by block if every one of them fills its blocks."""
    axis = normal(attributes["axis"], layout.rank, "Concat")
    factors = [f for f in layout.factors if f.dim == axis]
    if len(factors) > 1 and any(shape[axis] % prod(f.size for f in factors[1:]) for shape in shapes):
        return None
    return {**attributes, "axis": next(i for i, f in enumerate(layout.factors) if f.dim == axis)}


def _concat_shape(node, inputs):
    shapes = [required(x).shape for x in inputs]
    axis = normal(node.attributes["axis"], len(shapes[0]), "Concat")
    rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rest) > 1:
        raise ValueError(f"they differ in other axes than {axis}")
    shape = list(shapes[0])
    shape[axis] = sum(s[axis] for s in shapes)
    return [(required(inputs[0]).dtype, shape)]


@operator("Concat", kind=Follows.FOLLOWS, follow=_follow_concat, shape=_concat_shape, moves=True)
def _concat(inputs, attributes):
    return [np.concatenate([np.asarray(x) for x in inputs], attributes["axis"])]


def _follow_split(attributes, layout, shapes):
    """A blocked array is split between blocks."""
    axis, sizes = normal(attributes.get("axis", 0), layout.rank, "Split"), attributes.get("split")
    factors = [f for f in layout.factors if f.dim == axis]
    block = prod(f.size for f in factors[1:])
    if sizes is None or any(n % block for n in sizes):
        return None
    at = next(i for i, f in enumerate(layout.factors) if f.dim == axis)
    return {**attributes, "axis": at, "split": [n // block for n in sizes]}


def _split_shape(node, inputs):
    x, count = required(inputs[0]), len(node.outputs)
    axis = normal(node.attributes.get("axis", 0), len(x.shape), "Split")
    n, sizes = x.shape[axis], constants(node, inputs, 1, "split")
    each = -(-n // count)
    sizes = [min(each, n - each * i) for i in range(count)] if sizes is None else sizes
    if len(sizes) != count or min(sizes) < 0 or sum(sizes) != n:
        raise ValueError(f"{count} parts of {sizes} of an axis of {n}")
    return [(x.dtype, (*x.shape[:axis], s, *x.shape[axis + 1 :])) for s in sizes]


@operator("Split", kind=Follows.FOLLOWS, follow=_follow_split, shape=_split_shape, moves=True)
def _split(inputs, attributes):
    x, sizes = (*inputs, None)[:2]
    axis = normal(attributes.get("axis", 0), x.ndim, "Split")
    n = x.shape[axis]
    sizes = attributes.get("split") if sizes is None else sizes
    if sizes is None:
        count = attributes["count"]
        each = -(-n // count)
        sizes = [min(each, n - each * i) for i in range(count)]
    sizes = [int(s) for s in sizes]
    if min(sizes, default=0) < 0 or sum(sizes) != n:
        raise ValueError(f"Split: parts of {sizes} of an axis of {n}")
    return np.split(x, np.cumsum(sizes)[:-1], axis)


def _along_axis(node, inputs):
    """Type and shape of the input, which has the axis."""
    normal(node.attributes.get("axis", -1), len(required(inputs[0]).shape), node.op)
    return same_shape(node, inputs)


@operator("Softmax", "LogSoftmax", kind=Follows.FOLLOWS, shape=_along_axis, follow=_follow_axis)
def _softmax(inputs, attributes):
    x = inputs[0]
    axis = normal(attributes.get("axis", -1), x.ndim, attributes["op"])
    y = x - x.max(axis, keepdims=True, initial=-np.inf)
    if attributes["op"] == "LogSoftmax":
        return [y - np.log(np.exp(y).sum(axis, keepdims=True))]
    y = np.exp(y)
    return [y / y.sum(axis, keepdims=True)]


@operator("Hardmax", kind=Follows.FOLLOWS, shape=same_shape, follow=_follow_axis)
def _hardmax(inputs, attributes):
    x = inputs[0]
    axis = normal(attributes.get("axis", -1), x.ndim, "Hardmax")
    one_hot = np.zeros_like(x)
    if x.shape[axis]:
        np.put_along_axis(one_hot, np.expand_dims(x.argmax(axis), axis), 1, axis)
    return [one_hot]


def _limits(dtype):
    """The least and the largest value of a type."""
    if dtype.kind == "b":
        return False, True
    return (-np.inf, np.inf) if dtype.kind not in "iu" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _log_sum_exp(x, axis, keepdims):
    """Relative to the maximum, so that no exponential overflows; a maximum of Inf is the result."""
    most = x.max(axis, keepdims=True, initial=-np.inf)
    most = np.where(np.isfinite(most), most, 0).astype(x.dtype)
    result = np.log(np.exp(x - most).sum(axis, keepdims=True)) + most
    return result if keepdims else result.squeeze(axis)


REDUCTIONS = {
    "ReduceSum": np.sum, "ReduceMean": mean, "ReduceProd": np.prod,
    "ReduceMax": lambda x, *a, **k: np.max(x, *a, initial=_limits(x.dtype)[0], **k),
    "ReduceMin": lambda x, *a, **k: np.min(x, *a, initial=_limits(x.dtype)[1], **k),
    "ReduceL1": lambda x, *a, **k: np.abs(x).sum(*a, **k),
    "ReduceL2": lambda x, *a, **k: np.sqrt(np.square(x).sum(*a, **k)),
    "ReduceSumSquare": lambda x, *a, **k: np.square(x).sum(*a, **k),
    "ReduceLogSum": lambda x, *a, **k: np.log(x.sum(*a, **k)),
    "ReduceLogSumExp": lambda x, *a, **k: _log_sum_exp(x, **k),
}  # fmt: skip


def _follow_reduce(attributes, layout, shapes):
    """In another layout only with keepdims, which keeps every axis of the layout."""
    axes, at = attributes.get("axes"), physical_axes(layout)
    if not axes or not attributes.get("keepdims", 1):
        return None
    renamed = [at[normal(a, layout.rank, attributes["op"])] for a in axes]
    return None if None in renamed else {**attributes, "axes": renamed}


def _reduce_shape(node, inputs):
    x, axes, a = required(inputs[0]), constants(node, inputs, 1, "axes"), node.attributes
    rank = len(x.shape)
    if not axes:
        if a.get("noop_with_empty_axes"):
            return [(x.dtype, x.shape)]
        axes = range(rank)
    axes = {normal(int(i), rank, node.op) for i in axes}
    keep = a.get("keepdims", 1)
    return [(x.dtype, [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes])]


@operator(*REDUCTIONS, kind=Follows.FOLLOWS, follow=_follow_reduce, shape=_reduce_shape)
def _reduce(inputs, attributes):
    x = inputs[0]
    axes = inputs[1] if len(inputs) > 1 and inputs[1] is not None else attributes.get("axes")
    if axes is None or not len(axes):
        axes = (
            () if attributes.get("noop_with_empty_axes") else range(x.ndim)
        )  # over no axes squares and logarithms are still taken
    axes = tuple(normal(int(a), x.ndim, attributes["op"]) for a in axes)
    keep = bool(attributes.get("keepdims", 1))
    with np.errstate(all="ignore"):
        return [np.asarray(REDUCTIONS[attributes["op"]](x, axis=axes, keepdims=keep)).astype(x.dtype, copy=False)]


def _arg_shape(node, inputs):
    x, axis = required(inputs[0]), node.attributes.get("axis", 0)
    axis, keep = normal(axis, len(x.shape), node.op), node.attributes.get("keepdims", 1)
    return [(np.int64, [1 if i == axis else n for i, n in enumerate(x.shape) if keep or i != axis])]


@operator("ArgMax", "ArgMin", shape=_arg_shape, into=True)
def _arg(inputs, attributes, out=None):
    x, op, last = inputs[0], attributes["op"], bool(attributes.get("select_last_index"))
    axis = normal(attributes.get("axis", 0), x.ndim, op)
    shape = [1 if i == axis else n for i, n in enumerate(x.shape) if attributes.get("keepdims", 1) or i != axis]
    inner, n = prod(x.shape[axis + 1 :]), x.shape[axis]
    if 0 in shape:
        return [result(out, shape, np.int64)]
    if x.dtype.name in COMPARED and inner > 1 and 0 < n < 1 << 31:
        y = result(out, shape, np.int64)
        flat = np.asarray(x, order="C").reshape(-1, n, inner), y.reshape(-1, inner)
        BestAlong(*flat, op == "ArgMax", last, check_threads(attributes.get("threads")))(*flat)
        return [y]
    find = np.argmax if op == "ArgMax" else np.argmin
    index = n - 1 - find(np.flip(x, axis), axis) if last else find(x, axis)
    return [np.reshape(index, shape)]


def _follow_pad(attributes, layout, shapes):
    """The pads in the order of the physical axes; blocked dimensions must not be padded."""
    pads, at = attributes.get("pads"), physical_axes(layout)
    if pads is None:
        return None
    rank, axes = layout.rank, len(layout.factors)
    moved = [0] * (2 * axes)
    for d in range(rank):
        if at[d] is None:
            if pads[d] or pads[d + rank]:
                return None
        else:
            moved[at[d]], moved[at[d] + axes] = pads[d], pads[d + rank]
    return {**attributes, "pads": moved}


def _pad_shape(node, inputs):
    x, pads, axes = required(inputs[0]), constants(node, inputs, 1, "pads"), constants(node, inputs, 3)
    axes = list(range(len(x.shape))) if axes is None else [normal(int(a), len(x.shape), "Pad") for a in axes]
    if pads is None or len(pads) != 2 * len(axes):
        raise ValueError(f"{pads and len(pads)} pads of {len(axes)} axes")
    value = inputs[2] if len(inputs) > 2 else None
    if value is not None and prod(value.shape) != 1:
        raise ValueError(f"a value of shape {tuple(value.shape)}, expected one number")
    shape = list(x.shape)
    for i, a in enumerate(axes):
        shape[a] += int(pads[i]) + int(pads[i + len(axes)])
    return [(x.dtype, shape)]


@operator("Pad", kind=Follows.FOLLOWS, follow=_follow_pad, shape=_pad_shape)
def _pad(inputs, attributes):
    x, pads, value, axes = (*inputs, None, None, None)[:4]
    pads = [int(n) for n in (attributes["pads"] if pads is None else pads)]
    axes = list(range(x.ndim)) if axes is None else [normal(int(a), x.ndim, "Pad") for a in axes]
    if len(pads) != 2 * len(axes):
        raise ValueError(f"Pad: {len(pads)} pads of {len(axes)} axes")
    pairs = [(0, 0)] * x.ndim
    for i, a in enumerate(axes):
        pairs[a] = pads[i], pads[i + len(axes)]
    mode = attributes.get("mode", "constant")
    value = attributes.get("value", 0) if value is None else np.asarray(value).item()
    return [padded(x, pairs, mode, value)]


def padded(x, pairs, mode, value):
    """An array with so many elements more, or fewer, before and after each axis."""
    more, less = ([(max(0, s * a), max(0, s * b)) for a, b in pairs] for s in (1, -1))
    if mode == "constant":  # pad before cropping: a negative pad may remove more than the input has
        x = np.pad(x, more, constant_values=value)
    elif mode not in ("reflect", "edge", "wrap"):
        raise ValueError(f"Pad: mode {mode!r}: expected constant, reflect, edge or wrap")
    x = x[tuple(slice(a, max(a, n - b)) for n, (a, b) in zip(x.shape, less))]
    return x if mode == "constant" else np.pad(x, more, mode=mode)
