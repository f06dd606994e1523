"""The keywords that convolutions, transposed ones and their gradients share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .algorithms import AUTO


@dataclass(frozen=True)
class Attributes:
    """Of a convolution or of its gradients, as they were given: see `conv2d` for the parameters."""

    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: Any = 1
    layout: Any = None
    filter_layout: Any = None
    algorithm: str = AUTO
    accuracy: str = "standard"
    dtype: Any = None


@dataclass(frozen=True)
class FilterAttributes(Attributes):
    """Of a convolution with a filter."""

    filter_shape: Any = None
    out_layout: Any = None
    padding_mode: Any = "zeros"
