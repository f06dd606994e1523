"""Sums of two tensors, and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ir import Node
from ..base import Known
from ..layouts import PLAIN
from .base import F32, Kernel


def limits_of(activation: Any) -> tuple[float, float] | None:
    """The limits that an activation clips to; None if it does something else."""
    if activation == "relu":
        return 0.0, np.inf
    return activation[1:] if isinstance(activation, tuple) and activation[0] == "clip" else None


def is_sum(node: Node, known: Mapping[str, Known], kind: int = PLAIN) -> bool:
    """A sum of one or two float32 tensors of the result's shape, or a tensor clipped to constant limits."""
    y, names = known[node.outputs[0]], summands(node)
    if y.dtype != F32 or not 1 <= len(names) <= 2:
        return False
    if any(known[name].shape != y.shape or known[name].value is not None for name in names):
        return False
    return node.op != "Clip" or all(known[name].value is not None for name in node.inputs[1:] if name)


def summands(node: Node) -> tuple[str, ...]:
    """The tensors that a sum adds."""
    return node.inputs[:1] if node.op in ("Relu", "Clip") else node.inputs


KERNELS = dict.fromkeys(("Add", "Sum", "Relu", "Clip"), Kernel(is_sum, strided=True, any_reals=True))
