"""Networks in float32, bfloat16, float16 and int8, by layoutkit alone, in turns in one process: what does each pay?

A ratio is of one round, the median is told; errors are the largest of each output, as a share of its largest number in
the first type (`onnx.load(.., dtype="auto")` judges the same way, by float32). In int8 a network is what onnxruntime's
quantiser makes of it, calibrated on random inputs: its times say something, its errors do not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import networks
import numpy as np
from compare import number
from quantise import quantised

import layoutkit as lk
from layoutkit.bench.report import geomean
from layoutkit.choosing import machine
from layoutkit.formats.nearest import none_of
from layoutkit.graph.model import DTYPES
from layoutkit.graph.quantize.errors import error_of

TYPES = *DTYPES, "int8"


def loaded(case: dict, dtype: str, args: argparse.Namespace, folder: Path) -> lk.onnx.Model:
    """A network in a type; in int8 it is quantised into `folder`."""
    path = case["path"]
    if dtype == "int8":
        path, dtype = str(quantised(Path(path), folder, case["inputs"])), "float32"
    return lk.onnx.load(path, threads=args.threads, dtype=dtype)


def judge(case: dict, args: argparse.Namespace, folder: Path) -> dict[str, tuple[float, float, float]]:
    """Of each type the seconds of a run, how many times as fast as the first one it is, and its error."""
    models = {dtype: loaded(case, dtype, args, folder) for dtype in args.types.split(",")}
    real = next(iter(models.values()))
    rng = np.random.default_rng(0)
    inputs = {name: rng.standard_normal(shape).astype(real.graph.inputs[name].dtype)
              for name, shape in case["inputs"].items()}  # fmt: skip
    results = {dtype: model.run(inputs) for dtype, model in models.items()}
    times: dict[str, list[float]] = {dtype: [] for dtype in models}
    for _ in range(args.rounds):
        for dtype, model in models.items():
            model.run(inputs)
            runs, end = [], time.perf_counter() + args.seconds
            while not runs or time.perf_counter() < end:
                start = time.perf_counter()
                model.run(inputs)
                runs.append(time.perf_counter() - start)
            times[dtype].append(median(runs))
    first = next(iter(times))
    return {
        dtype: (median(t), median(a / b for a, b in zip(times[first], t)),
                error_of([(results[dtype], results[first])]))
        for dtype, t in times.items()
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="narrow.py", description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", help="ONNX files; default: those of the onnx package")
    p.add_argument("--zoo", action="store_true", help="the networks of zoo/ (needs torch)")
    p.add_argument("--exporter", choices=("script", "dynamo"), default="script", help="torch's, default %(default)s")
    p.add_argument("--folder", help="keep the exported networks here, and use those that are here already")
    p.add_argument("--threads", type=number, default=1, help="default %(default)s")
    p.add_argument("--rounds", type=number, default=7, help="default %(default)s")
    p.add_argument("--seconds", type=float, default=0.1, help="of a turn, default %(default)s")
    p.add_argument("--only", help="networks with one of these words in their names: resnet,vgg")
    p.add_argument("--types", default="float32,bfloat16,float16", help="the first is what others are held against")
    args = p.parse_args(argv)
    args.dtype, args.accuracy = "float32", "standard"
    types = args.types.split(",")
    if not set(types) <= set(TYPES):
        p.error(none_of("--types", next(t for t in types if t not in TYPES), TYPES))
    print(f"{machine.cpu_model()}, {machine.identity()['isa']}, {args.threads} thread(s), batch 1: ms a run, times as "
          f"fast as {types[0]}, error")  # fmt: skip
    print(f"{'':<18}" + "".join(f"{dtype:>26}" for dtype in types))
    ratios: dict[str, list[float]] = {dtype: [] for dtype in types}
    with tempfile.TemporaryDirectory() as folder:
        for case in networks.cases(args, Path(folder)):
            judged = judge(case, args, Path(folder))
            for dtype, (_, ratio, _) in judged.items():
                ratios[dtype].append(ratio)
            columns = (f"{1e3 * s:12.2f} {ratio:5.2f} {error:7.1e}" for s, ratio, error in judged.values())
            print(f"{case['title']:<18}{''.join(columns)}", flush=True)
    if not ratios[types[0]]:
        p.error(f"no network has one of {args.only} in its name")
    for dtype in types[1:]:
        print(f"{dtype}: geometric mean {geomean(ratios[dtype]):.2f}, least {min(ratios[dtype]):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
