"""Operators whose inputs say where elements come from or go to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...._core.nests.element_types import REDUCTIONS
from ...ir import Node
from ..base import Known
from ..indexed import in_nests
from ..layouts import PLAIN
from .base import Kernel
from .moves import is_taken

GATHERS = "Gather", "GatherElements", "GatherND"
SCATTERS = "ScatterElements", "Scatter", "ScatterND"


def is_indexed(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a node takes or writes elements or slices by indices, in the layout of the model."""
    x, at, reduction = known[node.inputs[0]], known[node.inputs[1]], node.attributes.get("reduction", "none")
    moves = x.dtype.itemsize in (1, 2, 4, 8) and reduction in REDUCTIONS and in_nests(x.dtype, reduction)
    return kind == PLAIN and moves and at.dtype == np.int64


def is_gather(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """By constant indices, or by others."""
    return is_taken(node, known, kind) or is_indexed(node, known, kind)


KERNELS = {
    "Gather": Kernel(is_gather, strided=True),
    **dict.fromkeys((*GATHERS[1:], *SCATTERS), Kernel(is_indexed, strided=True)),
}
