"""Activations of convolutions past memory: for each tile the numbers of its channels and its parts of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..convolutions.epilogue import chain_of, is_tensor
from ..memory.tensor import Tensor
from .axes import Range
from .lazy import placeholder


class Input(NamedTuple):
    """A placeholder of a tensor like the result: its number among the inputs besides x."""

    number: int


def split(activation: Any, channels: int, first: int) -> tuple[list | None, list | None, list[Any]]:
    """The steps of an activation with an `Input` for each tensor, numbered from `first`; the same with placeholders,
    for checks; and the tensors."""
    if activation is None:
        return None, None, []
    steps, checked, tensors = [], [], []  # type: ignore[var-annotated]
    for step in chain_of(activation):
        checked_step = step
        if isinstance(step, tuple | list) and len(step) == 2 and is_tensor(step[1], channels):
            value = step[1].array if isinstance(step[1], Tensor) else step[1]
            value = value if hasattr(value, "dtype") else np.asarray(value)
            step, checked_step = (step[0], Input(first + len(tensors))), (step[0], placeholder(value))
            tensors.append(value)
        steps.append(step)
        checked.append(checked_step)
    return steps, checked, tensors


def have_tensors(steps: list | None) -> bool:
    """Whether steps have tensors like the result."""
    return any(map(_has_tensor, steps or ()))


def with_tensors(steps: list, tensor: Callable[[int], np.ndarray]) -> list:
    """Steps with the parts of tensors in place of `Input`s."""
    return [(step[0], tensor(step[1].number)) if _has_tensor(step) else step for step in steps]


def of_channels(steps: list | None, channels: Range, count: int) -> list | None:
    """Steps for some of `count` output channels."""
    if steps is None or channels == (0, count):
        return steps
    return [
        (step[0], np.reshape(step[1], -1)[slice(*channels)])
        if isinstance(step, tuple | list) and not _has_tensor(step) and len(step) == 2 and np.size(step[1]) == count > 1
        else step
        for step in steps
    ]  # fmt: skip


def _has_tensor(step: Any) -> bool:
    return isinstance(step, tuple) and isinstance(step[-1], Input)
