"""Pooling."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import F32, Kernel


def is_pooling(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Pooling of float32 with the channels innermost or in blocks, and a tensor that is not empty."""
    x = known[node.inputs[0]]
    fits = kind != PLAIN and x.dtype == F32 and len(x.shape) in (3, 4, 5) and 0 not in x.shape
    return fits and not node.attributes.get("indices")


KERNELS = dict.fromkeys(
    ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), Kernel(is_pooling, strided=True, any_reals=True)
)
