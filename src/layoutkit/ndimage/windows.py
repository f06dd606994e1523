"""Windows along an axis: which places are combined, in which order, and where the elements outside come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .fixed import Fixed

EACH, SUMS, DIFFERENCES, PLAIN, BAND, BAND_SUMS, BAND_DIFFERENCES = range(7)  # as LK_WEIGH_.. of filters.h
LINE_SUMS, BAND_PAIRS, LINE_PAIRS, BAND_EACH = 9, 10, 11, 12
BAND_ROWS = 4  # as LK_BAND_ROWS
NONE, MEAN, WHOLE, CAST = range(4)  # LK_END_..
LEAST, LARGEST = range(2)  # LK_FOLD_..
MOST_BYTES, MOST_WORDS = 128, 63  # as LK_MOST_..: elements of means that are made of small integers


@dataclass(frozen=True)
class Windows:
    """Windows along an axis of an array, as `_core/nests/filters/separable_plan.pyx` takes them."""

    axis: int
    mode: str
    span: int  # places of a window
    before: int  # of them, those before the element
    place: np.ndarray  # of each row that is combined, in that order
    kind: int
    weight: np.ndarray | None = None
    end: int = NONE
    size: float = 1
    to: int = 0  # the element that CAST is of
    fixed: Fixed | None = None  # the weights, where sums are made of integers
    running: bool = False  # whether windows are made of shorter ones
    n: int = 0  # of the axis; x, y: its strides
    x: int = 0
    y: int = 0
    source: np.ndarray | None = None

    def on(self, x: np.ndarray, y: np.ndarray) -> Windows:
        """The same on the axis of two arrays."""
        n = x.shape[self.axis]
        source = positions(n, self.span, self.before, self.mode)
        return replace(self, n=n, x=x.strides[self.axis], y=y.strides[self.axis], source=source)

    def banded(self, mirrored: bool) -> Windows:
        """The same sums of several results at a time, of rows in the order of the elements.

        If `mirrored`, those of SUMS and DIFFERENCES are the same bit for bit, and each row is read twice. Others,
        which have no other end, are not the same.
        """
        if self.kind == PLAIN:
            return replace(self, kind=BAND, weight=np.ones(self.span))
        if self.weight is None:
            return self
        if mirrored and self.kind in (SUMS, DIFFERENCES):
            return replace(self, kind=BAND_SUMS if self.kind == SUMS else BAND_DIFFERENCES, place=np.arange(self.span))
        if self.end != NONE:
            return self
        weight = np.zeros(self.span)
        half, pairs = self.place[0], self.place[1:]
        if self.kind == EACH:
            weight[self.place] = self.weight
        else:
            weight[half], weight[pairs[::2]] = self.weight[0], self.weight[1:]
            weight[pairs[1::2]] = self.weight[1:] if self.kind == SUMS else -self.weight[1:]
        return replace(self, kind=BAND, weight=weight, place=np.arange(self.span))

    def across_rows(self) -> Windows:
        """The same sums of integers, of several rows at a time if they can be made so."""
        if self.fixed is not None and self.fixed.pairs:
            return replace(self, kind=BAND_PAIRS, place=np.arange(self.span))
        return self.banded(mirrored=True) if self.fixed is not None and self.fixed.smooth else self

    def along_row(self, unit: int, element: str) -> Windows:
        """The same sums of integers, of elements that are `unit` apart in a row."""
        if self.fixed is not None and self.fixed.pairs:
            return replace(self, kind=LINE_PAIRS if unit == 1 else BAND_PAIRS, place=np.arange(self.span))
        if self.fixed is not None and self.fixed.smooth and unit == 1 and element == "u8":
            return replace(self, kind=LINE_SUMS, place=np.arange(self.span))
        return self

    def weights_in(self, dtype: str) -> np.ndarray:
        """The weights in a type."""
        assert self.weight is not None
        return rounded(self.weight, np.dtype(dtype))

    def ending(self, end: int, to: int = 0) -> Windows:
        """The same with another end."""
        return replace(self, end=end, to=to)


def rounded(weights: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Weights in a type; what is not 0 stays so, as it makes infinities of them."""
    with np.errstate(under="ignore", over="ignore"):
        found = np.ascontiguousarray(weights, dtype)
    lost = (found == 0) & (weights != 0)
    if lost.any():
        found = np.where(lost, np.copysign(np.finfo(dtype).tiny, weights), found).astype(dtype)
    return found


@lru_cache(256)
def positions(n: int, span: int, before: int, mode: str) -> np.ndarray:
    """By position from `before` in front of an axis on: the element that stands there, -1: the constant."""
    if n == 0:
        return np.full(max(0, span - 1), -1, np.int64)
    at = np.arange(-before, n + span - 1 - before, dtype=np.int64)
    if mode == "constant":
        at = np.where((at < 0) | (at >= n), -1, at)
    elif mode == "nearest":
        at = np.clip(at, 0, n - 1)
    elif mode == "wrap":
        at %= n
    elif mode == "reflect":
        at %= 2 * n
        at = np.where(at < n, at, 2 * n - 1 - at)
    else:  # mirror
        period = max(1, 2 * n - 2)
        at %= period
        at = np.where(at < n, at, period - at)
    return np.ascontiguousarray(at)


def weighed(weights: np.ndarray, axis: int, before: int, mode: str, apart: float = np.finfo(float).eps) -> Windows:
    """Sums by weights, in the order in which scipy sums: results for integers are its own.

    Weights that are mirrored but for differences of at most `apart` are taken as mirrored, by default as scipy does.
    """
    size = len(weights)
    half = size // 2
    kind, place = EACH, [size - 1, *range(size - 1)]
    if size % 2:
        low, high = weights[:half], weights[:half:-1]
        with np.errstate(over="ignore", invalid="ignore"):
            if np.all(np.abs(low - high) <= apart):
                kind = SUMS
            elif np.all(np.abs(low + high) <= apart):
                kind = DIFFERENCES
    if kind == EACH:
        return Windows(axis, mode, size, before, np.array(place), EACH, weights[place])
    place = [half] + [p for i in range(half) for p in (i, size - 1 - i)]
    return Windows(axis, mode, size, before, np.array(place), kind, weights[[half, *range(half)]])


def box(size: int, axis: int, before: int, mode: str) -> Windows:
    """Means."""
    return Windows(axis, mode, size, before, np.arange(size), PLAIN, end=MEAN, size=size)


def extreme(size: int, axis: int, before: int, mode: str, kind: int) -> Windows:
    """The least or the largest."""
    return Windows(axis, mode, size, before, np.arange(size), kind)
