"""Which nodes can multiply integers, and which tensors are integers where they do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..onnx import package
from ..operators.kernels.convolution import CONVOLUTIONS
from .preparing import array_of, attribute, constants_of

# Between quantised layers these read and write integers. A tensor that only moves keeps its scale.
MOVES = {"MaxPool", "Concat", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"}
JOINS = {"Add", "Concat"}  # all their operands, not only the first, are tensors
CARRIERS = MOVES | JOINS | {"AveragePool", "GlobalAveragePool", "Softmax"}
# What is computed with the result of the node before, which is not rounded in between.
ACTIVATIONS = {"Relu", "Clip", "LeakyRelu", "Elu", "Selu", "Celu", "Gelu", "HardSigmoid", "HardSwish", "Mish",
               "Sigmoid", "Softplus", "Softsign", "Tanh", "Identity", "PRelu"}  # fmt: skip
# Functions of an element that take more than a few instructions, and what such functions are made of.
COSTLY = {"Celu", "Elu", "Erf", "Exp", "Gelu", "Mish", "Selu", "Sigmoid", "Softplus", "Tanh"}
ELEMENTWISE = ACTIVATIONS | COSTLY | {"Add", "Div", "Mul", "Neg", "Pow", "Sqrt", "Sub"}
WITH_CONSTANTS = {"Add", "Sub", "Mul", "Div", "BatchNormalization"}
AXES = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}  # of filters: that of the output channels


class Layer(NamedTuple):
    """A node that multiplies a tensor by a constant filter, or by another tensor: its first result, which names it,
    what it multiplies, and the filter's output axis."""

    y: str
    x: tuple[str, ...]  # tensors
    w: str  # "" if there is no filter
    b: str  # "" if there is none, or it is no constant per channel
    op: str
    title: str
    axis: int


def layers_of(proto: Any) -> list[Layer]:
    """The convolutions and products of float32 with constant filters, and products of two tensors, in the order of the
    model."""
    float32 = package().TensorProto.FLOAT
    constants, found = constants_of(proto.graph), []
    for node in proto.graph.node:
        if node.op_type == "MatMul" and node.domain in ("", "ai.onnx") and not constants.keys() & set(node.input):
            found.append(Layer(node.output[0], tuple(node.input), "", "", node.op_type, node.name, 0))
            continue
        w = constants.get(node.input[1]) if node.op_type in AXES and node.domain in ("", "ai.onnx") else None
        if w is None or node.input[0] in constants or w.data_type != float32 or 0 in w.dims:
            continue
        if len(w.dims) < 3 if node.op_type in CONVOLUTIONS else len(w.dims) != 2 or attribute(node, "transA", 0):
            continue
        if not np.isfinite(array_of(w)).all():
            continue
        axis = AXES[node.op_type] - attribute(node, "transB", 0)
        b = constants.get(node.input[2]) if len(node.input) > 2 else None
        of_channels = b is not None and list(b.dims) == [w.dims[axis]]
        of_channels = of_channels and attribute(node, "alpha", 1.0) == attribute(node, "beta", 1.0) == 1
        found.append(Layer(node.output[0], (node.input[0],), node.input[1], node.input[2] if of_channels else "",
                           node.op_type, node.name, axis))  # fmt: skip
    return found


def integer_tensors(proto: Any, layers: Collection[Layer], left_out: Collection[str] = ()) -> dict[str, str]:
    """The tensors that are integers where these layers are; for each one that has the same scale.

    They are what the layers read, and, as far as sums, poolings, softmax, moves of elements and costly functions lead
    back from there, what these read: so that integers stay integers from layer to layer.
    """
    constants = constants_of(proto.graph)
    makers = {name: node for node in proto.graph.node for name in node.output[:1]}
    places = {name: i for i, name in enumerate(makers)}
    todo = [name for layer in layers for name in layer.x]
    found = dict.fromkeys(todo, "")
    while todo:
        of = todo.pop()
        argument = _argument(of, makers, places, constants)
        for name in [argument] if argument else _carried(of, makers, constants):
            if name not in found:
                found[name] = ""
                todo.append(name)
    found = {name: name for name in found if name not in left_out}
    for name in [*found]:
        node = makers.get(name)
        if node is not None and node.op_type in MOVES:
            for operand in _operands(node, constants):
                if operand in found:
                    _unite(found, operand, name)
    return {name: _leader(found, name) for name in found}


def _carried(name: str, makers: Mapping[str, Any], constants: Collection[str]) -> list[str]:
    """The operands of what makes a tensor, behind activations, if they can be integers as well."""
    node = makers.get(name)
    while node is not None:
        operands = _operands(node, constants)
        if node.op_type in CARRIERS and (len(operands) > 1 or node.op_type not in WITH_CONSTANTS):
            return operands
        with_constants = node.op_type in WITH_CONSTANTS and len(operands) == 1
        if not with_constants and node.op_type not in ACTIVATIONS:
            return []
        node = makers.get(operands[0]) if operands else None
    return []


def _argument(
    name: str, makers: Mapping[str, Any], places: Mapping[str, int], constants: Mapping[str, Any]
) -> str:  # fmt: skip
    """The tensor that another one is a costly function of, element by element: of integers it is a table. "" if there
    is none."""
    leaves, costly = {name}, False  # what it is a function of
    while leaves and (len(leaves) > 1 or not costly):
        last = max(leaves, key=lambda y: places.get(y, -1))
        node = makers.get(last)
        if node is None or node.op_type not in ELEMENTWISE:
            return ""
        if any(prod(constants[x].dims) != 1 for x in node.input if x in constants):
            return ""
        costly |= node.op_type in COSTLY
        leaves = leaves - {last} | {x for x in node.input if x and x not in constants}
    return leaves.pop() if leaves else ""


def _operands(node: Any, constants: Collection[str]) -> list[str]:
    """The inputs of a node that are tensors of numbers and not constant."""
    several = node.op_type in JOINS | WITH_CONSTANTS
    return [name for name in (node.input if several else node.input[:1]) if name not in constants]


def _leader(group: Mapping[str, str], name: str) -> str:
    while group[name] != name:
        name = group[name]
    return name


def _unite(group: dict[str, str], a: str, b: str) -> None:
    group[_leader(group, a)] = _leader(group, b)
