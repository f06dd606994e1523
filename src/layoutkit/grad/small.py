"""Gradients of small filters: the sums of a loop nest, and where in them each element of the result is."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.nests.executor import WeightSums
from .._core.runtime import registry
from ..convolutions.algorithms.base import rows_of
from ..convolutions.route import Arrays
from .algorithms.direct import Direct
from .attributes import WeightAttributes
from .task import WeightRoute
from .weight import Sums, checked, write_sums


class _Indices(Sums):
    """Sums that are their own places."""

    def __init__(self, route: WeightRoute, dtype: np.dtype) -> None:
        self.layout, self.shape = route.layout, route.shape
        physical = route.layout.physical_shape(route.shape)
        whole = np.dtype(f"i{dtype.itemsize}")
        self.sums = np.arange(int(np.prod(physical)), dtype=whole).view(dtype).reshape(physical)

    def __call__(self, *_: Any) -> np.ndarray:
        return self.sums


def small_sums(
    rank: int, x: np.ndarray, size: tuple[int, ...], dy: np.ndarray, out: np.ndarray, **attributes: Any
) -> tuple[WeightSums, np.ndarray] | None:
    """The sums of a gradient by one thread, on arrays like `x` and `dy` as they are.

    Parameters
    ----------
    rank : {1, 2, 3}
    x : ndarray
        Of float32 or float64.
    size : tuple of int
        The logical shape of the filter.
    dy : ndarray
    out : ndarray
        Like the result, contiguous.
    **attributes
        Of `conv2d_weight`.

    Returns
    -------
    (WeightSums, ndarray of int32), or None if x or dy would have to be moved first
        The nest, and for each element of `out` its place in the sums.
    """
    g = checked(f"grad.conv{rank}d_weight", rank, x, size, dy, WeightAttributes(**attributes), False)
    p, a = g.problem, Direct()
    native = p.of_types(p.types.wide)
    if not p.fits or not out.flags.c_contiguous or a.supports(native) is not None:
        return None
    kernel = rows_of(a.family, native.types.rows, registry.isa())[0]
    route = WeightRoute(p, native, a, kernel, 1, Arrays(x.strides, dy.strides))
    if any(route.moves):
        return None
    places = np.empty_like(out)
    write_sums(_Indices(route, x.dtype), g, None, places, 0.0, 1)
    return route.sums, places.ravel().view(f"i{x.itemsize}").astype(np.int32)
