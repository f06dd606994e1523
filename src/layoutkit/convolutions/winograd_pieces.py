"""Filters as sums of pieces of at most three taps, which Winograd's F(m, 3) can do.

    y[i] = sum over k of w[k] x[s i + d k] = sum over pieces q of F(m, 3) of w[q's taps] and x[s i + offset + step t]

Without a stride the pieces are taps 0..2, 3..5, .. With a stride s, every s-th tap meets every s-th input, and so those
from tap r on are a filter of their own, without a stride, for each r < s: its taps are cut likewise. Tiles of F(3, 3)
of stride 2 take consecutive taps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Axis", "axis_pieces", "cut_filter"]


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


def cut_filter(w: np.ndarray, high: Axis, wide: Axis) -> np.ndarray:
    """Filter (O, I, depth, *kernel) -> (O, I, depth * pieces, 3 or 1, 3), pieces filled up with zeros.

    Parameters
    ----------
    w : ndarray
    high, wide : Axis
        The pieces along the last two axes. With one tap along the height there is one row.
    """
    rows = 3 if w.shape[3] > 1 else 1
    if len(high.taps) == len(wide.taps) == 1 and w.shape[3:] == (rows, 3):
        return w
    zeros = np.pad(w, [(0, 0)] * 3 + [(0, 1)] * 2)

    def places(axis: Axis, width: int, none: int) -> np.ndarray:
        return np.array([[*piece, *[none] * (width - len(piece))] for piece in axis.taps])

    cut = zeros[:, :, :, places(high, rows, w.shape[3])][..., places(wide, 3, w.shape[4])]
    pieces = w.shape[2] * len(high.taps) * len(wide.taps)
    return np.ascontiguousarray(cut.swapaxes(4, 5)).reshape(*w.shape[:2], pieces, rows, 3)
