"""Recursive Gaussians: a time that hardly depends on sigma, for a result that is nearly that of the weights.

Only where the caller allows them, and cost tells that weights take longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, cos, exp, floor, isfinite, prod, sin
from typing import Any

import numpy as np

from .._core.nests.filters.recursion import Recursion
from ..choosing.machine_profile import scale
from ..choosing.problem import Candidate
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from ..memory.arrays import empty
from ..reorders.reorder import reorder
from . import windows as w
from .arguments import by_parts, output_for
from .problem import FilterProblem, way_of
from .separable import give, in_f32, limits, summed

# exp(-t^2 / 2) for t >= 0 is the sum of exp(-b t) (c cos(f t) + s sin(f t)) of these (c, s, b, f), found by least
# squares: to 8.4e-6 of its peak, and 7e-6 of its area.
SECTIONS = (
    (3.1546336727655584, 7.313238121355019, 2.182763228806652, 0.5266050388147533),
    (-2.313182237913614, -0.9200990963716401, 2.1516633126683797, 1.6161277383032686),
    (0.15854016522005474, -0.043954674675236774, 2.079286605049018, 2.8567175613564726),
)
REACH = 6.0  # standard deviations outside of the array from which recursions begin
NEARLY = 1 / 64  # what is less short of a whole number is that: errors of bytes along three axes are less
WEIGHTS, RECURSIVE = "weights", "recursive"
# Measured on one core of AMD Zen 5, seconds. Of weights, for each byte of the result: a call, and each weight.
WEIGHED_SECONDS = {"points": (1.1e-10, 5.7e-12), "lines": (5.7e-11, 4.0e-12)}
# Along lines, each weight beyond so many counts as so many more: measured on AMD Zen 3, of 64 rows of 128 elements.
CACHED_WEIGHTS, FAR_WEIGHTS = 16384, 4
# Of recursions: each element and each row of those that go along together, the same outside of the array.
RECURSIVE_SECONDS = {"points": (1.8e-9, 7.9e-8, 3.2e-10, 1.1e-7), "lines": (1.3e-9, 4.9e-8, 3.6e-10, 4.5e-8)}


@dataclass(frozen=True)
class RecursionProblem(FilterProblem):
    """A Gaussian along the second axis of an array of three, by weights of `span` elements or by recursions."""

    shape: tuple[int, int, int]
    sigma: float
    span: int
    element: str  # f32 or f64

    @property
    def key(self) -> str:
        """Its key in the cost table."""
        return f"gaussian {'x'.join(map(str, self.shape))} sigma{self.sigma:g} w{self.span} {self.element} t1"

    @property
    def work(self) -> int:
        """Products and sums of weights."""
        return 2 * self.span * prod(self.shape)

    def candidates(self) -> Iterator[Candidate]:
        """Both ways."""
        rows, n, unit = self.shape
        along, count = "points" if unit == 1 else "lines", prod(self.shape)
        base, each = WEIGHED_SECONDS[along]
        nbytes = count * self.dtype.itemsize * (scale().step(self.element) or 1.0)
        far = max(0, self.span - CACHED_WEIGHTS) if along == "lines" else 0
        seconds = nbytes * (base + each * (self.span + FAR_WEIGHTS * far))
        yield Candidate(WEIGHTS, seconds, lambda *_: WEIGHTS)
        element, row, element_outside, row_outside = RECURSIVE_SECONDS[along]
        together = count / (unit if unit > 1 else rows)
        seconds = count * element + together * row
        seconds += 2 * _reach(self.sigma) / n * (count * element_outside + together * row_outside)
        yield Candidate(RECURSIVE, seconds * (scale().step("f64") or 1.0), lambda *_: RECURSIVE)

    def prepare(self) -> Callable[[Any], Callable[[], object]]:
        """Arrays, and a function from what a candidate built to a call on them."""
        x, y = np.ones(self.shape, self.dtype), np.empty(self.shape, self.dtype)
        half = self.span // 2
        weights = np.exp(-(np.arange(-half, half + 1) ** 2) / (2 * self.sigma**2))
        window = w.weighed(weights / weights.sum(), 1, half, "reflect")
        return lambda way: lambda: _along(way, x, y, self.sigma, window, 0.0, 1, "gaussian_filter")


def check_recursive(orders: Sequence[Any], radii: Sequence[Any], what: str) -> None:
    """Raise ValueError for what recursions are not made for."""
    if any(orders) or any(r is not None for r in radii):
        raise ValueError(
            f"{what}: recursive Gaussians have order 0 and no radius, got {list(orders)} and {list(radii)}"
        )


def smoothed(
    x: np.ndarray, output: Any, passes: Sequence[tuple[float, w.Windows]], cval: Any, threads: int | None, what: str
) -> np.ndarray:
    """Gaussians along one axis after another: of sigmas and their windows, by recursions where these are faster."""
    y = output_for(output, x, what, x.dtype.kind == "c")
    by_parts(lambda a, b, c: _smoothed(a, b, passes, c, threads, what), x, y, cval, what)
    return y


def _smoothed(
    x: np.ndarray, y: np.ndarray, passes: Sequence[tuple[float, w.Windows]], cval: float, threads: int | None, what: str
) -> None:
    between = np.dtype(np.float32 if in_f32(x.dtype, y.dtype) else np.float64)

    def way(sigma: float, window: w.Windows) -> str:
        axis, element = window.axis, "f32" if between.itemsize == 4 else "f64"
        shape = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        return way_of(RecursionProblem(shape, sigma, window.span, element))

    ways = [way(*each) if x.size else WEIGHTS for each in passes]
    if passes and RECURSIVE not in ways:
        summed(x, y, [window for _, window in passes], cval, threads, what)
        return
    wholes = y.dtype.kind in "biu" and x.size and passes
    within = _within(x, y.dtype, cval if any(p.mode == "constant" for _, p in passes) else None) if wholes else None
    for way_along, (sigma, window) in zip(ways, passes):
        to = empty(x.shape, between, what, used_with=x)
        _along(way_along, x, to, sigma, window, cval, threads, what)
        x = to
    if within is None:
        give(x, y)
    else:
        _give_wholes(x, y, *within)


def _along(
    way: str, x: np.ndarray, y: np.ndarray, sigma: float, window: w.Windows, cval: float, threads: int | None, what: str
) -> None:
    """Write to y the Gaussian of x along the axis of a window, by one of the ways."""
    if way == RECURSIVE:
        recursed(x, y, sigma, window.axis, window.mode, cval, threads, what)
    else:
        summed(x, y, [window], cval, threads, what)


def _within(x: np.ndarray, dtype: np.dtype, cval: float | None) -> tuple[int, int]:
    """The least and the largest integer that Gaussians of x can be: weights are positive, and their sum is 1."""
    low, high = limits(dtype)
    ends = [x.min().item(), x.max().item(), *([] if cval is None else [cval])]
    if all(map(isfinite, ends)):
        least, most = floor(min(ends)), ceil(max(ends))
        low, high = min(max(low, least), high), max(min(high, most), low)
    return low, high


def _give_wholes(result: np.ndarray, y: np.ndarray, low: int, high: int) -> None:
    """Write to y the integers towards zero, as direct sums are cast, but not beyond `low` and `high`."""
    wholes = np.trunc(result + np.copysign(NEARLY, result))
    least, most = wholes <= low, wholes >= high  # of 64 bits, doubles do not hold all limits
    give(wholes, y)
    y[least], y[most] = low, high


def _reach(sigma: float) -> int:
    """Elements outside of the array from which recursions begin."""
    return max(1, int(REACH * sigma + 0.5))


def recursions(sigma: float) -> np.ndarray:
    """The weights of `Recursion`: sampled exponentials from an element on, and of elements behind it; of sum 1."""
    found = np.zeros((2, len(SECTIONS), 4))
    for k, (c, s, b, f) in enumerate(SECTIONS):
        p, even, odd = exp(-b / sigma), cos(f / sigma), sin(f / sigma)
        again = (2 * p * even, -p * p)
        found[0, k] = (c, p * (s * odd - c * even), *again)
        found[1, k] = (p * (s * odd + c * even), -c * p * p, *again)
    found[:, :, :2] /= (found[:, :, :2].sum(2) / (1 - found[:, :, 2:].sum(2))).sum()
    return found


def recursed(
    x: np.ndarray, y: np.ndarray, sigma: float, axis: int, mode: str, cval: float, threads: int | None, what: str
) -> None:
    """Write to y, of float32 or float64 in C order, the Gaussian of x along an axis; x is not changed."""
    if x.size == 0:
        return
    most = check_threads(threads)
    x = np.ascontiguousarray(x, np.float32 if x.dtype.name in ("float32", "float16") else np.float64)
    n, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    reach = _reach(sigma)
    source = w.positions(n, 2 * reach + 1, reach, mode)

    def info() -> CallInfo:
        size = "x".join(map(str, y.shape))
        return CallInfo(what, f"{what} {size} {x.dtype} {y.dtype} recursive t{most}", "recursion", most)

    def run() -> None:
        a, b = x.reshape(-1, n, inner), y.reshape(-1, n, inner)
        if inner == 1:  # rows are across the axis
            a = reorder(x.reshape(-1, n), "ab", "ba", threads=most)[None]
            b = empty(a.shape, y.dtype, what, used_with=a)
        Recursion(a, b, recursions(sigma), source, reach, float(cval), most)(a, b)
        if inner == 1:
            reorder(b[0], "ba", "ab", out=y.reshape(-1, n), threads=most)

    watched(info, run)
