"""Random ONNX models by layoutkit, onnx's reference evaluator and onnxruntime: ``python stress/graphs.py``.

Everything that the operators accept is drawn, see `graph_cases`. A model is a function of the seed and its number:
``--seed 3 --only 1234`` runs that one again and prints it. onnxruntime is the third opinion where it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

CHUNK = 50  # models of a task
SHOWN = 20  # failures that are printed in full


def chunk(seed: int, first: int, last: int) -> tuple[list[tuple[int, str]], Counter, Counter]:
    """What is wrong among models [first, last), what they hold, and which differences were explained."""
    from graph_cases import case

    wrong, operators, explained = [], Counter(), Counter()
    for index in range(first, last):
        try:
            found = case(seed, index)
        except Exception as error:  # a mistake of ours: it is told, the rest goes on
            wrong.append((index, f"cannot be drawn or judged: {type(error).__name__}: {error}"))
            continue
        wrong += [(index, told) for told in found.wrong]
        operators += found.operators
        explained += found.explained
    return wrong, operators, explained


def campaign(seed: int, count: int, jobs: int) -> tuple[list[tuple[int, str]], Counter, Counter]:
    """The same of models [0, count), in processes."""
    wrong, operators, explained = [], Counter(), Counter()
    firsts = range(0, count, CHUNK)
    with ProcessPoolExecutor(jobs) as pool:
        tasks = [pool.submit(chunk, seed, first, min(first + CHUNK, count)) for first in firsts]
        for first, task in zip(firsts, tasks):
            try:
                found = task.result()
            except BrokenProcessPool:
                wrong.append((first, f"a process died at this model or one of the {CHUNK * jobs} after it"))
                break
            for index, told in found[0][: max(0, SHOWN - len(wrong))]:
                print(f"--seed {seed} --only {index}  {told}", file=sys.stderr, flush=True)
            wrong += found[0]
            operators += found[1]
            explained += found[2]
    return wrong, operators, explained


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if anything was wrong."""
    p = argparse.ArgumentParser(prog="python stress/graphs.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("--models", type=int, default=10_000)
    p.add_argument("--seed", type=int, help="a new one by default, which is printed")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    p.add_argument("--only", type=int, metavar="INDEX", help="run one model of a seed again, and print it")
    p.add_argument("--json", action="store_true")
    args = p.parse_args(argv)
    if args.only is not None and args.seed is None:
        p.error("--only INDEX: expected the --seed as well")
    seed = secrets.randbits(32) if args.seed is None else args.seed
    with tempfile.TemporaryDirectory(prefix="layoutkit-stress-") as cache:  # the user's cost table is left alone
        os.environ["LAYOUTKIT_CACHE_DIR"] = cache
        if args.only is not None:
            return _only(seed, args.only)
        print(f"seed {seed}", flush=True)
        start = time.perf_counter()
        wrong, operators, explained = campaign(seed, args.models, args.jobs)
        seconds = time.perf_counter() - start
    if args.json:
        told = {"seed": seed, "models": args.models, "wrong": wrong, "operators": operators, "explained": explained}
        print(json.dumps({**told, "seconds": seconds}))
        return bool(wrong)
    print("nodes: " + ", ".join(f"{op} {n}" for op, n in sorted(operators.items())))
    for why, n in explained.most_common():
        print(f"{n:>6} explained: {why}")
    print(f"{args.models} random models: {len(wrong)} wrong, {seconds:.1f} s, seed {seed}")
    return bool(wrong)


def _only(seed: int, index: int) -> int:
    from graph_cases import draw, judge, text

    case = draw(seed, index)
    print(text(case.model))
    print(f"options: {dict(case.options)}, layouts {case.layouts}")
    found = judge(case)
    for why, n in found.explained.items():
        print(f"{n} explained: {why}")
    print("\n".join(found.wrong) or "right")
    return bool(found.wrong)


if __name__ == "__main__":
    sys.exit(main())
