"""What is left of recurrent layers once the products with their inputs are nodes of their own."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import F32, Kernel


def is_recurrent(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """The steps of a layer; `passes/recurrent.py` makes none that have no kernel."""
    return kind == PLAIN and known[node.inputs[0]].dtype == F32


KERNELS = {"RecurrentSteps": Kernel(is_recurrent)}
