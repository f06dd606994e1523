"""Which nodes have compiled kernels, in which layouts: convolutions, products with constant matrices, pooling, LRN.

All others run their operator's numpy function. The steps that call the kernels are in `runtime/kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..ir import Node
from .base import Known
from .layouts import BLOCKED, LAST, PLAIN

F32 = np.dtype(np.float32)


class Kernel(NamedTuple):
    """`suits`: whether it can run a node in a kind of layout; `strided`: whether its result may be a part of a larger
    array; `any_reals`: whether it also reads and writes bfloat16 and float16."""

    suits: Callable[[Node, Mapping[str, Known], int], bool]
    strided: bool = False
    any_reals: bool = False


def kernel_of(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> Kernel | None:
    """The kernel that runs a node in a kind of layout, None if there is none."""
    kernel = KERNELS.get(node.op)
    return kernel if kernel is not None and kernel.suits(node, known, kind) else None


def in_its_type(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether there is a kernel, in some layout, that stores the result in the type of the input, narrow or not."""
    kernel = KERNELS.get(node.op)
    return kernel is not None and kernel.any_reals and any(kernel.suits(node, known, kind) for kind in (LAST, BLOCKED))


def is_convolution(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A float32 convolution over one to three axes with a constant filter and bias."""
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


def is_pooling(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Pooling of float32 with the channels innermost or in blocks, and a tensor that is not empty."""
    x = known[node.inputs[0]]
    fits = kind != PLAIN and x.dtype == F32 and len(x.shape) in (3, 4, 5) and 0 not in x.shape
    return fits and not node.attributes.get("indices")


def limits_of(activation: Any) -> tuple[float, float] | None:
    """The limits that an activation clips to; None if it does something else."""
    if activation == "relu":
        return 0.0, np.inf
    return activation[1:] if isinstance(activation, tuple) and activation[0] == "clip" else None


def is_sum(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A sum of one or two float32 tensors of the result's shape, or a tensor clipped to constant limits."""
    y, names = known[node.outputs[0]], summands(node)
    if y.dtype != F32 or not 1 <= len(names) <= 2:
        return False
    if any(known[name].shape != y.shape or known[name].value is not None for name in names):
        return False
    return node.op != "Clip" or all(known[name].value is not None for name in node.inputs[1:] if name)


def summands(node: Node) -> tuple[str, ...]:
    """The tensors that a sum adds."""
    return node.inputs[:1] if node.op in ("Relu", "Clip") else node.inputs


def is_shuffle(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """A shuffle of channels that are not in blocks."""
    return kind != BLOCKED and len(known[node.inputs[0]].shape) in (3, 4, 5)


def is_response(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """An LRN of the usual exponent, channels last, in float32."""
    x = known[node.inputs[0]]
    return kind == LAST and x.dtype == F32 and 0 not in x.shape and node.attributes.get("beta", 0.75) == 0.75


_POOLING, _SUM = Kernel(is_pooling, strided=True, any_reals=True), Kernel(is_sum, strided=True, any_reals=True)
KERNELS = {
    "Conv": Kernel(is_convolution, strided=True),
    "Gemm": Kernel(is_product),
    "MatMul": Kernel(is_product),
    **dict.fromkeys(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), _POOLING),
    **dict.fromkeys(("Add", "Sum", "Relu", "Clip"), _SUM),
    "ChannelShuffle": Kernel(is_shuffle),
    "LRN": Kernel(is_response, any_reals=True),
}
