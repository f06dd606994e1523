"""Batch normalisations, and products and sums with one number per channel, as parts of convolutions."""

from __future__ import annotations

import numpy as np

from ..ir import Graph, Node
from ..operators.kernels import is_convolution
from ..operators.normalise import affine_of
from .rewriting import Knowledge, Rewriting

Affine = tuple[str, np.ndarray, np.ndarray]  # the input, and its scale and shift by channel, in float64


def as_affine(graph: Graph, known: Knowledge) -> Graph:
    """Batch normalisations, and products and sums with one number per channel, become ``x * scale + shift``."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        affine = _affine(node, known)
        nodes.append(node if affine is None else _affine_node(r, node, *affine))
    return r.graph(nodes)


def _affine_node(r: Rewriting, node: Node, x: str, scale: np.ndarray, shift: np.ndarray) -> Node:
    shape, dtype = (-1, *[1] * (len(r.known[x].shape) - 2)), r.known[x].dtype
    operands = {"scale": scale, "shift": shift}
    names = [r.constant(node.outputs[0], role, v.astype(dtype).reshape(shape)) for role, v in operands.items()]
    return Node("Affine", (x, *names), node.outputs, {"exact": (scale, shift)}, node.name)


def _affine(node: Node, known: Knowledge) -> Affine | None:
    """The input, scale and shift of a node that can become an `Affine`."""
    if not node.inputs or not node.inputs[0] or 0 in known[node.outputs[0]].shape:  # without channels there is no scale
        return None
    x = known[node.inputs[0]]
    if node.op == "BatchNormalization":
        scale, bias, mean, variance = (known[name].value for name in node.inputs[1:5])
        if x.dtype.kind != "f" or scale is None or bias is None or mean is None or variance is None or len(x.shape) < 3:
            return None
        return (node.inputs[0], *affine_of(scale, bias, mean, variance, node.attributes.get("epsilon", 1e-5)))
    if node.op not in ("Mul", "Add", "Sum", "Sub", "Div") or len(node.inputs) != 2:
        return None
    y = known[node.outputs[0]]
    for name, other, sign in ((*node.inputs, 1), (*node.inputs[::-1], -1)):
        if known[name].shape == y.shape and y.dtype.kind == "f" and known[name].value is None:
            values = _per_channel(known[other].value, y.shape)
            if values is not None:
                return _scaled_and_shifted(node.op, name, values, sign)
    return None


def _per_channel(value: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """A constant operand as one number per channel; None if it varies otherwise or is not constant."""
    numbers = along_axis(value, shape, 1) if len(shape) > 2 else None
    return None if numbers is None else np.broadcast_to(numbers, (shape[1],)).astype(np.float64)


def along_axis(value: np.ndarray | None, shape: tuple[int, ...], axis: int) -> np.ndarray | None:
    """A constant operand as one number, or one for each index of an axis of the result; None if it is neither."""
    if value is None or value.ndim > len(shape):
        return None
    if value.size == 1:
        return value.reshape(-1)
    full = (1,) * (len(shape) - value.ndim) + value.shape
    by_index = all(n == 1 for i, n in enumerate(full) if i != axis) and full[axis] == shape[axis]
    return value.reshape(-1) if by_index else None


def _scaled_and_shifted(op: str, x: str, values: np.ndarray, sign: int) -> Affine | None:
    """What an operator does to `x` with constants, which are its first operand if `sign` is -1."""
    ones, zeros = np.ones(len(values)), np.zeros(len(values))
    if op == "Mul":
        return x, values, zeros
    if op == "Div":
        inverse = 1 / np.where(values == 0, np.nan, values)
        return (x, inverse, zeros) if sign > 0 and np.isfinite(inverse).all() else None
    if op == "Sub":
        return (x, ones, -values) if sign > 0 else (x, -ones, values)
    return x, ones, values


def affine_into_makers(graph: Graph, known: Knowledge) -> Graph:
    """An `Affine` that is the only reader of a convolution or another `Affine` is merged into it."""
    r = Rewriting(graph, known)
    nodes: dict[str, Node] = {}  # by first output
    for node in graph.nodes:
        before = nodes.get(node.inputs[0]) if node.op == "Affine" and r.is_internal(node.inputs[0]) else None
        if before is not None and _takes_affine(before, known):
            del nodes[node.inputs[0]]
            node = _into_convolution(r, before, node)
        elif before is not None and before.op == "Affine":
            del nodes[node.inputs[0]]
            (s0, t0), (s1, t1) = before.attributes["exact"], node.attributes["exact"]
            node = _affine_node(r, node, before.inputs[0], s0 * s1, t0 * s1 + t1)
        nodes[node.outputs[0]] = node
    return r.graph(list(nodes.values()))


def _takes_affine(node: Node, known: Knowledge) -> bool:
    """Whether it is a convolution with a constant filter, without a residual so far."""
    return len(node.inputs) < 4 and "integers" not in node.attributes and is_convolution(node, known)


def _into_convolution(r: Rewriting, conv: Node, affine: Node) -> Node:
    scale, shift = affine.attributes["exact"]
    w = r.known[conv.inputs[1]].value
    assert w is not None
    b = r.known[conv.inputs[2]].value if conv.input(2) else None
    bias = (shift + (0 if b is None else b * scale)).astype(w.dtype)
    filter = conv.inputs[1] if (scale == 1).all() else r.constant(affine.outputs[0], "filter", _scaled(conv, w, scale))
    names = filter, r.constant(affine.outputs[0], "bias", bias)
    return conv.with_(inputs=(conv.inputs[0], *names), outputs=affine.outputs)


def _scaled(conv: Node, w: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The filter of a convolution whose output channels are scaled."""
    taps = [1] * (w.ndim - 2)
    if conv.op == "ConvTranspose":  # (I, O of a group, ..)
        groups = conv.attributes.get("group", 1)
        by_output, factors = w.reshape(groups, -1, *w.shape[1:]), scale.reshape(groups, 1, -1, *taps)
    else:
        by_output, factors = w, scale.reshape(-1, 1, *taps)
    # Products in float64, each rounded once: without an array of float64.
    filter = np.multiply(by_output, factors, out=np.empty(by_output.shape, w.dtype), casting="same_kind")
    return filter.reshape(w.shape)
