"""What the ways to sum the gradient of a filter have in common."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple, Protocol

from ..._core.nests.executor import WeightSums
from ..._core.runtime.registry import Kernel
from ...convolutions.algorithms.base import CHANNELS_LAST
from ...convolutions.geometry import spatial_strides, strides_of
from ...convolutions.problem import ConvProblem
from ...convolutions.route import Arrays
from ...formats.layout import Layout

MIN_SLAB_PIXELS = 4096
MAX_SLABS = 16
MAX_SLABS_BYTES = 64 << 20  # of the sums of all slabs
SIGNAL_SECONDS = 0.05  # between looks for signals


class Sums(NamedTuple):
    """A loop nest, and how what it sums lies in memory."""

    nest: WeightSums
    layout: Layout  # of (groups, O/groups, I/groups, *kernel)


class Algorithm(Protocol):
    """One way to sum the gradient of a filter.

    Attributes
    ----------
    name : str
        The name that `algorithm=` forces it by.
    family : str
        Of the kernels it runs on.
    folds : int
        Of how many axes, the last ones, it takes the taps for channels: x is in channels last and padded along them.
    saving : float
        How many times less it multiplies than the direct sum, at most.
    """

    name: str
    family: str
    folds: int
    saving: float

    def supports(self, p: ConvProblem) -> str | None:
        """Why it cannot do `p` on its layouts as they are; None if it can."""
        ...

    def accuracy(self, p: ConvProblem) -> str:
        """The strictest that allows it."""
        ...

    def takes_strides(self, layout: Layout, shape: Sequence[int], strides: Sequence[int], width: int) -> bool:
        """Whether an array of these byte strides, of elements of `width` bytes, is read without a copy."""
        ...

    def estimate(self, p: ConvProblem, kernel: Kernel, threads: int) -> float:
        """Seconds, by counting what it would execute."""
        ...

    def build(self, p: ConvProblem, kernel: Kernel, threads: int, arrays: Arrays) -> Sums:
        """The loop nest for x and dy of these byte strides."""
        ...


def slabs_of(p: ConvProblem) -> int:
    """Into how many slabs the pixels are cut: it depends on the problem alone, so that sums do."""
    filter_bytes = p.types.sum.itemsize * p.oc * (p.ic // p.groups) * p.taps
    return max(1, min(p.n * prod(p.out) // MIN_SLAB_PIXELS, MAX_SLABS, MAX_SLABS_BYTES // max(1, filter_bytes)))


def chunks_of(seconds: float) -> int:
    """Into how many chunks a call of so many seconds is cut, between which signals are seen."""
    return max(1, int(seconds / SIGNAL_SECONDS))


def stride_of(digits: Sequence) -> int:
    return digits[0].stride


Side = tuple[tuple[int, ...], tuple[int, int, int, int]]  # see `side`


def side(layout: Layout, shape: Sequence[int], strides: Sequence[int], groups: int) -> Side:
    """Of x or dy: the strides of an image and a pixel; the channels of a group, and how they lie: see `OuterSums`."""
    digits = strides_of(layout, shape, strides)
    blocked = len(digits[1]) > 1
    block, apart = (layout.block(1), stride_of(digits[1])) if blocked else (max(1, shape[1]), 0)
    return (stride_of(digits[0]), *spatial_strides(digits)), (shape[1] // groups, block, apart, digits[1][-1].stride)


def taps_of(p: ConvProblem) -> str:
    """The letters of the kernel's axes in (groups, O, I, *kernel)."""
    return "def"[: len(p.kernel)]


def channels_last(p: ConvProblem) -> Layout:
    """Where a side has to be reordered."""
    return Layout(CHANNELS_LAST[p.src.rank])
