"""Products of matrices, and attention."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ...._core.nests.products.byte_matmul import MAX_K, MAX_SCALE, best_kernel
from ...._core.nests.products.matmul_plan import product_cycles
from ...._core.runtime import registry
from ...ir import Node
from ..base import Known
from ..filters import less_zero_points
from ..layouts import PLAIN
from ..views import contiguous
from .base import F32, Kernel


def is_matmul(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A product of float32 matrices, plus a constant per column."""
    a, b = known[node.inputs[0]], known[node.inputs[1]]
    return a.dtype == b.dtype == F32 and bool(a.shape) and bool(b.shape) and _adds_constants(node, known)


def is_product(node: Node, known: Mapping[str, Known]) -> bool:
    """One of rows with a constant matrix, which narrow numbers and integers are multiplied in too."""
    b, shape = known[node.inputs[1]], shape_of_rows(node, known)
    rows = shape is not None and len(shape) >= 2 and len(b.shape) == 2 and bool(prod(shape)) and bool(prod(b.shape))
    return rows and b.value is not None and not node.attributes.get("transA") and is_matmul(node, known)


def shape_of_rows(node: Node, known: Mapping[str, Known]) -> tuple[int, ...] | None:
    """The shape in which a product reads its first operand; None if it, or the result, is a view with other strides."""
    a, (view, other) = known[node.inputs[0]], node.attributes.get("views", (None, None))
    if other is not None or "into" in node.attributes:
        return None
    if view is None:
        return a.shape
    return view.shape if view == contiguous(view.shape) and prod(view.shape) == prod(a.shape) else None


def _adds_constants(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether what is added to the product is a constant per column, or nothing."""
    c = known[node.inputs[2]] if node.input(2) else None
    if c is None:
        return True
    n = (known[node.outputs[0]] if "into" not in node.attributes else node.attributes["into"]).shape[-1:]
    return c.value is not None and c.dtype == F32 and (c.value.size == 1 or c.shape[-1:] == n == (c.value.size,))


def filter_of_integers(node: Node, known: Mapping[str, Known]) -> np.ndarray | None:
    """The constant matrix of a MatMulInteger less its zero points, in int8; None if it does not fit, or is none."""
    b, zero = known[node.inputs[1]].value, known[node.inputs[3]].value if node.input(3) else np.zeros((), np.int8)
    if b is None or zero is None or b.ndim != 2 or not (zero.size == 1 or zero.shape == b.shape[1:]):
        return None
    return less_zero_points(b, zero, 1)


def scale_of_bytes(node: Node, known: Mapping[str, Known]) -> float | None:
    """The scale of the sums of a product of tensors that are stored in bytes, as its result is; None if it is no such
    product, or has no kernel that is faster than that of float32."""
    names = *node.inputs[:2], node.outputs[0]
    a, b, y = (known[name].stored for name in names)
    if a is None or b is None or y is None or not (a.integers and b.integers and y.integers):
        return None
    if any(known[name].value is not None for name in names) or any(node.inputs[2:]) or "activation" in node.attributes:
        return None
    views = node.attributes.get("views", (None, None))
    left, right = (known[name].shape if view is None else view.shape for name, view in zip(names, views))
    if min(len(left), len(right)) < 2 or 0 in (*left, *right):
        return None
    m, k = left[:-3:-1] if node.attributes.get("transA") else left[-2:]
    n = right[-2 if node.attributes.get("transB") else -1]
    scale = float(
        np.float32(a.scale) * np.float32(b.scale) / np.float32(y.scale) * np.float32(node.attributes.get("alpha", 1.0))
    )
    best = best_kernel(m, n, k)
    if k > MAX_K or not 0 <= scale <= MAX_SCALE or best is None:
        return None
    return scale if best[0] <= min(product_cycles(row, m, n, k) for row in registry.best("gemm", "f32")) else None


def is_integer_product(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """A product of rows of bytes with a constant matrix; the rows have one zero point, which may vary."""
    a, zero = known[node.inputs[0]], known[node.inputs[2]] if node.input(2) else None
    if a.value is not None or len(a.shape) < 2 or 0 in (*a.shape, *known[node.inputs[1]].shape):
        return False
    return (zero is None or prod(zero.shape) == 1) and filter_of_integers(node, known) is not None


KERNELS = {
    "MatMulInteger": Kernel(is_integer_product),
    **dict.fromkeys(("Gemm", "MatMul"), Kernel(is_matmul)),
    "TiledAttention": Kernel(lambda node, known, kind: kind == PLAIN),
}
