"""Correlations by products of spectra: blocks of an array, each with as much around it as windows reach."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from . import windows as w

BLOCKS = {1: 1 << 16, 2: 512, 3: 96}  # elements of a block along each axis with a window, for so many of them
LARGEST = 1e280  # magnitude of sums; beyond, spectra could overflow


def is_finite(x: np.ndarray, weights: np.ndarray, cval: float) -> bool:
    """Whether spectra are finite: one NaN, or infinity, would be everywhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        largest = float(np.max(x, initial=0)) - float(np.min(x, initial=0)) + abs(cval)
        return bool(largest * float(np.sum(np.abs(weights))) < LARGEST)  # NaN is not less


def steps_of(shape: Sequence[int], window: Sequence[int]) -> list[int]:
    """Elements of a block along each axis."""
    block = BLOCKS[min(max(sum(span > 1 for span in window), 1), 3)]
    return [max(block, 3 * span) if span > 1 else n for n, span in zip(shape, window)]


def correlated(
    x: np.ndarray, y: np.ndarray, weights: np.ndarray, before: Sequence[int], mode: str, cval: float, threads: int
) -> None:
    """Write to y the correlation of x, made of doubles; `weights` has all axes, `before`: elements in front.

    Roundings are those of the largest number of a block, anywhere in it: only for callers who asked for them.
    """
    axes = [i for i, n in enumerate(weights.shape) if n > 1]
    steps = steps_of(x.shape, weights.shape)
    places = [w.positions(n, span, b, mode) for n, span, b in zip(x.shape, weights.shape, before)]
    spectrum = _spectra(weights, axes, threads)
    for at in itertools.product(*(range(0, n, step) for n, step in zip(x.shape, steps))):
        ends = [min(a + step, n) for a, step, n in zip(at, steps, x.shape)]
        sources = [p[a : e + span - 1] for p, a, e, span in zip(places, at, ends, weights.shape)]
        piece = _piece(x, sources, cval)
        with np.errstate(over="ignore"):  # sums that a narrower y does not hold are infinite, as direct ones
            y[tuple(map(slice, at, ends))] = spectrum(piece)


def _piece(x: np.ndarray, sources: Sequence[np.ndarray], cval: float) -> np.ndarray:
    """The elements at positions along all axes, as doubles."""
    piece = np.asarray(x[np.ix_(*sources)], np.float64)
    for axis, source in enumerate(sources):
        if (source < 0).any():
            piece[(slice(None),) * axis + (source < 0,)] = cval
    return piece


def _spectra(weights: np.ndarray, axes: list[int], threads: int) -> Callable[[np.ndarray], np.ndarray]:
    """A function from a piece with its surroundings to sums of windows."""
    from scipy import fft

    known: dict[tuple[int, ...], np.ndarray] = {}

    def sums(piece: np.ndarray) -> np.ndarray:
        shape = tuple(fft.next_fast_len(piece.shape[i], real=True) for i in axes)
        if shape not in known:
            known[shape] = np.conj(fft.rfftn(weights, shape, axes, workers=threads))
        product = fft.rfftn(piece, shape, axes, workers=threads)
        product *= known[shape]
        result = fft.irfftn(product, shape, axes, workers=threads, overwrite_x=True)
        return result[tuple(slice(n - span + 1) for n, span in zip(piece.shape, weights.shape))]

    return sums
