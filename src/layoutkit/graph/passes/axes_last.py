"""Operators between a Transpose to channels last and one back, as blocks of ConvNeXt have them, run on channels in
axis 1: then no Transpose is a step, as it is only what the layout "channels last" says already.

A product with a constant matrix becomes a convolution of one tap, which takes what follows it as its epilogue. Only
where all results between such Transposes are transposed back: else as many of them would be left.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, renamed
from ..operators import OPERATORS
from .rewriting import Knowledge, Rewriting


def to_last(rank: int) -> list[int]:
    """The permutation that brings channels from axis 1 to the end."""
    return [0, *range(2, rank), 1]


def _is_transpose(node: Node, known: Knowledge, back: bool) -> bool:
    """Whether a node is a Transpose to channels last, or back from there."""
    rank = len(known[node.inputs[0]].shape) if node.op == "Transpose" else 0
    if rank not in (3, 4, 5) or known[node.inputs[0]].dtype != np.float32:
        return False
    perm = node.attributes.get("perm")
    return perm == ([0, rank - 1, *range(1, rank - 1)] if back else to_last(rank))


def channels_in_place(graph: Graph, known: Knowledge) -> Graph:
    """Without Transposes around operators that can do without them."""
    r = Rewriting(graph, known)
    group: dict[str, str] = {}  # by tensor with channels last, another of its region (union-find); a root has itself

    def root(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    inside: list[Node] = []
    for node in graph.nodes:
        if _is_transpose(node, known, False) and node.inputs[0] not in group:
            group[node.outputs[0]] = node.outputs[0]
            inside.append(node)
        elif _suits(r, node, group):
            first, *others = (name for name in node.present_inputs() if name in group)
            group[node.outputs[0]] = root(first)
            for name in others:
                group[root(name)] = root(first)
            inside.append(node)
    in_regions = {id(node) for node in inside}
    leaves = {root(name) for name in group if name in graph.ends or known[name].stored is not None}
    returns = set[str]()
    for node in graph.nodes:
        for name in node.present_inputs():
            if name in group and id(node) not in in_regions:
                (returns if _is_transpose(node, known, True) else leaves).add(root(name))
    regions = returns - leaves
    return _rewritten(graph, r, {name for name in group if root(name) in regions}) if regions else graph


BROADCAST = "Mul", "Add", "Sub", "Div", "Pow", "Max", "Min"


def _suits(r: Rewriting, node: Node, group: dict[str, str]) -> bool:
    """Whether a node can run on channels in their place, if its inputs with channels last do."""
    moved = [name for name in node.present_inputs() if name in group]
    others = [r.known[name] for name in node.present_inputs() if name not in group]
    y = r.known[node.outputs[0]]
    if not moved or len([name for name in node.outputs if name]) != 1 or y.dtype != np.float32 or 0 in y.shape:
        return False
    rank = len(y.shape)
    if any(of.value is None for of in others) or any(len(r.known[name].shape) != rank for name in moved):
        return False
    if node.op in ("LayerNormalization", "RMSNormalization"):
        last = node.attributes.get("axis", -1) in (-1, rank - 1) and not node.attributes.get("channels")
        return last and moved == [node.inputs[0]] and all(of.shape in ((), (1,), y.shape[-1:]) for of in others)
    if node.op == "MatMul":
        return moved == [node.inputs[0]] and len(others[0].shape) == 2 and others[0].dtype == np.float32
    if not OPERATORS[node.op].elementwise or any(r.known[name].shape != y.shape for name in moved):
        return False
    return not others or node.op in BROADCAST or all(of.value is not None and of.value.size == 1 for of in others)


def _rewritten(graph: Graph, r: Rewriting, moved: set[str]) -> Graph:
    """The graph where these tensors have their channels in axis 1."""
    known, nodes = r.known, []
    names: dict[str, str] = {}  # by tensor with channels last, the one with channels in axis 1
    back: dict[str, str] = {}  # by result of a Transpose back, the same
    for node in graph.nodes:
        node, name = renamed(node, back), node.outputs[0]
        if name in moved and node.op == "Transpose":
            names[name] = node.inputs[0]
        elif name in moved:
            shape = known[name].shape
            names[name] = r.tensor(name, "in_place", known[name].dtype, (shape[0], shape[-1], *shape[1:-1]))
            nodes.append(_in_place(r, node, names, moved))
        elif node.op == "Transpose" and node.inputs[0] in moved:
            if name in graph.ends:
                nodes.append(Node("Identity", (names[node.inputs[0]],), node.outputs, {}, node.name))
            back[name] = names[node.inputs[0]]
        else:
            nodes.append(node)
    return r.graph(nodes)


def _in_place(r: Rewriting, node: Node, names: dict[str, str], moved: set[str]) -> Node:
    """An operator with its channels in axis 1."""
    name, rank = node.outputs[0], len(r.known[node.outputs[0]].shape)
    x = tuple(names[each] if each in moved else each for each in node.inputs)
    outputs = (names[name], *node.outputs[1:])
    if node.op == "MatMul":
        w = r.known[node.inputs[1]].value
        assert w is not None
        taps = w.T.reshape(*w.shape[::-1], *[1] * (rank - 2))  # a view: filters may have any strides
        return Node("Conv", (x[0], r.constant(name, "filter", taps)), outputs, {}, node.name)
    if node.op in ("LayerNormalization", "RMSNormalization"):
        attributes = {k: v for k, v in node.attributes.items() if k != "axis"} | {"channels": 1}
        channels = r.known[name].shape[-1:]
        values = [None if not each else r.known[each].value for each in node.inputs[1:]]
        full = [None if v is None else np.ascontiguousarray(np.broadcast_to(v, channels)) for v in values]
        parameters = ("" if v is None else r.constant(name, "parameter", v) for v in full)
        return Node(node.op, (x[0], *parameters), outputs, attributes, node.name)
    inputs = []
    for each, new in zip(node.inputs, x):
        value = None if not each or each in moved else r.known[each].value
        if value is not None and value.ndim and value.size > 1:
            operand = value.reshape((1,) * (rank - value.ndim) + value.shape)
            new = r.constant(name, "operand", np.ascontiguousarray(np.moveaxis(operand, -1, 1)))
        inputs.append(new)
    return node.with_(inputs=tuple(inputs), outputs=outputs)
