"""Concatenations and divisions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ...ir import Node
from .. import base
from ..base import MAX_RANK, Known
from ..layouts import PLAIN, layouts_of, physical_shape
from .base import Kernel

WIDTHS = 1, 2, 4, 8, 16  # bytes of elements that are moved


def axis_of(node: Node, known: Mapping[str, Known], kind: int) -> int | None:
    """The axis of the arrays that a concatenation joins, or a division cuts; None if that would divide blocks."""
    names = node.inputs if node.op == "Concat" else node.inputs[:1]
    rank = len(known[names[0]].shape)
    if kind == PLAIN:
        return base.normal(node.attributes.get("axis", 0), rank, node.op)
    follow = base.OPERATORS[node.op].follow
    assert follow is not None
    shapes = [known[name].shape for name in names]
    attributes = follow({**node.attributes, "op": node.op}, layouts_of(known[names[0]])[kind], shapes)
    return None if attributes is None else attributes["axis"]


def cut_at(node: Node, known: Mapping[str, Known], kind: int) -> tuple[int, list[tuple[int, int]]]:
    """The axis of the arrays that a concatenation joins, or a division cuts, and the indices of each of its parts."""
    names, axis = node.inputs if node.op == "Concat" else node.outputs, axis_of(node, known, kind)
    assert axis is not None
    ends = [0]
    for name in names:
        ends.append(ends[-1] + physical_shape(known[name], kind)[axis])
    return axis, list(pairwise(ends))


def is_joined(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a node joins tensors along an axis, or cuts one; in blocks only between these."""
    names = (*(node.inputs if node.op == "Concat" else node.inputs[:1]), *node.outputs)
    if not all(names):
        return False
    tensors = [known[name] for name in names]
    if not all(x.itemsize in WIDTHS and x.dtype == tensors[0].dtype and 1 <= len(x.shape) <= MAX_RANK for x in tensors):
        return False
    if tensors[-1].stored is not None and any(x.value is not None for x in tensors):
        return False
    return kind == PLAIN or (bool(layouts_of(tensors[0])) and axis_of(node, known, kind) is not None)


KERNELS = dict.fromkeys(("Concat", "Split"), Kernel(is_joined, strided=True))
