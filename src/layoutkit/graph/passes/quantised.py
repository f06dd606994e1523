"""Tensors that a model quantises and dequantises again are stored as the integers.

After QuantizeLinear and DequantizeLinear a tensor holds multiples of a scale. This pass removes the two nodes and sets
`Known.stored`: the node that computes the tensor rounds its results, and convolutions with int8 filters read the
integers.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Node, renamed
from ..operators import Known
from ..operators.kernels.casts import meant_by
from .rewriting import Knowledge, Rewriting

MULTIPLY = "Conv", "Gemm", "MatMul"
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
    for node in graph.nodes:
        if id(node) in gone:
            continue
        if id(node) in pairs:
            node = Node("Identity", node.inputs[:1], pairs[id(node)].outputs, {}, node.name)
        node = _with_integers(node, known, makers)
        nodes.append(renamed(node.with_(outputs=tuple(names.get(o, o) for o in node.outputs)), names))
    return Graph(nodes, graph.inputs, graph.outputs, graph.constants)


def _with_integers(node: Node, known: Mapping[str, Known], makers: Mapping[str, Node]) -> Node:
    """A node whose filter is a DequantizeLinear of an int8 constant, with those integers as attributes."""
    before = makers.get(node.input(1))
    if node.op not in MULTIPLY or before is None or before.op != "DequantizeLinear":
        return node
    w, scale = (known[name].value for name in before.inputs[:2])
    zero = known[before.inputs[2]].value if before.input(2) else np.zeros(1)
    if w is not None and w.dtype == np.uint8 and zero is not None and zero.size and (zero == 128).all():
        w, zero = (w ^ np.uint8(128)).view(np.int8), np.zeros(1)
    axis = {"Conv": 0, "Gemm": 0 if node.attributes.get("transB") else 1, "MatMul": 1}[node.op]
    if w is None or scale is None or zero is None or w.dtype != np.int8 or w.ndim < 2 or zero.any():
        return node
    if scale.dtype != np.float32 or before.attributes.get("block_size"):
        return node
    if scale.size > 1 and (scale.ndim != 1 or before.attributes.get("axis", 1) % w.ndim != axis):
        return node
    scales = np.broadcast_to(scale.reshape(-1), (w.shape[axis],))
    more = {"integers": (w, scales), "integer_bias": _integer_bias(node, known, makers)}
    return node.with_(attributes={**node.attributes, **more})


def _integer_bias(node: Node, known: Mapping[str, Known], makers: Mapping[str, Node]) -> tuple:
    """The name of the bias, the int32 constant and the scales that it is dequantised from; nothing if it is not."""
    before = makers.get(node.input(2))
    if before is None or before.op != "DequantizeLinear":
        return "", None, None
    values, scale = (known[name].value for name in before.inputs[:2])
    zero = known[before.inputs[2]].value if before.input(2) else np.zeros(1)
    if values is None or scale is None or zero is None or values.dtype != np.int32 or values.ndim != 1 or zero.any():
        return "", None, None
    return node.input(2), values, scale.reshape(-1)
