"""The base of the algorithms that sum the gradient of a filter."""

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

MIN_SLAB_PIXELS = 3072
MAX_SLABS = 16
MAX_SLABS_BYTES = 64 << 20  # of the sums of all slabs
SIGNAL_SECONDS = 0.05  # between checks for signals


class Sums(NamedTuple):
    """A loop nest, and the layout of its sums."""

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
        The last axes, so many, whose taps count as channels: x is in channels last and padded along them.
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
    """The number of slabs of pixels, a power of two: threads share them evenly, and prefetch all channels of a pixel.

    It depends on the problem alone, and so do the results.
    """
    filter_bytes = p.types.sum.itemsize * p.oc * (p.ic // p.groups) * p.taps
    slabs = max(1, min(p.n * prod(p.out) // MIN_SLAB_PIXELS, MAX_SLABS, MAX_SLABS_BYTES // max(1, filter_bytes)))
    return 1 << (slabs.bit_length() - 1)


def chunks_of(seconds: float) -> int:
    """The number of chunks of a call of so many seconds, between which signals are checked for."""
    return max(1, int(seconds / SIGNAL_SECONDS))


def stride_of(digits: Sequence) -> int:
    """Of the outermost digit."""
    return digits[0].stride


# Of x or dy: strides of an image and of depth, height, width; channels of a group, of a block, strides of both.
Operand = tuple[tuple[int, ...], tuple[int, int, int, int]]


def operand(layout: Layout, shape: Sequence[int], strides: Sequence[int], groups: int) -> Operand:
    """x or dy as the nests take it."""
    digits = strides_of(layout, strides)
    block, block_stride = (layout.block(1), stride_of(digits[1])) if len(digits[1]) > 1 else (max(1, shape[1]), 0)
    channels = shape[1] // groups, block, block_stride, digits[1][-1].stride
    return (stride_of(digits[0]), *spatial_strides(digits)), channels


def taps_of(p: ConvProblem) -> str:
    """The letters of the kernel's axes in (groups, O, I, *kernel)."""
    return "def"[: len(p.kernel)]


def channels_last(p: ConvProblem) -> Layout:
    """The layout that x or dy is reordered to where its own is not supported."""
    return Layout(CHANNELS_LAST[p.src.rank])
