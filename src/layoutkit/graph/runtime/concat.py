"""Tensors that are made where a concatenation would copy them to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...formats.layout import Layout
from ..ir import Node
from ..layout.plan import LayoutPlan
from ..operators import OPERATORS, Known
from ..operators.kernels import kernel_of
from ..operators.layouts import PLAIN, layouts_of
from .steps import Place


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
    if maker.op == "Transpose" and kinds[0] != kinds[1]:  # a view
        return {}
    if not all(node.outputs) or any(known[name].stored != x.stored for name in node.outputs):
        return {}
    axis, at, parts = axis_of(node, known, layouts[kind]), 0, {}
    for name in node.outputs:
        count = layouts[kind].physical_shape(known[name].shape)[axis]
        parts[name, kind] = Part((node.inputs[0], kind), axis, at, at + count)
        at += count
    return parts


def axis_of(node: Node, known: Mapping[str, Known], layout: Layout) -> int:
    """The axis of the physical arrays that a concatenation joins, or a division cuts."""
    follow = OPERATORS[node.op].follow
    assert follow is not None
    attributes = follow({**node.attributes, "op": node.op}, layout, [known[name].shape for name in node.inputs])
    assert attributes is not None
    return attributes["axis"]


def whole_of(place: Place, wholes: dict[Place, Place]) -> Place:
    """The array that a tensor is in the end a part of. `wholes` says of what each is one, and gets shorter ways."""
    whole = place
    while whole in wholes:
        whole = wholes[whole]
    while place != whole:
        wholes[place], place = whole, wholes[place]
    return whole


def _shares_array(node: Node, kinds: tuple[int, int], place: Place, wholes: dict[Place, Place]) -> bool:
    """Whether a node reads the array that a tensor is a part of."""
    whole = whole_of(place, wholes)
    return any(whole_of((name, kinds[i == 3]), wholes) == whole for i, name in enumerate(node.inputs) if name)


def parts_of(plan: LayoutPlan) -> dict[Place, Part]:
    """By tensor that a kernel or another concatenation writes, the part of the concatenation that it is made as.

    Each is a part of one only, and none that is computed from the same array: a step reads and writes apart.
    """
    parts: dict[Place, Part] = {}
    wholes: dict[Place, Place] = {}
    graph, known = plan.graph, plan.known
    makers = {name: (node, kinds) for node, kinds in zip(graph.nodes, plan.kinds) for name in node.outputs}

    def joins(node: Node) -> bool:
        """Whether it is a concatenation in place; what has constants among its inputs is not."""
        return node.op == "Concat" and not any(name in graph.constants for name in node.inputs)

    for node, (kind, _) in zip(graph.nodes, plan.kinds):
        if node.op == "Split":
            divided = _divided(node, kind, makers, known)
            parts |= divided
            wholes.update((place, part.whole) for place, part in divided.items())
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
            if alike and maker is not None and kinds[1] == kind and place not in parts and count:
                kernel = kernel_of(maker, known, kinds[0])
                writes = joins(maker) or (kernel is not None and kernel.strided)
                if writes and (maker.op == "Concat" or not _shares_array(maker, kinds, into, wholes)):
                    parts[place], wholes[place] = Part(into, axis, at, at + count), into
            at += count
    return parts
