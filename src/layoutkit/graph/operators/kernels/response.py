"""Local response normalisation."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import Known
from ..layouts import LAST
from .base import F32, Kernel


def is_response(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """An LRN of the usual exponent, channels last, in float32."""
    x = known[node.inputs[0]]
    return kind == LAST and x.dtype == F32 and 0 not in x.shape and node.attributes.get("beta", 0.75) == 0.75


KERNELS = {"LRN": Kernel(is_response, any_reals=True)}
