"""Filters of int8 that a model dequantises, as attributes of the nodes that multiply by them: see
`operators/filters.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..ir import Graph, Node
from ..operators.filters import less_zero_points, numbers_of, output_axis, stand_in, without_integers
from ..operators.kernels import is_convolution, is_product
from ..operators.kernels.convolution import CONVOLUTIONS
from .rewriting import Knowledge, Rewriting

MULTIPLY = *CONVOLUTIONS, "Gemm", "MatMul"
ValueOf = Callable[[str], "np.ndarray | None"]  # of a constant, by name


def filters_as_integers(graph: Graph) -> Graph:
    """Before anything is known of the tensors: filters that are constants of the graph, dequantised by a node that then
    is not needed any more."""
    makers, users = graph.makers(), graph.users()
    nodes = [with_integers(node, graph.constants.get, makers) for node in graph.nodes]
    with_filter = {id(old) for old, new in zip(graph.nodes, nodes) if new is not old}
    stands_for: dict[str, np.ndarray] = {}
    for node in graph.nodes:
        if node.op != "DequantizeLinear" or node.outputs[0] in graph.ends:
            continue
        (y,) = node.outputs
        only_filters = all(id(user) in with_filter and user.inputs.index(y) == 1 for user in users.get(y, ()))
        if y in users and only_filters and all(user.inputs.count(y) == 1 for user in users[y]):
            stands_for[y] = stand_in(graph.constants[node.inputs[0]].shape)
    if not stands_for:
        return graph  # what reads a filter otherwise needs its numbers
    kept = [node for node in nodes if not node.outputs or node.outputs[0] not in stands_for]
    read = {name for node in kept for name in node.inputs} | graph.ends
    constants = {name: value for name, value in graph.constants.items() if name in read}
    return Graph(kept, graph.inputs, graph.outputs, constants | stands_for)


def with_integers(node: Node, value_of: ValueOf, makers: Mapping[str, Node]) -> Node:
    """A node whose filter is a DequantizeLinear of a constant of bytes, with those less their zero points as attributes
    if they are int8."""
    before = makers.get(node.input(1))
    if node.op not in MULTIPLY or "integers" in node.attributes or before is None or before.op != "DequantizeLinear":
        return node
    w, scale = (value_of(name) for name in before.inputs[:2])
    zero = value_of(before.inputs[2]) if before.input(2) else np.zeros(1, np.int8)
    if w is None or scale is None or zero is None or w.ndim < 2:
        return node
    axis = output_axis(node)
    if scale.dtype != np.float32 or scale.ndim > 1 or before.attributes.get("block_size"):
        return node
    if scale.size != 1 and (
        scale.shape != w.shape[axis : axis + 1] or before.attributes.get("axis", 1) % w.ndim != axis
    ):
        return node
    if zero.size != scale.size and (zero.size > 1 or zero.any()):  # no model has them
        return node
    w = less_zero_points(w, zero, axis)
    if w is None:
        return node
    scales = np.broadcast_to(scale.reshape(-1), (w.shape[axis],))
    more = {"integers": (w, scales), "integer_bias": _integer_bias(node, value_of, makers)}
    return node.with_(attributes={**node.attributes, **more})


def _integer_bias(node: Node, value_of: ValueOf, makers: Mapping[str, Node]) -> tuple:
    """The name of the bias, the int32 constant and the scales that it is dequantised from; nothing if it is not."""
    before = makers.get(node.input(2))
    if before is None or before.op != "DequantizeLinear":
        return "", None, None
    values, scale = (value_of(name) for name in before.inputs[:2])
    zero = value_of(before.inputs[2]) if before.input(2) else np.zeros(1)
    if values is None or scale is None or zero is None or values.dtype != np.int32 or values.ndim != 1 or zero.any():
        return "", None, None
    return node.input(2), values, scale.reshape(-1)


def filters_as_numbers(graph: Graph, known: Knowledge) -> Graph:
    """Where inputs are no integers, or no convolution can be made of a product, the filter's numbers are multiplied."""
    r, nodes = Rewriting(graph, known), []
    names: dict[tuple[str, int], str] = {}  # of numbers, by the filter and its axis of output channels
    for node in graph.nodes:
        if "integers" in node.attributes and not _multiplies_integers(node, known):
            key = node.inputs[1], output_axis(node)
            if key not in names:
                names[key] = r.constant(node.inputs[1], "numbers", numbers_of(node))
            inputs = node.inputs[0], names[key], *node.inputs[2:]
            node = node.with_(inputs=inputs, attributes=without_integers(node.attributes))
        nodes.append(node)
    return r.graph(nodes)


def _multiplies_integers(node: Node, known: Knowledge) -> bool:
    stored = known[node.inputs[0]].stored
    one = is_convolution(node, known) if node.op in CONVOLUTIONS else is_product(node, known)
    return one and stored is not None and stored.integers
