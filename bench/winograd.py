"""``python bench/winograd.py``: convolutions, 3x3 of stride 1, or `--kernel 5 --stride 2`, as shares of the FMA peak
measured between them.

A share counts the flops of direct summation (padded taps too): above 1 is what Winograd saves. Every candidate is
measured by itself, its filter and images as warm as its own last call left them, in several visits; of its times and
of the bursts of FMAs the best counts. With `--dtype` the peak is that of the type's multiply-adds, and the last line
says how many times as fast as direct summation on that type the layers are by each algorithm.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict

from shapes import names_of, numbers

from layoutkit import Layout
from layoutkit._core.runtime.machine import fma_peak
from layoutkit.bench.report import geomean
from layoutkit.bench.suites import DTYPES
from layoutkit.convolutions.problem import ACCURACIES, ConvProblem
from layoutkit.convolutions.task import ConvTask, scaling_epilogue

LAYERS = [(64, 224), (64, 112), (64, 56), (128, 112), (128, 56), (128, 28), (256, 56), (256, 28), (256, 14),
          (512, 28), (512, 14), (512, 7)]  # fmt: skip
VISITS, SECONDS, BURSTS = 3, 0.05, 20
LARGE = 14  # pixels along a side: from here on layers count in the means


def problem(channels: int, size: int, args: argparse.Namespace) -> ConvProblem:
    """channels -> channels, padded so that the size is divided by the stride."""
    return ConvProblem(
        args.batch, channels, channels, (size,) * 2, (args.kernel,) * 2, (args.stride,) * 2,
        ((args.kernel // 2,) * 2,) * 2, (1, 1), 1, args.layout, args.layout, args.accuracy, types=DTYPES[args.dtype],
    )  # fmt: skip


def shares(p: ConvProblem, dtype: str, threads: int, only: str, visits: int) -> dict[str, float]:
    """Best share of the peak by algorithm."""
    of_x, of_w, of_y = names_of(dtype)
    x, y = numbers(p.src.physical_shape(p.src_shape), of_x), numbers(p.dst.physical_shape(p.dst_shape), of_y)
    w, then = numbers((p.oc, p.ic, *p.kernel), of_w), scaling_epilogue(p)
    candidates, unit = ConvTask(p, threads, only).candidates(), p.types.peak
    least: dict[str, float] = {}
    peak = 0.0
    now = time.thread_time if threads == 1 else time.perf_counter  # not while other work has the core
    for c in candidates:
        route = c.build()
        filter, bias = route.pack(w, None)
        name = c.name.split(" gemm")[0] + (" as f32" if c.name.endswith(" as f32") else "")
        for _ in range(visits):
            route.run(x, filter, bias, y, then)
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                start = now()
                route.run(x, filter, bias, y, then)
                least[name] = min(least.get(name, 1e9), now() - start)
            peak = max(peak, *(fma_peak(threads, 5_000, unit) for _ in range(BURSTS)))
    return {name: p.flops / seconds / peak for name, seconds in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--kernel", type=int, default=3, help="taps along each axis")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--layout", type=Layout, default=Layout("NHWC"))
    parser.add_argument("--accuracy", choices=ACCURACIES, default="standard")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--algorithm", default="auto")
    parser.add_argument("--quick", action="store_true", help="every fourth layer, one visit")
    parser.add_argument("--json", metavar="FILE", help="write the shares to FILE")
    args = parser.parse_args()
    best, rows, beside = {}, [], defaultdict(list)
    what = f"{args.kernel}x{args.kernel}, stride {args.stride}, {args.layout}, batch {args.batch}"
    how = f"{what}, {args.threads} thread(s), {args.accuracy}"
    print(f"shares of the {args.dtype} peak, {how}")
    for channels, size in LAYERS[::-4] if args.quick else LAYERS:
        p = problem(channels, size, args)
        by_algorithm = shares(p, args.dtype, args.threads, args.algorithm, 1 if args.quick else VISITS)
        best[channels, size] = max(by_algorithm.values())
        for name, share in by_algorithm.items():
            if size >= LARGE and "direct" in by_algorithm and name != "direct":
                beside[name].append(share / by_algorithm["direct"])
        rows.append({"channels": channels, "size": size, "share": best[channels, size], "algorithms": by_algorithm})
        row = "  ".join(f"{name} {share:.2f}" for name, share in by_algorithm.items())
        print(f"{channels:4} channels @{size:<4} {best[channels, size]:5.2f}   {row}", flush=True)
    print(f"geometric mean from 14x14 on: {geomean(share for (_, size), share in best.items() if size >= LARGE):.2f}")
    for name, ratios in beside.items():
        print(f"{name}: {geomean(ratios):.2f} times as fast as direct, {min(ratios):.2f} to {max(ratios):.2f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
