"""Steady on a busy machine? Operations and networks idle, beside others, and called by many threads at once.

Every library has its own process for each case, and they are measured in turns: alone, beside processes that compute
(``--busy``, so many for each core), beside torch and onnxruntime at work (``neighbours``), and with up to eight threads
of the process calling at once. Told are the median and the 99th percentile of a call, calls a second, how many times
slower than idle both are, and the 99th percentile over the idle median, which whoever has outliers when idle gains
nothing by; in a situation, ours over the best of the others'. Operations are drawn at random with a fresh seed and held
against torch, networks of the onnx package, or of files, against onnxruntime and OpenVINO.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import networks
from cases import CASES
from compare import Contender, number

from layoutkit.bench.report import geomean
from layoutkit.choosing import machine

OURS = "layoutkit"
WAYS = {  # of a kind: by whom, and which of their ways
    "conv": {OURS: "lk NHWC", "torch": "torch NHWC"},
    "backward": {OURS: "lk NHWC", "torch": "torch NHWC"},
    "reorder": {OURS: "lk out", "torch": "torch out"},
    "network": {OURS: OURS, "onnxruntime": "onnxruntime", "openvino": "openvino"},
}
NETWORKS = "squeezenet,resnet50,shufflenet"
SPIN = "while True: pass"
NEIGHBOURS = {
    "torch": "import torch; a, b = torch.ones(1, 64, 56, 56), torch.ones(64, 64, 3, 3)\n"
             "while True: torch.nn.functional.conv2d(a, b, padding=1)",
    "onnxruntime": "import sys, numpy as np, onnxruntime as ort\n"
                   "s = ort.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider']); i = s.get_inputs()[0]\n"
                   "x = {i.name: np.ones([n if isinstance(n, int) else 1 for n in i.shape], np.float32)}\n"
                   "while True: s.run(None, x)",
}  # fmt: skip
START_SECONDS = 3.0  # of neighbours, which import for a while


@contextlib.contextmanager
def beside(programs: Sequence[tuple[str, ...]]) -> Iterator[None]:
    """While programs run in processes of their own."""
    processes = [subprocess.Popen([sys.executable, "-c", *p], stderr=subprocess.DEVNULL) for p in programs]
    try:
        if programs:
            time.sleep(START_SECONDS if len(programs[0][0]) > len(SPIN) else 0.2)
        yield
    finally:
        for p in processes:
            p.kill()
            p.wait()


def situations(args: Namespace, model: str) -> Iterator[tuple[str, list[tuple[str, ...]], int]]:
    """Name, what runs beside, and how many threads call."""
    yield "idle", [], 1
    for n in args.busy:
        yield f"{n} busy a core", [(SPIN,)] * (n * (os.cpu_count() or 1)), 1
    if args.neighbours:
        yield "torch beside", [(NEIGHBOURS["torch"],)], 1
        yield "onnxruntime beside", [(NEIGHBOURS["onnxruntime"], model)], 1
    for n in args.callers:
        yield f"{n} callers", [], n


def drawn(args: Namespace, folder: Path) -> Iterator[dict]:
    """The cases: operations, then networks."""
    wanted = Namespace(suite="random", seed=args.seed, count=args.count, batch=1, dtype="float32", quick=False)
    for kind in ("conv", "reorder", "backward"):
        cases = list(CASES[kind](wanted))
        yield from random.Random(args.seed).sample(cases, min(args.operations, len(cases)))
    of = Namespace(models=args.models, zoo=False, only=args.only, accuracy="standard", dtype="float32")
    yield from networks.cases(of, folder)


def play(case: dict, args: Namespace, model: str) -> dict:
    """One case in all situations: of each and by everyone, seconds (median, 99th percentile) and calls a second."""
    everyone = [Contender(name, args.threads, "estimate") for name in WAYS[case["kind"]]]
    there = [c for c in everyone if not c.missing]
    for c in there:
        c.ask(do="prepare", case=case)
    measured: dict[str, dict] = {}
    for title, programs, callers in situations(args, model):
        answers: dict[str, list[dict]] = {c.name: [] for c in there}
        with beside(programs):
            for _ in range(args.rounds):
                for c in there:
                    way = WAYS[case["kind"]][c.name]
                    answers[c.name].append(c.ask(do="load", way=way, seconds=args.seconds, callers=callers))
        measured[title] = {
            name: {key: median(t[key] for t in turns) for key in ("median", "p99", "rate")}
            for name, turns in answers.items()
        }
    for c in everyone:
        c.close()
    return {"kind": case["kind"], "title": case["title"], "situations": measured}


def slowdowns(times: dict[str, float], idle: dict[str, float]) -> dict[str, float]:
    """Of the median, of the 99th percentile, and from the idle median to the 99th percentile ("tail")."""
    return {"median": times["median"] / idle["median"], "p99": times["p99"] / idle["p99"],
            "tail": times["p99"] / idle["median"]}  # fmt: skip


def compared(row: dict) -> dict[str, dict[str, float]]:
    """By situation, whether we keep up: our slowdown over the least of theirs, our throughput over the most."""
    idle, figures = row["situations"]["idle"], {}
    for title, of in row["situations"].items():
        others = [name for name in of if name != OURS]
        if others:
            slower = {name: slowdowns(of[name], idle[name]) for name in of}
            figures[title] = {key: s / min(slower[name][key] for name in others) for key, s in slower[OURS].items()}
            figures[title]["rate"] = of[OURS]["rate"] / max(of[name]["rate"] for name in others)
    return figures


def lines(row: dict) -> Iterator[str]:
    """A case as lines."""
    yield f"\n{row['kind']} {row['title']}"
    yield f"  {'':<20} {'ms: median, 99 %, calls a second':<34} slower than idle: median, 99 %, 99 % over median"
    idle = row["situations"]["idle"]
    for title, of in row["situations"].items():
        for name, t in of.items():
            slower = slowdowns(t, idle[name]).values()
            numbers = f"{1e3 * t['median']:9.3f} {1e3 * t['p99']:9.3f} {t['rate']:9.1f}"
            yield f"  {title:<20} {name:<12} {numbers}   " + " ".join(f"{s:7.2f}" for s in slower)


def counts(text: str) -> list[int]:
    """Numbers with commas for argparse; none of an empty text."""
    return [number(n) for n in text.split(",") if n]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="load.py", description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", help="ONNX files in place of those of the onnx package")
    p.add_argument("--only", help="networks with one of these words in their names, none: -; default of the onnx "
                                  f"package's: {NETWORKS}")  # fmt: skip
    p.add_argument("--operations", type=int, default=3, help="of each kind, drawn; default %(default)s")
    p.add_argument("--count", type=number, default=2, help=argparse.SUPPRESS)  # of each group, to draw them from
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="of what is drawn")
    p.add_argument("--threads", type=number, default=os.cpu_count() or 1, help="of every library, default all cores")
    p.add_argument("--busy", type=counts, default=[1, 2, 4], help="busy processes for each core, default 1,2,4")
    p.add_argument("--callers", type=counts, default=[2, 4, 8], help="threads that call at once, default 2,4,8")
    p.add_argument("--no-neighbours", dest="neighbours", action="store_false", help="not beside torch and onnxruntime")
    p.add_argument("--rounds", type=number, default=5)
    p.add_argument("--seconds", type=float, default=0.5, help="of a turn, default %(default)s")
    p.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    args = p.parse_args(argv)
    args.only = args.only or ("" if args.models else NETWORKS)
    print(f"{machine.cpu_model()}, {args.threads} threads, seed {args.seed}, {args.rounds} rounds of {args.seconds} s")
    rows = []
    model = str(next(networks.LIGHT.glob("light_squeezenet.onnx")))
    with tempfile.TemporaryDirectory(prefix="layoutkit-load-") as folder:
        for case in drawn(args, Path(folder)):
            rows.append(play(case, args, model))
            print(*lines(rows[-1]), sep="\n", flush=True)
    print("\nOver the best of the others: slowdown of the median, of the 99th percentile, from the idle median to the "
          "99th percentile (geomean, most), throughput (geomean, least)")  # fmt: skip
    judged = [(row["kind"], compared(row)) for row in rows]
    for of_networks in (False, True):
        here = [c for kind, c in judged if (kind == "network") == of_networks and c]
        for title in here[0] if here else ():
            slower = [[c[title][key] for c in here] for key in ("median", "p99", "tail")]
            rates = [c[title]["rate"] for c in here]
            print(f"  {'networks' if of_networks else 'operations':<11} {title:<20} "
                  + "".join(f"{geomean(of):5.2f} {max(of):5.2f}   " for of in slower)
                  + f"{geomean(rates):5.2f} {min(rates):5.2f}")  # fmt: skip
    if args.json:
        Path(args.json).write_text(json.dumps({"seed": args.seed, "rows": rows}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
