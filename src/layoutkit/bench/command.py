"""``python -m layoutkit.bench``: measure every candidate of a suite's problems, save the table, report."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..choosing import blas_threads, machine, machine_profile
from ..choosing.costfile import merge
from ..choosing.limits import Limits
from ..choosing.measuring import measure as measure_task
from ..choosing.table import cost_table
from ..choosing.threads import MAX_THREADS, check_threads, get_num_threads
from ..formats.layout import Layout
from . import comparison, page, report
from .bandwidths import bandwidths
from .exits import INTERRUPTED, finish_steps
from .folding import columns, print_folded
from .listed import cases as listed_cases
from .progress import track
from .report import Result
from .suites import DTYPES, SUITES, Case, ConvCase, backward, in_types

QUICK_SECONDS = 78.0  # of measuring with --quick, which ends within 90
# Of one visit to a problem: without and with --quick.
VISIT_SECONDS = {"conv": (0.4, 0.12), "weight": (0.4, 0.12), "reorder": (0.1, 0.03), "pack": (0.1, 0.02)}
VISITS = 2  # to every problem, far apart, so that load from other processes spoils only one of them
WARM_SHARE = 0.9  # of the time; the rest is for convolutions with cold filters
PROFILE_BUDGET_SECONDS = 30.0  # least of a run that measures the machine profile too: 2 s, more on busy machines
REST_SECONDS = 1.5  # of a time budget, for bandwidths, files and the report; at most a tenth of it
SAVE_EVERY_SECONDS = 20.0  # what an interruption loses at most


def _threads(text: str) -> list[int]:
    try:
        counts = [check_threads(int(t)) for t in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers of 1 to {MAX_THREADS} such as 1,2, got {text!r}") from None
    return list(dict.fromkeys(counts))


def _layouts(text: str) -> list[str]:
    layouts = []
    for name in text.split(","):
        try:
            layout = Layout(name)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if layout.rank != 4:
            raise argparse.ArgumentTypeError(f"{name!r} has {layout.rank} dimensions, these problems have 4")
        layouts.append(str(layout))
    return list(dict.fromkeys(layouts))


def _dtypes(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in DTYPES]:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(DTYPES)}, got {unknown[0]!r}")
    return names


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
        epilog="python -m layoutkit.bench compare A.json B.json: what changed between two runs. "
        "python -m layoutkit.bench report A.json OUT.html: the page of a run.",
    )
    allowed = get_num_threads()
    default = [1, allowed] if allowed > 1 else [1]
    p.add_argument("--suite", default="resnet50", metavar="NAME",
                   help=f"{', '.join(SUITES)}, an ONNX model, or a text file with a problem a line; several by "
                   "commas; default: %(default)s")  # fmt: skip
    p.add_argument("--quick", action="store_true", help="end within 90 seconds")
    p.add_argument("--threads", type=_threads, default=default, metavar="1,2",
                   help=f"thread counts, default {','.join(map(str, default))}")  # fmt: skip
    p.add_argument("--layouts", type=_layouts, default=["NHWC", "NCHW", "nChw16c"], metavar="A,B",
                   help="of activations, default NHWC,NCHW,nChw16c (NDHWC and so on for 3-D)")  # fmt: skip
    p.add_argument("--dtype", type=_dtypes, default=["float32"], metavar="A,B",
                   help=f"element types, some of {', '.join(DTYPES)} (filters of int8, uint8 in and out); default "
                   "float32")  # fmt: skip
    p.add_argument("--pass", dest="direction", choices=("forward", "backward", "both"), default="forward",
                   help="backward: what gradients of the convolutions are made of; default %(default)s")  # fmt: skip
    p.add_argument("--missing", action="store_true", help="only what the cost table lacks: goes on where a run ended")
    p.add_argument("--json", metavar="FILE", help="write everything measured to FILE (- for standard output)")
    p.add_argument("--report", metavar="FILE", help="write a page with plots to FILE (needs matplotlib)")
    p.add_argument("--time-budget", type=_seconds, metavar="S", help="stop measuring after S seconds")
    p.add_argument("--no-save", action="store_true", help="leave the cost table as it is")
    return p


def requested_cases(args: argparse.Namespace) -> list[Case]:
    """The cases that the arguments ask for; ValueError or OSError for a suite that does not exist or is wrong."""
    cases: list[Case] = []
    for name in args.suite.split(","):
        if name in SUITES:
            cases += SUITES[name](args.layouts, args.threads)
        elif os.path.exists(name):
            cases += listed_cases(name, args.layouts, args.threads)
        else:
            raise ValueError(f"{name!r} is no file and none of {', '.join(SUITES)}")
    cases = in_types(cases, [DTYPES[name] for name in args.dtype])
    if args.direction != "forward":
        cases = backward(cases) if args.direction == "backward" else [*cases, *backward(cases)]
    if args.missing:
        known = set(cost_table.problems())
        cases = [case for case in cases if case.key not in known]
    return cases


class Visit(NamedTuple):
    """A case to measure now, and the seconds that it may take."""

    case: Case
    budget: float

    @property
    def title(self) -> str:
        return self.case.title


def visits(cases: Sequence[Case], caps: Mapping[str, float], end: float | None) -> Iterator[Visit]:
    """Every case `VISITS` times, round by round; none after `end` (of time.perf_counter)."""
    left = VISITS * sum(caps[case.kind] for case in cases)
    for case in [*cases] * VISITS:
        cap = caps[case.kind]
        if end is None:
            yield Visit(case, cap)
        else:
            now = time.perf_counter()
            if now >= end:
                return
            yield Visit(case, min(cap, (end - now) * cap / left))
        left -= cap


def measure(
    todo: Iterable[Visit], limits: Limits, results: dict[Case, Result | None], end: float | None = None,
    save: bool = False,
) -> None:  # fmt: skip
    """Measure cases, and the machine's limit before and after each; results go into `results` as they come, None for
    a case that does not fit into memory.

    Then, until `end`, measure the winning convolutions with cold filters.
    """
    saved = time.perf_counter()
    for case, budget in todo:
        try:
            before = limits.sample(case.unit, case.work, case.threads, case.peak)
            costs = {case.key: measure_task(case.task, budget)}
        except MemoryError:
            costs = {case.key: {}}
        if not costs[case.key]:
            results.setdefault(case, None)
            continue
        samples = [*before, *limits.sample(case.unit, case.work, case.threads, case.peak)]
        if earlier := results.get(case):
            merge(costs, {case.key: earlier.costs})
            samples += earlier.limits
        results[case] = Result(case, costs[case.key], tuple(samples))
        if save and time.perf_counter() > saved + SAVE_EVERY_SECONDS:
            cost_table.save()
            saved = time.perf_counter()
    for case, r in results.items():
        if r and isinstance(case, ConvCase) and case.kind == "conv" and (end is None or time.perf_counter() < end):
            with contextlib.suppress(MemoryError):
                results[case] = replace(r, cold=case.cold(r.order[0]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["compare"]:
        return comparison.main(argv[1:])
    if argv[:1] == ["report"]:
        return page.main(argv[1:])
    start = time.perf_counter()
    command = parser()
    args = command.parse_args(argv)
    for option in ("json", "report"):  # fail now, not after measuring
        file = getattr(args, option)
        if file not in (None, "-") and not os.path.isdir(os.path.dirname(os.path.abspath(file))):
            command.error(f"argument --{option}: no directory for {file!r}")
    if args.report and not page.available():
        command.error("argument --report: needs matplotlib: pip install 'layoutkit[report]'")
    try:
        cases = requested_cases(args)
    except (ValueError, OSError) as error:
        command.error(f"argument --suite: {error}")
    seconds = args.time_budget or (QUICK_SECONDS if args.quick else None)
    caps = {kind: cap[args.quick] for kind, cap in VISIT_SECONDS.items()}
    measured: dict[Case, Result | None] = {}
    slopes: list[dict[str, object]] = []
    text, identity = sys.stderr if args.json == "-" else sys.stdout, machine.identity()
    stop = Stop()
    began = time.time()
    try:
        end = None if seconds is None else start + seconds - min(REST_SECONDS, seconds / 10)
        todo = track(visits(cases, caps, end and start + WARM_SHARE * (end - start)), VISITS * len(cases))
        limits = Limits()
        measure(todo, limits, measured, end, not args.no_save)
        slopes = bandwidths(limits, sorted({case.threads for case in measured if case.kind == "conv"}))
    except KeyboardInterrupt:
        stop = Stop(INTERRUPTED, "interrupted")
    except OSError as error:
        stop = Stop(_cannot_save(error), "the cost table cannot be saved")

    def write_files() -> tuple[list[Result], dict, int]:
        known = set(cost_table.problems())
        results = [r for r in measured.values() if r and r.case.key in known]
        data = {
            "layoutkit": identity["version"], "machine": identity, "suite": args.suite, "quick": args.quick,
            "seconds": time.perf_counter() - start, "left_out": len(cases) - len(results),
            "notes": [*report.busy(results), *blas_threads.notes(), *_missing(cases, measured, results, stop)],
            "results": [r.json() for r in results], "totals": [t.json() for t in report.totals(results)],
            "bandwidths": slopes,
        }  # fmt: skip
        return results, data, _write(data, args)

    # files before text: the reader of a pipe may have closed it
    saved, (results, data, write_code) = finish_steps(lambda: "" if args.no_save else _save(), write_files)
    profiled = ""
    if saved and (seconds is None or seconds >= PROFILE_BUDGET_SECONDS) and not stop.code:
        try:
            profiled = _profile(began)
        except KeyboardInterrupt:
            stop = Stop(INTERRUPTED, "interrupted")
    if args.json == "-":
        print(json.dumps(data, indent=1), flush=True)
    print_folded(
        [
            f"layoutkit {identity['version']} on {identity['cpu']}, {identity['isa']}, {args.suite}",
            *report.lines(results, columns(text)),
            f"\n{len(results)} problems measured in {data['seconds']:.0f} s",
            *data["notes"], *filter(None, [profiled, saved]),
        ],
        text,
    )  # fmt: skip
    return stop.code or write_code or int(saved is None)


class Stop(NamedTuple):
    """Why measuring stopped before all cases were measured, and the exit code."""

    code: int = 0
    why: str = "the time was over"


def _missing(
    cases: Sequence[Case], measured: Mapping[Case, Result | None], results: Sequence[Result], stop: Stop
) -> Iterator[str]:
    """Notes on problems that are not among the results."""
    if left := len(cases) - len(measured):
        yield f"{left} problems were left out: {stop.why}; --missing goes on with them"
    if unfit := sum(r is None for r in measured.values()):
        yield f"{unfit} problems need more memory than there is"
    if disturbed := len(measured) - len(results) - unfit:
        yield f"{disturbed} problems had no undisturbed timing: neither shown nor saved"


def _write(data: dict, args: argparse.Namespace) -> int:
    """Write the JSON file and the page, if asked for, even if the other fails; returns the exit code."""
    code = 0
    for path, write in ((args.json, _write_json), (args.report, page.write)):
        try:
            if path not in (None, "-"):
                write(data, path)
        except OSError as error:
            print(f"layoutkit.bench: {error}", file=sys.stderr)
            code = 1
    return code


def _write_json(data: dict, path: str) -> None:
    with open(path, "w", encoding="utf-8") as f:
        json.dump(data, f, indent=1)


def _profile(began: float) -> str:
    """Measure and save the machine profile unless saving costs did so after the time `began`; returns a message."""
    path = machine_profile.path(cost_table.path)
    try:
        if not path.exists() or path.stat().st_mtime < began:
            machine_profile.save(path, machine_profile.measure())
    except (MemoryError, OSError) as error:
        return f"no machine profile: {error}"
    return f"machine profile: {path}"


def _save() -> str | None:
    """Save the cost table; returns a message, None if it cannot be saved."""
    try:
        path = cost_table.save()
    except OSError as error:
        _cannot_save(error)
        return None
    return f"cost table: {path}, {len(cost_table.problems())} problems"


def _cannot_save(error: OSError) -> int:
    print(f"layoutkit.bench: the cost table cannot be saved: {error}; "
          "LAYOUTKIT_CACHE_DIR names another directory", file=sys.stderr)  # fmt: skip
    return 1
