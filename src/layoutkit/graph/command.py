"""``python -m layoutkit run MODEL``: run an ONNX model, profile it, compare it, write a page."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..choosing import machine
from ..choosing.table import cost_table
from ..choosing.threads import get_num_threads
from ..choosing.tuning import tuning
from .advice import advice
from .loading import TOLERANCE, load
from .model import DTYPES, Model
from .others import RUNTIMES, run_other
from .page import page, table
from .quantize.samples import samples_in

STEADY = 0.1  # what the same runs may differ by before and after a comparison that can be trusted


def main(argv: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="python -m layoutkit run", description=__doc__.split(": ", 1)[1])
    p.add_argument("model", type=Path, help="an ONNX file")
    p.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy", help="default: random numbers")
    p.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x224x224", help="of an input that is drawn")
    p.add_argument("--threads", type=_count, help="at most; default: all that layoutkit may use")
    p.add_argument("--rounds", type=_count, default=20, help="runs that are timed, default %(default)s")
    p.add_argument("--accuracy", default="standard", help="of convolutions, default %(default)s")
    p.add_argument("--dtype", choices=(*DTYPES, "auto"), default="float32",
                   help="what is multiplied, default %(default)s; auto: the fastest within --tolerance")  # fmt: skip
    p.add_argument("--samples", type=Path, metavar="FILE.npz",
                   help="for auto: inputs by name, the first axis counts samples; or FILE.npy of one")  # fmt: skip
    p.add_argument("--tolerance", type=float,
                   help=f"for auto: error over the largest output, at most, default {TOLERANCE}")  # fmt: skip
    p.add_argument("--tune", action="store_true", help="measure what the cost table lacks first")
    p.add_argument("--compare", choices=RUNTIMES, help="run this as well, in a process of its own")
    p.add_argument("--html", "--profile", type=Path, metavar="PAGE.html",
                   help="write where the time goes as a page, what costs most first")  # fmt: skip
    p.add_argument("--explain", action="store_true", help="print every step and the layouts of its results")
    args = p.parse_args(argv)
    if args.tune:
        tuning("measure")
    try:
        model = _loaded(args)
        inputs = _inputs(model, args.input, args.shape)
        report = _report(model, inputs, args)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        p.error(str(error))
    print(report)
    return 0


def _loaded(args: argparse.Namespace) -> Model:
    """The model in the type that is asked for."""
    options: dict[str, Any] = {"threads": args.threads, "accuracy": args.accuracy, "dtype": args.dtype}
    if args.dtype == "auto":
        if args.samples is None:
            raise ValueError("--dtype auto measures times and errors: give it inputs like yours, --samples FILE.npz")
        options |= {"samples": samples_in(args.samples)}
        options |= {} if args.tolerance is None else {"tolerance": args.tolerance}
    elif args.samples is not None or args.tolerance is not None:
        raise ValueError(f"--samples and --tolerance are for --dtype auto, got --dtype {args.dtype}")
    return load(args.model, **options)


def _report(model: Model, inputs: Mapping[str, np.ndarray], args: argparse.Namespace) -> str:
    start = time.perf_counter()
    outputs = model.run(inputs)
    planned, ours = time.perf_counter() - start, _seconds(model, inputs, args.rounds)
    summary, _, steps = model.explain({name: x.shape for name, x in inputs.items()}).partition("\n\n")
    lines = [summary.partition("\nfused:")[0], *([steps] if args.explain else [])]  # the profile tells what was fused
    lines.append(
        f"{1e3 * ours:.3f} ms a run, median of {args.rounds}; the first with planning {planned:.2f} s; "
        "what was predicted is of costs measured at other times, or estimated"
    )
    profile = model.profile(inputs)
    lines += [str(profile), "by operator:", *table(profile)]
    if args.compare:
        other = run_other(args.compare, args.model, inputs, args.threads or get_num_threads(), args.rounds)
        apart = max((_apart(a, b) for a, b in zip(outputs.values(), other.outputs)), default=0.0)
        lines.append(f"{args.compare}: {1e3 * other.seconds:.3f} ms a run, {other.seconds / ours:.2f} times as long; "
                     f"results differ by {apart:.1e} of the largest")  # fmt: skip
        lines.append(_steady(ours, _seconds(model, inputs, args.rounds)))
    todo = list(advice(profile.steps, profile.threads, get_num_threads(), bool(cost_table.problems())))
    lines.append("what to do: " + " ".join(todo))
    if args.html:
        here = machine.identity()
        on = f"{here['cpu']}, {here['isa']}, {profile.threads} of {here['cores']} cores; layoutkit {here['version']}"
        args.html.write_text(page(args.model.name, todo, on, "\n".join(lines), profile), encoding="utf-8")
    return "\n".join(lines)


def _seconds(model: Model, inputs: Mapping[str, np.ndarray], rounds: int) -> float:
    """The median of so many runs."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        model.run(inputs)
        times.append(time.perf_counter() - start)
    return median(times)


def _steady(before: float, after: float) -> str:
    """Whether a comparison is of equally quiet minutes, by what layoutkit took before and after."""
    text = f"layoutkit took {1e3 * before:.3f} ms before that and {1e3 * after:.3f} ms after"
    unequal = max(before, after) > (1 + STEADY) * min(before, after)
    return text + ": the minutes were not equally quiet, compare again" * unequal


def _apart(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference, relative to the largest number."""
    if a.shape != b.shape:
        raise ValueError(f"results of shapes {a.shape} and {b.shape}")
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), np.finfo(float).tiny))


def _inputs(model: Model, files: Sequence[str], shapes: Sequence[str]) -> dict[str, np.ndarray]:
    """An array for every input: from a file, or random."""
    inputs = {name: np.load(file, allow_pickle=False) for name, file in map(_pair, files)}
    wanted = {name: tuple(int(n) for n in text.split("x")) for name, text in map(_pair, shapes)}
    rng = np.random.default_rng(0)
    unknown = [name for name in (*inputs, *wanted) if name not in model.inputs]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no input; the inputs are {', '.join(model.inputs)}")
    for name, of in model.graph.inputs.items():
        if name in inputs:
            continue
        shape = wanted.get(name, tuple(n if isinstance(n, int) else 1 for n in of.shape))
        drawn = rng.uniform(-1, 1, shape)
        inputs[name] = (drawn if of.dtype.kind not in "biu" else np.zeros(shape)).astype(of.dtype)
    return inputs


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.rpartition("=")
    if not separator:
        raise ValueError(f"{text!r}: expected NAME=VALUE")
    return name, value


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return int(text)
