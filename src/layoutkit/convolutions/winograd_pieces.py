"""Filters as sums of pieces of at most three taps, which Winograd's F(m, 3) can do.

    y[i] = sum over k of w[k] x[s i + d k] = sum over pieces q of F(m, 3) of w[q's taps] and x[s i + offset + step t]

Without a stride the pieces are taps 0..2, 3..5, .. With a stride s, every s-th tap meets every s-th input, and so those
from tap r on are a filter of their own, without a stride, for each r < s: its taps are cut likewise. Tiles of F(3, 3)
of stride 2 take consecutive taps.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

__all__ = ["Axis", "axis_pieces", "cut_cost", "piece_rows", "slice_of", "tap_places"]

CUT_COST = 1.7  # of packing pieces, in packing what is whole


class Axis(NamedTuple):
    """The pieces of a filter along an axis.

    Attributes
    ----------
    taps : tuple of tuple of int
        Of each piece.
    offsets : tuple of int
        Of each piece, in pixels: from the first input of an output to its own.
    step : int
        Pixels between the inputs of a tile.
    scale : int
        Pixels between the inputs of an output and those of the next one in its tile.
    """

    taps: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    step: int
    scale: int

    @property
    def last(self) -> int:
        """The farthest pixel that pieces of 3 taps read for an output, from its first; those of zeros count."""
        return max(self.offsets) + 2 * self.step


@lru_cache(256)
def axis_pieces(kernel: int, stride: int = 1, dilation: int = 1, of_tiles: int = 1) -> Axis:
    """The pieces of a filter of `kernel` taps along an axis.

    Parameters
    ----------
    kernel, stride, dilation : int
        Along the axis. One of stride and dilation is 1.
    of_tiles : int, optional
        The stride that the tiles have themselves.
    """
    apart = 1 if of_tiles > 1 else stride
    of_phases = [range(first, kernel, apart) for first in range(min(apart, kernel))]
    taps = tuple(tuple(phase[at : at + 3]) for phase in of_phases for at in range(0, len(phase), 3))
    step = max(apart, dilation) if kernel > 1 else 1
    return Axis(taps, tuple(piece[0] * dilation for piece in taps), step, stride)


@lru_cache(256)
def tap_places(high: Axis, wide: Axis, columns: int, rows: int) -> np.ndarray:
    """The taps of each piece of a filter, counted row by row; -1 for the zeros that fill a piece up.

    Parameters
    ----------
    high, wide : Axis
        The pieces along the last two axes.
    columns : int
        Of the filter.
    rows : int
        Of a piece: 3, or 1 where there is one tap along the height. Each has 3 taps.
    """
    return np.array([
        [i * columns + j if i >= 0 <= j else -1 for i in filled(a, rows) for j in filled(b, 3)]
        for a in high.taps for b in wide.taps
    ])  # fmt: skip


def slice_of(taps: tuple[int, ...]) -> slice:
    """The taps of a piece, which are equally far apart."""
    return slice(taps[0], taps[-1] + 1, taps[1] - taps[0] if len(taps) > 1 else 1)


def piece_rows(w: np.ndarray) -> int:
    """The rows of a piece of a filter (O, I, depth, *kernel): tiles of one row have one."""
    return 3 if w.shape[3] > 1 else 1


def cut_cost(kernel: tuple[int, ...]) -> float:
    """How many times as long as one of 3x3 a filter takes to be packed, by weight: zeros fill it up, and it is copied.

    Parameters
    ----------
    kernel : tuple of int
    """
    axes = [k for k in kernel[-2:] if k > 1]
    return prod(-(-k // 3) * 3 / k for k in axes) * (1.0 if set(axes) <= {3} else CUT_COST)


def filled(taps: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The taps of a piece, and -1 for the zeros that fill it up."""
    return (*taps, *(-1,) * (length - len(taps)))
