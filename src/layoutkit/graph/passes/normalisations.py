"""Normalisations as exporters spell them out become one operator each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..ir import Graph, Node
from ..operators.base import normal
from ..operators.kernels.normalise import NORMALISATIONS, OF_CHANNELS, of_channels, of_last_axes
from ..operators.normalise import normalised_axes
from .rewriting import Knowledge, Rewriting


def group_normalisations(graph: Graph, known: Knowledge) -> Graph:
    """Reshape to groups, InstanceNormalization and Reshape back become GroupNormalization."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        if node.op == "Reshape":
            middle = r.maker(node.inputs[0], "InstanceNormalization")
            first = r.maker(middle.inputs[0], "Reshape") if middle is not None else None
            if middle is not None and first is not None:
                node = _group(r, first, middle, node) or node
        nodes.append(node)
    return r.graph(nodes)


def _group(r: Rewriting, first: Node, middle: Node, last: Node) -> Node | None:
    x, grouped, y = (r.known[name] for name in (first.inputs[0], first.outputs[0], last.outputs[0]))
    scale, bias = (r.known[name].value for name in middle.inputs[1:])
    if scale is None or bias is None or x.shape != y.shape or len(x.shape) < 3 or 0 in x.shape or x.dtype != np.float32:
        return None
    groups = grouped.shape[1]
    if grouped.shape[0] != x.shape[0] or x.shape[1] % groups or not r.is_internal(middle.outputs[0]):
        return None
    values = (np.repeat(value.reshape(-1), x.shape[1] // groups) for value in (scale, bias))
    names = (r.constant(last.outputs[0], role, value) for role, value in zip(("scale", "bias"), values))
    attributes = {"num_groups": groups, "epsilon": middle.attributes.get("epsilon", 1e-5)}
    return Node("GroupNormalization", (first.inputs[0], *names), last.outputs, attributes, last.name)


class Normalised(NamedTuple):
    """A normalisation of a tensor over some of its axes; `centred`: the mean is subtracted."""

    x: str
    axes: tuple[int, ...]
    epsilon: float
    centred: bool
    factor: str = ""  # a constant that it is multiplied with


def spelled_normalisations(graph: Graph, known: Knowledge) -> Graph:
    """``(x - mean) / sqrt(variance + epsilon)`` and ``x / sqrt(mean of squares + epsilon)`` become one operator."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        normalised = _normalised(r, node) if node.op in ("Div", "Mul") else None
        nodes += [node] if normalised is None else _as_operators(r, node, normalised) or [node]
    return r.graph(nodes)


def _normalised(r: Rewriting, node: Node) -> Normalised | None:
    """The normalisation whose last step a quotient or product is."""
    if node.op == "Div":
        d, s = node.inputs[0], _under_root(r, node.inputs[1], 0.5)
        product = r.maker(d, "Mul")
        factors = product.inputs if product is not None and len(product.inputs) == 2 else ()
        for factor, other in zip(factors, reversed(factors)):
            normalised = _over_root(r, other, s) if r.known[factor].value is not None else None
            if normalised is not None:
                return normalised._replace(factor=factor)
        return _over_root(r, d, s)
    if len(node.inputs) != 2:
        return None
    for d, inverse in (node.inputs, node.inputs[::-1]):
        normalised = _over_root(r, d, _under_root(r, inverse, -0.5))
        if normalised is not None:
            return normalised
    return None


def _under_root(r: Rewriting, name: str, power: float) -> str | None:
    """s where a tensor is s to the power of 0.5 or -0.5."""
    if power < 0:
        inverse = r.maker(name, "Reciprocal", "Div")
        if inverse is not None and (inverse.op == "Reciprocal" or r.number(inverse.inputs[0]) == 1):
            return _under_root(r, inverse.inputs[-1], 0.5)
    node = r.maker(name, "Sqrt", "Pow")
    if node is None or (node.op == "Sqrt" and power < 0):
        return None
    return node.inputs[0] if node.op == "Sqrt" or r.number(node.inputs[1]) == power else None


def _over_root(r: Rewriting, d: str, s: str | None) -> Normalised | None:
    """d over the root of s, if that is a mean of squares of d plus a constant."""
    total = r.maker(s, "Add") if s else None
    if total is None or len(total.inputs) != 2:
        return None
    for mean, epsilon in (total.inputs, total.inputs[::-1]):
        added, of = r.number(epsilon), _mean_of(r, mean)
        if added is None or of is None or added < 0 or r.known[d].dtype != np.float32:
            continue
        square, axes = r.maker(of[0], "Mul", "Pow"), of[1]
        if square is None or not _same_deviations(r, square.inputs[0], d):
            continue
        if r.number(square.inputs[1]) != 2 if square.op == "Pow" else square.inputs[1] != square.inputs[0]:
            continue
        difference = r.maker(d, "Sub")
        if difference is not None and _mean_of(r, difference.inputs[1]) == (difference.inputs[0], axes):
            return Normalised(difference.inputs[0], axes, added, True)
        return Normalised(d, axes, added, False)
    return None


def _same_deviations(r: Rewriting, a: str, b: str) -> bool:
    """Whether two tensors are one, or both the deviations of a tensor from its mean."""
    first, second = r.maker(a, "Sub"), r.maker(b, "Sub")
    if a == b or first is None or second is None:
        return a == b
    mean = _mean_of(r, first.inputs[1])
    return first.inputs[0] == second.inputs[0] and mean is not None and mean == _mean_of(r, second.inputs[1])


def _mean_of(r: Rewriting, name: str) -> tuple[str, tuple[int, ...]] | None:
    """The tensor that a tensor is the mean of, and the axes, which it has kept."""
    view = r.maker(name, "Reshape", "Unsqueeze")
    node = r.maker(view.inputs[0] if view is not None else name, "ReduceMean")
    axes = None if node is None else node.attributes.get("axes")
    if node is None or not axes or node.input(1):
        return None
    shape = r.known[node.inputs[0]].shape
    axes = tuple(sorted(normal(axis, len(shape), node.op) for axis in axes))
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return (node.inputs[0], axes) if r.known[name].shape == kept else None


def _as_operators(r: Rewriting, node: Node, normalised: Normalised) -> list[Node]:
    """The operators that compute a normalisation; none if there are none."""
    if not normalised.factor:
        return [operator] if (operator := _as_operator(r, node, normalised)) else []
    y = r.known[node.outputs[0]]
    name = r.tensor(node.outputs[0], "normalised", y.dtype, y.shape)
    operator = _as_operator(r, node.with_(outputs=(name,)), normalised)
    return [operator, Node("Mul", (name, normalised.factor), node.outputs, {}, node.name)] if operator else []


def _as_operator(r: Rewriting, node: Node, normalised: Normalised) -> Node | None:
    """The operator that computes a normalisation, None if there is none."""
    shape, out = r.known[normalised.x].shape, node.outputs[0]
    rank, attributes = len(shape), {"epsilon": normalised.epsilon}
    if shape != r.known[out].shape or r.known[normalised.x].dtype != np.float32 or 0 in shape:
        return None
    if normalised.centred and rank in (4, 5) and normalised.axes == tuple(range(2, rank)):
        names = (r.constant(out, w, np.full(shape[1], v, np.float32)) for w, v in (("scale", 1), ("bias", 0)))
        return Node("InstanceNormalization", (normalised.x, *names), node.outputs, attributes, node.name)
    if normalised.axes == tuple(range(normalised.axes[0], rank)):
        attributes |= {"axis": normalised.axes[0]}
    elif normalised.axes == (1,):
        attributes |= {"channels": 1}
    else:
        return None
    ones = np.ones([shape[axis] for axis in normalised.axes], np.float32)
    op = "LayerNormalization" if normalised.centred else "RMSNormalization"
    return Node(op, (normalised.x, r.constant(out, "scale", ones)), node.outputs, attributes, node.name)


def parameters_into_normalisations(graph: Graph, known: Knowledge) -> Graph:
    """Products and sums with constants after a normalisation become its scale and bias."""
    r, nodes = Rewriting(graph, known), dict[str, Node]()
    for node in graph.nodes:
        two = len(node.inputs) == 2 and node.op in ("Mul", "Add")
        for name, other in zip(node.inputs, node.inputs[::-1]) if two else ():
            before = r.maker(name, *NORMALISATIONS)
            if before is None or not r.is_internal(name):
                continue
            joined = _with_parameter(r, before, node, known[other].value)
            if joined is not None:
                nodes.pop(name)
                node = joined
                break
        r.makers[node.outputs[0]] = nodes[node.outputs[0]] = node
    return r.graph(list(nodes.values()))


def _with_parameter(r: Rewriting, before: Node, node: Node, value: np.ndarray | None) -> Node | None:
    """A normalisation and the product or sum with a constant that follows it."""
    x, out = r.known[before.inputs[0]], node.outputs[0]
    scale, bias = (r.known[before.input(i)].value if before.input(i) else None for i in (1, 2))
    constant = all(r.known[name].value is not None for name in before.inputs[1:] if name)
    if value is None or not constant or x.dtype != np.float32 or value.dtype != np.float32 or 0 in x.shape:
        return None
    if r.known[out].shape != x.shape or any(before.outputs[1:]) or value.ndim > len(x.shape):
        return None
    operand = _by_element(before, x.shape, value)
    if operand is None or scale is None or (before.op == "RMSNormalization" and node.op == "Add"):
        return None
    if before.op in OF_CHANNELS and not of_channels(before, r.known, 0):
        return None
    s, b = (np.float64(0) if a is None else a.astype(np.float64) for a in (scale, bias))
    s, b = (s * operand, b * operand) if node.op == "Mul" else (s, b + operand)
    shape = np.broadcast_shapes(operand.shape, *(a.shape for a in (scale, bias) if a is not None))
    parameters = {"scale": s} if bias is None and node.op == "Mul" else {"scale": s, "bias": b}
    names = [r.constant(out, role, np.broadcast_to(v, shape).astype(np.float32)) for role, v in parameters.items()]
    return before.with_(inputs=(before.inputs[0], *names), outputs=node.outputs)


def _by_element(node: Node, shape: tuple[int, ...], value: np.ndarray) -> np.ndarray | None:
    """A constant by normalised element, or by channel; None if it varies otherwise."""
    full = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    axes = (1,) if node.op in OF_CHANNELS else normalised_axes(node.attributes, len(shape), node.op)
    if any(n != 1 and (axis not in axes or n != shape[axis]) for axis, n in enumerate(full.shape)):
        return None
    return full.reshape([full.shape[axis] for axis in axes]).astype(np.float64)


def takes_activations(node: Node, known: Knowledge) -> bool:
    """Whether a normalisation can apply activations, those without a number for each channel, to its result."""
    return node.op in NORMALISATIONS and (of_channels if node.op in OF_CHANNELS else of_last_axes)(node, known, 0)
