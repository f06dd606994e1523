"""Views: how elements of a contiguous tensor are another tensor, by an offset and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import Node
from .base import Known

RESHAPES = "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"


class View(NamedTuple):
    """Shape, strides and offset, in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def of(self, array: np.ndarray) -> np.ndarray:
        """This view of a contiguous array."""
        if 0 in self.shape:
            return np.empty(self.shape, array.dtype)
        flat = array.reshape(-1)[self.offset :]
        return np.lib.stride_tricks.as_strided(flat, self.shape, [step * array.itemsize for step in self.strides])

    def transposed(self, axes: Sequence[int]) -> View:
        """With its axes in another order."""
        return View(tuple(self.shape[i] for i in axes), tuple(self.strides[i] for i in axes), self.offset)

    def part(self, axis: int, begin: int, step: int, count: int) -> View:
        """`count` of the indices of an axis."""
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + begin * strides[axis]
        shape[axis], strides[axis] = count, strides[axis] * step
        return View(tuple(shape), tuple(strides), offset)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in the same order with another shape; None if no strides say that."""
        if 0 in shape:
            return View(tuple(shape), contiguous(shape).strides)
        old = [(n, step) for n, step in zip(self.shape, self.strides) if n != 1]
        strides: list[int] = []
        i = 0
        while i < len(old) and len(strides) < len(shape):
            first, have, end, want = len(strides), old[i][0], i + 1, shape[len(strides)]
            last = first + 1
            while want != have:
                if want < have:
                    want *= shape[last]
                    last += 1
                else:
                    have *= old[end][0]
                    end += 1
            if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(i, end - 1)):
                return None
            step, inner = old[end - 1][1], []
            for n in reversed(shape[first:last]):
                inner.append(step)
                step *= n
            strides += reversed(inner)
            i = end
        return View(tuple(shape), (*strides, *[1] * (len(shape) - len(strides))), self.offset)


def contiguous(shape: Sequence[int]) -> View:
    """All of a tensor."""
    return View(tuple(shape), tuple(prod(shape[i + 1 :]) for i in range(len(shape))))


def through(node: Node, name: str, view: View, known: Mapping[str, Known]) -> View | None:
    """What a result of a node is, if the node's first input is this view and the node only moves elements."""
    shape = known[name].shape
    if node.op in RESHAPES:
        return view.reshaped(shape)
    if node.op == "Transpose":
        return view.transposed(node.attributes.get("perm") or range(len(view.shape))[::-1])
    if node.op == "Split":
        axis = node.attributes.get("axis", 0) % len(shape)
        before = node.outputs[: node.outputs.index(name)]
        begin = sum(known[each].shape[axis] for each in before) if all(before) else None
        return None if begin is None else view.part(axis, begin, 1, shape[axis])
    if node.op == "Gather":
        return _gathered(node, view, known)
    return _sliced(node, view, known) if node.op == "Slice" else None


def _gathered(node: Node, view: View, known: Mapping[str, Known]) -> View | None:
    """One index of an axis."""
    index = known[node.inputs[1]].value
    if index is None or index.size != 1 or index.ndim > 1:
        return None
    axis = node.attributes.get("axis", 0) % len(view.shape)
    at = int(index.reshape(-1)[0])
    if not -view.shape[axis] <= at < view.shape[axis]:
        return None
    part = view.part(axis, at % view.shape[axis], 1, 1)
    shape = part.shape[:axis] + part.shape[axis + (index.ndim == 0) :]
    strides = part.strides[:axis] + part.strides[axis + (index.ndim == 0) :]
    return View(shape, strides, part.offset)


def _sliced(node: Node, view: View, known: Mapping[str, Known]) -> View | None:
    """A part along some axes, forwards, where what it does is in attributes (`constants_into_attributes`)."""
    if len(node.inputs) > 1 or "axes" not in node.attributes:
        return None
    starts, ends, axes = (node.attributes[key] for key in ("starts", "ends", "axes"))
    for begin, end, axis, step in zip(starts, ends, axes, node.attributes.get("steps", [1] * len(starts))):
        if step <= 0:
            return None
        indices = range(view.shape[axis])[begin:end:step]
        view = view.part(axis, indices.start if indices else 0, step, len(indices))
    return view
