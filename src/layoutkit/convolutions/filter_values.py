"""What the values of a filter allow: algorithms that need them within a range, and padding that is skipped."""

from __future__ import annotations

from math import inf, prod
from typing import NamedTuple

import numpy as np

from .._core.nests.convolutions.winograd_filter import extent
from ..choosing.threads import get_num_threads
from .algorithms.winograd import LARGEST_INTEGER_SUM
from .winograd_matrices import LARGEST_SUM, SMALLEST_WEIGHT


class Traits(NamedTuple):
    """What the values of a filter allow: Winograd if they are in the range of its bound; skipping the padding if all
    are finite.

    `least` and `most` are the smallest (but 0) and the largest of the maximum magnitudes of its output channels. They
    are computed once, before planning, in one pass that takes at most a tenth of the time of the cheapest packing.
    """

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


class IntegerTraits(NamedTuple):
    """The same for a filter of integers; `most` is the largest sum of its products with uint8 inputs."""

    most: int
    finite: bool = True

    @property
    def why_strict(self) -> str | None:
        """Why Winograd's results might be out of range; None if they are not."""
        if self.most >= LARGEST_INTEGER_SUM:
            return f"sums reach {self.most:.2g}, beyond {LARGEST_INTEGER_SUM:.2g}"
        return None


def integer_traits(w: np.ndarray) -> IntegerTraits:
    """The traits of a filter (O, ...) of integers."""
    by_channel = w.reshape(len(w), prod(w.shape[1:]))
    sums = [abs(half(by_channel, 0).sum(1, dtype=np.int64)).max(initial=0) for half in (np.minimum, np.maximum)]
    return IntegerTraits(255 * int(max(sums)))


def quick_traits(w: np.ndarray) -> Traits | None:
    """The traits of a filter of float32 of any strides, from magnitudes of single weights instead of output channels.

    None where these do not show that Winograd's bound holds, or the filter is contiguous in no order of its axes.
    """
    memory = w.transpose(sorted(range(w.ndim), key=lambda axis: -w.strides[axis]))
    if not memory.flags.c_contiguous:
        return None
    bounds = Traits(*extent(memory.reshape(-1, 1), get_num_threads()), prod(w.shape[1:]))
    return None if bounds.why_strict else bounds


def traits(w: np.ndarray) -> Traits:
    """The traits of a filter (O, ...), contiguous."""
    by_channel = w.reshape(len(w), -1) if w.size else w.reshape(0, 1)
    if w.dtype != np.float32:
        peaks = abs(by_channel.astype(np.float64, copy=False)).max(1, initial=0)
        return Traits(min(peaks[peaks > 0], default=0.0), peaks.max(initial=0), by_channel.shape[1])
    return Traits(*extent(by_channel, get_num_threads()), by_channel.shape[1])
