"""Numbers of the types that convolutions are of, and how far their results may be from the exact ones."""

from __future__ import annotations

import numpy as np
from oracle import reference

from layoutkit.convolutions.types import TYPES, ConvTypes

KINDS = [types for types in TYPES.values() if not types.integers]
# Of a number rounded to an element: its relative error, and the absolute one of denormals.
ROUNDING = {
    "f32": (2.0**-24, 2.0**-150), "f64": (2.0**-53, 0.0), "f16": (2.0**-11, 2.0**-25), "bf16": (2.0**-8, 2.0**-134)
}  # fmt: skip


def any_types(rng: np.random.Generator) -> ConvTypes:
    """Of what convolutions are of: mostly float32."""
    return KINDS[rng.integers(len(KINDS))] if rng.integers(3) == 0 else TYPES["f32"]


def normal(rng: np.random.Generator, shape, dtype: np.dtype) -> np.ndarray:
    """Normally distributed numbers."""
    if dtype.itemsize >= 4:
        return rng.standard_normal(shape, dtype)
    return rng.standard_normal(shape, np.float32).astype(dtype)


def exact(a: np.ndarray | None) -> np.ndarray | None:
    """The same numbers in a type that numpy computes with."""
    return a if a is None or a.dtype.itemsize >= 4 else a.astype(np.float32)


def of_sums(types: ConvTypes) -> float:
    """The relative error of an operation on sums; twice as much where the reference rounds as well."""
    return ROUNDING[types.elements[2]][0] * (2 if types.elements[2] == "f64" else 1)


def of_result(types: ConvTypes, want: np.ndarray) -> np.ndarray:
    """What rounding results to their type adds."""
    if types.dst == types.sum:
        return np.zeros(want.shape)
    relative, least = ROUNDING[types.elements[3]]
    return 1.01 * relative * abs(want) + least


def result(want: np.ndarray, types: ConvTypes) -> np.ndarray:
    """Exact results of whole numbers, as they come out."""
    with np.errstate(over="ignore"):
        return exact(reference.rounded(want, types.dst)) if types.dst != types.sum else want
