"""Tensors that a model quantises and dequantises again are stored as the integers.

After QuantizeLinear and DequantizeLinear a tensor holds multiples of a scale. This pass removes the two nodes and sets
`Known.stored`: the node that computes the tensor rounds its results, and convolutions with int8 filters read the
integers.
"""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node, renamed
from ..operators import Known
from ..operators.kernels.casts import meant_by
from .integer_filters import with_integers
from .rewriting import Knowledge, Rewriting

MOVING = "MaxPool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice"


def moved_as_numbers(graph: Graph, known: Knowledge) -> Graph:
    """Operators that move integers, or choose the largest, as those on the numbers that these stand for, between a
    DequantizeLinear and a QuantizeLinear: models of QLinear.. have them on the integers."""
    r = Rewriting(graph, known)
    makers, nodes = dict(r.makers), []
    for node in graph.nodes:
        before = makers.get(node.input(0))
        y = node.outputs[0]
        moves = node.op in MOVING and len([name for name in node.outputs if name]) == 1 and y not in graph.ends
        readers = r.users.get(y, [])
        if (
            moves
            and before is not None
            and before.op == "QuantizeLinear"
            and meant_by(before, known) is not None
            and all(reader.op in ("DequantizeLinear", *MOVING) for reader in readers)
        ):
            scales, dtype = before.inputs[1:], np.dtype(np.float32)
            x = r.tensor(y, "meant", dtype, known[node.inputs[0]].shape)
            moved = r.tensor(y, "number", dtype, known[y].shape)
            nodes.append(Node("DequantizeLinear", (node.inputs[0], *scales), (x,)))
            nodes.append(node.with_(inputs=(x, *node.inputs[1:]), outputs=(moved,)))
            node = Node("QuantizeLinear", (moved, *scales), (y,))
            makers[y] = node
        nodes.append(node)
    return r.graph(nodes)


def kept_as_integers(graph: Graph, known: dict[str, Known]) -> Graph:
    """The graph without pairs of QuantizeLinear and DequantizeLinear; `known` says which tensors are integers."""
    makers, users = graph.makers(), graph.users()
    names: dict[str, str] = {}  # of the tensors that replace others
    gone: set[int] = set()  # nodes by id
    pairs: dict[int, Node] = {}  # by the id of the QuantizeLinear, the first DequantizeLinear that reads it
    for node in graph.nodes:
        if node.op != "QuantizeLinear" or node.outputs[0] in graph.ends:
            continue
        stored, readers = meant_by(node, known), users.get(node.outputs[0], [])
        same = all(reader.op == "DequantizeLinear" and meant_by(reader, known) == stored for reader in readers)
        results = [reader.outputs[0] for reader in readers]
        replaceable = all(name not in graph.ends and known[name].value is None for name in results)
        if stored is None or not readers or not same or not replaceable:
            continue
        pairs[id(node)] = readers[0]
        result, x = results[0], node.inputs[0]
        names.update((name, result) for name in results)
        known[result] = known[result]._replace(stored=stored)
        computed = x in makers and makers[x].op != "DequantizeLinear"  # which may be removed itself
        if len(users[x]) == 1 and computed and x not in graph.ends:  # the node that computes x computes the result
            names[x] = result
            gone.add(id(node))
    gone |= {id(reader) for node in graph.nodes if id(node) in pairs for reader in users[node.outputs[0]]}
    nodes = []

    def value_of(name: str) -> np.ndarray | None:
        return known[name].value

    for node in graph.nodes:
        if id(node) in gone:
            continue
        if id(node) in pairs:
            node = Node("Identity", node.inputs[:1], pairs[id(node)].outputs, {}, node.name)
        node = with_integers(node, value_of, makers)
        nodes.append(renamed(node.with_(outputs=tuple(names.get(o, o) for o in node.outputs)), names))
    return Graph(nodes, graph.inputs, graph.outputs, graph.constants)
