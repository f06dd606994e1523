"""Weighed sums of windows of any form.

Of floats cost tells how: all at once, as a convolution where windows are dense boxes, along one axis after another
where weights are products of factors, or, where the caller allows it, by products of spectra.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from math import log2, prod
from typing import Any

import numpy as np

from .._core.nests.moves.convert import TYPES
from ..choosing.machine_profile import scale
from ..choosing.problem import Candidate
from ..choosing.repeats import not_again
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from . import products, spectra
from . import windows as w
from .fixed import SMALL, fixed_of
from .neighbourhoods import Footprint, plain, run
from .passes import ELEMENTS
from .problem import FilterProblem, way_of
from .separable import CAST_TO, give, in_f32, representable, summed, target

LEAST_COUNT = 64  # elements of a window, up to which spectra are not asked for
LEAST_DENSE = 16  # the same of dense boxes, from which on it is asked whether a convolution takes less time
LEAST_FACTORED = 2  # times as many elements as along all axes together, from which on factors are looked for
# Measured on one core, of AMD Zen 4, and those of rows and calls of Zen 5: seconds for each element of the result: what
# all sums take, more for each element of a window, and for each along an axis; of spectra, by axes with windows, for
# each element of a block times the logarithm of their number, there and back.
BASE_SECONDS = {"f32": 3e-10, "f64": 6e-10}
SUM_SECONDS = {"f32": 2.1e-11, "f64": 4.9e-11}
PASS_SECONDS = {"f32": 3e-11, "f64": 7e-11}
ROW_SECONDS = 2.5e-7  # of sums along three axes, for each row
CALL_SECONDS = 1e-5  # of sums, whatever their number
SPECTRUM_SECONDS = {1: 9.5e-10, 2: 1e-9, 3: 1.7e-9}
WHOLE_PARTS = 1024  # in which factors of whole numbers are counted: sums of integers stay exact
DIRECT, PRODUCTS, FACTORED, SPECTRA = "direct", "products", "factored", "spectra"

Run = Callable[[], None]


@dataclass(frozen=True)
class CorrelationProblem(FilterProblem):
    """The correlation of an array of floats with a window of which `count` elements count, in a box of `window`."""

    shape: tuple[int, ...]
    window: tuple[int, ...]
    count: int
    element: str  # that sums are made of
    factored: bool = False  # whether weights are products of factors along the axes
    spectra: bool = True  # whether these are allowed

    @property
    def key(self) -> str:
        """Its key in the cost table."""
        size, box = ("x".join(map(str, of)) for of in (self.shape, self.window))
        ways = " factored" * self.factored + " summed" * (not self.spectra)
        return f"correlate {size} {box} n{self.count} {self.element}{ways} t1"

    @property
    def work(self) -> int:
        """Products and sums."""
        return 2 * self.count * prod(self.shape)

    @property
    def depends_on_others(self) -> bool:
        """Yes: on the decision about a convolution."""
        return True

    def candidates(self) -> Iterator[Candidate]:
        """The ways that there are."""
        by = scale().step(self.element) or 1.0
        base, outputs = BASE_SECONDS[self.element], prod(self.shape)
        direct = (base + SUM_SECONDS[self.element] * self.count) * outputs * by
        axes = sum(span > 1 for span in self.window)
        rows = ROW_SECONDS * prod(self.shape[:-1]) if axes > 2 else 0.0
        yield Candidate(DIRECT, direct + rows + CALL_SECONDS, _build(DIRECT))
        if self.count == prod(self.window) and products.is_possible(self.shape, self.window, self.dtype):
            seconds = products.seconds(self.shape, self.window, self.dtype)
            yield Candidate(PRODUCTS, seconds, _build(PRODUCTS))
        if self.factored:
            along = PASS_SECONDS[self.element] * sum(span for span in self.window if span > 1)
            yield Candidate(FACTORED, (base + along) * outputs * by + CALL_SECONDS, _build(FACTORED))
        if self.spectra and has_scipy():
            yield Candidate(SPECTRA, self.spectra_seconds() * by, _build(SPECTRA))

    def spectra_seconds(self) -> float:
        """What products of spectra take."""
        rank = min(max(sum(span > 1 for span in self.window), 1), 3)
        inside = outside = 1.0
        for n, span, step in zip(self.shape, self.window, spectra.steps_of(self.shape, self.window)):
            step = min(n, step)
            inside, outside = inside * step, outside * (step + span - 1)
        blocks = prod(self.shape) / inside
        return SPECTRUM_SECONDS[rank] * blocks * outside * log2(outside + 1)

    def prepare(self) -> Callable[[Any], Callable[[], object]]:
        """Arrays, and a function from what a candidate built to a call on them."""
        x, y = np.ones(self.shape, self.dtype), np.empty(self.shape, self.dtype)
        places = np.argwhere(np.ones(self.window, bool))[: self.count]
        footprint = Footprint(places, self.window, tuple(n // 2 for n in self.window))
        weights = np.full(len(places), 1 / len(places))
        return lambda way: lambda: summed_by(way, x, y, footprint, weights, "reflect", 0.0, 1, "correlate")


def _build(name: str) -> Callable[..., str]:
    return lambda *arguments: name


@cache
def has_scipy() -> bool:
    """Whether there is `scipy.fft`."""
    return importlib.util.find_spec("scipy") is not None


def factors_of(footprint: Footprint, weights: np.ndarray) -> list[np.ndarray] | None:
    """Weights along each axis whose products are those of a box without zeros, to rounding; of whole numbers exactly.

    The first factor is a line of the box: what it makes is at most as large as the sums of all weights.
    """
    if footprint.count < 2 or footprint.count != prod(footprint.shape):
        return None
    box = weights.reshape(footprint.shape)
    if not (np.isfinite(box).all() and box.all()):
        return None
    pivot = np.unravel_index(np.abs(box).argmin(), box.shape)  # of whole numbers often a divisor of the others
    found = []
    for axis, span in enumerate(box.shape):
        line = box[(*pivot[:axis], slice(None), *pivot[axis + 1 :])]
        found.append(np.ones(1) if span == 1 else line / box[pivot] if prod(box.shape[:axis]) > 1 else line)
    apart = 4 * float(np.finfo(float).eps)
    if (box == np.rint(box)).all():
        apart = 0.0
        if any((WHOLE_PARTS * f != np.rint(WHOLE_PARTS * f)).any() for f in found):
            return None
    return found if (np.abs(reduce(np.multiply.outer, found) - box) <= apart * np.abs(box)).all() else None


def weighed(
    x: np.ndarray, y: np.ndarray, footprint: Footprint, weights: np.ndarray, mode: str, cval: float,
    threads: int | None, what: str, fft: bool = False,
) -> None:  # fmt: skip
    """Write to y the sums of elements by weights; with `fft` spectra may stand for sums, see `correlate`."""
    source, result = x.dtype, y.dtype.newbyteorder("=")
    if source == result and source.name in SMALL and (mode != "constant" or representable(cval, source)):
        fixed = fixed_of(w.EACH, weights, source)
        if fixed is not None:
            own, to = ELEMENTS[source.name], target(y, x, source)
            whole: dict[str, Any] = dict(kind=w.EACH, weight=weights, end=w.CAST, to=TYPES[own], fixed=fixed)
            run("weigh", x, to, footprint, (own, own, own), mode, cval, whole, threads, what)
            give(to, y)
            return
    way = DIRECT
    if result.kind == "f" and x.size:
        large = footprint.count >= LEAST_FACTORED * sum(span for span in footprint.shape if span > 1)
        factored = large and (mode != "constant" or cval == 0) and factors_of(footprint, weights) is not None
        allowed = fft and footprint.count > LEAST_COUNT and spectra.is_finite(x, weights, cval)
        dense = max(footprint.shape, default=1) < footprint.count == prod(footprint.shape) >= LEAST_DENSE
        if fft:
            not_again()  # another input may not be finite
        if factored or allowed or dense:
            element = "f32" if in_f32(source, result) else "f64"
            way = way_of(CorrelationProblem(x.shape, footprint.shape, footprint.count, element, factored, allowed))
    summed_by(way, x, y, footprint, weights, mode, cval, threads, what)


def summed_by(
    way: str, x: np.ndarray, y: np.ndarray, footprint: Footprint, weights: np.ndarray, mode: str, cval: float,
    threads: int | None, what: str,
) -> None:  # fmt: skip
    """Write to y the sums of elements by weights, in one of the ways."""
    source, result = x.dtype, y.dtype.newbyteorder("=")
    if way == FACTORED:
        factors = factors_of(footprint, weights)
        assert factors is not None
        of_axes = zip(factors, footprint.shape, footprint.before)
        passes = [w.weighed(f, i, before, mode, 0.0) for i, (f, span, before) in enumerate(of_axes) if span > 1]
        summed(x, y, passes, cval, threads, what)
        return
    between = np.dtype(np.float32 if in_f32(source, result) else np.float64)
    if way in (PRODUCTS, SPECTRA):
        box = np.zeros(footprint.shape, between if way == PRODUCTS else np.float64)
        box[tuple(footprint.places.T)] = w.rounded(weights, box.dtype)
        most = check_threads(threads)
        given_x = np.array(x) if way == SPECTRA and np.may_share_memory(x, y) else x
        info = CallInfo(what, f"{what} {x.shape} {source} {result} n{footprint.count} t{most}", way, most)
        correlated = products.correlated if way == PRODUCTS else spectra.correlated
        watched(lambda: info, correlated, given_x, y, box, footprint.before, mode, cval, most)
        return
    if source.name in ("float16", "int64", "uint64"):
        x = x.astype(np.float32 if source.kind == "f" else np.float64)
    kept = result if result.name in ELEMENTS else between
    fields: dict[str, Any] = dict(kind=w.EACH, weight=w.rounded(weights, between))
    if result.kind != "f":
        fields |= dict(end=w.CAST, to=TYPES[CAST_TO[result.name]])
    kept = np.dtype(np.uint8) if kept.name == "bool" else kept
    to = target(y, x, kept)
    types = (ELEMENTS[x.dtype.name], ELEMENTS[between.name], ELEMENTS[kept.name])
    run("weigh", plain(x), to, footprint, types, mode, cval, fields, threads, what)
    give(to, y)
