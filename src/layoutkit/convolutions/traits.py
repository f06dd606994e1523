"""What the values of a filter allow: Winograd within the range of its bound, padding left out if all are finite.

It is looked at once, before anything is planned: one pass, a tenth of the cheapest packing at most.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from .._core.winograd import extent
from ..winograd import LARGEST_SUM, SMALLEST_WEIGHT


class Traits(NamedTuple):
    """Of the largest magnitudes of a filter's output channels: the least that is not 0, and the most."""

    least: float
    most: float
    weights: int  # of an output channel

    @property
    def finite(self) -> bool:
        """Neither Inf nor NaN."""
        return self.most < inf

    @property
    def why_strict(self) -> str | None:
        """Why Winograd's bound would not hold; None if it does."""
        if not self.finite:
            return "it holds Inf or NaN"
        if self.most * self.weights > LARGEST_SUM:
            return f"it holds {self.most:.2g}, sums of {self.weights} such are beyond {LARGEST_SUM:.2g}"
        if 0 < self.least < SMALLEST_WEIGHT:
            return f"an output channel holds {self.least:.2g} at most, below {SMALLEST_WEIGHT:.2g}"
        return None


def traits(w: np.ndarray) -> Traits:
    """The traits of a filter (O, ...), contiguous."""
    by_channel = w.reshape(len(w), -1) if w.size else w.reshape(0, 1)
    if w.dtype != np.float32:
        peaks = abs(by_channel.astype(np.float64, copy=False)).max(1, initial=0)
        return Traits(min(peaks[peaks > 0], default=0.0), peaks.max(initial=0), by_channel.shape[1])
    return Traits(*extent(by_channel), by_channel.shape[1])
