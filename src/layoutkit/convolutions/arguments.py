"""Arguments that the calls of all convolutions share: the residual, the workspace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._core.arrays import address
from ..memory.arguments import hold
from ..memory.arrays import as_array, overlap
from ..memory.tensor import Tensor
from .filter import Filter
from .types import check_type


def residual(f: Filter, add, out: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
    """`add`, a tensor like the result of logical `shape`; and whether it must be copied to `out` first."""
    what = f"{f.what}: add"
    add = hold(add, f.out_layout, shape, what).array if isinstance(add, Tensor) else as_array(add, what)
    check_type(add, f.types.sum, what)
    if add.shape != out.shape:
        raise ValueError(f"{what} has shape {add.shape}, expected the result's {out.shape}")
    if add.strides == out.strides:
        if address(add) == address(out) or not overlap(add, out):
            return add, False
    elif not overlap(add, out):
        return add, True
    raise ValueError(f"{what} and out share memory without being the same array")


def check_workspace(what: str, workspace: Any, needed: int, arrays: Iterable[np.ndarray | None]) -> None:
    """Raise unless `workspace` has the bytes that a call needs, apart from its arrays."""
    what = f"{what}: workspace"
    if not isinstance(workspace, np.ndarray) or not workspace.flags.c_contiguous or not workspace.flags.writeable:
        raise TypeError(f"{what} must be a contiguous, writeable numpy array, got {type(workspace).__name__}")
    if workspace.nbytes < needed:
        raise ValueError(f"{what} of {workspace.nbytes} bytes, this call needs {needed}")
    if any(overlap(workspace, a) for a in arrays if a is not None):
        raise ValueError(f"{what} overlaps x, out or add")
