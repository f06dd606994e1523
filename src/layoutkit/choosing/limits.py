"""The machine's limits, FMA peak and copy bandwidth, measured between problems: rates are given as shares of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from .._core.runtime import machine, registry
from .machine import cores
from .machine_profile import LINE_BYTES, MachineProfile, path, read
from .table import cost_table

BURST_SECONDS = 1e-3  # of FMAs
REPEATS = 3  # of which the best is one sample


class Limits:
    """Samples FMA peak and copy bandwidth on buffers of its own, touched and reused."""

    def __init__(self) -> None:
        machine.fma_peak(1, 20_000)
        start = time.perf_counter()
        machine.fma_peak(1, 20_000)
        self._rounds = max(1_000, int(20_000 * BURST_SECONDS / (time.perf_counter() - start)))
        self._src = self._dst = np.ones(0, np.uint8)

    def fma(self, threads: int, types: str = "f32") -> float:
        """Flops per second of `threads` threads in the instruction set in use: the best of a few bursts."""
        return max(machine.fma_peak(threads, self._rounds, types) for _ in range(REPEATS))

    def copy(self, moved: int, threads: int) -> float:
        """Bytes per second, read and written, of a copy of `moved` bytes, the best way up to `threads`."""
        n = max(1, moved // 2)
        if n > self._src.size:
            self._src, self._dst = np.ones(n, np.uint8), np.ones(n, np.uint8)
        src, dst = self._src[:n], self._dst[:n]
        return max(
            2 * n / machine.copy(src, dst, t, stream)
            for t in sorted({1, threads})
            for stream in (False, True)
            for _ in range(REPEATS)
        )

    def sample(self, unit: str, work: int, threads: int, types: str = "f32") -> list[float]:
        """Samples of the limit of a problem that computes in `types`, or moves `work`."""
        return [self.fma(threads, types) if unit == "GFLOP/s" else self.copy(work, threads) for _ in range(2)]


MAX_COPY_BYTES = 64 << 20  # moved to measure the bandwidth of a copy: larger copies are no faster
MIN_COPY_BYTES = 1 << 20  # moved, from which on a copy takes no longer than the profile says
SAMPLES = 4  # of a limit, before the machine counts as disturbed
SLACK = 1.5  # that a rate may pass its limit by: both are samples
DISTURBED_SHARE = 0.6  # of what the profile of this machine promises: less is no limit of it

_best: dict[tuple, float] = {}  # samples so far, by what was sampled


def _sampled(sample: Callable[[], float], again: bool, *key: object) -> float:
    """The best sample so far, after one more `again`."""
    if key not in _best:
        _best[key] = sample()
    elif again:
        _best[key] = max(_best[key], sample())
    return _best[key]


def copy_rate(moved: int, threads: int, again: bool = False) -> float:
    """Bytes per second, read and written, of a copy of `moved` bytes: measured once, and `again`."""
    moved = min(moved, MAX_COPY_BYTES)
    return _sampled(lambda: Limits().copy(moved, threads), again, moved, threads)


def peak_rate(threads: int, types: str = "f32", again: bool = False) -> float:
    """Flops per second of `threads` threads: measured once per instruction set and types, and `again`."""
    return _sampled(lambda: Limits().fma(threads, types), again, threads, types, registry.isa())


def copy_limit(rate: float, moved: int, threads: int) -> float | None:
    """`copy_rate`; None if this machine is disturbed now, judged by `rate` and its profile."""
    profile = _profile() if moved >= MIN_COPY_BYTES else None
    least = 2e9 * LINE_BYTES / max(profile.copy_memory, profile.stream) if profile else 0.0
    return _plausible(partial(copy_rate, moved, threads), rate, least)


def peak_limit(rate: float, threads: int, types: str) -> float | None:
    """`peak_rate`; None if this machine is disturbed now, judged by `rate` and its profile."""
    profile, least = _profile(), 0.0
    if profile and (step := profile.step(types)):
        row = registry.best("peak", types)[0]
        full_cores = max(1.0, min(threads, cores()) / 2)  # threads may share a core
        least = full_cores * 1e9 * 2 * row.lanes * row.kr / step
    return _plausible(partial(peak_rate, threads, types), rate, least)


def _plausible(sample: Callable[..., float], rate: float, least: float) -> float | None:
    """A limit of at least about `rate` and `least`; None if samples say less."""
    for again in range(SAMPLES):
        limit = sample(again=again > 0)
        if rate <= SLACK * limit and limit >= DISTURBED_SHARE * least:
            return limit
    return None


def _profile() -> MachineProfile | None:
    return read(path(cost_table.path))


def disturbed(what: str, source: str) -> str:
    """What `explain` says in place of a share of a limit, of a cost from this source."""
    if source == "estimated":
        return f"no share of {what}: the estimate is more than this machine does now; other work may slow it down"
    return f"no share of {what}: other work slows this machine down now"
