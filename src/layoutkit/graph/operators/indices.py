"""Operators that select elements of their input by constant indices along each axis, and these indices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...formats.layout import Layout
from ..ir import Node
from .axes import padded
from .base import FAULTS, Known, normal, physical_axes
from .moves import cuts_of
from .resize import check_resize, resized, sampling_weights

FILLED = -1  # an index: there is no element, but a constant
Indices = list[np.ndarray]  # by axis
TAKING = "Slice", "Pad", "Resize", "Expand", "Tile", "Gather"


def indices_of(node: Node, known: Mapping[str, Known]) -> Indices | None:
    """The indices of the input along each axis that make the result; None if they depend on data, or if the node does
    not only take elements. The input of an Expand gets axes of 1 in front."""
    x, y = known[node.inputs[0]], known[node.outputs[0]]
    inputs = [known[name].value if name else None for name in node.inputs[1:]]
    if node.op not in TAKING or any(name and v is None for name, v in zip(node.inputs[1:], inputs)):
        return None
    try:
        indices = _INDICES[node.op](node, x, y, inputs)
    except FAULTS:  # the operator itself says what is wrong
        return None
    return None if indices is None else [np.asarray(at, np.int64) for at in indices]


def _slice(node, x, y, inputs):
    return [np.arange(n)[cut] for n, cut in zip(x.shape, cuts_of(x.shape, inputs, node.attributes))]


def _pad(node, x, y, inputs):
    pads, mode = node.attributes.get("pads"), node.attributes.get("mode", "constant")
    if inputs or len(pads) != 2 * len(x.shape):
        return None
    pairs = list(zip(pads, pads[len(x.shape) :]))
    return [padded(np.arange(n), [pair], mode, FILLED) for n, pair in zip(x.shape, pairs)]


def _resize(node, x, y, inputs):
    a = node.attributes
    if a.get("mode", "nearest") != "nearest" or "along" not in a:
        return None
    check_resize(a)
    indices = [np.arange(n) for n in x.shape]
    for axis, n, ratio in resized(x.shape, a, None, None):
        indices[axis] = sampling_weights(x.shape[axis], n, ratio, a)[0][0]
    return indices


def _expand(node, x, y, inputs):
    shape = (1,) * (len(y.shape) - len(x.shape)) + x.shape
    return [np.arange(m) if n == m else np.zeros(m, np.int64) for n, m in zip(shape, y.shape, strict=True)]


def _tile(node, x, y, inputs):
    return [np.tile(np.arange(n), m // n if n else 1) for n, m in zip(x.shape, y.shape, strict=True)]


def _gather(node, x, y, inputs):
    axis, at = normal(node.attributes.get("axis", 0), len(x.shape), "Gather"), inputs[0].reshape(-1)
    n = x.shape[axis]
    if at.size and not (-n <= at.min() and at.max() < n):
        return None
    return [np.where(at < 0, at + n, at) if i == axis else np.arange(m) for i, m in enumerate(x.shape)]


_INDICES = {"Slice": _slice, "Pad": _pad, "Resize": _resize, "Expand": _expand, "Tile": _tile, "Gather": _gather}


def in_layout(indices: Indices, layout: Layout, shape: tuple[int, ...]) -> Indices | None:
    """The indices along the axes of a physical array; None where blocks are not taken as they are."""
    at, physical = physical_axes(layout), layout.physical_shape(shape)
    for dim, place in enumerate(at):
        if place is None and not np.array_equal(indices[dim], np.arange(shape[dim])):
            return None
    return [np.arange(n) if at[f.dim] is None else indices[f.dim] for f, n in zip(layout.factors, physical)]
