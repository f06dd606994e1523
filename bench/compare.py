"""layoutkit against numpy and torch as their users call them, on one machine, in turns.

Every contender has its own process: two OpenMP runtimes in one would ruin each other. They are woken one
after another, round after round, the idle ones blocked on a pipe. Ratios are of one round; medians are told.
The machine's limits (FMA peak, a copy of the same bytes) are a contender like the others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from cases import CASES, RANDOM, SUITES

from layoutkit.bench.report import geomean
from layoutkit.choosing import machine

WORKER = Path(__file__).with_name("contenders.py")
NAMES = ("machine", "layoutkit", "torch", "numpy")
POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Contender:
    """A process and the pipe to it."""

    def __init__(self, name: str, threads: int, tuning: str) -> None:
        env = os.environ | dict.fromkeys(POOLS, str(threads)) | {"COMPARE_TUNING": tuning}
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), name, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        hello = self._receive()
        self.missing, self.version = hello.get("missing"), hello.get("version")

    def _receive(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"compare.py: the process of {self.name} has ended (see its message above)")
        return json.loads(line)

    def ask(self, **request) -> dict:
        """Send a request, wait for the answer."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._receive()

    def close(self) -> None:
        """Let the process end."""
        with self.process:  # closes both pipes, and waits
            pass


# How far results may be apart: of int8 one, where a product is rounded otherwise.
TOLERANCES = {"float32": 1e-4, "float64": 1e-12, "bfloat16": 2e-2, "float16": 2e-3, "int8": 1 / 255}


def check(case: dict, digests: dict[str, list[float]]) -> None:
    """Stop if two contenders did not compute the same."""
    first, want = next(iter(digests.items()))
    scale = max(1.0, *map(abs, want))
    for way, got in digests.items():
        tolerance = TOLERANCES[case["dtype"]] * scale if case["kind"] != "reorder" else 0
        if len(got) != len(want) or any(abs(a - b) > tolerance for a, b in zip(got, want)):
            raise SystemExit(f"compare.py: {case['title']}: {way} and {first} do not agree")


def play(case: dict, contenders: Sequence[Contender], rounds: int, seconds: float) -> dict:
    """All ways of all contenders on one case, in turns; a row of the result."""
    prepared = [(c, c.ask(do="prepare", case=case)) for c in contenders]
    check(case, {k: v for _, answer in prepared for k, v in answer["digests"].items()})
    limits: list[float] = []
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for contender, answer in prepared:
            for way in answer["ways"]:
                answer = contender.ask(do="run", way=way, seconds=seconds)
                if "rate" in answer:
                    limits.append(answer["rate"])
                else:
                    times.setdefault(way, []).append(answer["seconds"])
    rates = {way: median(case["work"] / s for s in t) / 1e9 for way, t in times.items()}
    shares = {way: median(case["work"] / s / top for s, top in zip(t, limits)) for way, t in times.items()}
    ratios = {}
    for ours, theirs in pairs(case["kind"], times):
        best = min(theirs, key=lambda way: median(times[way]))  # packed filters: the better of two ways
        ratios[f"{ours} / {theirs[0]}"] = median(b / a for a, b in zip(times[ours], times[best]))
    return {
        "kind": case["kind"], "title": case["title"], "limit": median(limits) / 1e9, "rates": rates,
        "shares": shares, "ratios": ratios, "decided": prepared[1][1]["decided"],
    }  # fmt: skip


def pairs(kind: str, ways: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Which of our ways is held against which of theirs."""
    wanted = {
        "conv": [
            ("lk NCHW", ["torch NCHW"]), ("lk NHWC", ["torch NHWC"]),
            ("lk NHWC", ["packed NHWC", "packed blocked"]), ("lk NCHW", ["numpy"]),
        ],
        "backward": [("lk NCHW", ["torch NCHW"]), ("lk NHWC", ["torch NHWC"])],
        "reorder": [
            ("lk new", ["numpy new"]), ("lk out", ["numpy out"]), ("lk new", ["torch new"]), ("lk out", ["torch out"]),
        ],
    }  # fmt: skip
    for ours, theirs in wanted[kind]:
        there = [way for way in theirs if way in ways]
        if there:
            yield ours, there


COLUMNS = {
    "conv": ("lk NCHW", "lk NHWC", "lk nChw16c", "torch NCHW", "torch NHWC", "packed NHWC", "packed blocked", "numpy"),
    "backward": ("lk NCHW", "lk NHWC", "torch NCHW", "torch NHWC"),
    "reorder": ("lk new", "lk out", "torch new", "torch out", "numpy new", "numpy out"),
}  # fmt: skip
UNITS = {"conv": "GFLOP/s", "backward": "GFLOP/s", "reorder": "GB/s"}


def table(kind: str, rows: Sequence[dict]) -> Iterator[str]:
    """Rates with the share of the limit, then how many times faster we are."""
    width = max(len(r["title"]) for r in rows)
    columns = [c for c in COLUMNS[kind] if all(c in r["rates"] for r in rows)]
    ratios = list(dict.fromkeys(name for r in rows for name in r["ratios"]))
    yield f"\n{kind}: {UNITS[kind]} and share of the limit"
    yield f"{'':<{width}} {'limit':>7} " + " ".join(f"{c:>14}" for c in columns)
    for r in rows:
        cells = (f"{r['rates'][c]:8.1f} {r['shares'][c]:5.0%}" for c in columns)
        yield f"{r['title']:<{width}} {r['limit']:7.1f} " + " ".join(cells)
    means = (f"{'':8} {geomean(r['shares'][c] for r in rows):5.0%}" for c in columns)
    yield f"{'geomean':<{width}} {'':7} " + " ".join(means)
    yield f"\n{kind}: how many times faster (median of ratios of one round)"
    wide = [max(len(name), 8) for name in ratios]
    yield f"{'':<{width}}   " + "   ".join(f"{name:>{w}}" for name, w in zip(ratios, wide))
    for r in rows:
        yield f"{r['title']:<{width}}   " + "   ".join(
            f"{r['ratios'].get(name, float('nan')):{w}.2f}" for name, w in zip(ratios, wide)
        )
    for what, of in ("geomean", geomean), ("least", min):
        means = (of([r["ratios"][name] for r in rows if name in r["ratios"]]) for name in ratios)
        yield f"{what:<{width}}   " + "   ".join(f"{m:{w}.2f}" for m, w in zip(means, wide))
    decided = [source for r in rows for source in r["decided"].values()]
    counts = ", ".join(f"{decided.count(s)} {s}" for s in sorted(set(decided)))
    yield f"layoutkit's plans: {counts}"


def number(text: str) -> int:
    """A count for argparse."""
    value = int(text) if text.isdigit() else 0
    if not 1 <= value <= 1024:
        raise argparse.ArgumentTypeError(f"expected 1 to 1024, got {text!r}")
    return value


def cases_of(text: str) -> list[str]:
    """Names of cases for argparse."""
    names = text.split(",")
    if not set(names) <= set(CASES):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(CASES)}, got {text!r}")
    return names


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="compare.py", description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=number, default=1, help="of every contender, default %(default)s")
    p.add_argument("--rounds", type=number, help="default 9, with --quick 5")
    p.add_argument("--cases", type=cases_of, metavar="conv,reorder", help="default conv,reorder")
    p.add_argument("--pass", dest="direction", choices=("forward", "backward"), default="forward",
                   help="backward: gradients of inputs and filters in place of convolutions")  # fmt: skip
    p.add_argument("--suite", choices=SUITES, default="resnet50",
                   help="whose convolutions, default %(default)s; random: also reorders, all drawn")  # fmt: skip
    p.add_argument("--batch", type=number, default=1, help="of the convolutions, default %(default)s")
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="of what is drawn")
    p.add_argument("--count", type=number, default=10, help="reorders and convolutions of each group that are drawn")
    p.add_argument("--dtype", choices=TOLERANCES, default="float32", help="of the convolutions, default %(default)s")
    p.add_argument("--quick", action="store_true", help="fewer layers, smaller arrays, fewer rounds")
    p.add_argument("--tuning", choices=("estimate", "measure"), default="estimate",
                   help="layoutkit's: estimate takes what the cost table has (default), measure fills it")  # fmt: skip
    p.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    args = p.parse_args(argv)
    if args.json and not Path(args.json).absolute().parent.is_dir():
        p.error(f"argument --json: no directory for {args.json!r}")
    rounds = args.rounds or (5 if args.quick else 9)
    everyone = [Contender(name, args.threads, args.tuning) for name in NAMES]
    for c in everyone:
        if c.missing:
            print(f"compare.py: without {c.name}: {c.missing} (pip install {c.name})", file=sys.stderr)
    contenders = [c for c in everyone if not c.missing]
    versions = [c.version for c in contenders[1:]]
    suite = f"{RANDOM}, seed {args.seed}" if args.suite == RANDOM else args.suite
    what = f"{suite}, batch {args.batch}, {args.dtype}, warm filters, {rounds} rounds"
    print(f"{', '.join(versions)}; {args.threads} thread(s), {what}")
    print(f"{machine.cpu_model()}, {machine.identity()['isa']}")
    results: list[dict] = []
    for kind in args.cases or (["backward"] if args.direction == "backward" else ["conv", "reorder"]):
        rows = []
        for case in CASES[kind](args):
            if sys.stderr.isatty():
                print(f"\r{case['title']:<60}\r", end="", file=sys.stderr, flush=True)
            rows.append(play(case, contenders, rounds, 0.005 if args.quick else 0.01))
        for line in table(kind, rows):
            print(line)
        results += rows
    for c in contenders:
        c.close()
    if args.json:
        data = {"machine": machine.identity(), "python": platform.python_version(), "versions": versions,
                "threads": args.threads, "rounds": rounds, "results": results}  # fmt: skip
        Path(args.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
