"""Morphology of grey images."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..choosing.repeats import not_again, repeated
from .arguments import array_of, axes_of, filters, one_each, warned
from .extremes import fold_filter


def _window(size: Any, footprint: Any, structure: Any, what: str) -> None:
    if size is None and footprint is None and structure is None:
        raise ValueError(f"{what}: size, footprint, or structure must be specified")


@repeated
def _eroded(
    x: np.ndarray, size: Any, footprint: Any, structure: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any,
    threads: Any, what: str,
) -> Any:  # fmt: skip
    _window(size, footprint, structure, what)
    return fold_filter(x, size, footprint, structure, output, mode, cval, origin, axes, False, threads, what)


@repeated
def _dilated(
    x: np.ndarray, size: Any, footprint: Any, structure: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any,
    threads: Any, what: str,
) -> Any:  # fmt: skip
    """As an erosion, with the window mirrored."""
    _window(size, footprint, structure, what)
    structure = None if structure is None else np.flip(np.asarray(structure))
    footprint = None if footprint is None else np.flip(np.asarray(footprint))
    shape = size if footprint is None and structure is None else np.shape(structure if footprint is None else footprint)
    shape = one_each(shape, len(axes), f"{what}: size")
    origins = one_each(origin, len(axes), f"{what}: origin")
    origins = [-o - (n % 2 == 0) for o, n in zip(origins, shape)]
    return fold_filter(x, size, footprint, structure, output, mode, cval, origins, axes, True, threads, what)


def _prepared(input: Any, size: Any, footprint: Any, axes: Any, what: str) -> tuple[np.ndarray, Any, tuple[int, ...]]:
    """The array, the size unless there is a footprint, the axes."""
    x = array_of(input, what)
    if size is not None and footprint is not None:
        warned(f"{what}: ignoring size because footprint is set")
        size = None
    return x, size, axes_of(axes, x.ndim, None, what)


@filters
def grey_erosion(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """The least of windows, minus a structure: as `scipy.ndimage.grey_erosion`.

    PARAMETERS
    """
    what = "grey_erosion"
    x, size, found = _prepared(input, size, footprint, axes, what)
    return _eroded(x, size, footprint, structure, output, mode, cval, origin, found, threads, what)


@filters
def grey_dilation(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """The largest of mirrored windows, plus a structure: as `scipy.ndimage.grey_dilation`.

    PARAMETERS
    """
    what = "grey_dilation"
    x, size, found = _prepared(input, size, footprint, axes, what)
    return _dilated(x, size, footprint, structure, output, mode, cval, origin, found, threads, what)


@filters
def grey_opening(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """An erosion, then a dilation: as `scipy.ndimage.grey_opening`.

    PARAMETERS
    """
    what = "grey_opening"
    x, size, found = _prepared(input, size, footprint, axes, what)
    window = (size, footprint, structure)
    between = _eroded(x, *window, None, mode, cval, origin, found, threads, what)
    return _dilated(between, *window, output, mode, cval, origin, found, threads, what)


@filters
def grey_closing(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """A dilation, then an erosion: as `scipy.ndimage.grey_closing`.

    PARAMETERS
    """
    what = "grey_closing"
    x, size, found = _prepared(input, size, footprint, axes, what)
    window = (size, footprint, structure)
    between = _dilated(x, *window, None, mode, cval, origin, found, threads, what)
    return _eroded(between, *window, output, mode, cval, origin, found, threads, what)


@filters
def morphological_gradient(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """A dilation minus an erosion: as `scipy.ndimage.morphological_gradient`.

    PARAMETERS
    """
    what = "morphological_gradient"
    x, size, found = _prepared(input, size, footprint, axes, what)
    rest = (mode, cval, origin, found, threads, what)
    high = _dilated(x, size, footprint, structure, None, *rest)
    to = output if isinstance(output, np.ndarray) else None
    low = _eroded(x, size, footprint, structure, to, *rest)
    not_again()
    return np.subtract(high, low, low)


@filters
def morphological_laplace(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """A dilation plus an erosion minus the input twice: as `scipy.ndimage.morphological_laplace`.

    PARAMETERS
    """
    what = "morphological_laplace"
    x, size, found = _prepared(input, size, footprint, axes, what)
    rest = (mode, cval, origin, found, threads, what)
    high = _dilated(x, size, footprint, structure, None, *rest)
    to = output if isinstance(output, np.ndarray) else None
    low = _eroded(x, size, footprint, structure, to, *rest)
    not_again()
    np.add(high, low, low)
    np.subtract(low, x, low)
    return np.subtract(low, x, low)


@filters
def white_tophat(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """The input minus its opening: as `scipy.ndimage.white_tophat`.

    PARAMETERS
    """
    what = "white_tophat"
    x, size, found = _prepared(input, size, footprint, axes, what)
    rest = (mode, cval, origin, found, threads, what)
    low = _eroded(x, size, footprint, structure, None, *rest)
    opened = _dilated(low, size, footprint, structure, output, *rest)
    not_again()
    both = np.bitwise_xor if x.dtype == opened.dtype == bool else np.subtract
    return both(x, opened, opened)


@filters
def black_tophat(
    input, size=None, footprint=None, structure=None, output=None, mode="reflect", cval=0.0, origin=0, *, axes=None,
    threads=None,
) -> Any:  # fmt: skip
    """The closing of the input minus the input: as `scipy.ndimage.black_tophat`.

    PARAMETERS
    """
    what = "black_tophat"
    x, size, found = _prepared(input, size, footprint, axes, what)
    rest = (mode, cval, origin, found, threads, what)
    high = _dilated(x, size, footprint, structure, None, *rest)
    closed = _eroded(high, size, footprint, structure, output, *rest)
    not_again()
    both = np.bitwise_xor if x.dtype == closed.dtype == bool else np.subtract
    return both(closed, x, closed)
