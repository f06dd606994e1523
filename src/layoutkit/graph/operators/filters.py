"""Filters of int8 that stand for numbers: the attribute `integers` of the node that multiplies by one.

It is a pair: the integers, and a scale for each of the output channels. Then the node's second input, the numbers
themselves, is a stand-in that has nothing but their shape and type: made of all filters at once, they would take four
times the memory of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ir import Node


def stand_in(shape: Sequence[int]) -> np.ndarray:
    """What stands for numbers of float32 that nothing may read: a single NaN, seen as an array."""
    return np.broadcast_to(np.float32(np.nan), tuple(shape))


def less_zero_points(w: np.ndarray, zero: np.ndarray, axis: int) -> np.ndarray | None:
    """The bytes of a filter less its zero point, or those of an axis, as int8; None where that has more bits."""
    if w.dtype == np.int8 and not zero.any():
        return w
    if w.dtype == np.uint8 and zero.size and (zero == 128).all():
        return (w ^ np.uint8(128)).view(np.int8)
    if w.dtype not in (np.int8, np.uint8) or zero.size not in (1, w.shape[axis]):
        return None
    along = [-1 if i == axis else 1 for i in range(w.ndim)] if zero.size > 1 else []
    whole = w.astype(np.int16) - zero.astype(np.int16).reshape(along)
    fits = whole.min(initial=0) >= -128 and whole.max(initial=0) <= 127
    return whole.astype(np.int8) if fits else None


def output_axis(node: Node) -> int:
    """The axis of a filter that its output channels are along."""
    return 0 if node.op == "Conv" or (node.op == "Gemm" and node.attributes.get("transB")) else 1


def numbers_of(node: Node) -> np.ndarray:
    """The numbers that the integers of a node's filter stand for."""
    w, scales = node.attributes["integers"]
    return w * scales.reshape([-1 if axis == output_axis(node) else 1 for axis in range(w.ndim)])


def with_numbers(node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
    """The inputs of a node with the numbers of its filter in place of what stands for them."""
    return (inputs[0], numbers_of(node), *inputs[2:]) if "integers" in node.attributes else inputs


def without_integers(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a node that multiplies by numbers."""
    return {key: value for key, value in attributes.items() if key not in ("integers", "integer_bias")}


def forgotten(node: Node) -> Node:
    """A node without the numbers of its filter, once that is packed."""
    if "integers" not in node.attributes:
        return node
    w, scales = node.attributes["integers"]
    return node.with_(attributes={**node.attributes, "integers": (np.broadcast_to(np.int8(0), w.shape), scales)})
