"""Constants: what is computed from them is folded, and those that say what a node does become its attributes."""

from __future__ import annotations

from ..ir import Graph, Node
from ..operators.axes import REDUCTIONS
from ..operators.resize import resized
from .rewriting import Knowledge, Rewriting


def fold_constants(graph: Graph, known: Knowledge) -> Graph:
    """Tensors that were computed from constants become constants."""
    r = Rewriting(graph, known)
    nodes = [node for node in graph.nodes if any(known[o].value is None for o in node.outputs if o)]
    values = {o: known[o].value for node in graph.nodes for o in node.outputs if o}
    r.constants.update((name, value) for name, value in values.items() if value is not None)
    return r.graph(nodes)


ATTRIBUTES = {"Pad": "pads", **dict.fromkeys(REDUCTIONS, "axes")}  # that may also come as the second input


def constants_into_attributes(graph: Graph, known: Knowledge) -> Graph:
    """A node with its constant axes and pads as attributes, which can be translated to other layouts."""
    nodes = []
    for node in graph.nodes:
        attributes, attribute = dict(node.attributes), ATTRIBUTES.get(node.op)
        if node.op == "Split":
            attributes["split"] = [known[o].shape[attributes.get("axis", 0)] for o in node.outputs]
            node = node.with_(inputs=node.inputs[:1], attributes=attributes)
        elif node.op in ("Slice", "Resize"):
            node = _with_ranges(node, known)
        elif attribute is not None and node.input(1) and not node.input(3):
            operands = [known[n].value for n in node.inputs[1:] if n]
            numbers = [value.reshape(-1).tolist() for value in operands if value is not None]
            if len(numbers) == len(operands):
                attributes |= {attribute: numbers[0], **({"value": numbers[1][0]} if node.input(2) else {})}
                node = node.with_(inputs=node.inputs[:1], attributes=attributes)
        nodes.append(node)
    return Rewriting(graph, known).graph(nodes)


def _with_ranges(node: Node, known: Knowledge) -> Node:
    """A Slice with its ranges, or a Resize with its axes, sizes and scales, as attributes if they are constant."""
    values = [known[name].value if name else None for name in node.inputs[1:]]
    if any(name and value is None for name, value in zip(node.inputs[1:], values)):
        return node
    x, attributes = known[node.inputs[0]], dict(node.attributes)
    if node.op == "Resize":
        scales, sizes = (None if v is None else v.tolist() for v in [*values, None, None, None][1:3])
        attributes["along"] = resized(x.shape, attributes, scales, sizes)
    else:
        ranges = zip(("starts", "ends", "axes", "steps"), values)
        attributes |= {key: value.tolist() for key, value in ranges if value is not None}
        attributes.setdefault("axes", list(range(len(attributes["starts"]))))
    return node.with_(inputs=node.inputs[:1], attributes=attributes)
