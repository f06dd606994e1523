"""Five seconds of checks: whether results are those of plain sums, and speeds those that are expected here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from .._core.runtime import registry
from ..choosing import machine, machine_profile, progress
from ..choosing.plan import plan
from ..choosing.table import cost_table
from ..convolutions.conv import Conv2d, conv2d
from ..reorders.reorder import reorder
from .report import on_threads

SECONDS = 0.25  # of a timing
SLOW = 0.75  # of what is expected: less is told
WAITED = 0.02  # of the time of the checks that threads waited for a core: more is told
STANDARD_ERROR = 1e-3  # of the largest number, that Winograd's algorithm may be off by in float32
STRICT_ERROR = 1e-5


class Result(NamedTuple):
    """Whether an operation gives what plain sums give; `error`: how far it is off, of the largest number."""

    what: str
    right: bool
    error: float


class Speed(NamedTuple):
    """What was measured now, in `unit`, beside what is expected, and by what."""

    what: str
    measured: float
    expected: float | None
    unit: str
    by: str

    @property
    def share(self) -> float | None:
        """Of what is expected; None where nothing is."""
        return self.measured / self.expected if self.expected else None


def results(threads: int) -> Iterator[Result]:
    """Operations on small arrays, each compared with numpy's plain sums."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 20, 13, 17), np.float32)
    want = _blocked(x, 16)
    for t in sorted({1, threads}):
        on = f"on {on_threads(t)}"
        back = reorder(reorder(x, "NCHW", "nChw16c", threads=t), "nChw16c", "NHWC", shape=x.shape, threads=t)
        there = np.array_equal(reorder(x, "NCHW", "nChw16c", threads=t), want)
        yield Result(f"reorders {on}", there and np.array_equal(back, x.transpose(0, 2, 3, 1)), 0.0)
        quantised = reorder(x, "NCHW", "NHWC", dtype="int8", scale=0.05, threads=t)
        limited = np.clip(np.rint(x.transpose(0, 2, 3, 1) / np.float32(0.05)), -128, 127)
        yield Result(f"conversion to int8 {on}", bool((abs(quantised - limited) <= 1).all()), 0.0)
        for accuracy, most in (("strict", STRICT_ERROR), ("standard", STANDARD_ERROR)):
            for groups in (1, 20):
                w = rng.standard_normal((20, 20 // groups, 3, 3), np.float32)
                y = conv2d(x, w, padding=1, groups=groups, accuracy=accuracy, threads=t)
                of = f"{'depthwise ' * (groups > 1)}convolution, {accuracy}, {on}"
                yield _near(of, y, plain_sums(x, w, groups), most)
        u, v = rng.integers(0, 255, x.shape, np.uint8), rng.integers(-128, 127, (20, 20, 3, 3), np.int8)
        exact = plain_sums(u, v, 1)
        yield _near(f"convolution of int8, {on}", conv2d(u, v, padding=1, threads=t), exact, 0.0)


def _near(what: str, y: np.ndarray, want: np.ndarray, most: float) -> Result:
    error = float(abs(y - want).max() / abs(want).max())
    return Result(what, error <= most, error)


def _blocked(x: np.ndarray, block: int) -> np.ndarray:
    """NCHW as nChw16c, by numpy."""
    n, c, h, w = x.shape
    padded = np.zeros((n, -(-c // block) * block, h, w), x.dtype)
    padded[:, :c] = x
    return padded.reshape(n, -1, block, h, w).transpose(0, 1, 3, 4, 2)


def plain_sums(x: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """The 3x3 convolution of padding 1, of float64 sums one filter tap after another."""
    n, _, h, width = x.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = w.astype(np.float64).reshape(groups, -1, *w.shape[1:])
    sums = np.zeros((n, groups, taps.shape[1], h, width))
    for i in range(3):
        for j in range(3):
            shifted = padded[:, :, i : i + h, j : j + width].reshape(n, groups, -1, h, width)
            sums += np.einsum("ngchw,goc->ngohw", shifted, taps[..., i, j])
    return sums.reshape(n, -1, h, width)


def speeds(threads: int) -> Iterator[Speed]:
    """The machine's limits now beside its profile, and two operations beside those limits and what was predicted."""
    stored = machine_profile.read(machine_profile.path(cost_table.path))
    now = machine_profile.measure()
    lanes = registry.best("peak", "f32")[0].lanes
    by = "the profile of this machine" if stored else "nothing: no profile was measured before"
    for what, name in (("copy in L2", "copy_l2"), ("copy in memory", "stream"), ("copy on all cores", "copy_all")):
        rates = [2 * machine_profile.LINE_BYTES / getattr(p, name) if p else None for p in (now, stored)]
        yield Speed(what, rates[0] or 0.0, rates[1], "GB/s", by)
    peak = 2 * lanes / now.fma_f32
    yield Speed("multiply-adds in float32", peak, stored and 2 * lanes / stored.fma_f32, "GFLOP/s", by)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 56, 56, 64), np.float32)
    w = rng.standard_normal((64, 64, 3, 3), np.float32)
    for t in sorted({1, threads}):
        op = Conv2d(w, padding=1, layout="NHWC", accuracy="strict", threads=t)
        rate = 2 * x.size * 64 * 9 / _least(partial(op, x)) / 1e9
        expected = peak * min(t, machine.cores())
        yield Speed(
            f"3x3 convolution, {on_threads(t)}", rate, expected, "GFLOP/s", "the multiply-adds of so many cores"
        )
    photo = np.zeros((8, 64, 56, 56), np.float32)
    predicted = plan(reorder, photo, "NCHW", "NHWC", threads=1).choices[0].seconds
    seconds = _least(lambda: reorder(photo, "NCHW", "NHWC", threads=1))
    moved = 2 * photo.nbytes / 1e9
    yield Speed("reorder NCHW -> NHWC, 1 thread", moved / seconds, moved / predicted, "GB/s", "what its plan predicts")


def _least(call: Callable[[], object]) -> float:
    """Seconds of a call: the least of many."""
    progress.step("timing")
    call()
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def findings(found: list[Result], speeds: list[Speed], waited: float) -> Iterator[str]:
    """What of it needs attention. `waited`: the share of the time in which threads waited for a core."""
    for result in found:
        if not result.right:
            yield f"WRONG RESULT: {result.what}, off by {result.error:.1e} of the largest number: please file an issue"
    if waited > WAITED:
        yield f"other work had the cores for {waited:.0%} of the checks: the speeds are those of a busy machine"
    for s in speeds:
        if s.share is not None and s.share < SLOW:
            yield (f"{s.what}: {s.measured:.1f} {s.unit}, {s.share:.0%} of what is expected by {s.by}: "
                   "other work, a lower clock, or a machine unlike its profile")  # fmt: skip
