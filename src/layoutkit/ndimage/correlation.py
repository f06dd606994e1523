"""Correlation and convolution with given weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import windows
from .arguments import array_of, axes_of, axis_of, before_of, by_parts, filters, mode_of, one_each, output_for
from .neighbourhoods import footprint_of
from .separable import summed
from .weighing import weighed


def _along(
    input: Any, weights: Any, axis: Any, output: Any, mode: Any, cval: Any, origin: int, threads: Any, what: str
):
    """Correlate along one axis."""
    x, w = array_of(input, what), np.asarray(weights)
    if w.ndim != 1 or w.size < 1:
        raise RuntimeError(f"{what}: no filter weights given, got an array of shape {w.shape}")
    axis = axis_of(axis, x.ndim, what)
    before, mode = before_of(w.size, origin, what), mode_of(mode, what)
    is_complex = "c" in (x.dtype.kind, w.dtype.kind)
    y = output_for(output, x, what, is_complex)

    def run(a: np.ndarray, to: np.ndarray, numbers: np.ndarray, c: float) -> None:
        summed(a, to, [windows.weighed(numbers.astype(np.float64), axis, before, mode)], c, threads, what)

    with_weights(run, x, w.conj() if w.dtype.kind == "c" else w, y, cval, what)
    return y


def with_weights(run: Any, x: np.ndarray, weights: np.ndarray, y: np.ndarray, cval: Any, what: str) -> None:
    """``run(x, y, weights, cval)``, of complex arrays or weights for all pairs of their parts."""
    if weights.dtype.kind != "c":
        by_parts(lambda a, to, c: run(a, to, weights, c), x, y, cval, what)
        return
    if x.dtype.kind != "c" and np.iscomplexobj(cval):
        raise ValueError(f"{what}: a complex cval for an input of {x.dtype}")
    run(x.real, y.real, weights.real, float(np.real(cval)))
    run(x.real, y.imag, weights.imag, float(np.real(cval)))
    if x.dtype.kind == "c":
        part = np.empty(y.shape, y.real.dtype)
        run(x.imag, part, weights.imag, float(np.imag(cval)))
        y.real -= part
        run(x.imag, part, weights.real, float(np.imag(cval)))
        y.imag += part


@filters
def correlate1d(
    input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, threads=None
) -> Any:  # fmt: skip
    """The correlation with weights along one axis: as `scipy.ndimage.correlate1d`.

    PARAMETERS
    """
    return _along(input, weights, axis, output, mode, cval, origin, threads, "correlate1d")


@filters
def convolve1d(
    input, weights, axis=-1, output=None, mode="reflect", cval=0.0, origin=0, *, threads=None
) -> Any:  # fmt: skip
    """The convolution with weights along one axis: as `scipy.ndimage.convolve1d`.

    PARAMETERS
    """
    reversed_weights, origin = _reversed(np.asarray(weights), origin)
    return _along(input, reversed_weights, axis, output, mode, cval, origin, threads, "convolve1d")


def _reversed(weights: np.ndarray, origin: int) -> tuple[np.ndarray, int]:
    """What a correlation has to be given for a convolution along an axis."""
    flipped = weights[::-1] if weights.ndim == 1 else weights
    flipped = flipped.conj() if flipped.dtype.kind == "c" else flipped
    return flipped, -origin - (flipped.size % 2 == 0 and flipped.size > 0)


def _all_axes(
    input: Any, weights: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any, channel_axis: Any,
    fft: bool, convolves: bool, threads: Any, what: str,
) -> Any:  # fmt: skip
    """Correlate or convolve along several axes at once."""
    x, numbers = array_of(input, what), np.asarray(weights)
    found = axes_of(axes, x.ndim, channel_axis, what)
    origins = one_each(origin, len(found), f"{what}: origin")
    if numbers.ndim != len(found):
        raise RuntimeError(f"{what}: weights.ndim ({numbers.ndim}) must match len(axes) ({len(found)})")
    if not isinstance(mode, str):
        raise RuntimeError(f"{what}: several modes are not supported")
    mode = mode_of(mode, what)
    if convolves:
        numbers = np.flip(numbers)
        origins = [-o - (n % 2 == 0) for o, n in zip(origins, numbers.shape)]
    elif numbers.dtype.kind == "c":
        numbers = numbers.conj()
    y = output_for(output, x, what, "c" in (x.dtype.kind, numbers.dtype.kind))
    order = np.argsort(found)

    def run(a: np.ndarray, to: np.ndarray, part: np.ndarray, c: float) -> None:
        part = np.asarray(part, np.float64)
        counts = abs(part) > np.finfo(float).eps  # as scipy has it
        window = footprint_of(counts, found, x.ndim, origins, what, "weights")
        if not window.count:
            to[...] = 0
            return
        weighed(a, to, window, part.transpose(order)[counts.transpose(order)], mode, c, threads, what, fft)

    with_weights(run, x, numbers, y, cval, what)
    return y


@filters
def correlate(
    input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, channel_axis=None, fft=False,
    threads=None,
) -> Any:  # fmt: skip
    """The correlation with weights along several axes: as `scipy.ndimage.correlate`.

    PARAMETERS

    Notes
    -----
    Float outputs by weights that are products of factors along the axes, to rounding, are sums along one axis after
    another where the cost table expects these to take less time; of whole weights only where factors are exact.

    With ``fft=True`` float outputs of windows of more than 64 elements are made by products of spectra, of doubles,
    where the cost table expects these to take less time than sums, scipy is installed and `input` is finite. Each
    element may then be wrong by 32 times the eps of doubles, 2.2e-16, times the largest magnitude of the whole array
    (or `cval`) times the sum of the magnitudes of the weights, before it is rounded to the output's type: one large
    number in a corner disturbs small ones that are far outside of its window; sums that are 0, or whole numbers, are
    only nearly so, and those of non-negative numbers may be negative. Other outputs are sums as without it.

    Examples
    --------
    >>> import numpy as np, layoutkit.ndimage as ndi
    >>> image, disk = np.random.default_rng(0).random((200, 300)), np.hypot(*np.mgrid[-30:31, -30:31]) <= 30
    >>> np.allclose(ndi.correlate(image, disk, fft=True), ndi.correlate(image, disk), rtol=1e-12)
    True
    """
    return _all_axes(input, weights, output, mode, cval, origin, axes, channel_axis, fft, False, threads, "correlate")


@filters
def convolve(
    input, weights, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None, channel_axis=None, fft=False,
    threads=None,
) -> Any:  # fmt: skip
    """The convolution with weights along several axes: as `scipy.ndimage.convolve`.

    PARAMETERS

    Notes
    -----
    Weights that are products of factors, and `fft`: see `correlate`.
    """
    return _all_axes(input, weights, output, mode, cval, origin, axes, channel_axis, fft, True, threads, "convolve")
