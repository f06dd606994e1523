"""Axes of arrays that are walked together: which can be merged, and where their elements begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

Axis = tuple[int, ...]  # its extent, and its strides in one or more arrays


def merged(axes: Iterable[Axis]) -> list[Axis]:
    """The same iterations, outermost axis first, along as few axes as possible; none of them has extent 1."""
    out: list[Axis] = []
    for n, *strides in axes:
        if n == 1:
            continue
        if out and all(outer == n * stride for outer, stride in zip(out[-1][1:], strides)):
            out[-1] = (out[-1][0] * n, *strides)
        else:
            out.append((n, *strides))
    return out


def addressable(x: np.ndarray) -> np.ndarray:
    """`x`, with strides of 0 if it is empty: a run gets NULL for it, to which nothing may be added."""
    return x if x.size else np.broadcast_to(np.zeros((), x.dtype), x.shape)


def offsets(axes: Sequence[Axis], which: int) -> np.ndarray:
    """Of all indices of axes, in order, by strides number `which`."""
    at = np.zeros((), np.int64)
    for axis in axes:
        at = at[..., None] + np.arange(axis[0], dtype=np.int64) * axis[which]
    return np.ascontiguousarray(at.reshape(-1))


def is_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements of axes follow one another in memory."""
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n != 1 and stride != itemsize:
            return False
        itemsize *= n
    return True


def viewed_array(view: np.ndarray, arrays: Sequence[np.ndarray]) -> tuple[int, int]:
    """Which of some arrays a view is of, and the offset of its first element there, in bytes."""
    begin, end = _extent(view)
    for i, x in enumerate(arrays):
        first, last = _extent(x)
        if first <= begin and end <= last:
            return i, _address(view) - _address(x)
    raise ValueError(f"an operand of shape {view.shape} is no view of the arrays that are bound")


def _address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def _extent(x: np.ndarray) -> tuple[int, int]:
    """The addresses at which an array begins and ends."""
    steps = [(n - 1) * s for n, s in zip(x.shape, x.strides)]
    at = _address(x)
    return at + sum(s for s in steps if s < 0), at + sum(s for s in steps if s > 0) + x.itemsize
