"""The machine's limits, FMA peak and copy bandwidth, measured between problems: rates are given as shares of them."""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np

from .._core import machine, registry

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


MOST_COPY_BYTES = 64 << 20  # moved to measure the bandwidth of a copy: larger copies are no faster


@lru_cache(256)
def copy_rate(moved: int, threads: int) -> float:
    """Bytes per second, read and written, of a copy of `moved` bytes, measured once."""
    return Limits().copy(min(moved, MOST_COPY_BYTES), threads)


def peak_rate(threads: int, types: str = "f32") -> float:
    """Flops per second of `threads` threads, measured once per instruction set and types."""
    return _peak_rate(threads, types, registry.isa())


@lru_cache(64)
def _peak_rate(threads: int, types: str, isa: str) -> float:
    return Limits().fma(threads, types)
