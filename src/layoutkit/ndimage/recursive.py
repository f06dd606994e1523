"""Recursive Gaussians: a time that hardly depends on sigma, for a result that is nearly that of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, cos, exp, floor, isfinite, prod, sin
from typing import Any

import numpy as np

from .._core.nests.recursion import Recursion
from ..choosing.threads import check_threads
from ..choosing.watching import CallInfo, watched
from ..memory.arrays import empty
from ..reorders.reorder import reorder
from . import windows as w
from .arguments import by_parts, output_for
from .separable import give, in_f32, limits, summed

# exp(-t^2 / 2) for t >= 0 is the sum of exp(-b t) (c cos(f t) + s sin(f t)) of these (c, s, b, f), found by least
# squares: to 8.4e-6 of its peak, and 7e-6 of its area.
SECTIONS = (
    (3.1546336727655584, 7.313238121355019, 2.182763228806652, 0.5266050388147533),
    (-2.313182237913614, -0.9200990963716401, 2.1516633126683797, 1.6161277383032686),
    (0.15854016522005474, -0.043954674675236774, 2.079286605049018, 2.8567175613564726),
)
REACH = 6.0  # standard deviations outside of the array from which recursions begin
# From this sigma on a recursion takes less time than weights, if it goes along so many lines at a time.
LEAST, LINES = {"float32": 20.0, "float64": 10.0}, 32
NEARLY = 1 / 64  # what is less short of a whole number is that: errors of bytes along three axes are less


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

    def recurs(sigma: float, axis: int) -> bool:
        lines = prod(x.shape[axis + 1 :])
        if lines == 1:
            lines = x.size // max(1, x.shape[axis])
        return sigma >= LEAST[between.name] and lines >= LINES

    if passes and not any(recurs(sigma, window.axis) for sigma, window in passes):
        summed(x, y, [window for _, window in passes], cval, threads, what)
        return
    wholes = y.dtype.kind in "biu" and x.size and passes
    within = _within(x, y.dtype, cval if any(p.mode == "constant" for _, p in passes) else None) if wholes else None
    for sigma, window in passes:
        to = empty(x.shape, between, what, used_with=x)
        if recurs(sigma, window.axis):
            recursed(x, to, sigma, window.axis, window.mode, cval, threads, what)
        else:
            summed(x, to, [window], cval, threads, what)
        x = to
    if within is None:
        give(x, y)
    else:
        _give_wholes(x, y, *within)


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
    reach = max(1, int(REACH * sigma + 0.5))
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
