"""``python bench/winograd.py``: 3x3 convolutions, stride 1, as shares of the FMA peak measured between them.

A share counts the flops of direct summation (padded taps too): above 1 is what Winograd saves. Every candidate is
measured by itself, its filter and images as warm as its own last call left them, in several visits; of its times and
of the bursts of FMAs the best counts.
"""

from __future__ import annotations

import argparse
import json
import time
from math import exp, log

import numpy as np

from layoutkit import Layout
from layoutkit._core.machine import fma_peak
from layoutkit.convolutions.problem import ACCURACIES, ConvProblem
from layoutkit.convolutions.task import ConvTask
from layoutkit.memory.arrays import empty

LAYERS = [(64, 224), (64, 112), (64, 56), (128, 112), (128, 56), (128, 28), (256, 56), (256, 28), (256, 14),
          (512, 28), (512, 14), (512, 7)]  # fmt: skip
VISITS, SECONDS, BURSTS = 3, 0.05, 20


def problem(channels: int, size: int, batch: int, layout: Layout, accuracy: str) -> ConvProblem:
    """channels -> channels, 3x3, padded to keep the size."""
    return ConvProblem(
        batch, channels, channels, (size,) * 2, (3, 3), (1, 1), ((1, 1),) * 2, (1, 1), 1, layout, layout, accuracy
    )


def filled(shape) -> np.ndarray:
    a = empty(shape, np.dtype(np.float32), "benchmark")
    a[...] = np.random.default_rng(0).standard_normal(shape, np.float32)
    return a


def shares(p: ConvProblem, threads: int, only: str, visits: int) -> dict[str, float]:
    """Best share of the peak by algorithm."""
    x, y = filled(p.src.physical_shape(p.src_shape)), filled(p.dst.physical_shape(p.dst_shape))
    w = filled((p.oc, p.ic, 3, 3))
    found = ConvTask(p, threads, only).candidates()
    least: dict[str, float] = {}
    peak = 0.0
    now = time.thread_time if threads == 1 else time.perf_counter  # not while other work has the core
    for c in found:
        route = c.build()
        filter, bias = route.pack(w, None)
        name = c.name.split(" gemm")[0]
        for _ in range(visits):
            route.run(x, filter, bias, y)
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                start = now()
                route.run(x, filter, bias, y)
                least[name] = min(least.get(name, 1e9), now() - start)
            peak = max(peak, *(fma_peak(threads, 5_000) for _ in range(BURSTS)))
    return {name: p.flops / seconds / peak for name, seconds in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--layout", type=Layout, default=Layout("NHWC"))
    parser.add_argument("--accuracy", choices=ACCURACIES, default="standard")
    parser.add_argument("--algorithm", default="auto")
    parser.add_argument("--quick", action="store_true", help="every fourth layer, one visit")
    parser.add_argument("--json", metavar="FILE", help="write the shares to FILE")
    args = parser.parse_args()
    best, rows = {}, []
    print(f"shares of the peak, {args.layout}, batch {args.batch}, {args.threads} thread(s), {args.accuracy}")
    for channels, size in LAYERS[::-4] if args.quick else LAYERS:
        p = problem(channels, size, args.batch, args.layout, args.accuracy)
        found = shares(p, args.threads, args.algorithm, 1 if args.quick else VISITS)
        best[channels, size] = max(found.values())
        rows.append({"channels": channels, "size": size, "share": best[channels, size], "algorithms": found})
        row = "  ".join(f"{name} {share:.2f}" for name, share in found.items())
        print(f"{channels:4} channels @{size:<4} {best[channels, size]:5.2f}   {row}", flush=True)
    large = [share for (_, size), share in best.items() if size >= 14]
    print(f"geometric mean from 14x14 on: {exp(sum(map(log, large)) / len(large)):.2f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
