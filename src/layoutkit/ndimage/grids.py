"""Linear interpolation at the points of a grid: along one axis after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._core.nests.filters.sampling import MARGIN
from .._core.nests.filters.zooming import Zooming
from .._core.nests.images.blend import Interpolation
from ..choosing import repeats

MOST_AXES = 3
SMALL = {"u8": 8, "s8": 8, "u16": 16, "s16": 16}  # bits of integers whose sums are made of float32
FLOAT_BITS = 22  # of a number in float32, and a half of it
ROUNDINGS = 3  # of sums in float32 for each axis, in units of half the last place of the largest number

Taps = tuple[np.ndarray, np.ndarray]  # indices and weights in doubles, both (2, extent)


@np.errstate(invalid="ignore")  # of points that are not finite
def blended(
    x: np.ndarray, y: np.ndarray, element: str, points: Sequence[np.ndarray], around: Sequence[np.ndarray], mode: str,
    constant: float, limits: tuple[float, float] | None, threads: int,
) -> bool:  # fmt: skip
    """Write to y, of the type of x, its values at the points of a grid, if these ascend and are in it, or what is
    outside is a constant or the nearest.

    `around`: by axis the element that stands at each place, from MARGIN before the first on. `limits`: of integers.
    """
    if x.ndim > MOST_AXES:
        return False
    given, box, outside = points, None, None
    inside = [(at >= 0) & (at <= n - 1) for at, n in zip(points, x.shape)]
    if not all(i.all() for i in inside):
        if mode == "nearest":
            points = [np.clip(at, 0, n - 1) for at, n in zip(points, x.shape)]
        elif mode == "constant" and all((np.diff(at) >= 0).all() for at in points):
            box = tuple(slice(np.argmax(i), np.argmax(i) + np.count_nonzero(i)) for i in inside)
            given = points = [at[b] for at, b in zip(points, box)]
            outside = constant if limits is None else cast(constant, y.dtype, *limits)
        else:
            return False
    part = y if box is None else y[box]
    nest: Interpolation | Zooming | None = None
    if part.size:
        taps = [taps_of(at, elements) for at, elements in zip(points, around)]
        if any((np.diff(indices) < 0).any() for indices, _ in taps):
            return False
        if element == "f32":
            weights = [(at, weight.astype(np.float32)) for at, weight in taps]
            nest = Interpolation(x, part, 0, 1, weights, threads)
        else:
            assert limits is not None
            offsets = [elements * (s // x.itemsize) for elements, s in zip(around, x.strides)]
            same = given is points and exact(taps, SMALL[element])  # of nearest ones doubles are not exact
            doubt = 0.0 if same else ROUNDINGS * x.ndim * 2.0**-24
            slope = doubt  # sums of what is not negative are rounded in proportion to themselves, others to the largest
            if limits[0] < 0:
                doubt, slope = doubt * max(map(abs, limits)), 0.0
            nest = Zooming((x, part), element, taps, given, offsets, doubt, slope, limits, threads)

    def run(x: np.ndarray, y: np.ndarray) -> None:
        if box is not None:
            y[...] = outside
        if nest is not None:
            nest(x, y if box is None else y[box])

    repeats.run(run, x, y)
    return True


def cast(constant: float, dtype: np.dtype, least: float, most: float) -> np.ndarray:
    """A constant as scipy casts it: rounded, what does not fit to the ends, NaN as C does."""
    with np.errstate(invalid="ignore"):
        return np.clip(np.trunc(constant + np.copysign(0.5, constant)), least, most).astype(dtype)


def taps_of(points: np.ndarray, elements: np.ndarray) -> Taps:
    """The elements around points along an axis, and their weights."""
    below = np.floor(points)
    first = below.astype(np.int64) + MARGIN
    share = points - below
    indices, weights = np.stack([elements[first], elements[first + 1]]), np.stack([1 - share, share])
    turned = indices[0] > indices[1]  # behind the last one may stand the one before it
    if turned.any():
        indices, weights = (np.where(turned, a[::-1], a) for a in (indices, weights))
    return indices, weights


def exact(taps: Sequence[Taps], bits: int) -> bool:
    """Whether sums of integers of so many bits are exact in float32: weights are of few bits."""
    for _, weights in taps:
        while bits <= FLOAT_BITS and (np.trunc(weights) != weights).any():
            weights, bits = weights * 2, bits + 1
    return bits <= FLOAT_BITS
