"""`pad_value`: the value of pads, as an element of the array's type."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np


def pad_element(value: Any, dtype: np.dtype, what: str) -> np.ndarray:
    """`value` as an array of `dtype` without axes.

    Integer types take integers in their range, real types no complex numbers; floats are rounded, and must not
    overflow. Types that are not numbers take values of their own kind, and 0 for zero bytes.

    Raises
    ------
    ValueError
        The type does not have the value.
    """
    with np.errstate(all="ignore"):
        try:
            scalar = np.asarray(value)
            element = None if scalar.ndim else _element(value, scalar, dtype)
        except (TypeError, ValueError, OverflowError):  # for example a ragged list, or an integer too large for float64
            element = None
    if element is None:
        raise ValueError(f"{what}: pad_value={value!r} is not a value of dtype {dtype}")
    return element


def _element(value: Any, scalar: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    if not _is_number(dtype):
        if type(value) is int and value == 0:
            return np.zeros((), dtype)
        element = scalar.astype(dtype) if scalar.dtype.kind == dtype.kind else None
        if element is None:
            return None
        back = element.astype(scalar.dtype)
        return element if back == scalar or (back != back and scalar != scalar) else None
    if not (_is_number(scalar.dtype) or isinstance(value, Number)) or (scalar.dtype.kind == "c" != dtype.kind):
        return None
    element = scalar.astype(dtype)
    if dtype.kind in "biu" or "int" in dtype.name:
        return element if int(element) == value else None
    wide = np.clongdouble if scalar.dtype.itemsize > 8 or dtype.itemsize > 8 else np.complex128
    before, after = scalar.astype(wide), element.astype(wide)
    if np.isfinite(before):
        return element if np.isfinite(after) else None
    return element if before == after or (np.isnan(before) and np.isnan(after)) else None


def _is_number(dtype: np.dtype) -> bool:
    """Whether the elements are numbers, those of ml_dtypes among them."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.type is not np.void)
