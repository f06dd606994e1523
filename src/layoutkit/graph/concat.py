"""Tensors that are made where a concatenation would copy them to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..formats.layout import Layout
from .ir import Node
from .kernels import Place, kernel_of
from .layouts import PLAIN, layouts_of
from .operators import OPERATORS, Known
from .plan import Laid


class Part(NamedTuple):
    """The indices [begin, end) along an axis of a larger array."""

    whole: Place
    axis: int
    begin: int
    end: int


def _divided(node: Node, kind: int, makers, known: Mapping[str, Known]) -> dict[Place, Part]:
    """The results of a division as parts of its input, if a kernel made that in the same layout."""
    x = known[node.inputs[0]]
    layouts = layouts_of(len(x.shape))
    maker, kinds = makers.get(node.inputs[0], (None, (PLAIN, PLAIN)))
    if not layouts or maker is None or kinds[1] != kind or kernel_of(maker, known, kinds[0]) is None:
        return {}
    if not all(node.outputs) or any(known[name].stored != x.stored for name in node.outputs):
        return {}
    axis, at, found = axis_of(node, known, layouts[kind]), 0, {}
    for name in node.outputs:
        count = layouts[kind].physical_shape(known[name].shape)[axis]
        found[name, kind] = Part((node.inputs[0], kind), axis, at, at + count)
        at += count
    return found


def axis_of(node: Node, known: Mapping[str, Known], layout: Layout) -> int:
    """The axis of the physical arrays that a concatenation joins, or a division cuts."""
    follow = OPERATORS[node.op].follow
    assert follow is not None
    attributes = follow({**node.attributes, "op": node.op}, layout, [known[name].shape for name in node.inputs])
    assert attributes is not None
    return attributes["axis"]


def parts_of(laid: Laid) -> dict[Place, Part]:
    """By tensor that a kernel or another concatenation writes, the part of the concatenation that it is made as.

    Each is a part of one only, and none that is computed from the same array: a step reads and writes apart.
    """
    found: dict[Place, Part] = {}
    graph, known = laid.graph, laid.known
    makers = {name: (node, kinds) for node, kinds in zip(graph.nodes, laid.kinds) for name in node.outputs}

    def joins(node: Node) -> bool:
        """Whether it is a concatenation in place; what has constants among its inputs is not."""
        return node.op == "Concat" and not any(name in graph.constants for name in node.inputs)

    def whole(place: Place) -> Place:
        while place in found:
            place = found[place].whole
        return place

    for node, (kind, _) in zip(graph.nodes, laid.kinds):
        if node.op == "Split":
            found |= _divided(node, kind, makers, known)
        y = known[node.outputs[0]]
        layouts = layouts_of(len(y.shape))
        if not layouts or not joins(node):
            continue
        axis, at = axis_of(node, known, layouts[kind]), 0
        for name in node.inputs:
            count = layouts[kind].physical_shape(known[name].shape)[axis]
            place, into = (name, kind), (node.outputs[0], kind)
            maker, kinds = makers.get(name, (None, (PLAIN, PLAIN)))
            alike = known[name].stored == y.stored
            if alike and maker is not None and kinds[1] == kind and place not in found and count:
                kernel = kernel_of(maker, known, kinds[0])
                writes = joins(maker) or (kernel is not None and kernel.strided)
                reads = {whole((n, kinds[i == 3])) for i, n in enumerate(maker.inputs) if n}
                if writes and (maker.op == "Concat" or whole(into) not in reads):
                    found[place] = Part(into, axis, at, at + count)
            at += count
    return found
