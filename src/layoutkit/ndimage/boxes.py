"""Means and extremes of boxes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import windows
from .arguments import array_of, axes_of, axis_of, before_of, filters, mode_of, one_each, output_for, sizes_of
from .separable import folded, sums

Make = Callable[[int, int, int, str], windows.Windows]  # of size, axis, elements before, mode


def boxes(size: Any, axes: Any, mode: Any, origin: Any, make: Make, what: str) -> list[windows.Windows]:
    """Windows along axes; those of one element are left out."""
    n = len(axes)
    modes, origins = (one_each(v, n, f"{what}: {k}") for k, v in (("mode", mode), ("origin", origin)))
    each = zip(sizes_of(size, n, what), axes, origins, modes)
    return [make(s, axis, before_of(s, o, what), mode_of(m, what)) for s, axis, o, m in each if s > 1]


def along(
    input: Any, size: Any, axis: Any, mode: Any, origin: Any, make: Make, what: str
) -> tuple[np.ndarray, list[windows.Windows]]:  # fmt: skip
    """An array, and windows along one of its axes."""
    x = array_of(input, what)
    mode_of(mode, what)  # also of a window of one element, as in scipy
    before_of(sizes_of(size, 1, what)[0], origin, what)
    return x, boxes(size, (axis_of(axis, x.ndim, what),), mode, origin, make, what)


def extremes(
    x: np.ndarray, output: Any, passes: list[windows.Windows], cval: Any, threads: int | None, what: str
) -> Any:
    """The least or largest of windows along one axis after another."""
    if x.dtype.kind == "c":
        raise TypeError(f"{what}: complex numbers have no order")
    y = output_for(output, x, what)
    if passes:
        folded(x, y, passes, float(cval), threads, what)
    else:
        y[...] = x
    return y


@filters
def uniform_filter1d(
    input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, threads=None
) -> Any:  # fmt: skip
    """The mean of `size` elements along one axis: as `scipy.ndimage.uniform_filter1d`.

    NaN and Inf stay in the windows that have them; there they spread to the end of the line.

    PARAMETERS
    """
    what = "uniform_filter1d"
    x, passes = along(input, size, axis, mode, origin, windows.box, what)
    return sums(x, output, passes, cval, threads, what)


@filters
def uniform_filter(
    input, size=3, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, channel_axis=None, threads=None
) -> Any:
    """The mean of boxes: as `scipy.ndimage.uniform_filter`.

    NaN and Inf stay in the boxes that have them; there they spread to the end of the line.

    PARAMETERS
    """
    what = "uniform_filter"
    x = array_of(input, what)
    found = axes_of(axes, x.ndim, channel_axis, what)
    return sums(x, output, boxes(size, found, mode, origin, windows.box, what), cval, threads, what)


def least_of(size: int, axis: int, before: int, mode: str) -> windows.Windows:
    """Windows of the least."""
    return windows.extreme(size, axis, before, mode, windows.LEAST)


def largest_of(size: int, axis: int, before: int, mode: str) -> windows.Windows:
    """Windows of the largest."""
    return windows.extreme(size, axis, before, mode, windows.LARGEST)


@filters
def minimum_filter1d(
    input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, threads=None
) -> Any:  # fmt: skip
    """The least of `size` elements along one axis: as `scipy.ndimage.minimum_filter1d`; see `minimum_filter`.

    PARAMETERS
    """
    what = "minimum_filter1d"
    x, passes = along(input, size, axis, mode, origin, least_of, what)
    return extremes(x, output, passes, cval, threads, what)


@filters
def maximum_filter1d(
    input, size, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, threads=None
) -> Any:  # fmt: skip
    """The largest of `size` elements along one axis: as `scipy.ndimage.maximum_filter1d`; see `maximum_filter`.

    PARAMETERS
    """
    what = "maximum_filter1d"
    x, passes = along(input, size, axis, mode, origin, largest_of, what)
    return extremes(x, output, passes, cval, threads, what)
