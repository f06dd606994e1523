"""What accuracy "reproducible" costs: ``python bench/reproducible.py [--shapes 60] [--seed 0] [--threads 2]``.

What a call takes with accuracy "reproducible" over what it takes with "strict", for ResNet-50's layers in three layouts
and for shapes drawn at random. Both choose by measuring; they take turns, the medians' ratio is told. Whether the bits
hold is a kind of `stress/campaign.py`. The user's cost table is neither read nor written.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import layoutkit as lk
from layoutkit.bench.layers import NETWORKS
from layoutkit.bench.report import geomean
from layoutkit.choosing.table import cost_table
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.memory.arrays import empty

LAYOUTS = "NHWC", "nChw16c", "NCHW"
ROUNDS, TURN = 15, 2e-3  # seconds that a turn takes at least
LIMIT = 1.10  # what "reproducible" may take, of "strict"


def random_problem(rng: np.random.Generator) -> ConvProblem:
    """A layer of the sizes that networks have, of any kind, in one of the usual layouts."""
    kind = str(rng.choice(("dense", "dense", "dense", "first", "depthwise", "groups")))
    size, k, stride = int(rng.integers(7, 113)), int(rng.choice((1, 1, 3, 3, 3, 5, 7))), int(rng.choice((1, 1, 1, 2)))
    ic, oc = (int(2 ** rng.uniform(4, 9)) for _ in range(2))
    groups = 1
    if kind == "first":
        ic, k = int(rng.integers(1, 5)), int(rng.choice((3, 5, 7)))
    if kind == "depthwise":
        groups = oc = ic
    if kind == "groups":
        groups = int(rng.choice((2, 4, 8, 16, 32)))
        ic = oc = groups * int(rng.choice((2, 3, 4, 8, 12, 16, 32)))
    while ic * oc // groups * k * k * size * size > 4e8 and size > 7:
        size = max(7, size * 2 // 3)
    layout = lk.Layout(str(rng.choice((*LAYOUTS, "nChw8c"))))
    pad = (k // 2, k // 2) if rng.integers(4) else (0, 0)
    size = max(size, k)
    return ConvProblem(1, ic, oc, (size, size), (k, k), (stride,) * 2, (pad,) * 2, (1, 1), groups, layout, layout)


def problems(args: argparse.Namespace) -> Iterator[tuple[str, ConvProblem]]:
    """What is measured, by kind."""
    for layout in LAYOUTS:
        for layer in dict.fromkeys(NETWORKS["resnet50"]()):
            yield f"resnet50 {layout}", layer.problem(layout)
    rng = np.random.default_rng(args.seed)
    for _ in range(args.shapes):
        yield "random", random_problem(rng)


def turns(p: ConvProblem, args: argparse.Namespace) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of a call, turn by turn, of either accuracy; what each chose."""
    w = np.random.default_rng(0).standard_normal((p.oc, p.ic // p.groups, *p.kernel), np.float32)
    x = empty(p.src.physical_shape(p.src_shape), w.dtype, "x")
    x[...] = 1
    calls: dict[str, Callable[[], object]] = {}
    chosen = {}
    now = time.thread_time if args.threads == 1 else time.perf_counter
    y = empty(p.dst.physical_shape(p.dst_shape), w.dtype, "y", x)
    for accuracy in ("strict", "reproducible"):
        op = lk.Conv2d(w, stride=p.stride, padding=p.padding, groups=p.groups, layout=p.src, threads=args.threads,
                       accuracy=accuracy)  # fmt: skip
        op(x, y)
        chosen[accuracy] = op.plan(p.src_shape).choices[0].candidate.name
        calls[accuracy] = lambda op=op: op(x, y)
    start = now()
    calls["strict"]()
    repeat = 1 + int(TURN / max(now() - start, 1e-7))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(ROUNDS):
        for name in list(calls)[:: 1 if i % 2 else -1]:
            call, start = calls[name], now()
            for _ in range(repeat):
                call()
            times[name].append((now() - start) / repeat)
    return times, chosen


def cost(args: argparse.Namespace) -> int:
    """Print what "reproducible" takes of what "strict" does; how many kinds are beyond the limit on the average."""
    lk.tuning(args.tuning)
    by_kind: dict[str, list[float]] = {}
    for kind, p in itertools.islice(problems(args), 0, None, 8 if args.quick else 1):
        times, chosen = turns(p, args)
        ratio = float(np.median(np.divide(times["reproducible"], times["strict"])))
        by_kind.setdefault(kind, []).append(ratio)
        ways = " and ".join(dict.fromkeys(chosen.values()))
        print(f"{kind:18} {ratio:6.3f}  {str(p).removesuffix(' f32 standard'):70} {ways}", flush=True)
    for kind, ratios in by_kind.items():
        beyond = sum(r > LIMIT for r in ratios)
        print(f"{kind:18} geometric mean {geomean(ratios):.3f}, median {np.median(ratios):.3f}, most {max(ratios):.3f},"
              f" {beyond} of {len(ratios)} beyond {LIMIT}")  # fmt: skip
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(by_kind, f, indent=1)
    return sum(geomean(ratios) > LIMIT for ratios in by_kind.values())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if the cost is beyond the limit."""
    p = argparse.ArgumentParser(prog="python bench/reproducible.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("--shapes", type=int, default=60, metavar="N", help="random ones")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--tuning", choices=("measure", "estimate", "off"), default="measure")
    p.add_argument("--quick", action="store_true", help="every eighth problem")
    p.add_argument("--json", metavar="FILE", help="write the ratios, by kind, to FILE")
    args = p.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="layoutkit-reproducible-") as cache:
        os.environ["LAYOUTKIT_CACHE_DIR"] = cache
        cost_table.read_only = True
        return bool(cost(args))


if __name__ == "__main__":
    sys.exit(main())
