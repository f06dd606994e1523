"""A run of the benchmark that nobody measured: real problems and candidates, with times drawn at random."""

from __future__ import annotations

import random

from layoutkit.bench.layers import Layer
from layoutkit.bench.report import Result, totals
from layoutkit.bench.suites import SUITES, Case, ConvCase, ReorderCase
from layoutkit.choosing import machine
from layoutkit.choosing.costfile import Cost
from layoutkit.formats.layout import Layout

LAYOUTS, THREADS = ("NHWC", "NCHW", "nChw16c"), (1, 2)
PEAK, COPY = 118e9, 45e9  # a second, on one thread
SLOPES = ("memory", 1 << 27, 24.0), ("L3", 1 << 24, 56.0), ("L2", 1 << 19, 110.0)  # bytes, GB/s
LONG_LAYERS = ("3x5x7 4x1024->1024 @112x112x112 s2x1x2 p0+1x2x3+2 g32", "11x11 8x3->4096 @1024x2048 s4 p5 d2")
LONG_FORMATS = "aBcd12b", "NCHW", "abCD4c32d"


def cases(*suites: str) -> list[Case]:
    """The problems of suites, and some with long names."""
    found = [case for name in suites for case in SUITES[name](LAYOUTS, THREADS)]
    for text in LONG_LAYERS:
        problem = Layer.parse(text).problem("NHWC")
        found += [ConvCase(problem, text, "NHWC", 1, threads) for threads in THREADS]
    for a in LONG_FORMATS:
        found += [ReorderCase(Layout(a), Layout(b), (16, 1000, 28, 28), 4, 1, 1) for b in LONG_FORMATS if a != b]
    return found


def results(*suites: str, seed: int = 0) -> list[Result]:
    """What measuring the problems might have found."""
    return [_result(case, random.Random(f"{case.key} {seed}")) for case in cases(*suites)]


def _result(case: Case, rng: random.Random) -> Result:
    limit = case.threads**0.7 * (PEAK if case.unit == "GFLOP/s" else COPY * rng.uniform(1, 2))
    least = case.work / limit * rng.lognormvariate(0.2, 0.3)
    costs = {}
    for candidate in case.task.candidates():
        seconds = least * rng.lognormvariate(0.5, 0.5) * (0.4 if "winograd" in candidate.name else 1)
        costs[candidate.name] = Cost(seconds, 1.1 * seconds, 0.1 * seconds, 5)
    cold = min(c.min for c in costs.values()) * rng.uniform(1, 1.4) if case.kind == "conv" else None
    return Result(case, costs, (limit, 0.97 * limit), cold)


def run(*suites: str, seed: int = 0) -> dict:
    """All of it as --json writes it."""
    found = results(*suites, seed=seed)
    return {
        "layoutkit": "made up", "machine": machine.identity(), "suite": ",".join(suites), "quick": False,
        "seconds": 1.0, "left_out": 0, "notes": ["nobody measured this: " + "all times are drawn at random " * 4],
        "results": [r.json() for r in found], "totals": [t.json() for t in totals(found)],
        "bandwidths": [
            {"threads": t, "level": level, "bytes": size, "rate": t**0.5 * rate}
            for t in THREADS for level, size, rate in SLOPES
        ],
    }  # fmt: skip
