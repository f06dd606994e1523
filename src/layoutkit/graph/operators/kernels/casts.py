"""Conversions of numbers to another type, and to integers that stand for them and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Node
from ..base import MAX_RANK, Known, StoredType
from ..layouts import PLAIN
from .base import F32, Kernel
from .elementwise import MAX_AXES

REALS = {"float16": 11, "float32": 24, "float64": 53}  # their bits of precision
INTEGERS = {"bool": 1, "uint8": 8, "int8": 7, "uint16": 16, "int16": 15, "uint32": 32, "int32": 31, "int64": 63}
BYTES = "uint8", "int8"


def is_cast(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a Cast is to bool, or to a real type: of another one that is not rounded twice, or of integers. Integers
    of reals are rounded towards zero, which the kernels do not."""
    x, y = known[node.inputs[0]], known[node.outputs[0]]
    if x.value is not None or x.stored is not None or y.stored is not None or not 1 <= len(x.shape) <= MAX_RANK:
        return False
    src, dst = str(x.dtype), str(y.dtype)
    if src == dst or (dst not in REALS and dst != "bool"):
        return False
    if dst == "bool":
        return src in REALS or src in INTEGERS
    return src in INTEGERS or (src in REALS and {src, dst} != {"float16", "float64"})


def is_conversion(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether an Identity stores float32 numbers in another type than its input, or a QuantizeLinear or
    DequantizeLinear has integers of 8 bits."""
    x, y = known[node.inputs[0]], known[node.outputs[0]]
    if x.value is not None or not 1 <= len(x.shape) <= MAX_RANK:
        return False
    if node.op == "Identity":
        return x.stored_type != y.stored_type
    return meant_by(node, known) is not None or is_quantised(node, known)


def meant_by(node: Node, known: Mapping[str, Known]) -> StoredType | None:
    """The integers of a QuantizeLinear or DequantizeLinear with a single scale: u8 or s8 that stand for float32."""
    x, y = (known[name] for name in (node.inputs[0], node.outputs[0]))
    real, integer = (x, y) if node.op == "QuantizeLinear" else (y, x)
    scale = known[node.inputs[1]]
    zero = known[node.inputs[2]].value if node.input(2) else np.zeros(1)
    if scale.value is None or zero is None or scale.value.size != 1 or {real.dtype, scale.dtype} != {F32}:
        return None
    if not 1 <= len(x.shape) <= MAX_RANK:
        return None
    number = float(scale.value.reshape(-1)[0])
    if str(integer.dtype) not in BYTES or node.attributes.get("block_size") or not 0 < number < np.inf:
        return None
    return StoredType(str(integer.dtype), number, int(zero.reshape(-1)[0]))


def is_quantised(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether a node makes bytes of float32, or float32 of bytes, by scales and zero points that are constants along an
    axis, or single numbers that vary."""
    x, scale = known[node.inputs[0]], known[node.inputs[1]]
    zero = known[node.inputs[2]] if node.input(2) else None
    quantises = node.op == "QuantizeLinear"
    real, integer = (x, known[node.outputs[0]]) if quantises else (known[node.outputs[0]], x)
    if x.value is not None or len(x.shape) > MAX_AXES or node.attributes.get("block_size") or real.stored is not None:
        return False
    if real.dtype != F32 or scale.dtype != F32 or str(integer.dtype) not in BYTES:
        return False
    of = [scale] if zero is None else [scale, zero]
    return all(p.stored is None and (np.prod(p.shape) == 1 or (p.value is not None and len(p.shape) == 1)) for p in of)


def is_dynamic(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a DynamicQuantizeLinear is of float32, with all its results; in the order of the model."""
    x = known[node.inputs[0]]
    return kind == PLAIN and x.dtype == F32 and x.stored is None and x.value is None and all(node.outputs)


KERNELS = {
    "Cast": Kernel(is_cast, strided=True),
    "DynamicQuantizeLinear": Kernel(is_dynamic),
    **dict.fromkeys(("Identity", "QuantizeLinear", "DequantizeLinear"), Kernel(is_conversion)),
}
