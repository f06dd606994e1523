"""`beta`: gradients that are added to what `out` holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..convolutions.types import dtype_of
from ..formats.layout import Layout
from ..reorders.reorder import reorder


def check_beta(beta: Any, out: Any, what: str) -> None:
    """Raise unless `beta` is a finite number, and there is an `out` to multiply by it."""
    if not isinstance(beta, int | float | np.number) or not np.isfinite(beta):
        raise ValueError(f"{what}: beta must be a finite number, got {beta!r}")
    if beta and out is None:
        raise ValueError(f"{what}: beta={beta} adds to out, which was not given")


def add_scaled(
    addend: np.ndarray | None, out: np.ndarray, layout: Layout, shape: tuple[int, ...], element: str, beta: float
) -> None:
    """``addend + beta * out`` in `out`, which may hold bfloat16 as bits; None: nothing is added."""
    alpha = 1.0 if addend is not None else 0.0
    source = (out.copy() if addend is None else addend).view(dtype_of(element))
    dtype = ("bfloat16",) * 2 if element == "bf16" else None
    reorder(source, layout, layout, shape=shape, out=out.view(dtype_of(element)), dtype=dtype, alpha=alpha, beta=beta)
