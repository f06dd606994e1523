"""Normalisations, softmax, and reductions."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ...._core.nests.norms.softmax_bytes import LEAST_STEP, MAX_STEP
from ...ir import Node
from ..axes import REDUCTIONS
from ..base import Known
from ..layouts import BLOCKED, LAST, PLAIN, layouts_of, physical_axis
from ..normalise import normalised_axes
from .base import F32, Kernel


def _constant(name: str, known: Mapping[str, Known], shape: tuple[int, ...]) -> bool:
    """Whether a parameter is constant and can be broadcast to a shape."""
    of = known[name]
    alike = len(of.shape) <= len(shape) and all(n in (1, m) for n, m in zip(of.shape[::-1], shape[::-1]))
    return of.value is not None and of.dtype == F32 and alike


def _is_real(of: Known) -> bool:
    return of.dtype == F32 and 0 not in of.shape


def of_channels(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Over the pixels of channels or of groups of them, with constant parameters per channel, in any layout."""
    x = known[node.inputs[0]]
    channels = x.shape[1:2]
    fits = _is_real(x) and len(x.shape) in (3, 4, 5) and channels[0] % node.attributes.get("num_groups", 1) == 0
    return fits and all(known[name].shape == channels and _constant(name, known, channels) for name in node.inputs[1:])


def of_last_axes(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Over the last axes as the model has them; or over channels that are not in blocks. Only the result is used."""
    x, a = known[node.inputs[0]], node.attributes
    if not _is_real(x) or any(node.outputs[1:]) or not x.shape:
        return False
    if kind != PLAIN and not (kind == LAST and a.get("channels") and layouts_of(x)):
        return False
    shape = tuple(x.shape[i] for i in normalised_axes(a, len(x.shape), node.op))
    return all(_constant(name, known, shape) for name in node.inputs[1:] if name)


def is_softmax(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Along an axis that is not in blocks."""
    x = known[node.inputs[0]]
    axis = node.attributes.get("axis", -1)
    return _is_real(x) and bool(x.shape) and not (kind == BLOCKED and axis % len(x.shape) == 1)


def is_softmax_of_bytes(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether tables serve: of bytes, along rows, in steps that they are exact enough for."""
    x, y = known[node.inputs[0]], known[node.outputs[0]]
    if node.op != "Softmax" or x.stored is None or y.stored is None or not (x.stored.integers and y.stored.integers):
        return False
    if kind == BLOCKED or physical_axis(x, node.attributes.get("axis", -1), kind) != len(x.shape) - 1:
        return False
    return 0 < x.stored.scale <= MAX_STEP and y.stored.scale >= LEAST_STEP


def is_reduction(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Over constant axes, of a tensor that is not empty."""
    x, a = known[node.inputs[0]], node.attributes
    axes = a.get("axes") or []
    if not _is_real(x) or not x.shape or node.input(1) or (not axes and a.get("noop_with_empty_axes")):
        return False
    return kind == PLAIN or (bool(axes) and not (kind == BLOCKED and 1 in [i % len(x.shape) for i in axes]))


def parameter(node: Node, i: int, known: Mapping[str, Known]) -> np.ndarray | None:
    """A constant parameter of a normalisation, with as many numbers as there are channels or normalised elements."""
    if not node.input(i):
        return None
    shape, value = known[node.inputs[0]].shape, known[node.inputs[i]].value
    assert value is not None
    if node.op in OF_CHANNELS:
        return value.reshape(-1)
    normalised = tuple(shape[axis] for axis in normalised_axes(node.attributes, len(shape), node.op))
    return np.ascontiguousarray(np.broadcast_to(value, normalised)).reshape(prod(normalised))


OF_CHANNELS = "InstanceNormalization", "GroupNormalization"
OF_LAST_AXES = "LayerNormalization", "RMSNormalization"
NORMALISATIONS = OF_CHANNELS + OF_LAST_AXES
KERNELS = {
    **dict.fromkeys(OF_CHANNELS, Kernel(of_channels, strided=True, any_reals=True)),
    **dict.fromkeys(OF_LAST_AXES, Kernel(of_last_axes, strided=True, any_reals=True)),
    **dict.fromkeys(("Softmax", "LogSoftmax"), Kernel(is_softmax, strided=True, any_reals=True)),
    **dict.fromkeys(REDUCTIONS, Kernel(is_reduction)),
}
