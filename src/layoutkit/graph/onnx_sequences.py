"""Sequences of tensors, as the tensors in them: a model is read, not run, with `r.sequences` by name.

    SplitToSequence, SequenceAt        Split, or Gather and Slice of what was split
    SequenceConstruct, .. Concat       Concat of what was put in

So what torch writes for chunk, unbind, split and stack has no sequences left. Those that a loop
changes, or that indices of a run change, are not supported.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .ir import Node
from .onnx_versions import CONVERSIONS
from .operators import Unsupported


class Pieces(NamedTuple):
    """A tensor cut along an axis into pieces of a length, the last one maybe shorter; their number is not known yet."""

    x: str
    axis: int
    length: int
    keeps: bool  # the axis, of length 1


def _of(r, name: str, node: Node) -> list[str] | Pieces:
    if name not in r.sequences:
        raise Unsupported(f"onnx: {node}: sequence {name!r} is not made of tensors of the same graph")
    return r.sequences[name]


def _listed(r, node: Node) -> list[str]:
    found = _of(r, node.inputs[0], node)
    if isinstance(found, Pieces):
        raise Unsupported(f"onnx: {node}: a sequence of an unknown number of tensors")
    return found


def _constant(r, name: str, node: Node) -> np.ndarray:
    value = r.constants.get(name)
    if value is None:
        raise Unsupported(f"onnx: {node}: {name!r} is not constant")
    return value


def _index(r, name: str, count: int, node: Node) -> int:
    """A constant index of a sequence, from the front."""
    i = int(_constant(r, name, node).reshape(-1)[0])
    if not -count <= i < count:
        raise ValueError(f"onnx: {node}: index {i} of {count} tensors")
    return i % count


def _empty(r, node: Node) -> None:
    r.sequences[node.outputs[0]] = []


def _construct(r, node: Node) -> None:
    r.sequences[node.outputs[0]] = list(node.inputs)


def _insert(r, node: Node) -> None:
    tensors = list(_listed(r, node))
    count = len(tensors)
    at = int(_constant(r, node.inputs[2], node).reshape(-1)[0]) if node.input(2) else count
    if not -count <= at <= count:
        raise ValueError(f"onnx: {node}: position {at} in a sequence of {count} tensors")
    at += count if at < 0 else 0  # before the tensor that it counts from the end
    r.sequences[node.outputs[0]] = [*tensors[:at], node.inputs[1], *tensors[at:]]


def _erase(r, node: Node) -> None:
    tensors = list(_listed(r, node))
    if not tensors:
        raise ValueError(f"onnx: {node}: an empty sequence")
    tensors.pop(_index(r, node.inputs[1], len(tensors), node) if node.input(1) else -1)
    r.sequences[node.outputs[0]] = tensors


def _split(r, node: Node) -> None:
    axis, keeps = node.attributes.get("axis", 0), bool(node.attributes.get("keepdims", 1))
    lengths = _constant(r, node.inputs[1], node) if node.input(1) else None
    if lengths is None or lengths.ndim == 0:
        length = 1 if lengths is None else int(lengths)
        if length < 1:
            raise ValueError(f"onnx: {node}: pieces of {length}")
        r.sequences[node.outputs[0]] = Pieces(node.inputs[0], axis, length, keeps or lengths is not None)
        return
    parts = [r.name(node.outputs[0], f"piece{i}") for i in range(len(lengths))]
    sizes = r.constant(lengths, node.outputs[0])
    r.nodes.append(Node("Split", (node.inputs[0], sizes), tuple(parts), {"axis": axis, "count": len(parts)}, node.name))
    r.sequences[node.outputs[0]] = parts


def _at(r, node: Node) -> Node:
    found, index = _of(r, node.inputs[0], node), node.inputs[1]
    if not isinstance(found, Pieces):
        return Node("Identity", (found[_index(r, index, len(found), node)],), node.outputs)
    if found.length == 1:
        if found.keeps:
            one = r.name(node.outputs[0], "index")
            r.nodes.append(Node("Reshape", (index, r.constant([1], node.outputs[0])), (one,)))
            index = one
        return Node("Gather", (found.x, index), node.outputs, {"axis": found.axis}, node.name)
    i = int(_constant(r, index, node).reshape(-1)[0])
    if i < 0:
        raise Unsupported(f"onnx: {node}: index {i} of an unknown number of pieces")
    limits = i * found.length, (i + 1) * found.length, found.axis
    begin, end, axis = (r.constant([n], node.outputs[0]) for n in limits)
    return Node("Slice", (found.x, begin, end, axis), node.outputs, {"of_sequence": 1}, node.name)


def _length(r, node: Node) -> Node | None:
    found, owner = _of(r, node.inputs[0], node), node.outputs[0]
    if not isinstance(found, Pieces):
        r.constants[owner] = np.asarray(len(found), np.int64)
        return None
    shape, extent, more = (r.name(owner, role) for role in ("shape", "extent", "more"))
    r.nodes.append(Node("Shape", (found.x,), (shape,)))
    r.nodes.append(Node("Gather", (shape, r.constant(found.axis, owner)), (extent,), {"axis": 0}))
    r.nodes.append(Node("Add", (extent, r.constant(found.length - 1, owner)), (more,)))
    return Node("Div", (more, r.constant(found.length, owner)), node.outputs, {}, node.name)


def _concat(r, node: Node) -> Node:
    found, axis = _of(r, node.inputs[0], node), node.attributes["axis"]
    stacks = bool(node.attributes.get("new_axis", 0))
    if isinstance(found, Pieces):
        rank = r.rank(found.x) or 0
        if axis not in (found.axis, found.axis + rank, found.axis - rank) or stacks == found.keeps:
            raise Unsupported(f"onnx: {node}: pieces of axis {found.axis} along axis {axis}")
        return Node("Identity", (found.x,), node.outputs)
    if not found:
        raise ValueError(f"onnx: {node}: no tensors")
    if stacks:
        names = [r.name(node.outputs[0], "stacked") for _ in found]
        at = r.constant([axis], node.outputs[0])
        r.nodes += [Node("Unsqueeze", (x, at), (name,)) for x, name in zip(found, names)]
        found = names
    return Node("Concat", tuple(found), node.outputs, {"axis": axis}, node.name)


CONVERSIONS.update(
    SequenceEmpty=_empty, SequenceConstruct=_construct, SequenceInsert=_insert, SequenceErase=_erase,
    SplitToSequence=_split, SequenceAt=_at, SequenceLength=_length, ConcatFromSequence=_concat,
)  # fmt: skip
