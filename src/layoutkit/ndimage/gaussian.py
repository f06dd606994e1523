"""Gaussian filters and their derivatives."""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np

from . import windows
from .arguments import array_of, axes_of, axis_of, filters, mode_of, numbers_of, one_each
from .recursive import check_recursive, smoothed
from .separable import sums


@lru_cache(256)
def gaussian_weights(sigma: float, order: int, radius: int) -> np.ndarray:
    """Weights of a sampled Gaussian or its derivative, to correlate with.

    A derivative is q(x) * exp(-x^2 / (2 sigma^2)), where each order makes of the polynomial q: q' - q * x / sigma^2.
    """
    x = np.arange(-radius, radius + 1)
    phi = np.exp(-0.5 / (sigma * sigma) * x**2)
    phi = phi / phi.sum()
    if order == 0:
        return phi
    powers = np.arange(order + 1)
    step = np.diag(powers[1:].astype(float), 1) + np.diag(np.ones(order) / -(sigma * sigma), -1)
    q = np.zeros(order + 1)
    q[0] = 1
    for _ in range(order):
        q = step.dot(q)
    return ((x[:, None] ** powers).dot(q) * phi)[::-1]


def gaussian_window(
    sigma: Any, axis: int, order: Any, mode: Any, truncate: float, radius: Any, what: str
) -> windows.Windows:
    """Windows of a Gaussian along an axis."""
    order = operator.index(order)
    if order < 0:
        raise ValueError(f"{what}: order must be non-negative, got {order}")
    (sigma,) = numbers_of(sigma, 1, f"{what}: sigma")
    size = int(truncate * sigma + 0.5) if radius is None else radius
    if not isinstance(size, int | np.integer) or size < 0:
        raise ValueError(f"{what}: radius must be a nonnegative integer, got {radius!r}")
    return _window(sigma, order, int(size), axis, mode_of(mode, what))


@lru_cache(256)
def _window(sigma: float, order: int, radius: int, axis: int, mode: str) -> windows.Windows:
    return windows.weighed(gaussian_weights(sigma, order, radius), axis, radius, mode)


@filters
def gaussian_filter1d(
    input, sigma, axis=-1, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None,
    recursive=False, threads=None,
) -> Any:  # fmt: skip
    """A Gaussian, or its derivative, along one axis: as `scipy.ndimage.gaussian_filter1d`.

    PARAMETERS

    Notes
    -----
    `recursive`: see `gaussian_filter`.
    """
    what = "gaussian_filter1d"
    x = array_of(input, what)
    window = gaussian_window(sigma, axis_of(axis, x.ndim, what), order, mode, truncate, radius, what)
    if recursive:
        check_recursive([order], [radius], what)
        return smoothed(x, output, [(float(sigma), window)], cval, threads, what)
    return sums(x, output, [window], cval, threads, what)


@filters
def gaussian_filter(
    input, sigma, order=0, output=None, mode="reflect", cval=0.0, truncate=4.0, *, radius=None, axes=None,
    channel_axis=None, recursive=False, threads=None,
) -> Any:  # fmt: skip
    """A Gaussian, or its derivatives, in several dimensions: as `scipy.ndimage.gaussian_filter`.

    PARAMETERS

    Notes
    -----
    Integers are equal to those of scipy: what is between two axes is cast to the type of the output. float32 is
    computed in float32.

    With ``recursive=True`` the time hardly depends on a `sigma` that is small against the axis, where the cost table
    expects recursions to take less time than weights: by its estimates for images of 1000 x 1000 from 9 on in float32,
    4 in float64, and hardly ever along a few lines. Results differ from those of
    weights up to infinity (`truncate`) by at most 2e-5 of the largest magnitude, from those with the default, 4, by at
    most 1.5e-4, for each axis. NaN and infinities are then everywhere in their lines. Integers are cast once, at the
    end: towards zero, but those less than a 64th short of a whole number to that, and not beyond the least and the
    largest of `input` (and `cval`), nor the limits of their type. They may differ from those of weights by 1 and these
    errors, up to 10 of 65535, for each axis.

    Examples
    --------
    >>> import numpy as np, layoutkit.ndimage as ndi
    >>> ndi.gaussian_filter(np.arange(0, 50, 2).reshape(5, 5), 1)[0].tolist()
    [4, 6, 8, 9, 11]
    """
    what = "gaussian_filter"
    x = array_of(input, what)
    found = axes_of(axes, x.ndim, channel_axis, what)
    sigmas = numbers_of(sigma, len(found), f"{what}: sigma")
    given = [one_each(v, len(found), f"{what}: {k}") for k, v in dict(order=order, mode=mode, radius=radius).items()]
    passes = [
        (s, gaussian_window(s, axis, o, m, truncate, r, what))
        for axis, s, o, m, r in zip(found, sigmas, *given) if s > 1e-15
    ]  # fmt: skip
    if recursive:
        check_recursive(given[0], given[2], what)
        return smoothed(x, output, passes, cval, threads, what)
    return sums(x, output, [p for _, p in passes], cval, threads, what)
