"""Tensors that are made where a concatenation would copy them to."""

from __future__ import annotations

from ..ir import Node
from ..layout.plan import LayoutPlan
from ..operators.kernels import kernel_of
from ..operators.kernels.joins import cut_at
from ..operators.layouts import PLAIN
from .steps import Part, Place


def _divided(node: Node, kind: int, makers, plan: LayoutPlan) -> dict[Place, Part]:
    """The results of a division as parts of its input: of one of the graph, or if a kernel made it in the same layout.

    Outputs of the graph are arrays of their own.
    """
    name, known = node.inputs[0], plan.known
    maker, kinds = makers.get(name, (None, (PLAIN, PLAIN)))
    if kinds[1] != kind or name in plan.graph.constants or kernel_of(node, known, kind) is None:
        return {}
    if maker is not None and (
        kernel_of(maker, known, kinds[0]) is None or (maker.op == "Transpose" and kinds[0] != kinds[1])
    ):  # a view
        return {}
    axis, parts = cut_at(node, known, kind)
    return {
        (part, kind): Part((name, kind), axis, begin, end)
        for part, (begin, end) in zip(node.outputs, parts)
        if known[part].stored == known[name].stored and part not in plan.graph.ends
    }


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

    for node, (kind, _) in zip(graph.nodes, plan.kinds):
        if node.op == "Split":
            divided = _divided(node, kind, makers, plan)
            parts |= divided
            wholes.update((place, part.whole) for place, part in divided.items())
        if node.op != "Concat" or kernel_of(node, known, kind) is None:
            continue
        stored, into = known[node.outputs[0]].stored, (node.outputs[0], kind)
        axis, joined = cut_at(node, known, kind)
        for name, (begin, end) in zip(node.inputs, joined):
            place = name, kind
            maker, kinds = makers.get(name, (None, (PLAIN, PLAIN)))
            if maker is None or known[name].stored != stored or kinds[1] != kind or place in parts or begin == end:
                continue
            kernel = kernel_of(maker, known, kinds[0])
            apart = maker.op == "Concat" or not _shares_array(maker, kinds, into, wholes)
            if kernel is not None and kernel.strided and apart:
                parts[place], wholes[place] = Part(into, axis, begin, end), into
    return parts
