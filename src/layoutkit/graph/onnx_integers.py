"""Operators on integers that stand for numbers, as those on the numbers between DequantizeLinear and QuantizeLinear.

So QLinearConv and QLinearMatMul of ONNX, and those that onnxruntime's quantiser writes (`CONTRIBUTED`, of the domain
com.microsoft), run as models do that are quantised by such pairs: the integers stay integers, see
`passes/quantised.py`. Products whose factors are not as that takes them stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .ir import Node
from .onnx_versions import CONVERSIONS
from .operators import Unsupported
from .operators.filters import less_zero_points

DOMAIN = "com.microsoft"
Lowering = Callable[..., "Node | None"]
CONTRIBUTED: dict[str, Lowering] = {}  # by operator, as in CONVERSIONS
UNARY = {"QLinearLeakyRelu": "LeakyRelu", "QLinearSigmoid": "Sigmoid", "QLinearSoftmax": "Softmax",
         "QLinearAveragePool": "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool",
         "QLinearReduceMean": "ReduceMean"}  # fmt: skip
BINARY = {"QLinearAdd": "Add", "QLinearMul": "Mul"}


def contributes(*names: str):
    """Register the function below as what becomes of operators."""

    def register(function: Lowering) -> Lowering:
        CONTRIBUTED.update(dict.fromkeys(names, function))
        return function

    return register


def _meant(r, x: str, scale: str, zero: str, **attributes: int) -> str:
    """The numbers that integers stand for."""
    scale, zero = _alike(r, x, scale, zero)
    name = r.name(x, "meant")
    r.nodes.append(Node("DequantizeLinear", (x, scale, zero), (name,), attributes))
    return name


def _alike(r, x: str, scale: str, zero: str) -> tuple[str, str]:
    """Constant scales and zero points of x, which DequantizeLinear expects to be as many: one is repeated."""
    values = [r.constants.get(name) for name in (scale, zero)]
    if any(value is None for value in values) or values[0].size == values[1].size or 1 not in (v.size for v in values):
        return scale, zero
    count = max(value.size for value in values)
    repeated = (np.broadcast_to(value.reshape(-1), (count,)) for value in values)
    scale, zero = (r.constant(each, x, each.dtype) for each in repeated)
    return scale, zero


def _rounded(r, node: Node, of: Node, x_zero: str, scale: str, zero: str) -> Node:
    """The last of the nodes: the result of `of`, which computes what `node` rounds, to the type of the zero points."""
    name = r.name(node.outputs[0], "number")
    if not zero:
        if x_zero not in r.constants:
            raise Unsupported(f"onnx: {node}: the zero points, which tell the type of the result, are left out")
        zero = r.constant(0, node.outputs[0], r.constants[x_zero].dtype)
    r.nodes.append(of.with_(outputs=(name,)))
    return Node("QuantizeLinear", (name, scale, zero), node.outputs, {}, node.name)


def checked(node: Node, least: int, most: int | None = None) -> tuple[str, ...]:
    """The inputs of a node, `most` with those that are left out. ValueError unless it has at least so many, and one
    output: the package onnx knows no schema of these."""
    if not least <= len(node.inputs) <= (most or len(node.inputs)) or len(node.outputs) != 1:
        upto = "" if most is None else f" to {most}"
        raise ValueError(f"onnx: {node}: expected {least}{upto} inputs and 1 output, got {len(node.inputs)} and "
                         f"{len(node.outputs)}")  # fmt: skip
    return node.inputs + ("",) * ((most or 0) - len(node.inputs))


@contributes(*UNARY)
def _unary(r, node: Node) -> Node:
    inputs = checked(node, 4, 5)
    a = dict(node.attributes)
    if a.pop("channels_last", 0):
        raise Unsupported(f"onnx: {node}: channels_last")
    if a.pop("opset", 13) < 13 and a.get("axis", 1) != -1:
        raise Unsupported(f"onnx: {node}: along all axes from {a.get('axis', 1)} on, as before opset 13")
    if node.op == "QLinearReduceMean":  # its axes are an attribute
        axes = a.pop("axes", None)
        more = () if axes is None else (r.constant(axes, node.outputs[0]),)
    else:
        more = ()
    x = _meant(r, *inputs[:3])
    return _rounded(r, node, Node(UNARY[node.op], (x, *more), (), a, node.name), inputs[2], *inputs[3:5])


@contributes(*BINARY)
def _binary(r, node: Node) -> Node:
    inputs = checked(node, 7, 8)
    x, y = _meant(r, *inputs[:3]), _meant(r, *inputs[3:6])
    return _rounded(r, node, Node(BINARY[node.op], (x, y), (), {}, node.name), inputs[2] or inputs[5], *inputs[6:8])


@contributes("QLinearWhere")
def _where(r, node: Node) -> Node:
    condition, *inputs = checked(node, 9)
    x, y = _meant(r, *inputs[:3]), _meant(r, *inputs[3:6])
    return _rounded(r, node, Node("Where", (condition, x, y), (), {}, node.name), inputs[2], *inputs[6:8])


@contributes("QLinearConcat")
def _concat(r, node: Node) -> Node:
    checked(node, 5)
    if len(node.inputs) % 3 != 2:
        raise ValueError(f"onnx: {node}: {len(node.inputs)} inputs, expected 2 and 3 for each tensor")
    parts = tuple(_meant(r, *node.inputs[i : i + 3]) for i in range(2, len(node.inputs), 3))
    of = Node("Concat", parts, (), dict(node.attributes), node.name)
    return _rounded(r, node, of, node.inputs[4], *node.inputs[:2])


@contributes("QGemm")
def _gemm(r, node: Node) -> Node:
    inputs = checked(node, 6, 9)
    a = {key: node.attributes[key] for key in ("alpha", "transA", "transB") if key in node.attributes}
    axis = 0 if a.get("transB") else 1
    x, w = _meant(r, *inputs[:3]), _meant(r, *inputs[3:6], axis=axis)
    more: tuple[str, ...] = ()
    if inputs[6]:
        scales = [_known(r, node, i).astype(np.float32) for i in (1, 4)]
        if scales[0].size != 1:
            raise ValueError(f"onnx: {node}: {scales[0].size} scales of the input, expected 1")
        more = (_bias(r, inputs[6], np.float32(a.get("alpha", 1.0)) * scales[0].reshape(()) * scales[1]),)
    of = Node("Gemm", (x, w, *more), (), a, node.name)
    return _rounded(r, node, of, inputs[2], *inputs[7:9]) if inputs[7] else of.with_(outputs=node.outputs)


@contributes("QuantizeLinear", "DequantizeLinear")
def _as_in_onnx(r, node: Node) -> Node:
    checked(node, 2)
    return node


def _known(r, node: Node, i: int) -> np.ndarray:
    """A constant input of a node."""
    value = r.constants.get(node.input(i))
    if value is None:
        raise ValueError(f"onnx: {node}: {node.input(i)!r} is no constant")
    return value


def _bias(r, name: str, scale: np.ndarray) -> str:
    """A bias of int32 as numbers: by one scale, or by those of the last axis."""
    scale, value = scale.reshape(-1), r.constants.get(name)
    if not scale.size:
        raise ValueError(f"onnx: bias {name!r}: no scale")
    if scale.size > 1 and value is not None and value.ndim != 1:
        return r.constant(value * scale, name, np.float32)
    scale = scale.reshape(()) if scale.size == 1 else scale
    zeros = r.constant(np.zeros(scale.shape), name, np.int32)
    return _meant(r, name, r.constant(scale, name, np.float32), zeros, axis=0)


def _kept_as_integers(r, w: str, scale: str, zero: str, others: tuple[str, ...], axis: int) -> bool:
    """Whether a constant filter is one that convolutions multiply, and all scales are constant."""
    values = [r.constants.get(name) for name in (w, scale, zero, *others)]
    if any(value is None for value in values):
        return False
    w_values, _, zeros, *rest = values
    return all(value.size == 1 for value in rest) and less_zero_points(w_values, zeros, axis) is not None


def _convolution(r, node: Node) -> Node:
    """QLinearConv."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    if not _kept_as_integers(r, w, w_scale, w_zero, (x_scale, x_zero, y_scale, y_zero), 0):
        return node
    x, numbers = _meant(r, x, x_scale, x_zero), _meant(r, w, w_scale, w_zero, axis=0)
    more: tuple[str, ...] = ()
    if node.input(8):
        more = (_bias(r, node.inputs[8], _known(r, node, 1).reshape(()) * _known(r, node, 4)),)
    of = Node("Conv", (x, numbers, *more), (), node.attributes, node.name)
    return _rounded(r, node, of, node.inputs[2], y_scale, y_zero)


def _product(r, node: Node) -> Node:
    """QLinearMatMul."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs[:8]
    matrix = b in r.constants and r.constants[b].ndim == 2
    if not matrix or not _kept_as_integers(r, b, b_scale, b_zero, (a_scale, a_zero, y_scale, y_zero), 1):
        return node
    a, b = _meant(r, a, a_scale, a_zero), _meant(r, b, b_scale, b_zero, axis=1)
    return _rounded(r, node, Node("MatMul", (a, b), (), {}, node.name), a_zero, y_scale, y_zero)


OF_ONNX: Mapping[str, Lowering] = {"QLinearConv": _convolution, "QLinearMatMul": _product}
CONVERSIONS.update(OF_ONNX)
