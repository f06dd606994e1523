"""Morphology of binary images."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..choosing.repeats import not_again, repeated
from . import windows as w
from .arguments import array_of, axes_of, filters, one_each, output_for
from .neighbourhoods import footprint_of, ordered

BINARY = {
    "structure": "array_like, optional|Which neighbours count: by default those that share a face."
    "|RuntimeError: `structure` is empty, or has not as many dimensions as axes are filtered",
    "iterations": "int|How often; with less than 1 until nothing changes."
    "|TypeError: `iterations` is no integer, or `input` is complex",
    "mask": "array_like, optional|Elements that may change: all by default.|RuntimeError: `mask` is of another shape",
    "output": "ndarray or dtype, optional|Where to write: by default to a new array of bool."
    "|RuntimeError: `output` is of another shape",
    "border_value": "int|What is outside: 0 or 1.",
    "brute_force": "bool|Without effect, as results do not depend on it.",
}


def generate_binary_structure(rank, connectivity) -> np.ndarray:
    """Neighbours in some dimensions: as `scipy.ndimage.generate_binary_structure`.

    Parameters
    ----------
    rank : int
        Dimensions.
    connectivity : int
        Along how many of them a neighbour may differ.

    Returns
    -------
    ndarray of bool
    """
    connectivity = max(connectivity, 1)
    if rank < 1:
        return np.array(True)
    return np.abs(np.indices((3,) * rank) - 1).sum(0) <= connectivity


@repeated
def _eroded(
    input: Any, structure: Any, iterations: Any, mask: Any, output: Any, border: Any, origin: Any, axes: Any,
    threads: Any, dilates: bool, what: str,
) -> Any:  # fmt: skip
    x = array_of(input, what)
    if x.dtype.kind == "c" or (isinstance(output, np.ndarray) and output.dtype.kind == "c"):
        raise TypeError(f"{what}: complex numbers are not supported")
    found = axes_of(axes, x.ndim, None, what)
    try:
        iterations = operator.index(iterations)
    except TypeError:
        raise TypeError(f"{what}: iterations must be an integer, got {iterations!r}") from None
    near = generate_binary_structure(len(found), 1) if structure is None else np.asarray(structure, bool)
    if near.ndim != len(found):
        raise RuntimeError(f"{what}: structure.ndim ({near.ndim}) must match len(axes) ({len(found)})")
    if not near.size:
        raise RuntimeError(f"{what}: structure must not be empty")
    allowed = None if mask is None else np.asarray(mask).astype(bool)
    if allowed is not None and allowed.shape != x.shape:
        raise RuntimeError(f"{what}: mask of shape {allowed.shape}, expected that of the input, {x.shape}")
    origins = one_each(origin, len(found), f"{what}: origin")
    if dilates:
        near, origins = np.flip(near), [-o - (n % 2 == 0) for o, n in zip(origins, near.shape)]
    window = footprint_of(near, found, x.ndim, origins, what, "structure")
    y = output_for(output if isinstance(output, np.ndarray) else bool, x, what)
    fields = dict(kind=w.LARGEST if dilates else w.LEAST)
    outside, done = float(bool(border)), 0
    if iterations == 1 and allowed is None and window.count and x.dtype == y.dtype == bool:
        ordered("fold", x, y, window, "constant", outside, fields, threads, what)
        return y
    not_again()
    inside = np.array(x, bool)
    while done < max(1, iterations) or iterations < 1:
        if window.count:
            after = np.empty(x.shape, bool)
            ordered("fold", inside, after, window, "constant", outside, fields, threads, what)
        else:
            after = np.full(x.shape, not dilates)
        if allowed is not None:
            np.copyto(after, inside, where=~allowed)
        done += 1
        if (iterations < 1 or done < iterations) and np.array_equal(after, inside):
            break
        inside = after
    y[...] = after
    return y


@filters(**BINARY)
def binary_erosion(
    input, structure=None, iterations=1, mask=None, output=None, border_value=0, origin=0, brute_force=False, *,
    axes=None, threads=None,
) -> Any:  # fmt: skip
    """Elements all of whose neighbours are set: as `scipy.ndimage.binary_erosion`.

    PARAMETERS
    """
    return _eroded(
        input, structure, iterations, mask, output, border_value, origin, axes, threads, False, "binary_erosion"
    )  # fmt: skip


@filters(**BINARY)
def binary_dilation(
    input, structure=None, iterations=1, mask=None, output=None, border_value=0, origin=0, brute_force=False, *,
    axes=None, threads=None,
) -> Any:  # fmt: skip
    """Elements any of whose neighbours is set: as `scipy.ndimage.binary_dilation`.

    PARAMETERS
    """
    return _eroded(
        input, structure, iterations, mask, output, border_value, origin, axes, threads, True, "binary_dilation"
    )  # fmt: skip


@filters(**BINARY)
def binary_opening(
    input, structure=None, iterations=1, output=None, origin=0, mask=None, border_value=0, brute_force=False, *,
    axes=None, threads=None,
) -> Any:  # fmt: skip
    """An erosion, then a dilation: as `scipy.ndimage.binary_opening`.

    PARAMETERS
    """
    rest = (border_value, origin, axes, threads)
    between = _eroded(input, structure, iterations, mask, None, *rest, False, "binary_opening")
    return _eroded(between, structure, iterations, mask, output, *rest, True, "binary_opening")


@filters(**BINARY)
def binary_closing(
    input, structure=None, iterations=1, output=None, origin=0, mask=None, border_value=0, brute_force=False, *,
    axes=None, threads=None,
) -> Any:  # fmt: skip
    """A dilation, then an erosion: as `scipy.ndimage.binary_closing`.

    PARAMETERS
    """
    rest = (border_value, origin, axes, threads)
    between = _eroded(input, structure, iterations, mask, None, *rest, True, "binary_closing")
    return _eroded(between, structure, iterations, mask, output, *rest, False, "binary_closing")
