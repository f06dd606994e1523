"""The element types of convolutions: which are known, and the one place that refuses others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._core import registry
from ..reorders.convert import NUMBERS


class ConvTypes(NamedTuple):
    """The types of a convolution, by numpy's dtypes; `name` is that of its kernels' rows, and part of its key."""

    name: str
    src: np.dtype
    filter: np.dtype
    sum: np.dtype  # what products are summed in, and bias and residual are of
    dst: np.dtype


_DTYPES = {element: name for name, element in NUMBERS.items()}
# The table is LK_TYPES of kernels.h.
TYPES = {name: ConvTypes(name, *(np.dtype(_DTYPES[e]) for e in elements)) for name, elements in registry.TYPES.items()}
F32 = TYPES["f32"]


def types_of(w: np.ndarray, what: str) -> ConvTypes:
    """The types of a convolution whose filter is `w`; TypeError if there are none."""
    for types in TYPES.values():
        if w.dtype == types.filter:
            return types
    known = " or ".join(str(types.filter) for types in TYPES.values())
    raise TypeError(f"{what}: expected dtype {known}, got {w.dtype}")


def check_type(array: np.ndarray, expected: np.dtype, what: str) -> None:
    """Raise TypeError unless `array` is of the type that a convolution expects there."""
    if array.dtype != expected:
        raise TypeError(f"{what}: expected dtype {expected}, got {array.dtype}")
