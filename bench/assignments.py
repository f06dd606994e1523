"""Networks in the layouts that were chosen against one layout everywhere, and what was predicted against what it takes.

All four run in turns in one process; a ratio is of one round. `--tune` measures first what the cost table lacks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from networks import cases

import layoutkit as lk
from layoutkit.bench.report import geomean
from layoutkit.graph.model import Model
from layoutkit.graph.operators.layouts import NAMES


def predicted(model, inputs) -> float:
    """Milliseconds that the layouts for such inputs are expected to take."""
    return 1e3 * model.costed(inputs).plan.assigned.seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line a network."""
    p = argparse.ArgumentParser(prog="assignments.py", description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", help="ONNX files; default: those of the onnx package")
    p.add_argument("--zoo", action="store_true", help="the networks of zoo/ (needs torch)")
    p.add_argument("--folder", help="keep the exported networks here, and use those that are here already")
    p.add_argument("--only", help="networks with one of these words in their names: resnet,vgg")
    p.add_argument("--threads", type=int, default=1, help="default %(default)s")
    p.add_argument("--rounds", type=int, default=11, help="default %(default)s")
    p.add_argument("--accuracy", default="standard", help="default %(default)s")
    p.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="default %(default)s")
    p.add_argument("--tune", action="store_true", help="measure what the cost table lacks: minutes")
    args = p.parse_args(argv, argparse.Namespace(exporter="script"))
    lk.tuning("measure" if args.tune else "estimate")
    print(f"{'':<14}{'chosen':>10} ms {'predicted':>10} ms   " + "".join(f"{name:>16}" for name in NAMES)
          + "   times as long")  # fmt: skip
    shares, worst = [], []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(args, Path(folder)):
            rng = np.random.default_rng(0)
            inputs = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in case["inputs"].items()}
            options = {"threads": args.threads, "accuracy": args.accuracy, "dtype": args.dtype}
            graph = lk.onnx.load(case["path"]).graph
            models = [Model(graph, layouts=layouts, **options) for layouts in (None, *NAMES)]
            times: list[list[float]] = [[] for _ in models]
            for turn in range(args.rounds + 2):
                for model, seconds in zip(models, times):
                    start = time.perf_counter()
                    model.run(inputs)
                    if turn > 1:  # the first plans
                        seconds.append(time.perf_counter() - start)
            milliseconds, expected = 1e3 * median(times[0]), predicted(models[0], inputs)
            ratios = [median(b / a for a, b in zip(times[0], other)) for other in times[1:]]
            shares.append(expected / milliseconds)
            worst.append(min(ratios))
            columns = "".join(f"{ratio:16.2f}" for ratio in ratios)
            print(f"{case['title']:<14}{milliseconds:10.2f}    {expected:10.2f}      {columns}", flush=True)
    print(f"predicted: {geomean(shares):.2f} of what it takes, {min(shares):.2f} to {max(shares):.2f}; "
          f"the best single layout takes {geomean(worst):.2f} times as long, at least {min(worst):.2f}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
