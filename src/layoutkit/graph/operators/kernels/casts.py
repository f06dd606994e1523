"""Conversions of numbers to another type."""

from __future__ import annotations

from collections.abc import Mapping

from ...ir import Node
from ..base import MAX_RANK, Known
from .base import Kernel

REALS = {"float16": 11, "float32": 24, "float64": 53}  # their bits of precision
INTEGERS = {"bool": 1, "uint8": 8, "int8": 7, "uint16": 16, "int16": 15, "uint32": 32, "int32": 31, "int64": 63}


def is_cast(node: Node, known: Mapping[str, Known], kind: int) -> bool:
    """Whether a Cast is to a real type, from another one that is not rounded twice, or from integers; integers of reals
    are rounded towards zero, which the kernels do not."""
    x, y = known[node.inputs[0]], known[node.outputs[0]]
    if x.value is not None or x.stored is not None or y.stored is not None or not 1 <= len(x.shape) <= MAX_RANK:
        return False
    src, dst = str(x.dtype), str(y.dtype)
    if src == dst or dst not in REALS:
        return False
    return src in INTEGERS or (src in REALS and {src, dst} != {"float16", "float64"})


KERNELS = {"Cast": Kernel(is_cast, strided=True)}
