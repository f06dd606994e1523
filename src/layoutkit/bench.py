"""``python -m layoutkit.bench``: measure every candidate of a suite's problems, save the table, report."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from . import machine, report
from .cost import cost_table
from .costfile import merge
from .layout import Layout
from .limits import Limits
from .progress import track
from .report import Result
from .suites import SUITES, Case, cases
from .threads import get_num_threads

QUICK = 75.0  # seconds that --quick gives to measuring: with all around it, it ends within 90
CAPS = {"conv": (0.4, 0.12), "reorder": (0.1, 0.03), "pack": (0.1, 0.03)}  # seconds a visit: full, quick
VISITS = 2  # to every problem, far apart: a neighbour's burst of work spoils one of them, not both


def _threads(text: str) -> list[int]:
    try:
        found = [int(t) for t in text.split(",")]
    except ValueError:
        found = [0]
    if not all(1 <= t <= 1024 for t in found):
        raise argparse.ArgumentTypeError(f"expected numbers of 1 to 1024 such as 1,2, got {text!r}")
    return list(dict.fromkeys(found))


def _layouts(text: str) -> list[str]:
    found = []
    for name in text.split(","):
        try:
            layout = Layout(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if layout.rank != 4:
            raise argparse.ArgumentTypeError(f"{name!r} has {layout.rank} dimensions, these problems have 4")
        found.append(str(layout))
    return list(dict.fromkeys(found))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"expected seconds, got {text!r}")
    return value


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="python -m layoutkit.bench",
        description="Measure every candidate of a suite's problems on this machine, save the cost table that "
        "later processes choose by, and print what won, by how much, and its share of the machine's limit.",
    )
    allowed = get_num_threads()
    default = [1, allowed] if allowed > 1 else [1]
    p.add_argument("--suite", choices=sorted(SUITES), default="resnet50", help="default: %(default)s")
    p.add_argument("--quick", action="store_true", help="end within 90 seconds")
    p.add_argument("--threads", type=_threads, default=default, metavar="1,2",
                   help=f"thread counts, default {','.join(map(str, default))}")  # fmt: skip
    p.add_argument("--layouts", type=_layouts, default=["NHWC", "NCHW", "nChw16c"], metavar="A,B",
                   help="of activations, default NHWC,NCHW,nChw16c")  # fmt: skip
    p.add_argument("--json", metavar="FILE", help="write everything measured to FILE (- for standard output)")
    p.add_argument("--time-budget", type=_seconds, metavar="S", help="stop measuring after S seconds")
    p.add_argument("--no-save", action="store_true", help="leave the cost table as it is")
    return p


class Visit(NamedTuple):
    """A case to measure now, and the seconds that it may take."""

    case: Case
    budget: float

    @property
    def title(self) -> str:
        return self.case.title


def visits(found: Sequence[Case], caps: Mapping[str, float], end: float | None) -> Iterator[Visit]:
    """Every case as often as it shall be measured; none any more after `end` (of time.perf_counter)."""
    left = VISITS * sum(caps[case.kind] for case in found)
    for case in [*found] * VISITS:
        cap = caps[case.kind]
        if end is None:
            yield Visit(case, cap)
        else:
            now = time.perf_counter()
            if now >= end:
                return
            yield Visit(case, min(cap, (end - now) * cap / left))
        left -= cap


def measure(todo: Iterable[Visit], limits: Limits, results: dict[Case, Result]) -> None:
    """Measure, the limits around each problem; what is found goes into `results` as it comes."""
    for case, budget in todo:
        before = limits.sample(case.unit, case.work, case.threads)
        costs = {case.key: case.measure(budget)}
        samples = [*before, *limits.sample(case.unit, case.work, case.threads)]
        if case in results:
            merge(costs, {case.key: results[case].costs})
            samples += results[case].limits
        results[case] = Result(case, costs[case.key], tuple(samples))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    start = time.perf_counter()
    command = parser()
    args = command.parse_args(argv)
    if args.json not in (None, "-") and not os.path.isdir(os.path.dirname(os.path.abspath(args.json))):
        command.error(f"argument --json: no directory for {args.json!r}")  # now, not after the measuring
    found = cases(list(SUITES[args.suite]()), args.layouts, args.threads)
    seconds = args.time_budget or (QUICK if args.quick else None)
    caps = {kind: cap[args.quick] for kind, cap in CAPS.items()}
    measured: dict[Case, Result] = {}
    code = 0
    try:
        end = None if seconds is None else start + seconds
        measure(track(visits(found, caps, end), VISITS * len(found)), Limits(), measured)
    except KeyboardInterrupt:
        code = 130
    known = set(cost_table.problems())
    results = [r for r in measured.values() if r.case.key in known]
    text = sys.stderr if args.json == "-" else sys.stdout
    identity = machine.identity()
    print(f"layoutkit {identity['version']} on {identity['cpu']}, {identity['isa']}, {args.suite}", file=text)
    for line in report.lines(results):
        print(line, file=text)
    took = time.perf_counter() - start
    print(f"\n{len(results)} problems measured in {took:.0f} s", file=text)
    for line in report.busy(results):
        print(line, file=text)
    if len(measured) < len(found):
        print(f"{len(found) - len(measured)} problems were left out: "
              + ("interrupted" if code else "the time was over"), file=text)  # fmt: skip
    if disturbed := len(measured) - len(results):
        print(f"{disturbed} problems had no undisturbed timing: neither shown nor saved", file=text)
    if not args.no_save:
        code = _save(text) or code
    if args.json:
        code = _write_json(args, results, found, took) or code
    return code


def _save(text) -> int:
    try:
        path = cost_table.save()
    except OSError as error:
        print(f"layoutkit.bench: the cost table cannot be saved: {error}; "
              "LAYOUTKIT_CACHE_DIR names another directory", file=sys.stderr)  # fmt: skip
        return 1
    print(f"cost table: {path}, {len(cost_table.problems())} problems", file=text)
    return 0


def _write_json(args, results: Sequence[Result], found: Sequence[Case], took: float) -> int:
    data = {
        "layoutkit": machine.identity()["version"],
        "machine": machine.identity(),
        "suite": args.suite,
        "quick": args.quick,
        "seconds": took,
        "left_out": len(found) - len(results),
        "results": [r.json() for r in results],
        "totals": [t.json() for t in report.totals(results)],
    }
    try:
        if args.json == "-":
            json.dump(data, sys.stdout, indent=1)
        else:
            with open(args.json, "w", encoding="utf-8") as f:
                json.dump(data, f, indent=1)
    except OSError as error:
        print(f"layoutkit.bench: --json: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
