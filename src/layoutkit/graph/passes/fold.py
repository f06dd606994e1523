"""Simplified graphs: constants are folded, and operators around a convolution become part of it.

Each pass takes a graph and what is known of its tensors, and returns a graph. `folded` runs them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...convolutions.epilogue import ACTIVATIONS, chain_of
from ..ir import Graph, Node, fresh, renamed
from ..operators import Known
from ..operators.axes import REDUCTIONS
from ..operators.kernels import is_convolution, is_matmul
from ..operators.kernels.elementwise import steps_of
from ..operators.moves import order_of
from ..operators.normalise import affine_of
from ..operators.resize import resized
from . import axes_last, normalisations
from .einsum import einsums_as_products
from .identities import means_as_pooling, without_effect
from .patterns import activations
from .products import Around, attention, scales_and_biases_into_products, views_into_products
from .quantised import kept_as_integers
from .recurrent import recurrent_products

Knowledge = dict[str, Known]
MOST_ACTIVATIONS = 8  # that one operator brings into an epilogue


def folded(graph: Graph, known: Knowledge) -> Graph:
    """The graph after all passes; tensors that they add are added to `known`."""
    for one in PASSES:
        graph = one(graph, known)
    return graph


def rebuilt(graph: Graph, nodes: list[Node], constants: Mapping[str, np.ndarray] | None = None) -> Graph:
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
    return rebuilt(graph, nodes, {k: v for k, v in values.items() if v is not None})


def shuffles(graph: Graph, known: Knowledge) -> Graph:
    """Channel shuffles, and pixels moved to channels or back, spelled as Reshape, Transpose and Reshape, become one
    operator."""
    users, makers = graph.users(), graph.makers()
    nodes = []
    for node in graph.nodes:
        middle = makers.get(node.input(0))
        first = makers.get(middle.input(0)) if middle is not None else None
        if first is not None and middle is not None:
            steps = all(is_step(n.outputs[0], users, graph, known) for n in (first, middle))
            groups = _exchanged(first, middle, node, known)
            blocks = _blocks(first, middle, node, known)
            if steps and groups:
                node = Node("ChannelShuffle", first.inputs[:1], node.outputs, {"group": groups}, node.name)
            elif steps and blocks is not None:
                op, mode, size = blocks
                attributes = {"blocksize": size, "mode": mode}
                node = Node(op, first.inputs[:1], node.outputs, attributes, node.name)
        nodes.append(node)
    return rebuilt(graph, nodes)


def _exchanged(first: Node, middle: Node, last: Node, known: Knowledge) -> int:
    """The number of groups that three nodes shuffle; 0 if they do something else."""
    if (first.op, middle.op, last.op) != ("Reshape", "Transpose", "Reshape"):
        return 0
    shape, apart, joined = (known[name].shape for name in (first.inputs[0], first.outputs[0], last.outputs[0]))
    if joined != shape or len(shape) < 3 or len(apart) != len(shape) + 1:
        return 0
    same = (apart[0], *apart[3:]) == (shape[0], *shape[2:]) and apart[1] * apart[2] == shape[1]
    return apart[1] if same and middle.attributes.get("perm") == [0, 2, 1, *range(3, len(apart))] else 0


# Places in a block and channels among the axes of the first Reshape, by the permutation and which axes are the block's.
BLOCKS = {
    (0, 1, 4, 2, 5, 3): ("DepthToSpace", "CRD", (2, 3)), (0, 3, 4, 1, 5, 2): ("DepthToSpace", "DCR", (1, 2)),
    (0, 1, 3, 5, 2, 4): ("SpaceToDepth", "CRD", (3, 5)), (0, 3, 5, 1, 2, 4): ("SpaceToDepth", "DCR", (3, 5)),
}  # fmt: skip


def _blocks(first: Node, middle: Node, last: Node, known: Knowledge) -> tuple[str, str, int] | None:
    """The operator, mode and block size of three nodes that move places in blocks of pixels to channels, or back."""
    if (first.op, middle.op, last.op) != ("Reshape", "Transpose", "Reshape"):
        return None
    shape, apart, joined = (known[name].shape for name in (first.inputs[0], first.outputs[0], last.outputs[0]))
    found = BLOCKS.get(tuple(middle.attributes.get("perm") or ()))
    if found is None or len(shape) != 4 or len(apart) != 6 or len(joined) != 4 or 0 in apart:
        return None
    op, mode, (i, k) = found
    b, (n, c, h, w) = apart[i], shape
    if apart[k] != b:
        return None
    whole = (n, c // b**2, h * b, w * b) if op == "DepthToSpace" else (n, c * b**2, h // b, w // b)
    order = order_of(op, {"blocksize": b, "mode": mode}, shape)
    return (op, mode, b) if order is not None and order.inner == apart and joined == whole else None


ATTRIBUTES = {"Pad": "pads", **dict.fromkeys(REDUCTIONS, "axes")}  # that may also come as the second input


def constants_into_attributes(graph: Graph, known: Knowledge) -> Graph:
    """A node with its constant axes and pads as attributes, which can be translated to other layouts."""
    nodes = []
    for node in graph.nodes:
        attributes, name = dict(node.attributes), ATTRIBUTES.get(node.op)
        if node.op == "Split":
            attributes["split"] = [known[o].shape[attributes.get("axis", 0)] for o in node.outputs]
            node = node.with_(inputs=node.inputs[:1], attributes=attributes)
        elif node.op in ("Slice", "Resize"):
            node = _with_numbers(node, known)
        elif name is not None and node.input(1) and not node.input(3):
            operands = [known[n].value for n in node.inputs[1:] if n]
            numbers = [value.reshape(-1).tolist() for value in operands if value is not None]
            if len(numbers) == len(operands):
                attributes |= {name: numbers[0], **({"value": numbers[1][0]} if node.input(2) else {})}
                node = node.with_(inputs=node.inputs[:1], attributes=attributes)
        nodes.append(node)
    return rebuilt(graph, nodes)


def _with_numbers(node: Node, known: Knowledge) -> Node:
    """A Slice or Resize with what it does as attributes, if that is constant."""
    values = [known[name].value if name else None for name in node.inputs[1:]]
    if any(name and value is None for name, value in zip(node.inputs[1:], values)):
        return node
    x, attributes = known[node.inputs[0]], dict(node.attributes)
    if node.op == "Resize":
        scales, sizes = (None if v is None else v.tolist() for v in [*values, None, None, None][1:3])
        attributes["along"] = resized(x.shape, attributes, scales, sizes)
    else:
        given = zip(("starts", "ends", "axes", "steps"), values)
        attributes |= {key: value.tolist() for key, value in given if value is not None}
        attributes.setdefault("axes", list(range(len(attributes["starts"]))))
    return node.with_(inputs=node.inputs[:1], attributes=attributes)


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
    return rebuilt(graph, nodes)


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
    along = _along(value, shape, 1) if len(shape) > 2 else None
    return None if along is None else np.broadcast_to(along, (shape[1],)).astype(np.float64)


def _along(value: np.ndarray | None, shape: tuple[int, ...], axis: int) -> np.ndarray | None:
    """A constant operand as one number, or one for each index of an axis of the result."""
    if value is None or value.ndim > len(shape):
        return None
    if value.size == 1:
        return value.reshape(-1)
    full = (1,) * (len(shape) - value.ndim) + value.shape
    alike = all(n == 1 for i, n in enumerate(full) if i != axis) and full[axis] == shape[axis]
    return value.reshape(-1) if alike else None


def as_affine(graph: Graph, known: Knowledge) -> Graph:
    """Batch normalisations, and products and sums with one number per channel, become ``x * scale + shift``."""
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        affine = _affine(node, known, constants)
        if affine is not None:
            x, scale, shift = affine
            node = _affine_node(node, x, scale, shift, known, constants)
        nodes.append(node)
    return rebuilt(graph, nodes, constants)


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
    if node.op not in ("Mul", "Add", "Sum", "Sub", "Div") or len(node.inputs) != 2:
        return None
    y = known[node.outputs[0]]
    for name, other, sign in ((*node.inputs, 1), (*node.inputs[::-1], -1)):
        if known[name].shape == y.shape and y.dtype.kind == "f" and known[name].value is None:
            values = _per_channel(known[other].value, y.shape)
            if values is not None:
                return _scaled_and_shifted(node.op, name, values, sign)
    return None


def _scaled_and_shifted(op: str, x: str, values: np.ndarray, sign: int) -> tuple[str, np.ndarray, np.ndarray] | None:
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
    constants, users = dict(graph.constants), graph.users()
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        if node.op == "Affine" and is_step(node.inputs[0], users, graph, known):
            before = makers.get(node.inputs[0])
            if before is not None and _takes_affine(before, known):
                makers.pop(node.inputs[0])
                node = _into_conv(before, node, known, constants)
            elif before is not None and before.op == "Affine":
                makers.pop(node.inputs[0])
                (s0, t0), (s1, t1) = before.attributes["exact"], node.attributes["exact"]
                node = _affine_node(node, before.inputs[0], s0 * s1, t0 * s1 + t1, known, constants)
        makers[node.outputs[0]] = node
    return rebuilt(graph, list(makers.values()), constants)


def is_step(name: str, users: Mapping[str, list[Node]], graph: Graph, known: Knowledge) -> bool:
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
        if node.op == "Conv" and pad is not None and pad.op == "Pad" and is_step(pad.outputs[0], users, graph, known):
            pairs = _zeros_around(pad, known)
            auto = node.attributes.get("auto_pad", "NOTSET")
            if pairs is not None and auto in ("NOTSET", "VALID"):
                own = node.attributes.get("pads") if auto == "NOTSET" else None
                own = own or [0] * len(pairs)
                attributes = {**node.attributes, "auto_pad": "NOTSET", "pads": [a + b for a, b in zip(own, pairs)]}
                node = node.with_(inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)
        nodes.append(node)
    return rebuilt(graph, nodes)


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
    return rebuilt(graph, list(makers.values()))


def _may_end(node: Node, users, graph: Graph, known: Knowledge) -> bool:
    """Whether a convolution can still take an epilogue."""
    name = node.outputs[0]
    plain = not {"activation", "integers"} & set(node.attributes) and len(node.inputs) < 4
    if node.op in ("Gemm", "MatMul"):
        scaled = node.attributes.get("alpha", 1) != 1  # what is added would be, too, unless a constant is
        plain = plain and not (scaled and all(known[x].value is None for x in node.inputs[:2]))
        return plain and is_step(name, users, graph, known) and is_matmul(node, known)
    return node.op == "Conv" and plain and is_step(name, users, graph, known) and is_convolution(node, known)


def epilogues(graph: Graph, known: Knowledge) -> Graph:
    """Elementwise operators that follow a convolution or product, as its only readers, become part of it."""
    users = graph.users()
    makers: dict[str, Node] = {}
    for node in graph.nodes:
        for at, name in enumerate(node.inputs):
            before = makers.get(name)
            if before is None or not is_step(name, users, graph, known) or not _activates(before, known):
                continue
            steps = _as_activation(before, node, at, known)
            if steps:
                makers.pop(name)
                if "activation" in before.attributes:
                    steps = [*chain_of(before.attributes["activation"]), *steps]
                activation = steps[0] if len(steps) == 1 else steps
                node = before.with_(outputs=node.outputs, attributes={**before.attributes, "activation": activation})
                break
        makers[node.outputs[0]] = node
    return rebuilt(graph, list(makers.values()))


def _as_activation(before: Node, node: Node, at: int, known: Knowledge) -> list | None:
    """What a node does to its input `at`, the result of another, as steps of an activation; None if there are none."""
    y = known[node.outputs[0]]
    if y.dtype != np.float32 or y.shape != known[node.inputs[at]].shape:
        return None
    written: list[Any] = []
    for step in steps_of(node, known, at) or ():
        name, *numbers = step.written
        if name not in ACTIVATIONS:
            return None
        if step.operand:
            product = before.op in ("Gemm", "MatMul")
            operand = _along(known[step.operand].value, y.shape, len(y.shape) - 1 if product else 1)
            if operand is None or "integers" in before.attributes:
                return None
            if product and operand.size > 1 and len(known[before.inputs[1]].shape) < 2:  # it has one column
                return None
            if operand.size > 1 and before.op in normalisations.NORMALISATIONS:
                return None
            numbers = [operand]
        written.append((name, *numbers) if numbers else name)
    return written if len(written) <= MOST_ACTIVATIONS else None


def _activates(node: Node, known: Knowledge) -> bool:
    """Whether a node can apply an activation to its result."""
    if is_convolution(node, known) or normalisations.takes_activations(node, known):
        return True
    return node.op in ("Gemm", "MatMul") and is_matmul(node, known)


PASSES = (
    kept_as_integers, fold_constants, recurrent_products, einsums_as_products, constants_into_attributes, shuffles,
    remove_identities, without_effect, activations, pads_into_windows, *normalisations.PASSES,
    axes_last.channels_in_place, normalisations.parameters_into_normalisations, attention,
    scales_and_biases_into_products, views_into_products, as_affine, affine_into_makers, affine_into_makers,
    sums_into_convolutions, means_as_pooling, epilogues,
)  # fmt: skip
