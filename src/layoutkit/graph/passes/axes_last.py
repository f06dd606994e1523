"""Operators between a Transpose to channels last and one back, as blocks of ConvNeXt have them, run on channels in
their place: then a Transpose is no step, but the layout that tensors have there anyway.

A product with a constant matrix becomes a convolution of one tap, which takes what follows it as its epilogue. Only
where all that is made between such Transposes is brought back: else as many of them would be left.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, fresh, renamed
from ..operators import OPERATORS, Known
from .normalisations import Matching, rebuilt

Knowledge = dict[str, Known]


def to_last(rank: int) -> list[int]:
    """The permutation that brings channels from axis 1 to the end."""
    return [0, *range(2, rank), 1]


def _turned(node: Node, known: Knowledge, back: bool) -> bool:
    """Whether a node is a Transpose to channels last, or back from there."""
    rank = len(known[node.inputs[0]].shape) if node.op == "Transpose" else 0
    if rank not in (3, 4, 5) or known[node.inputs[0]].dtype != np.float32:
        return False
    perm = node.attributes.get("perm")
    return perm == ([0, rank - 1, *range(1, rank - 1)] if back else to_last(rank))


def channels_in_place(graph: Graph, known: Knowledge) -> Graph:
    """Without Transposes around operators that can do without them."""
    m = Matching(graph, known)
    group: dict[
        str, str
    ] = {}  # by tensor with channels last, another one of the same region; the first points to itself

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    inside: list[Node] = []
    for node in graph.nodes:
        if _turned(node, known, False) and node.inputs[0] not in group:
            group[node.outputs[0]] = node.outputs[0]
            inside.append(node)
        elif _suits(m, node, group):
            first, *others = (name for name in node.present_inputs() if name in group)
            group[node.outputs[0]] = root(first)
            for name in others:
                group[root(name)] = root(first)
            inside.append(node)
    made = {id(node) for node in inside}
    leaves = {root(name) for name in group if name in graph.ends or known[name].stored is not None}
    returns = set[str]()
    for node in graph.nodes:
        for name in node.present_inputs():
            if name in group and id(node) not in made:
                (returns if _turned(node, known, True) else leaves).add(root(name))
    kept = returns - leaves
    return _rewritten(graph, m, {name for name in group if root(name) in kept}) if kept else graph


SPREAD = "Mul", "Add", "Sub", "Div", "Pow", "Max", "Min"


def _suits(m: Matching, node: Node, group: dict[str, str]) -> bool:
    """Whether a node can run on channels in their place, if its inputs with channels last do."""
    moved = [name for name in node.present_inputs() if name in group]
    others = [m.known[name] for name in node.present_inputs() if name not in group]
    y = m.known[node.outputs[0]]
    if not moved or len([name for name in node.outputs if name]) != 1 or y.dtype != np.float32 or 0 in y.shape:
        return False
    rank = len(y.shape)
    if any(of.value is None for of in others) or any(len(m.known[name].shape) != rank for name in moved):
        return False
    if node.op in ("LayerNormalization", "RMSNormalization"):
        last = node.attributes.get("axis", -1) in (-1, rank - 1) and not node.attributes.get("channels")
        return last and moved == [node.inputs[0]] and all(of.shape in ((), (1,), y.shape[-1:]) for of in others)
    if node.op == "MatMul":
        return moved == [node.inputs[0]] and len(others[0].shape) == 2 and others[0].dtype == np.float32
    if not OPERATORS[node.op].spread or any(m.known[name].shape != y.shape for name in moved):
        return False
    return not others or node.op in SPREAD or all(of.value is not None and of.value.size == 1 for of in others)


def _rewritten(graph: Graph, m: Matching, moved: set[str]) -> Graph:
    """The graph where these tensors have their channels in axis 1."""
    known, names, nodes = m.known, {}, []
    back: dict[str, str] = {}
    for node in graph.nodes:
        node, name = renamed(node, back), node.outputs[0]
        if name in moved and node.op == "Transpose":
            names[name] = node.inputs[0]
        elif name in moved:
            shape = known[name].shape
            names[name] = fresh(f"{name}.in_place", known)
            known[names[name]] = Known(known[name].dtype, (shape[0], shape[-1], *shape[1:-1]))
            nodes.append(_in_place(m, node, names, moved))
        elif node.op == "Transpose" and node.inputs[0] in moved:
            if name in graph.ends:
                nodes.append(Node("Identity", (names[node.inputs[0]],), node.outputs, {}, node.name))
            back[name] = names[node.inputs[0]]
        else:
            nodes.append(node)
    return rebuilt(graph, nodes, m.constants)


def _in_place(m: Matching, node: Node, names: dict[str, str], moved: set[str]) -> Node:
    """An operator with its channels in axis 1."""
    name, rank = node.outputs[0], len(m.known[node.outputs[0]].shape)
    x = tuple(names[each] if each in moved else each for each in node.inputs)
    outputs = (names[name], *node.outputs[1:])
    if node.op == "MatMul":
        w = m.known[node.inputs[1]].value
        assert w is not None
        taps = np.ascontiguousarray(w.T).reshape(*w.shape[::-1], *[1] * (rank - 2))
        return Node("Conv", (x[0], m.constant(name, "filter", taps)), outputs, {}, node.name)
    if node.op in ("LayerNormalization", "RMSNormalization"):
        attributes = {k: v for k, v in node.attributes.items() if k != "axis"} | {"channels": 1}
        channels = m.known[name].shape[-1:]
        values = [None if not each else m.known[each].value for each in node.inputs[1:]]
        wide = [None if v is None else np.ascontiguousarray(np.broadcast_to(v, channels)) for v in values]
        parameters = ("" if v is None else m.constant(name, "parameter", v) for v in wide)
        return Node(node.op, (x[0], *parameters), outputs, attributes, node.name)
    inputs = []
    for each, new in zip(node.inputs, x):
        value = None if not each or each in moved else m.known[each].value
        if value is not None and value.ndim and value.size > 1:
            full = value.reshape((1,) * (rank - value.ndim) + value.shape)
            new = m.constant(name, "operand", np.ascontiguousarray(np.moveaxis(full, -1, 1)))
        inputs.append(new)
    return node.with_(inputs=tuple(inputs), outputs=outputs)
