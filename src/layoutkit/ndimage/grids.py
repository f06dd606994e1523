"""Linear interpolation at the points of a grid: along one axis after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.nests.blend import Interpolation
from .._core.nests.sampling import MARGIN

MOST_AXES = 3


def blended(
    x: np.ndarray, y: np.ndarray, points: Sequence[np.ndarray], around: Sequence[np.ndarray], threads: int
) -> bool:
    """Write to y, of float32 like x, its values at the points of a grid, if all of them are inside of it and ascend.

    `around`: by axis the element that stands at each place, from MARGIN before the first on.
    """
    if x.ndim > MOST_AXES or any(not ((at >= 0) & (at <= n - 1)).all() for at, n in zip(points, x.shape)):
        return False
    taps = []
    for at, elements in zip(points, around):
        below = np.floor(at)
        first = below.astype(np.int64) + MARGIN
        indices = np.stack([elements[first], elements[first + 1]])
        order = np.argsort(indices, 0, kind="stable")  # behind the last one may stand the one before it
        indices = np.take_along_axis(indices, order, 0)
        if (np.diff(indices) < 0).any():
            return False
        weights = np.stack([1 - (at - below), at - below])
        taps.append((indices, np.take_along_axis(weights, order, 0).astype(np.float32)))
    Interpolation(x, y, 0, 1, taps, threads)(x, y)
    return True
