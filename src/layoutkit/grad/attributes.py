"""The keywords of gradients of convolutions, of transposed ones too."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

from ..convolutions.attributes import Attributes
from ..convolutions.problem import per_axis


@dataclass(frozen=True)
class GradientAttributes(Attributes):
    """The convolution of a gradient, as it was given: see `conv2d_input` and `conv2d_weight` for the parameters."""

    grad_layout: Any = None
    grad_shape: Any = None

    def checked(self, what: str, rank: int, transposed: bool) -> Self:
        """The same with stride and dilation by axis, and groups as a number; ValueError if they are none."""
        (groups,) = per_axis(self.groups, 1, f"{what}: groups", 1)
        stride, dilation = (per_axis(getattr(self, n), rank, f"{what}: {n}", 1) for n in ("stride", "dilation"))
        if transposed and isinstance(self.padding, str):
            raise ValueError(f"{what}: padding {self.padding!r}: expected numbers")
        return replace(self, stride=stride, dilation=dilation, groups=groups)


@dataclass(frozen=True)
class InputAttributes(GradientAttributes):
    """Of the gradient of an input."""

    filter_shape: Any = None
    threads: int | None = None


@dataclass(frozen=True)
class WeightAttributes(GradientAttributes):
    """Of the gradient of a filter."""

    shape: Any = None
