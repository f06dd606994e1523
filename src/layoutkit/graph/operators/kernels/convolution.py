"""Convolutions, transposed ones too, and products with constant matrices."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import F32, Kernel

CONVOLUTIONS = "Conv", "ConvTranspose"


def is_convolution(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A float32 convolution or transposed one over one to three axes with a constant filter and bias."""
    if node.op not in CONVOLUTIONS:
        return False
    x, w = known[node.inputs[0]], known[node.inputs[1]]
    bias = known[node.inputs[2]].value if node.input(2) else True
    return w.value is not None and bias is not None and len(x.shape) in (3, 4, 5) and x.dtype == w.dtype == F32


def is_product(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A product of float32 rows with a constant matrix, plus a constant per column."""
    a, b = known[node.inputs[0]], known[node.inputs[1]]
    if b.value is None or len(b.shape) != 2 or len(a.shape) < 2 or not a.dtype == b.dtype == F32 or not prod(b.shape):
        return False
    if node.attributes.get("transA") or not prod(a.shape):
        return False
    c = known[node.inputs[2]] if node.input(2) else None
    columns = known[node.outputs[0]].shape[-1]
    return c is None or (c.value is not None and c.dtype == F32 and c.shape in ((), (1,), (columns,), (1, columns)))


KERNELS = {
    **dict.fromkeys(CONVOLUTIONS, Kernel(is_convolution, strided=True)),
    "Gemm": Kernel(is_product),
    "MatMul": Kernel(is_product),
}
