"""Operators that onnxruntime's optimiser makes of several (of the domain com.microsoft), as these.

Models are saved with them, above all transformers. They become ONNX's own operators, for our passes to fuse as they do
those of other models.
"""

from __future__ import annotations

import numpy as np

from .ir import Node
from .onnx_integers import DOMAIN, checked, contributes
from .onnx_nodes import inputs_of, like, made
from .operators import Unsupported

__all__ = ["DOMAIN", "IN_ONNX"]

IN_ONNX = {"SimplifiedLayerNormalization"}  # which onnxruntime has in ONNX's domain

# ---- sums before normalisations and activations


def _normalised(r, node: Node, x: str, scale: str, shift: str) -> Node:
    """The last axis normalised: by its deviation or, of "Simplified" ones, its root mean square alone."""
    op = "RMSNormalization" if "Simplified" in node.op else "LayerNormalization"
    a = {"axis": -1, "epsilon": node.attributes.get("epsilon", 1e-12)}
    parameters = (scale, shift) if shift else (scale,)
    return Node(op, (x, *parameters), node.outputs[:1], a, node.name)


@contributes("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip(r, node: Node) -> Node:
    """Of a sum, which may be an output too."""
    least, most = (3, 5) if node.op == "SkipLayerNormalization" else (3, 4)
    x, skip, scale, *more = inputs_of(node, least, most)
    shift, bias = more if len(more) == 2 else ("", more[0])
    if any(node.outputs[1:3]):
        raise Unsupported(f"onnx: {node}: its mean and deviation")
    total = made(r, node, "Add", x, skip)
    if bias:
        total = made(r, node, "Add", total, bias)
    if node.outputs[3:] and node.outputs[3]:
        r.nodes.append(Node("Identity", (total,), node.outputs[3:4]))
    return _normalised(r, node, total, scale, shift)


@contributes("SimplifiedLayerNormalization")
def _simplified(r, node: Node) -> Node:
    """RMSNormalization, before ONNX had it."""
    inputs_of(node, 2, 2)
    if any(node.outputs[1:]):
        raise Unsupported(f"onnx: {node}: its deviation")
    a = {key: node.attributes[key] for key in ("axis", "epsilon", "stash_type") if key in node.attributes}
    return Node("RMSNormalization", node.inputs, node.outputs[:1], a, node.name)


@contributes("EmbedLayerNormalization")
def _embedded(r, node: Node) -> Node:
    """Words, their positions and segments looked up, summed and normalised."""
    words, segments, of_words, of_positions, of_segments, scale, shift, mask, places = inputs_of(node, 7, 9)
    zero, one = r.constant([0], node.outputs[0]), r.constant([1], node.outputs[0])
    if places:
        positions = made(r, node, "Gather", of_positions, places, axis=0)
    else:
        steps = made(r, node, "Slice", made(r, node, "Shape", words), one, r.constant([2], node.outputs[0]))
        positions = made(r, node, "Slice", of_positions, zero, steps, zero)
    total = made(r, node, "Add", made(r, node, "Gather", of_words, words, axis=0), positions)
    if segments:
        total = made(r, node, "Add", total, made(r, node, "Gather", of_segments, segments, axis=0))
    if node.outputs[1:] and node.outputs[1]:  # by row, how many words the mask leaves; 0 without one
        mask = mask or made(r, node, "Sub", words, words)
        left = made(r, node, "CastLike", made(r, node, "Equal", mask, made(r, node, "CastLike", one, mask)), mask)
        r.nodes.append(Node("ReduceSum", (left, one), node.outputs[1:2], {"keepdims": 0}))
    if node.outputs[2:] and node.outputs[2]:
        r.nodes.append(Node("Identity", (total,), node.outputs[2:3]))
    return _normalised(r, node, total, scale, shift)


@contributes("BiasGelu", "FastGelu", "Gelu")
def _gelu(r, node: Node) -> Node:
    x, bias = checked(node, 1, 2)
    a = {"approximate": "tanh" if node.op == "FastGelu" else "none"}
    return Node("Gelu", (made(r, node, "Add", x, bias) if bias else x,), node.outputs, a, node.name)


@contributes("QuickGelu")
def _quick_gelu(r, node: Node) -> Node:
    """``x * sigmoid(alpha * x)``"""
    checked(node, 1, 1)
    return Node("Swish", node.inputs, node.outputs, {"alpha": node.attributes.get("alpha", 1.702)}, node.name)


# ---- products and convolutions with what follows


@contributes("FusedMatMul", "TransposeMatMul")
def _product(r, node: Node) -> Node:
    """Of the last axes, in any order, times a number."""
    checked(node, 2, 2)
    if node.attributes.get("transBatchA") or node.attributes.get("transBatchB"):
        raise Unsupported(f"onnx: {node}: its batch among the axes of matrices")
    if any(node.attributes.get(name) and r.rank(x) == 1 for name, x in zip(("transA", "transB"), node.inputs)):
        raise Unsupported(f"onnx: {node}: a vector that is transposed")
    left, right = ("ji" if node.attributes.get("transA") else "ij"), ("kj" if node.attributes.get("transB") else "jk")
    equation, alpha = f"...{left},...{right}->...ik", node.attributes.get("alpha", 1.0)
    whole = left == "ij" and right == "jk"
    op, a = ("MatMul", {}) if whole else ("Einsum", {"equation": equation})
    if alpha == 1:
        return Node(op, node.inputs, node.outputs, a, node.name)
    y = made(r, node, op, *node.inputs, **a)
    return Node("Mul", (y, like(r, node, np.float32(alpha), y)), node.outputs, {}, node.name)


ACTIVATIONS = {"Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
               "Elu": ("alpha",), "Clip": ("min", "max")}  # fmt: skip


def _activated(r, node: Node, x: str, kind: str, numbers: list[float]) -> Node:
    """An activation that is an attribute."""
    if kind not in ACTIVATIONS or len(numbers) > len(ACTIVATIONS[kind]):
        raise Unsupported(f"onnx: {node}: activation {kind!r} of {numbers}")
    if kind == "Clip":
        limits = [r.constant(value, node.outputs[0], np.float32) for value in numbers]
        return Node("Clip", (x, *limits), node.outputs, {}, node.name)
    return Node(kind, (x,), node.outputs, dict(zip(ACTIVATIONS[kind], numbers)), node.name)


@contributes("FusedConv")
def _convolution(r, node: Node) -> Node:
    """With a summand and an activation."""
    x, w, bias, summand = checked(node, 2, 4)
    a = dict(node.attributes)
    kind, numbers = a.pop("activation", ""), list(a.pop("activation_params", []))
    y = made(r, node, "Conv", *((x, w, bias) if bias else (x, w)), **a)
    if summand:
        y = made(r, node, "Add", y, summand)
    return _activated(r, node, y, kind, numbers) if kind else Node("Identity", (y,), node.outputs)


@contributes("FusedGemm")
def _gemm(r, node: Node) -> Node:
    checked(node, 2, 3)
    a = dict(node.attributes)
    kind = a.pop("activation", "")
    numbers = [a.pop(f"activation_{name}") for name in ("alpha", "beta", "gamma") if f"activation_{name}" in a]
    y = made(r, node, "Gemm", *node.inputs, **a)
    return _activated(r, node, y, kind, numbers) if kind else Node("Identity", (y,), node.outputs)


def _scaled(r, node: Node, products: str, scales: tuple[str, str], bias: str) -> Node:
    """What sums of products of integers stand for, plus a bias."""
    y = made(r, node, "Cast", products, to=np.dtype(np.float32))
    factor = made(r, node, "Mul", *scales)
    if not bias:
        return Node("Mul", (y, factor), node.outputs, {}, node.name)
    return Node("Add", (made(r, node, "Mul", y, factor), bias), node.outputs, {}, node.name)


@contributes("MatMulIntegerToFloat")
def _integer_product(r, node: Node) -> Node:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = checked(node, 4, 7)
    return _scaled(r, node, made(r, node, "MatMulInteger", a, b, a_zero, b_zero), (a_scale, b_scale), bias)


@contributes("DynamicQuantizeMatMul")
def _dynamic_product(r, node: Node) -> Node:
    """Of numbers, which become integers first."""
    a, b, b_scale, b_zero, bias = checked(node, 3, 5)
    q = tuple(r.name(node.outputs[0], role) for role in ("integers", "scale", "zero"))
    r.nodes.append(Node("DynamicQuantizeLinear", (a,), q))
    return _scaled(r, node, made(r, node, "MatMulInteger", q[0], b, q[2], b_zero), (q[1], b_scale), bias)


@contributes("MatMulNBits")
def _packed_product(r, node: Node) -> Node:
    """With a constant matrix in integers of 4 or 8 bits, a scale for each block of its inner axis; it is unpacked."""
    x, w, scales, zeros, order, bias = checked(node, 3, 6)
    k, n, bits, block = (node.attributes.get(name, default) for name, default in
                         (("K", 0), ("N", 0), ("bits", 4), ("block_size", 0)))  # fmt: skip
    values = [None if not name else r.constants.get(name) for name in (w, scales, zeros)]
    if order or bits not in (4, 8) or any(name and value is None for name, value in zip((w, scales, zeros), values)):
        raise Unsupported(f"onnx: {node}: {bits} bits, or a matrix that is not constant or has a g_idx")
    if min(k, n, block) < 1 or block * bits % 8:
        raise ValueError(f"onnx: {node}: a matrix of {n} x {k} in blocks of {block}")
    packed, scale, zero = values
    blocks = -(-k // block)
    of_zeros = (n * blocks, n * -(-blocks * bits // 8))  # numbers of their own type, or packed ones
    if (
        packed is None
        or scale is None
        or packed.size != n * blocks * (block * bits // 8)
        or scale.size != n * blocks
        or (zero is not None and zero.size != of_zeros[zero.dtype == np.uint8])
    ):
        sizes = ", ".join("none" if v is None else str(v.shape) for v in values)
        raise ValueError(f"onnx: {node}: {sizes} for weights, scales and zeros of {n} x {k} in blocks of {block}")
    dtype = scale.dtype
    q = _unpacked(packed.reshape(n, blocks, -1), bits, block)
    scale = scale.reshape(n, blocks, 1).astype(np.float32)
    if zero is None:
        offset = np.full((n, blocks, 1), 1 << (bits - 1), np.float32)
    elif zero.dtype == np.uint8:
        offset = _unpacked(zero.reshape(n, -1), bits, blocks).astype(np.float32)[..., None]
    else:
        offset = zero.reshape(n, blocks, 1).astype(np.float32)
    numbers = ((q - offset) * scale).reshape(n, blocks * block)[:, :k]
    name = r.constant(np.ascontiguousarray(numbers.T), node.outputs[0], dtype)
    if not bias:
        return Node("MatMul", (x, name), node.outputs, {}, node.name)
    return Node("Add", (made(r, node, "MatMul", x, name), bias), node.outputs, {}, node.name)


def _unpacked(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first integers of each row of bytes; the lower half of a byte is first."""
    if bits == 8:
        return packed[..., :count]
    halves = np.stack([packed & 15, packed >> 4], -1)
    return halves.reshape(*packed.shape[:-1], -1)[..., :count]
