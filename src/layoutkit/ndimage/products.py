"""Correlations with dense boxes as convolutions of one channel, over a copy with its edges around it.

Their sums are in one order, whatever the number of threads: accuracy "reproducible" of `layoutkit.conv2d`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..choosing.best import choices
from ..choosing.machine import last_level_cache
from ..choosing.plan import SlowPathWarning
from ..choosing.warn import without
from ..convolutions.conv import CLASSES, task_of
from ..memory.arrays import empty
from . import windows as w

MOST_AXES = 3  # with windows
MOST_BYTES = 128 << 20  # of the copy and of the result
COPY_SECONDS = 3e-11  # for each byte of the copy and of the result, within the caches ..
LARGE_SECONDS = 1.5e-10  # .. and beyond: their pages are new
CALL_SECONDS = 2e-4


def axes_of(window: Sequence[int]) -> list[int]:
    """The axes with windows of more than one element."""
    return [i for i, span in enumerate(window) if span > 1]


def is_possible(shape: Sequence[int], window: Sequence[int], dtype: np.dtype) -> bool:
    """Whether there is such a convolution, for which there is memory."""
    return 2 <= len(axes_of(window)) <= MOST_AXES and _bytes_between(shape, window, dtype) <= MOST_BYTES


def _bytes_between(shape: Sequence[int], window: Sequence[int], dtype: np.dtype) -> int:
    return (prod(n + span - 1 for n, span in zip(shape, window)) + prod(shape)) * dtype.itemsize


def seconds(shape: Sequence[int], window: Sequence[int], dtype: np.dtype) -> float:
    """What it takes on one thread, by the cost of the convolution."""
    axes = axes_of(window)
    around = [n + span - 1 for n, span in zip(shape, window)]
    one = _convolution(np.zeros([window[i] for i in axes], dtype), 1)
    batch = prod(n for i, n in enumerate(shape) if i not in axes)
    with without(SlowPathWarning):  # there are other ways
        best = choices(task_of(one, (batch, 1, *(around[i] for i in axes))))[0]
    nbytes = _bytes_between(shape, window, dtype)
    return best.seconds + nbytes * (COPY_SECONDS if nbytes < last_level_cache() else LARGE_SECONDS) + CALL_SECONDS


def correlated(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, before: Sequence[int], mode: str, cval: float, threads: int
) -> None:
    """Write to y the correlation of x in the type of the weights, which have all axes; `before`: elements in front."""
    axes = axes_of(weights.shape)
    others = [i for i in range(x.ndim) if i not in axes]
    order = [*others, *axes]
    box, first = [weights.shape[i] for i in axes], [before[i] for i in axes]
    source = x.transpose(order)
    copied = _with_edges(source, box, first, mode, cval, weights.dtype)
    sizes, batch = source.shape[len(others) :], prod(source.shape[: len(others)])
    result = empty((batch, 1, *sizes), weights.dtype, "correlate", used_with=copied)
    with without(SlowPathWarning):
        _convolution(weights.reshape(box), threads)(copied.reshape(batch, 1, *copied.shape[len(others) :]), result)
    with np.errstate(over="ignore"):  # sums that a narrower y does not hold are infinite
        y.transpose(order)[...] = result.reshape(source.shape)


def _convolution(weights: np.ndarray, threads: int):
    return CLASSES[weights.ndim].once(
        weights[None, None], what="correlate", threads=threads, accuracy="reproducible", algorithm="auto"
    )


def _with_edges(
    x: np.ndarray, box: Sequence[int], before: Sequence[int], mode: str, cval: float, dtype: np.dtype
) -> np.ndarray:
    """A copy with what windows of the last axes take outside of it."""
    first = x.ndim - len(box)
    sizes = [n + span - 1 for n, span in zip(x.shape[first:], box)]
    copied = empty((*x.shape[:first], *sizes), dtype, "correlate", used_with=x)
    inside = [slice(None)] * first + [slice(b, b + n) for b, n in zip(before, x.shape[first:])]
    with np.errstate(over="ignore"):
        copied[tuple(inside)] = x
        outside = dtype.type(cval)
    for axis in range(first, x.ndim):
        n, span, b = x.shape[axis], box[axis - first], before[axis - first]
        places = w.positions(n, span, b, mode)
        for edge in (slice(0, b), slice(b + n, n + span - 1)):
            to = (*inside[:axis], edge, *inside[axis + 1 :])
            if (places[edge] < 0).any():
                copied[to] = outside
            elif len(places[edge]):
                copied[to] = copied[(*inside[:axis], b + places[edge], *inside[axis + 1 :])]
        inside[axis] = slice(None)
    return copied
