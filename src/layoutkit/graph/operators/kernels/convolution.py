"""Convolutions, transposed ones too."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from ...ir import Node
from ..base import Known
from ..filters import less_zero_points
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


def filter_of_integers(node: Node, known: Mapping[str, Known]) -> np.ndarray | None:
    """The constant filter of a ConvInteger less its zero points, in int8; None if it does not fit, or is none."""
    w, zero = known[node.inputs[1]].value, known[node.inputs[3]].value if node.input(3) else np.zeros((), np.int8)
    return None if w is None or zero is None or not w.size else less_zero_points(w, zero, 0)


def is_integer_convolution(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """A convolution of bytes with a constant filter, in the order of the model; their zero point may vary."""
    x, zero = known[node.inputs[0]], known[node.inputs[2]] if node.input(2) else None
    if kind != PLAIN or x.value is not None or len(x.shape) not in (3, 4, 5) or 0 in x.shape:
        return False
    return (zero is None or prod(zero.shape) == 1) and filter_of_integers(node, known) is not None


KERNELS = {
    **dict.fromkeys(CONVOLUTIONS, Kernel(is_convolution, strided=True)),
    "ConvInteger": Kernel(is_integer_convolution),
}
