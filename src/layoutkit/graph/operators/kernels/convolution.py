"""Convolutions, transposed ones too."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import F32, Kernel

CONVOLUTIONS = "Conv", "ConvTranspose"


def is_convolution(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A float32 convolution or transposed one over one to three axes with a constant filter and bias."""
    if node.op not in CONVOLUTIONS:
        return False
    x, w = known[node.inputs[0]], known[node.inputs[1]]
    bias = known[node.inputs[2]].value if node.input(2) else True
    return w.value is not None and bias is not None and len(x.shape) in (3, 4, 5) and x.dtype == w.dtype == F32


KERNELS = dict.fromkeys(CONVOLUTIONS, Kernel(is_convolution, strided=True))
