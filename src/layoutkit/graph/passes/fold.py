"""Simplified graphs: constants are folded, and operators around a convolution become part of it.

Each pass takes a graph and what is known of its tensors, and returns a graph. `folded` runs them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..ir import Graph, Node, fresh, renamed
from ..operators import Known
from ..operators.axes import REDUCTIONS
from ..operators.kernels import is_convolution, is_matmul, is_sum, limits_of
from ..operators.normalise import affine_of
from . import axes_last, normalisations
from .patterns import activations
from .products import Around, attention, scales_and_biases_into_products, views_into_products
from .quantised import kept_as_integers

Knowledge = dict[str, Known]


def folded(graph: Graph, known: Knowledge) -> Graph:
    """The graph after all passes; tensors that they add are added to `known`."""
    for one in PASSES:
        graph = one(graph, known)
    return graph


def _rebuilt(graph: Graph, nodes: list[Node], constants: Mapping[str, np.ndarray] | None = None) -> Graph:
    """A graph of these nodes, without dead ones."""
    whole = Graph(nodes, graph.inputs, (), {**graph.constants, **(constants or {})})
    return whole.needed(graph.outputs)


def new_constants(tensor: str, values: Mapping[str, np.ndarray], known: Knowledge, constants) -> list[str]:
    """Add constants to `constants` and `known`; returns their names, after the tensor that they are for."""
    names = []
    for what, value in values.items():
        names.append(name := fresh(f"{tensor}.{what}", known))
        constants[name], known[name] = value, Known(value.dtype, value.shape, value)
    return names


def fold_constants(graph: Graph, known: Knowledge) -> Graph:
    """Tensors that were computed from constants become constants."""
    nodes = [n for n in graph.nodes if any(known[o].value is None for o in n.outputs if o)]
    values = {o: known[o].value for n in graph.nodes for o in n.outputs if o and known[o].value is not None}
    return _rebuilt(graph, nodes, {k: v for k, v in values.items() if v is not None})


def shuffles(graph: Graph, known: Knowledge) -> Graph:
    """Channel shuffles, spelled as Reshape, Transpose and Reshape, become one `ChannelShuffle`."""
    users, makers = graph.users(), graph.makers()
    nodes = []
    for node in graph.nodes:
        middle = makers.get(node.input(0))
        first = makers.get(middle.input(0)) if middle is not None else None
        if first is not None and middle is not None:
            steps = all(_is_step(n.outputs[0], users, graph, known) for n in (first, middle))
            groups = _exchanged(first, middle, node, known)
            if steps and groups:
                node = Node("ChannelShuffle", first.inputs[:1], node.outputs, {"group": groups}, node.name)
        nodes.append(node)
    return _rebuilt(graph, nodes)


def _exchanged(first: Node, middle: Node, last: Node, known: Knowledge) -> int:
    """The number of groups that three nodes shuffle; 0 if they do something else."""
    if (first.op, middle.op, last.op) != ("Reshape", "Transpose", "Reshape"):
        return 0
    shape, apart, joined = (known[name].shape for name in (first.inputs[0], first.outputs[0], last.outputs[0]))
    if joined != shape or len(shape) < 3 or len(apart) != len(shape) + 1:
        return 0
    same = (apart[0], *apart[3:]) == (shape[0], *shape[2:]) and apart[1] * apart[2] == shape[1]
    return apart[1] if same and middle.attributes.get("perm") == [0, 2, 1, *range(3, len(apart))] else 0


ATTRIBUTES = {"Pad": "pads", **dict.fromkeys(REDUCTIONS, "axes")}  # that may also come as the second input


def constants_into_attributes(graph: Graph, known: Knowledge) -> Graph:
    """A node with its constant axes and pads as attributes, which can be translated to other layouts."""
    nodes = []
    for node in graph.nodes:
        attributes, name = dict(node.attributes), ATTRIBUTES.get(node.op)
        if node.op == "Split":
            attributes["split"] = [known[o].shape[attributes.get("axis", 0)] for o in node.outputs]
            node = node.with_(inputs=node.inputs[:1], attributes=attributes)
        elif name is not None and node.input(1) and not node.input(3):
            operands = [known[n].value for n in node.inputs[1:] if n]
            numbers = [value.reshape(-1).tolist() for value in operands if value is not None]
            if len(numbers) == len(operands):
                attributes |= {name: numbers[0], **({"value": numbers[1][0]} if node.input(2) else {})}
                node = node.with_(inputs=node.inputs[:1], attributes=attributes)
        nodes.append(node)
    return _rebuilt(graph, nodes)


def remove_identities(graph: Graph, known: Knowledge) -> Graph:
    """Removes nodes that change nothing; outputs of the graph keep their names."""
    names: dict[str, str] = {}
    nodes, users = [], graph.users()
    for node in graph.nodes:
        node = renamed(node, names)
        needed = tuple(name for name in node.outputs if name in users or name in graph.ends)
        if node.op == "Dropout" and needed == node.outputs[:1]:  # its mask is not used
            node = node.with_(outputs=needed)
        if _is_identity(node, known) and node.outputs[0] not in graph.ends:
            names[node.outputs[0]] = node.inputs[0]
        else:
            nodes.append(node)
    return _rebuilt(graph, nodes)


def _is_identity(node: Node, known: Knowledge) -> bool:
    if not node.inputs or not node.inputs[0] or len([o for o in node.outputs if o]) != 1:
        return False
    x, y = known[node.inputs[0]], known[node.outputs[0]]
    if x.shape != y.shape or x.dtype != y.dtype or x.stored != y.stored:
        return False
    if node.op in ("Identity", "Dropout", "Cast", "Reshape", "Flatten", "Expand", "Squeeze", "Unsqueeze"):
        return True
    if node.op in ("Sum", "Concat", "Max", "Min", "Mean"):
        return len(node.inputs) == 1
    if node.op == "Transpose":
        return node.attributes.get("perm") == list(range(len(x.shape)))
    return False


def _per_channel(value: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """A constant operand as one number per channel; None if it varies otherwise or is not constant."""
    if value is None or len(shape) < 3 or value.ndim > len(shape):
        return None
    full = (1,) * (len(shape) - value.ndim) + value.shape
    if any(n != 1 for i, n in enumerate(full) if i != 1) or full[1] not in (1, shape[1]):
        return None
    return np.broadcast_to(value.reshape(-1), (shape[1],)).astype(np.float64)


def as_affine(graph: Graph, known: Knowledge) -> Graph:
    """Batch normalisations, and products and sums with one number per channel, become ``x * scale + shift``."""
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        affine = _affine(node, known, constants)
        if affine is not None:
            x, scale, shift = affine
            node = _affine_node(node, x, scale, shift, known, constants)
        nodes.append(node)
    return _rebuilt(graph, nodes, constants)


def _affine_node(node, x, scale, shift, known, constants) -> Node:
    shape = (-1, *[1] * (len(known[x].shape) - 2))
    values = {kind: v.astype(known[x].dtype).reshape(shape) for kind, v in (("scale", scale), ("shift", shift))}
    names = new_constants(node.outputs[0], values, known, constants)
    return Node("Affine", (x, *names), node.outputs, {"exact": (scale, shift)}, node.name)


def _affine(node: Node, known: Knowledge, constants) -> tuple[str, np.ndarray, np.ndarray] | None:
    """The input, scale and shift of a node that can become an `Affine`."""
    if not node.inputs or not node.inputs[0] or 0 in known[node.outputs[0]].shape:  # without channels there is no scale
        return None
    x = known[node.inputs[0]]
    if node.op == "BatchNormalization":
        scale, bias, mean, variance = (known[name].value for name in node.inputs[1:5])
        if x.dtype.kind != "f" or scale is None or bias is None or mean is None or variance is None or len(x.shape) < 3:
            return None
        return (node.inputs[0], *affine_of(scale, bias, mean, variance, node.attributes.get("epsilon", 1e-5)))
    if node.op not in ("Mul", "Add", "Sum") or len(node.inputs) != 2:
        return None
    y = known[node.outputs[0]]
    for name, other in (node.inputs, node.inputs[::-1]):
        if known[name].shape == y.shape and y.dtype.kind == "f" and known[name].value is None:
            values = _per_channel(known[other].value, y.shape)
            if values is not None:
                ones, zeros = np.ones(y.shape[1]), np.zeros(y.shape[1])
                return (name, values, zeros) if node.op == "Mul" else (name, ones, values)
    return None


def affine_into_makers(graph: Graph, known: Knowledge) -> Graph:
    """An `Affine` that is the only reader of a convolution or another `Affine` is merged into it."""
    constants, users = dict(graph.constants), graph.users()
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "Affine" and _is_step(node.inputs[0], users, graph, known):
            before = makers.get(node.inputs[0])
            if before is not None and _takes_affine(before, known):
                makers.pop(node.inputs[0])
                node = _into_conv(before, node, known, constants)
            elif before is not None and before.op == "Affine":
                makers.pop(node.inputs[0])
                (s0, t0), (s1, t1) = before.attributes["exact"], node.attributes["exact"]
                node = _affine_node(node, before.inputs[0], s0 * s1, t0 * s1 + t1, known, constants)
        makers[node.outputs[0]] = node
    return _rebuilt(graph, list(makers.values()), constants)


def _is_step(name: str, users: Mapping[str, list[Node]], graph: Graph, known: Knowledge) -> bool:
    """Whether a tensor has one reader, is no output of the graph, and is not stored in a narrow type."""
    return len(users.get(name, ())) == 1 and name not in graph.ends and known[name].stored is None


def _takes_affine(node: Node, known: Knowledge) -> bool:
    """Whether it is a convolution with a constant filter, without a residual so far."""
    alone = len(node.inputs) < 4 and "integers" not in node.attributes
    return alone and is_convolution(node, known)


def _into_conv(conv: Node, affine: Node, known: Knowledge, constants) -> Node:
    scale, shift = affine.attributes["exact"]
    w = known[conv.inputs[1]].value
    assert w is not None
    b = known[conv.inputs[2]].value if conv.input(2) else None
    taps = [1] * (w.ndim - 2)
    if conv.op == "ConvTranspose":  # (I, O of a group, ..)
        groups = conv.attributes.get("group", 1)
        scaled = w.reshape(groups, -1, *w.shape[1:]) * scale.reshape(groups, 1, -1, *taps)
    else:
        scaled = w * scale.reshape(-1, 1, *taps)
    scaled = scaled.reshape(w.shape).astype(w.dtype)
    bias = (shift + (0 if b is None else b * scale)).astype(w.dtype)
    names = new_constants(affine.outputs[0], {"filter": scaled, "bias": bias}, known, constants)
    return conv.with_(inputs=(conv.inputs[0], *names), outputs=affine.outputs)


def pads_into_windows(graph: Graph, known: Knowledge) -> Graph:
    """A Pad with zeros that only a convolution reads becomes its padding."""
    users, makers = graph.users(), graph.makers()
    nodes = []
    for node in graph.nodes:
        pad = makers.get(node.input(0))
        if node.op == "Conv" and pad is not None and pad.op == "Pad" and _is_step(pad.outputs[0], users, graph, known):
            pairs = _zeros_around(pad, known)
            auto = node.attributes.get("auto_pad", "NOTSET")
            if pairs is not None and auto in ("NOTSET", "VALID"):
                own = node.attributes.get("pads") if auto == "NOTSET" else None
                own = own or [0] * len(pairs)
                attributes = {**node.attributes, "auto_pad": "NOTSET", "pads": [a + b for a, b in zip(own, pairs)]}
                node = node.with_(inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)
        nodes.append(node)
    return _rebuilt(graph, nodes)


def _zeros_around(pad: Node, known: Knowledge) -> list[int] | None:
    """The pads of the spatial axes; None if other axes are padded, or not with zeros."""
    pads = known[pad.inputs[1]].value if pad.input(1) else np.array(pad.attributes.get("pads", ()))
    value = known[pad.inputs[2]].value if pad.input(2) else np.array(pad.attributes.get("value", 0))
    rank = len(known[pad.inputs[0]].shape)
    if pads is None or value is None or pad.input(3) or len(pads) != 2 * rank or value.any() or min(pads) < 0:
        return None
    if pad.attributes.get("mode", "constant") != "constant" or any(pads[i] for i in (0, 1, rank, rank + 1)):
        return None
    return [int(n) for n in (*pads[2:rank], *pads[rank + 2 :])]


ACTIVATIONS: dict[str, Callable[[Node, Knowledge], Any]] = {
    "Relu": lambda n, k: "relu",
    "Sigmoid": lambda n, k: "sigmoid",
    "Tanh": lambda n, k: "tanh",
    "Softplus": lambda n, k: "softplus",
    "Mish": lambda n, k: "mish",
    "HardSwish": lambda n, k: "hardswish",
    "LeakyRelu": lambda n, k: ("leaky_relu", n.attributes.get("alpha", 0.01)),
    "Elu": lambda n, k: ("elu", n.attributes.get("alpha", 1.0)),
    "HardSigmoid": lambda n, k: ("hardsigmoid", n.attributes.get("alpha", 0.2), n.attributes.get("beta", 0.5)),
    "Clip": lambda n, k: _clip(n, k),
}


def _clip(node: Node, known: Knowledge) -> Any:
    limits = []
    for i, none in ((1, -np.inf), (2, np.inf)):
        value = known[node.inputs[i]].value if node.input(i) else np.array(none)
        if value is None or value.size != 1:
            return None
        limits.append(float(value.reshape(())))
    return ("clip", *limits) if limits[0] <= limits[1] else None


def sums_into_convolutions(graph: Graph, known: Knowledge) -> Graph:
    """A sum that is the only reader of a convolution becomes part of it: the other summand is its residual."""
    users = graph.users()
    position = {node.outputs[0]: i for i, node in enumerate(graph.nodes)}
    makers = {node.outputs[0]: node for node in graph.nodes}
    for node in graph.nodes:
        if node.op not in ("Add", "Sum") or len(node.inputs) != 2:
            continue
        shape = known[node.outputs[0]].shape
        convs = [name for name in set(node.inputs) if name in makers and _may_end(makers[name], users, graph, known)]
        if not convs or any(known[name].shape != shape for name in node.inputs) or len(set(node.inputs)) < 2:
            continue
        last = max(convs, key=lambda name: position[name])
        other = next(name for name in node.inputs if name != last)
        if known[other].value is not None:  # a residual must be computed by a step
            continue
        if makers[last].op in ("Gemm", "MatMul") and not Around(graph, known).may_be_read_by_strides(other):
            continue
        conv = makers.pop(last)
        inputs = (*conv.inputs, *[""] * (3 - len(conv.inputs)), other)
        makers[node.outputs[0]] = conv.with_(inputs=inputs, outputs=node.outputs)
    return _rebuilt(graph, list(makers.values()))


def _may_end(node: Node, users, graph: Graph, known: Knowledge) -> bool:
    """Whether a convolution can still take an epilogue."""
    name = node.outputs[0]
    plain = not {"activation", "integers"} & set(node.attributes) and len(node.inputs) < 4
    if node.op in ("Gemm", "MatMul"):
        scaled = node.attributes.get("alpha", 1) != 1  # what is added would be, too, unless a constant is
        plain = plain and not (scaled and all(known[x].value is None for x in node.inputs[:2]))
        return plain and _is_step(name, users, graph, known) and is_matmul(node, known)
    return node.op == "Conv" and plain and _is_step(name, users, graph, known) and is_convolution(node, known)


def activations_into_makers(graph: Graph, known: Knowledge) -> Graph:
    """An activation that is the only reader of a convolution or `Affine` is merged into it."""
    users = graph.users()
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        before = makers.get(node.input(0))
        known_as = ACTIVATIONS.get(node.op)
        activation = None if known_as is None else known_as(node, known)
        if before is not None and activation is not None and _activates(before, activation, known):
            name = before.outputs[0]
            single = _is_step(name, users, graph, known) and known[name].dtype == np.float32
            if single and "activation" not in before.attributes:
                makers.pop(name)
                node = before.with_(outputs=node.outputs, attributes={**before.attributes, "activation": activation})
        makers[node.outputs[0]] = node
    return _rebuilt(graph, list(makers.values()))


def _activates(node: Node, activation: Any, known: Knowledge) -> bool:
    """Whether a node can apply an activation to its result."""
    if node.op in ("Add", "Sum"):
        return limits_of(activation) is not None and is_sum(node, known)
    if node.op == "Affine":
        return len(known[node.inputs[0]].shape) in (3, 4, 5)  # it becomes a convolution
    if is_convolution(node, known) or normalisations.takes_activation(node, activation, known):
        return True
    return node.op in ("Gemm", "MatMul") and is_matmul(node, known)


def affines_as_convolutions(graph: Graph, known: Knowledge) -> Graph:
    """`Affine`s that are left become depthwise convolutions of one tap, which have kernels in every layout."""
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        x = known[node.inputs[0]] if node.op == "Affine" else None
        if x is not None and x.dtype == np.float32 and len(x.shape) in (3, 4, 5):
            scale, shift = (value.astype(np.float32) for value in node.attributes["exact"])
            values = {"taps": scale.reshape(-1, 1, *[1] * (len(x.shape) - 2)), "bias": shift.reshape(-1)}
            names = new_constants(node.outputs[0], values, known, constants)
            attributes = {k: v for k, v in node.attributes.items() if k == "activation"}
            attributes["group"] = x.shape[1]
            node = Node("Conv", (node.inputs[0], *names), node.outputs, attributes, node.name)
        nodes.append(node)
    return _rebuilt(graph, nodes, constants)


PASSES = (
    kept_as_integers, fold_constants, constants_into_attributes, shuffles, remove_identities, activations,
    pads_into_windows, *normalisations.PASSES, axes_last.channels_in_place,
    normalisations.parameters_into_normalisations, attention, scales_and_biases_into_products, views_into_products,
    as_affine, affine_into_makers, affine_into_makers,
    sums_into_convolutions, activations_into_makers, affines_as_convolutions,
)  # fmt: skip
