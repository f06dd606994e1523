"""Running sums and products."""

from __future__ import annotations

from collections.abc import Mapping

from ...._core.nests.reductions.running import RUNNING
from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import Kernel


def is_running(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Along a constant axis, in the layout of the model."""
    x, axis = known[node.inputs[0]], known[node.inputs[1]].value
    within = axis is not None and axis.size == 1 and -len(x.shape) <= int(axis.reshape(())) < len(x.shape)
    return kind == PLAIN and within and x.dtype.name in RUNNING and x.value is None


KERNELS = dict.fromkeys(("CumSum", "CumProd"), Kernel(is_running, strided=True))
