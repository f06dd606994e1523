"""Rotary embeddings."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import REALS, Known
from ..layouts import PLAIN
from .base import Kernel


def is_rotary(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Rows of real numbers, in the layout of the model."""
    x = known[node.inputs[0]]
    alike = x.dtype in REALS and all(known[name].dtype == x.dtype for name in node.inputs[1:3])
    return kind == PLAIN and alike and x.value is None and 0 not in x.shape


KERNELS = {"RotaryEmbedding": Kernel(is_rotary, strided=True)}
