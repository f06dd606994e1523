"""Normalisations as exporters spell them out become one operator each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..ir import Graph, Node, fresh, renamed
from ..operators import Known
from ..operators.base import normal
from ..operators.kernels.normalise import NORMALISATIONS, OF_CHANNELS, of_channels, of_last_axes
from ..operators.normalise import normalised_axes

Knowledge = dict[str, Known]


def equal_nodes(graph: Graph, known: Knowledge) -> Graph:
    """Of nodes that compute the same from the same tensors, one is left."""
    names: dict[str, str] = {}
    first: dict[Any, Node] = {}
    nodes = []
    for node in graph.nodes:
        node = renamed(node, names)
        attributes = dict(node.attributes)
        if node.op == "ReduceMean" and attributes.get("axes"):
            rank = len(known[node.inputs[0]].shape)
            attributes["axes"] = sorted(normal(axis, rank, node.op) for axis in attributes["axes"])
        key = node.op, node.inputs, len(node.outputs), _frozen(attributes)
        twin = first.setdefault(key, node) if node.op in REPEATED else node
        if twin is node or any(name in graph.ends or not other for name, other in zip(node.outputs, twin.outputs)):
            nodes.append(node)
        else:
            names.update(zip(node.outputs, twin.outputs))
    return rebuilt(graph, nodes, {})


REPEATED = "ReduceMean", "Sub", "Mul", "Pow", "Transpose", "Cast"  # by exporters, where a normalisation reads x again


def _frozen(value: Any) -> Any:
    """Attributes as something that can be looked up."""
    if isinstance(value, Mapping):
        return tuple((k, _frozen(v)) for k, v in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return value.tobytes(), value.shape, str(value.dtype)
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value


def rebuilt(graph: Graph, nodes: list[Node], constants: Mapping[str, np.ndarray]) -> Graph:
    """A graph of these nodes, without dead ones."""
    return Graph(nodes, graph.inputs, (), {**graph.constants, **constants}).needed(graph.outputs)


class Matching:
    """What the patterns read of a graph."""

    def __init__(self, graph: Graph, known: Knowledge) -> None:
        self.known, self.makers, self.users, self.ends = known, graph.makers(), graph.users(), graph.ends
        self.constants: dict[str, np.ndarray] = {}  # new ones

    def made_by(self, name: str, *ops: str) -> Node | None:
        """The node that makes a tensor, if it is one of these operators."""
        node = self.makers.get(name)
        return node if node is not None and node.op in ops else None

    def number(self, name: str) -> float | None:
        """A constant of one element."""
        value = self.known[name].value if name else None
        return float(value.reshape(())) if value is not None and value.size == 1 else None

    def other(self, node: Node, name: str) -> str | None:
        """The other operand of a node with two; None if `name` is neither or there are more."""
        if len(node.inputs) != 2 or name not in node.inputs:
            return None
        return node.inputs[1] if node.inputs[0] == name else node.inputs[0]

    def single(self, name: str) -> Node | None:
        """The only reader of a tensor, which must be no output and not be stored in a narrow type."""
        readers = self.users.get(name, [])
        free = len(readers) == 1 and name not in self.ends and self.known[name].stored is None
        return readers[0] if free else None

    def constant(self, tensor: str, what: str, value: np.ndarray) -> str:
        """A new constant, named after the tensor that it is for."""
        name = fresh(f"{tensor}.{what}", self.known)
        self.constants[name], self.known[name] = value, Known(value.dtype, value.shape, value)
        return name


def group_normalisations(graph: Graph, known: Knowledge) -> Graph:
    """Reshape to groups, InstanceNormalization and Reshape back become GroupNormalization."""
    m, nodes = Matching(graph, known), []
    for node in graph.nodes:
        if node.op == "Reshape":
            middle = m.made_by(node.inputs[0], "InstanceNormalization")
            first = m.made_by(middle.inputs[0], "Reshape") if middle is not None else None
            if middle is not None and first is not None:
                node = _group(m, first, middle, node) or node
        nodes.append(node)
    return rebuilt(graph, nodes, m.constants)


def _group(m: Matching, first: Node, middle: Node, last: Node) -> Node | None:
    x, apart, y = (m.known[name] for name in (first.inputs[0], first.outputs[0], last.outputs[0]))
    scale, bias = (m.known[name].value for name in middle.inputs[1:])
    if scale is None or bias is None or x.shape != y.shape or len(x.shape) < 3 or 0 in x.shape or x.dtype != np.float32:
        return None
    groups = apart.shape[1]
    if apart.shape[0] != x.shape[0] or x.shape[1] % groups or m.single(middle.outputs[0]) is None:
        return None
    values = (np.repeat(value.reshape(-1), x.shape[1] // groups) for value in (scale, bias))
    names = (m.constant(last.outputs[0], what, value) for what, value in zip(("scale", "bias"), values))
    attributes = {"num_groups": groups, "epsilon": middle.attributes.get("epsilon", 1e-5)}
    return Node("GroupNormalization", (first.inputs[0], *names), last.outputs, attributes, last.name)


class Spelled(NamedTuple):
    """A normalisation that was found."""

    x: str
    axes: tuple[int, ...]
    epsilon: float
    centred: bool
    factor: str = ""  # a constant that it is multiplied with


def spelled_normalisations(graph: Graph, known: Knowledge) -> Graph:
    """``(x - mean) / sqrt(variance + epsilon)`` and ``x / sqrt(mean of squares + epsilon)`` become one operator."""
    m, nodes = Matching(graph, known), []
    for node in graph.nodes:
        found = _spelled(m, node) if node.op in ("Div", "Mul") else None
        nodes += [node] if found is None else _as_operators(m, node, found) or [node]
    return rebuilt(graph, nodes, m.constants)


def _spelled(m: Matching, node: Node) -> Spelled | None:
    """The normalisation whose last step a quotient or product is."""
    if node.op == "Div":
        d, s = node.inputs[0], _under_root(m, node.inputs[1], 0.5)
        product = m.made_by(d, "Mul")
        factors = product.inputs if product is not None and len(product.inputs) == 2 else ()
        for factor, other in zip(factors, reversed(factors)):
            found = _normalised_by(m, other, s) if m.known[factor].value is not None else None
            if found is not None:
                return found._replace(factor=factor)
        return _normalised_by(m, d, s)
    if len(node.inputs) != 2:
        return None
    for d, inverse in (node.inputs, node.inputs[::-1]):
        found = _normalised_by(m, d, _under_root(m, inverse, -0.5))
        if found is not None:
            return found
    return None


def _under_root(m: Matching, name: str, power: float) -> str | None:
    """s where a tensor is s to the power of 0.5 or -0.5."""
    if power < 0:
        inverse = m.made_by(name, "Reciprocal", "Div")
        if inverse is not None and (inverse.op == "Reciprocal" or m.number(inverse.inputs[0]) == 1):
            return _under_root(m, inverse.inputs[-1], 0.5)
    node = m.made_by(name, "Sqrt", "Pow")
    if node is None or (node.op == "Sqrt" and power < 0):
        return None
    return node.inputs[0] if node.op == "Sqrt" or m.number(node.inputs[1]) == power else None


def _normalised_by(m: Matching, d: str, s: str | None) -> Spelled | None:
    """d over the root of s, if that is a mean of squares of d plus a constant."""
    total = m.made_by(s, "Add") if s else None
    if total is None or len(total.inputs) != 2:
        return None
    for mean, epsilon in (total.inputs, total.inputs[::-1]):
        added, of = m.number(epsilon), _mean_of(m, mean)
        if added is None or of is None or added < 0 or m.known[d].dtype != np.float32:
            continue
        square, axes = m.made_by(of[0], "Mul", "Pow"), of[1]
        if square is None or not _alike(m, square.inputs[0], d):
            continue
        if m.number(square.inputs[1]) != 2 if square.op == "Pow" else square.inputs[1] != square.inputs[0]:
            continue
        apart = m.made_by(d, "Sub")
        if apart is not None and _mean_of(m, apart.inputs[1]) == (apart.inputs[0], axes):
            return Spelled(apart.inputs[0], axes, added, True)
        return Spelled(d, axes, added, False)
    return None


def _alike(m: Matching, a: str, b: str) -> bool:
    """Whether two tensors are one, or distances of one tensor from its mean."""
    first, second = m.made_by(a, "Sub"), m.made_by(b, "Sub")
    if a == b or first is None or second is None:
        return a == b
    mean = _mean_of(m, first.inputs[1])
    return first.inputs[0] == second.inputs[0] and mean is not None and mean == _mean_of(m, second.inputs[1])


def _mean_of(m: Matching, name: str) -> tuple[str, tuple[int, ...]] | None:
    """What a tensor is the mean of, and over which axes, which it keeps."""
    again = m.made_by(name, "Reshape", "Unsqueeze")
    node = m.made_by(again.inputs[0] if again is not None else name, "ReduceMean")
    axes = None if node is None else node.attributes.get("axes")
    if node is None or not axes or node.input(1):
        return None
    shape = m.known[node.inputs[0]].shape
    axes = tuple(sorted(normal(axis, len(shape), node.op) for axis in axes))
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return (node.inputs[0], axes) if m.known[name].shape == kept else None


def _as_operators(m: Matching, node: Node, found: Spelled) -> list[Node]:
    """The operators that a normalisation is: none if it is not one of them."""
    if not found.factor:
        return [one] if (one := _as_operator(m, node, found)) else []
    name = fresh(f"{node.outputs[0]}.normalised", m.known)
    m.known[name] = m.known[node.outputs[0]]
    one = _as_operator(m, node.with_(outputs=(name,)), found)
    return [one, Node("Mul", (name, found.factor), node.outputs, {}, node.name)] if one else []


def _as_operator(m: Matching, node: Node, found: Spelled) -> Node | None:
    """The operator that a normalisation is."""
    shape, out = m.known[found.x].shape, node.outputs[0]
    rank, attributes = len(shape), {"epsilon": found.epsilon}
    if shape != m.known[out].shape or m.known[found.x].dtype != np.float32 or 0 in shape:
        return None
    if found.centred and rank in (4, 5) and found.axes == tuple(range(2, rank)):
        names = (m.constant(out, w, np.full(shape[1], v, np.float32)) for w, v in (("scale", 1), ("bias", 0)))
        return Node("InstanceNormalization", (found.x, *names), node.outputs, attributes, node.name)
    if found.axes == tuple(range(found.axes[0], rank)):
        attributes |= {"axis": found.axes[0]}
    elif found.axes == (1,):
        attributes |= {"channels": 1}
    else:
        return None
    ones = np.ones([shape[axis] for axis in found.axes], np.float32)
    op = "LayerNormalization" if found.centred else "RMSNormalization"
    return Node(op, (found.x, m.constant(out, "scale", ones)), node.outputs, attributes, node.name)


def parameters_into_normalisations(graph: Graph, known: Knowledge) -> Graph:
    """Products and sums with constants after a normalisation become its scale and bias."""
    m, nodes = Matching(graph, known), dict[str, Node]()
    for node in graph.nodes:
        for name in node.inputs if node.op in ("Mul", "Add") and len(node.inputs) == 2 else ():
            before = m.made_by(name, *NORMALISATIONS)
            other = m.other(node, name)
            if before is None or other is None or m.single(name) is not node:
                continue
            joined = _with_parameter(m, before, node, m.known[other].value)
            if joined is not None:
                nodes.pop(name)
                node = joined
                break
        m.makers[node.outputs[0]] = nodes[node.outputs[0]] = node
    return rebuilt(graph, list(nodes.values()), m.constants)


def _with_parameter(m: Matching, before: Node, node: Node, value: np.ndarray | None) -> Node | None:
    """A normalisation and the product or sum with a constant that follows it."""
    x, out = m.known[before.inputs[0]], node.outputs[0]
    scale, bias = (m.known[before.input(i)].value if before.input(i) else None for i in (1, 2))
    given = all(m.known[name].value is not None for name in before.inputs[1:] if name)
    if value is None or not given or x.dtype != np.float32 or value.dtype != np.float32 or 0 in x.shape:
        return None
    if m.known[out].shape != x.shape or any(before.outputs[1:]) or value.ndim > len(x.shape):
        return None
    number = _by_element(before, x.shape, value)
    if number is None or scale is None or (before.op == "RMSNormalization" and node.op == "Add"):
        return None
    if before.op in OF_CHANNELS and not of_channels(before, m.known, 0):
        return None
    wide = [np.float64(0) if a is None else a.astype(np.float64) for a in (scale, bias)]
    wide = [wide[0] * number, wide[1] * number] if node.op == "Mul" else [wide[0], wide[1] + number]
    full = np.broadcast_shapes(number.shape, *(a.shape for a in (scale, bias) if a is not None))
    parts = {"scale": wide[0]} if bias is None and node.op == "Mul" else {"scale": wide[0], "bias": wide[1]}
    names = [m.constant(out, what, np.broadcast_to(part, full).astype(np.float32)) for what, part in parts.items()]
    return before.with_(inputs=(before.inputs[0], *names), outputs=node.outputs)


def _by_element(node: Node, shape: tuple[int, ...], value: np.ndarray) -> np.ndarray | None:
    """A constant by normalised element, or by channel; None if it varies otherwise."""
    full = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
    axes = (1,) if node.op in OF_CHANNELS else normalised_axes(node.attributes, len(shape), node.op)
    if any(n != 1 and (axis not in axes or n != shape[axis]) for axis, n in enumerate(full.shape)):
        return None
    return full.reshape([full.shape[axis] for axis in axes]).astype(np.float64)


def takes_activation(node: Node, activation: Any, known: Knowledge) -> bool:
    """Whether a normalisation can apply an activation, one without a number for each channel, to its result."""
    numbers = activation[1:] if isinstance(activation, tuple) else ()
    if node.op not in NORMALISATIONS or any(np.ndim(number) for number in numbers):
        return False
    return (of_channels if node.op in OF_CHANNELS else of_last_axes)(node, known, 0)


PASSES = equal_nodes, group_normalisations, spelled_normalisations, parameters_into_normalisations
