"""What all convolutions share, transposed ones too: residual and workspace of a call, what a plan tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._core.arrays import address
from ..choosing.best import choices
from ..choosing.limits import peak_rate
from ..choosing.plan import Plan
from ..choosing.problem import Choice
from ..memory.arguments import hold
from ..memory.arrays import as_array, overlap
from ..memory.tensor import Tensor
from .filter import Filter
from .phases import TransposedTask
from .task import ConvTask
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


def plan_of(
    task: ConvTask | TransposedTask, f: Filter, told: Callable[[Sequence[Choice]], Iterable[str | None]]
) -> Plan:
    """The plan of a problem: its rate, and lines that `told` makes of the choices."""
    found, threads = choices(task), task.threads

    def note() -> str:
        rate, peak = task.work / found[0].seconds, peak_rate(threads, f.types.name)
        on = f"{peak / 1e9:.0f} GFLOP/s on {threads} thread{'s' * (threads > 1)}, measured now"
        then = "" if f.activation is None else f", then {f.activation}"
        share = f"{rate / 1e9:.1f} GFLOP/s, {rate / peak:.0%} of the FMA peak ({on})"
        return "\n".join(filter(None, (f"{task.work / 1e6:.3g} MFLOP, {share}{then}", *told(found))))

    return Plan(task.key, found, note)
