"""What learning by use costs and gains: ``python bench/learning.py [--seed N] [--count 30] [--threads 1]``.

Reorders drawn as in unseen.py. For each: ten calls of a process that learns and ten of one that goes by estimates, in
turns, each time with nothing known from before; then calls of what was learnt, of the estimated pick, and copies of as
many bytes, in turns. Told: the ratio of the sums of ten calls, least and median of the rounds, planning included; and
shares of a copy before and after. On one thread times are those that the thread had a core.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time

os.environ["LAYOUTKIT_CACHE_DIR"] = tempfile.mkdtemp()

from reorder import geomean, touched
from unseen import drawn

import layoutkit as lk
from layoutkit._core.runtime import machine
from layoutkit.choosing.cache import plans

CALLS, MAX_CALLS = 10, 60  # summed; until learning is over at least


class Calls:
    """Calls of one problem on touched arrays."""

    def __init__(self, problem, threads: int) -> None:
        self._src, self._dst, self._shape, width = problem
        self._threads = threads
        self._x = touched(self._src.physical_shape(self._shape), width)
        self._y = touched(self._dst.physical_shape(self._shape), width)
        self._copied = [touched(((self._x.nbytes + self._y.nbytes) // 2,), 1) for _ in range(2)]
        self._now = time.thread_time if threads == 1 else time.perf_counter

    def call(self) -> float:
        """Seconds of a call."""
        start = self._now()
        lk.reorder(self._x, self._src, self._dst, shape=self._shape, out=self._y, threads=self._threads)
        return self._now() - start

    def copy(self) -> float:
        """Seconds of a copy."""
        start = self._now()
        machine.copy(*self._copied, self._threads, True)
        streamed = self._now()
        machine.copy(*self._copied, self._threads, False)
        return min(streamed - start, self._now() - streamed)

    def measured(self) -> str:
        """What was learnt."""
        text = lk.plan(lk.reorder, self._x, self._src, self._dst, shape=self._shape, out=self._y,
                       threads=self._threads).explain(verbose=True)  # fmt: skip
        return next((line for line in text.splitlines() if "by use in" in line), "nothing learnt")


def fresh(mode: str) -> None:
    """Nothing is known from before."""
    os.environ["LAYOUTKIT_CACHE_DIR"] = tempfile.mkdtemp()
    plans.clear()
    lk.tuning(mode)


def judged(problem, threads: int, rounds: int):
    """Ratios of the sums, shares of a copy by estimate and learnt, and what was learnt."""
    c = Calls(problem, threads)
    ratios = []
    for _ in range(rounds):
        sums = {}
        for mode in ("estimate", "learn"):
            fresh(mode)
            sums[mode] = sum(c.call() for _ in range(CALLS))
        ratios.append(sums["learn"] / sums["estimate"])
    for _ in range(MAX_CALLS - CALLS):
        c.call()
    bandwidths = c.measured()
    best = {"learn": 1e9, "estimate": 1e9, "copy": 1e9}
    for _ in range(5):
        best["learn"] = min(best["learn"], c.call())
        best["copy"] = min(best["copy"], c.copy())
    fresh("estimate")
    c.call()
    for _ in range(5):
        best["estimate"] = min(best["estimate"], c.call())
        best["copy"] = min(best["copy"], c.copy())
    return ratios, best["copy"] / best["estimate"], best["copy"] / best["learn"], bandwidths


def main(argv=None) -> int:
    """Run; returns the exit code."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    p.add_argument("--count", type=int, default=30)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args(argv)
    rng = random.Random(args.seed)
    medians, leasts, before, after = [], [], [], []
    for _ in range(args.count):
        problem = drawn(rng)
        ratios, estimated, learnt, bandwidths = judged(problem, args.threads, args.rounds)
        for values, value in zip((medians, leasts, before, after),
                                 (statistics.median(ratios), min(ratios), estimated, learnt)):  # fmt: skip
            values.append(value)
        src, dst, shape, width = problem
        print(f"{'x'.join(map(str, shape))} {src}>{dst} x{8 * width}: ten calls {medians[-1]:.2f} "
              f"({min(ratios):.2f} to {max(ratios):.2f}), {estimated:.2f} -> {learnt:.2f} of a copy; {bandwidths}",
              flush=True)  # fmt: skip
    print(f"{args.count} reorders, seed {args.seed}, {args.threads} thread(s): ten calls take {geomean(medians):.3f} "
          f"of those by estimate, at most {max(medians):.2f} (medians; least of rounds: at most {max(leasts):.2f}); "
          f"{geomean(before):.2f} -> {geomean(after):.2f} of a copy")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
