"""Derivatives: Sobel, Prewitt, Laplace, and the magnitude of gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..choosing.repeats import not_again
from . import windows
from .arguments import array_of, axes_of, axis_of, by_parts, filters, mode_of, one_each, output_for
from .correlation import correlate1d
from .gaussian import gaussian_filter
from .neighbourhoods import footprint_of
from .separable import commute, summed
from .weighing import weighed


def _directed(
    input: Any, axis: Any, output: Any, mode: Any, cval: Any, across: Sequence[float], threads: Any, what: str
):
    """A difference along one axis, weighed sums along the others."""
    x = array_of(input, what)
    axis = axis_of(axis, x.ndim, what)
    modes = [mode_of(m, what) for m in one_each(mode, x.ndim, f"{what}: mode")]
    passes = [windows.weighed(np.array([-1.0, 0, 1]), axis, 1, modes[axis])]
    passes += [windows.weighed(np.array(across), i, 1, modes[i]) for i in range(x.ndim) if i != axis]
    y = output_for(output, x, what, x.dtype.kind == "c")
    whole = x.dtype.kind in "biu" and y.dtype.itemsize < 8  # sums of whole numbers wrap around in any order
    if commute(passes, cval) and whole:
        passes.sort(key=lambda p: p.axis)
    by_parts(lambda a, b, c: summed(a, b, passes, c, threads, what), x, y, cval, what)
    return y


@filters
def sobel(
    input, axis=-1, output=None, mode="reflect", cval=0.0, *, threads=None
) -> Any:  # fmt: skip
    """Sobel's derivative along one axis: as `scipy.ndimage.sobel`.

    PARAMETERS
    """
    return _directed(input, axis, output, mode, cval, [1.0, 2, 1], threads, "sobel")


@filters
def prewitt(
    input, axis=-1, output=None, mode="reflect", cval=0.0, *, threads=None
) -> Any:  # fmt: skip
    """Prewitt's derivative along one axis: as `scipy.ndimage.prewitt`.

    PARAMETERS
    """
    return _directed(input, axis, output, mode, cval, [1.0, 1, 1], threads, "prewitt")


Derivative = Callable[..., Any]


def summed_over_axes(derivative: Derivative, x: np.ndarray, y: np.ndarray, axes: Any, mode: Any, cval: Any, what: str):
    """The sum of a derivative along each axis."""
    modes = one_each(mode, len(axes), f"{what}: mode")
    if not axes:
        y[...] = x
    for i, (axis, m) in enumerate(zip(axes, modes)):
        if i == 0:
            derivative(x, axis, y, m, cval)
        else:
            not_again()
            y += derivative(x, axis, y.dtype, m, cval)
    return y


@filters
def laplace(
    input, output=None, mode="reflect", cval=0.0, *, axes=None, threads=None
) -> Any:  # fmt: skip
    """The sum of second differences along all axes: as `scipy.ndimage.laplace`.

    PARAMETERS
    """
    what = "laplace"
    x = array_of(input, what)
    found = axes_of(axes, x.ndim, None, what)
    y = output_for(output, x, what, x.dtype.kind == "c")
    modes = {mode_of(m, what) for m in one_each(mode, len(found), f"{what}: mode")}
    wraps = y.dtype.kind in "iu" and y.dtype.itemsize < 8 and x.dtype.kind != "f"
    exact = y.dtype.kind == "f" or (wraps and float(np.real(cval)).is_integer())
    if len(found) < 2 or len(modes) > 1 or not exact or np.iscomplexobj(cval):

        def second(a: np.ndarray, axis: int, to: Any, m: Any, c: Any) -> Any:
            return correlate1d(a, [1, -2, 1], axis, to, m, c, threads=threads)

        return summed_over_axes(second, x, y, found, mode, cval, what)
    cross = np.zeros((3,) * len(found))
    for i in range(len(found)):
        for end in (0, 2):
            cross[tuple(end if i == j else 1 for j in range(len(found)))] = 1
    cross[(1,) * len(found)] = -2 * len(found)
    window = footprint_of(cross, found, x.ndim, 0, what)
    weighed(x, y, window, cross[cross != 0], modes.pop(), float(cval), threads, what)
    return y


def _gaussian_derivatives(order: int, sigma: Any, axes: Any, ndim: int, options: dict, threads: Any, what: str):
    """By axis, a derivative of Gaussians on the given axes."""
    sigmas = dict(zip(axes, one_each(sigma, len(axes), f"{what}: sigma")))

    def derivative(a: np.ndarray, axis: int, to: Any, m: Any, c: Any) -> Any:
        orders = [order if i == axis else 0 for i in range(ndim)]
        all_sigmas = [sigmas.get(i, 0) for i in range(ndim)]
        return gaussian_filter(a, all_sigmas, orders, to, m, c, threads=threads, **options)

    return derivative


@filters(kwargs="|Further arguments of `gaussian_filter`.")
def gaussian_laplace(
    input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, threads=None, **kwargs
) -> Any:  # fmt: skip
    """The sum of second derivatives of Gaussians: as `scipy.ndimage.gaussian_laplace`.

    PARAMETERS
    """
    what = "gaussian_laplace"
    x = array_of(input, what)
    found = axes_of(axes, x.ndim, None, what)
    y = output_for(output, x, what, x.dtype.kind == "c")
    derivative = _gaussian_derivatives(2, sigma, found, x.ndim, kwargs, threads, what)
    return summed_over_axes(derivative, x, y, found, mode, cval, what)


@filters(kwargs="|Further arguments of `gaussian_filter`.")
def gaussian_gradient_magnitude(
    input, sigma, output=None, mode="reflect", cval=0.0, *, axes=None, threads=None, **kwargs
) -> Any:  # fmt: skip
    """The magnitude of the gradient of Gaussians: as `scipy.ndimage.gaussian_gradient_magnitude`.

    PARAMETERS
    """
    what = "gaussian_gradient_magnitude"
    x = array_of(input, what)
    found = axes_of(axes, x.ndim, None, what)
    y = output_for(output, x, what)
    every = range(x.ndim)  # also those without a derivative are smoothed
    derivative = _gaussian_derivatives(1, sigma, every, x.ndim, kwargs, threads, what)

    def square(a: np.ndarray, axis: int, to: Any, m: Any, c: Any) -> Any:
        part = derivative(a, axis, to, m, c)
        not_again()
        return np.multiply(part, part, part)

    summed_over_axes(square, x, y, found, mode, cval, what)
    if found and y.dtype == np.uint8:  # whose roots numpy computes in float16
        y[...] = np.sqrt(np.arange(256, dtype=np.uint8)).astype(np.uint8)[y]
    elif found:
        np.sqrt(y, y, casting="unsafe")
    return y
