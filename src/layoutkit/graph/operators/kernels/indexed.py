"""Operators whose inputs say where elements come from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import Kernel
from .moves import is_taken

GATHERS = "Gather", "GatherElements", "GatherND"


def is_gathered(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a node takes elements or slices by indices, in the layout of the model."""
    x, at = known[node.inputs[0]], known[node.inputs[1]]
    return kind == PLAIN and x.dtype.itemsize in (1, 2, 4, 8) and at.dtype == np.int64


def is_gather(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """By constant indices, or by others."""
    return is_taken(node, known, kind) or is_gathered(node, known, kind)


KERNELS = {"Gather": Kernel(is_gather, strided=True), **dict.fromkeys(GATHERS[1:], Kernel(is_gathered, strided=True))}
