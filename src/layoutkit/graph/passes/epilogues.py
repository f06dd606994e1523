"""Operators before and after a convolution, product or normalisation become part of it: zeros around its input, a
residual, activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...convolutions.epilogue import ACTIVATIONS, chain_of
from ..ir import Graph, Node
from ..operators.kernels import is_convolution, is_matmul
from ..operators.kernels.elementwise import steps_of
from ..operators.kernels.normalise import NORMALISATIONS
from .affine import along_axis
from .normalisations import takes_activations
from .rewriting import Knowledge, Rewriting

MAX_ACTIVATIONS = 8  # in an epilogue, of one operator
PRODUCTS = "Gemm", "MatMul"


def pads_into_convolutions(graph: Graph, known: Knowledge) -> Graph:
    """A Pad with zeros that only a convolution reads becomes its padding."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        pad = r.maker(node.input(0), "Pad") if node.op == "Conv" else None
        if pad is not None and r.is_internal(pad.outputs[0]):
            zeros = _zeros_around(pad, known)
            auto = node.attributes.get("auto_pad", "NOTSET")
            if zeros is not None and auto in ("NOTSET", "VALID"):
                own = node.attributes.get("pads") if auto == "NOTSET" else None
                pads = [a + b for a, b in zip(own or [0] * len(zeros), zeros)]
                attributes = {**node.attributes, "auto_pad": "NOTSET", "pads": pads}
                node = node.with_(inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)
        nodes.append(node)
    return r.graph(nodes)


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


def residuals(graph: Graph, known: Knowledge) -> Graph:
    """A sum that is the only reader of a convolution or product becomes part of it: the other summand is its residual.

    Of two that could take it, the later one does, when the other is computed.
    """
    r = Rewriting(graph, known)
    position = {node.outputs[0]: i for i, node in enumerate(graph.nodes)}
    nodes = {node.outputs[0]: node for node in graph.nodes}
    for node in graph.nodes:
        if node.op not in ("Add", "Sum") or len(node.inputs) != 2 or len(set(node.inputs)) < 2:
            continue
        shape = known[node.outputs[0]].shape
        summands = [name for name in node.inputs if name in nodes and _takes_residual(nodes[name], r)]
        if not summands or any(known[name].shape != shape for name in node.inputs):
            continue
        last = max(summands, key=lambda name: position[name])
        residual = next(name for name in node.inputs if name != last)
        if known[residual].value is not None:  # it must be computed by a step
            continue
        if nodes[last].op in PRODUCTS and not r.is_contiguous(residual):
            continue
        before = nodes.pop(last)
        inputs = (*before.inputs, *[""] * (3 - len(before.inputs)), residual)
        nodes[node.outputs[0]] = before.with_(inputs=inputs, outputs=node.outputs)
    return r.graph(list(nodes.values()))


def _takes_residual(node: Node, r: Rewriting) -> bool:
    """Whether a convolution or product has neither a residual nor an activation yet."""
    if {"activation", "integers"} & set(node.attributes) or len(node.inputs) > 3 or not r.is_internal(node.outputs[0]):
        return False
    if node.op in PRODUCTS:
        scaled = node.attributes.get("alpha", 1) != 1  # the residual would be, too, unless a constant is instead
        return is_matmul(node, r.known) and not (scaled and all(r.known[x].value is None for x in node.inputs[:2]))
    return node.op == "Conv" and is_convolution(node, r.known)


def activations_into_epilogues(graph: Graph, known: Knowledge) -> Graph:
    """Elementwise operators that follow a convolution, product or normalisation, as its only readers, become part of
    it."""
    r = Rewriting(graph, known)
    nodes: dict[str, Node] = {}  # by first output
    for node in graph.nodes:
        for i, name in enumerate(node.inputs):
            before = nodes.get(name)
            if before is None or not r.is_internal(name) or not _takes_activation(before, known):
                continue
            steps = _as_activation(before, node, i, known)
            if steps:
                del nodes[name]
                if "activation" in before.attributes:
                    steps = [*chain_of(before.attributes["activation"]), *steps]
                activation = steps[0] if len(steps) == 1 else steps
                node = before.with_(outputs=node.outputs, attributes={**before.attributes, "activation": activation})
                break
        nodes[node.outputs[0]] = node
    return r.graph(list(nodes.values()))


def _as_activation(before: Node, node: Node, i: int, known: Knowledge) -> list | None:
    """What a node does to its input `i`, the result of `before`, as steps of an activation; None if there are none."""
    y = known[node.outputs[0]]
    if y.dtype != np.float32 or y.shape != known[node.inputs[i]].shape:
        return None
    is_product = before.op in PRODUCTS
    activation: list[Any] = []
    for step in steps_of(node, known, i) or ():
        name, *numbers = step.op
        if name not in ACTIVATIONS:
            return None
        if step.operand:
            operand = along_axis(known[step.operand].value, y.shape, len(y.shape) - 1 if is_product else 1)
            if operand is None or "integers" in before.attributes:
                return None
            if is_product and operand.size > 1 and len(known[before.inputs[1]].shape) < 2:  # it has one column
                return None
            if operand.size > 1 and before.op in NORMALISATIONS:
                return None
            numbers = [operand]
        activation.append((name, *numbers) if numbers else name)
    return activation if len(activation) <= MAX_ACTIVATIONS else None


def _takes_activation(node: Node, known: Knowledge) -> bool:
    """Whether a node can apply an activation to its result."""
    if is_convolution(node, known) or takes_activations(node, known):
        return True
    return node.op in PRODUCTS and is_matmul(node, known)
