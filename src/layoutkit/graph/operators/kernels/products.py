"""Products of matrices, and attention."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import F32, Kernel


def is_matmul(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A product of float32 matrices, plus a constant per column."""
    a, b = known[node.inputs[0]], known[node.inputs[1]]
    return a.dtype == b.dtype == F32 and bool(a.shape) and bool(b.shape) and _adds_constants(node, known)


def is_product(node: Node, known: Mapping[str, Known]) -> bool:
    """One of rows with a constant matrix, which narrow numbers and integers are multiplied in too."""
    a, b = known[node.inputs[0]], known[node.inputs[1]]
    rows = len(a.shape) >= 2 and len(b.shape) == 2 and bool(prod(a.shape)) and bool(prod(b.shape))
    rows = rows and not {"views", "into"} & set(node.attributes)
    return rows and b.value is not None and not node.attributes.get("transA") and is_matmul(node, known)


def _adds_constants(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether what is added to the product is a constant per column, or nothing."""
    c = known[node.inputs[2]] if node.input(2) else None
    if c is None:
        return True
    n = (known[node.outputs[0]] if "into" not in node.attributes else node.attributes["into"]).shape[-1:]
    return c.value is not None and c.dtype == F32 and (c.value.size == 1 or c.shape[-1:] == n == (c.value.size,))


KERNELS = {
    **dict.fromkeys(("Gemm", "MatMul"), Kernel(is_matmul)),
    "TiledAttention": Kernel(lambda node, known, kind: kind == PLAIN),
}
