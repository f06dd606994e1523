"""Pooling."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from ..windows import window
from .base import F32, Kernel

MAX_REACH = 256  # elements of a window of a row, or of pads, beyond the row itself


def is_pooling(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Pooling of float32, of a tensor that is not empty; of contiguous pixels by windows not much wider than a row."""
    x = known[node.inputs[0]]
    fits = x.dtype == F32 and len(x.shape) in (3, 4, 5) and 0 not in x.shape and not node.attributes.get("indices")
    if not fits or kind != PLAIN or node.op.startswith("Global"):
        return fits
    taps = window(node.attributes, x.shape[2:])
    return max((taps.kernel[-1] - 1) * taps.dilation[-1], *taps.pads[-1]) <= x.shape[-1] + MAX_REACH


KERNELS = dict.fromkeys(
    ("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"), Kernel(is_pooling, strided=True, any_reals=True)
)
