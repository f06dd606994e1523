"""Whole networks against onnxruntime and OpenVINO: the nine that the onnx package carries, those of zoo/, or your own.

Every runtime has its own process for each network; they are woken in turns, the idle ones blocked on a pipe. A ratio is
of one round; medians are told, and who computed something else: of the zoo than torch in float64, else than we did (the
tests hold ours against the results that come with the networks).
"""

from __future__ import annotations

import argparse
import compileall
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import onnx
from compare import Contender, number
from quantise import quantised

import layoutkit
from layoutkit.bench.report import geomean
from layoutkit.choosing import machine

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RUNTIMES = "layoutkit", "onnxruntime", "openvino"
REST_SECONDS = 0.05  # between turns: runtimes spin for a while after a call
TOLERANCES = {"float32": 2e-3, "bfloat16": 0.1, "int8": 0.5}  # of the largest result
ZOO_TOLERANCE = 1e-4  # of float32, held against float64


def cases(args: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """The networks: of which file, and what they take; in int8 they are quantised into `folder`."""
    for path in files(args, folder):
        title = path.stem.removeprefix("light_")
        if not asked_for(title, args.only):
            continue
        model = onnx.load(path, load_external_data=False)
        constants = {t.name for t in model.graph.initializer}
        inputs = {v.name: [d.dim_value or 1 for d in v.type.tensor_type.shape.dim]
                  for v in model.graph.input if v.name not in constants}  # fmt: skip
        if args.dtype == "int8":
            path = quantised(path, folder, inputs)
        yield {"kind": "network", "title": title, "path": str(path), "inputs": inputs, "random": args.zoo,
               "accuracy": args.accuracy, "dtype": "float32" if args.dtype == "int8" else args.dtype,
               "openvino": "bf16" if args.dtype == "bfloat16" else "f32"}  # fmt: skip


def files(args: argparse.Namespace, folder: Path) -> list[Path]:
    """The models; those of the zoo are exported, unless `args.folder` has them from a call before."""
    if not args.zoo:
        return [Path(name) for name in args.models] or sorted(LIGHT.glob("light_*.onnx"))
    folder = Path(args.folder) if args.folder else folder
    folder.mkdir(parents=True, exist_ok=True)
    # in a process of its own: what it takes must not count as the memory of the processes that are compared
    process = multiprocessing.get_context("spawn").Process(target=export, args=(args.only, folder, args.exporter))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit("networks.py: the export has failed, see its message above")
    return sorted(folder.glob("*.onnx"))


def export(only: str | None, folder: Path, exporter: str) -> None:
    """Export the networks of the zoo that are asked for, and not there yet."""
    from zoo import ZOO
    from zoo.export import exported

    for name in ZOO:
        if asked_for(name, only) and not (folder / f"{name}.onnx").exists():
            exported(name, folder, exporter)


def asked_for(title: str, only: str | None) -> bool:
    """Whether a network has one of the words in its name."""
    return not only or any(word in title for word in only.split(","))


def apart(got: list[list[float]], want: list[list[float]]) -> float:
    """How far results are apart at most, as a share of the largest number of each."""
    if [len(a) for a in got] != [len(b) for b in want]:
        return float("inf")
    return max(max(abs(x - y) for x, y in zip(a, b)) / (max(map(abs, b)) or 1.0) for a, b in zip(got, want))


def errors(case: dict, ready: dict[str, dict]) -> dict[str, float]:
    """How far the results of each runtime are from those of torch in float64, or from ours where there are none."""
    truth = Path(case["path"]).with_suffix(".json")
    there = case["random"] and truth.exists()
    want = json.loads(truth.read_text()) if there else ready["layoutkit"]["digests"]["layoutkit"]
    return {name: apart(answer["digests"][name], want) for name, answer in ready.items()}


def play(case: dict, args: argparse.Namespace) -> dict:
    """All runtimes on one network; milliseconds, seconds until the first result, peak memory."""
    contenders = [Contender(name, args.threads, "estimate") for name in RUNTIMES]
    there = [c for c in contenders if not c.missing]
    ready = {c.name: c.ask(do="prepare", case=case) for c in there}
    refused = {name: answer["refused"] for name, answer in ready.items() if "refused" in answer}
    if refused:
        for c in contenders:
            c.close()
        return {"title": case["title"], "refused": refused}
    most = ZOO_TOLERANCE if args.zoo and args.dtype == "float32" else TOLERANCES[args.dtype]
    off = errors(case, ready)
    differ = [name for name, error in off.items() if not error <= most]
    times: dict[str, list[float]] = {c.name: [] for c in there}
    for _ in range(args.rounds):
        for c in there:
            time.sleep(REST_SECONDS)
            times[c.name].append(c.ask(do="run", way=c.name, seconds=args.seconds)["seconds"])
    memory = {c.name: c.ask(do="memory")["bytes"] for c in there}
    for c in contenders:
        c.close()
    others = [name for name in times if name != "layoutkit"]
    best = min(others, key=lambda name: median(times[name])) if others else "layoutkit"
    return {
        "title": case["title"], "milliseconds": {name: 1e3 * median(t) for name, t in times.items()},
        "first": {name: answer["seconds"] for name, answer in ready.items()}, "bytes": memory,
        "errors": off, "differ": differ, "ratio": median(b / a for a, b in zip(times["layoutkit"], times[best])),
    }  # fmt: skip


def first_results(case: dict, args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Seconds until the first result and MB at most, medians, each of a new process: of ours one that finds nothing
    decided (empty `LAYOUTKIT_CACHE_DIR`), and the one after it."""
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["LAYOUTKIT_CACHE_DIR"] = cache
            for title, name in {"the first process": RUNTIMES[0], **{name: name for name in RUNTIMES}}.items():
                contender = Contender(name, args.threads, "estimate")
                if not contender.missing:
                    seconds = contender.ask(do="prepare", case=case).get("seconds", float("nan"))
                    found.setdefault(title, []).append((seconds, contender.ask(do="memory")["bytes"] / 1e6))
                contender.close()
    return {title: tuple(map(median, zip(*each))) for title, each in found.items()}


def print_first_results(args: argparse.Namespace, folder: Path) -> None:
    """A line a network: first results, and the share of what they may take."""
    print(f"{'':<16}{'first process':>16}" + "".join(f"{name:>16}" for name in RUNTIMES)
          + "   both of ours in 2x onnxruntime's + 0.3 s, memory in the better's")  # fmt: skip
    for case in cases(args, folder):
        r = first_results(case, args)
        columns = "".join(f"{seconds:9.2f} {most:6.0f}" for seconds, most in r.values())
        ours, others = list(r.values())[:2], list(r.values())[2:]
        told = ""
        if others:
            limit = 2 * others[0][0] + 0.3
            told = "".join(f"{seconds / limit:6.2f}" for seconds, _ in ours)
            told += f"{ours[0][1] / min(most for _, most in others):6.2f}"
        print(f"{case['title']:<16}{columns}   {told}", flush=True)


def differing(row: dict) -> str:
    """Who computed something else, and by how much."""
    if not row["differ"]:
        return ""
    return ", computed something else: " + ", ".join(f"{name} {error:.1e}" for name, error in row["errors"].items())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="networks.py", description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", help="ONNX files; default: those of the onnx package")
    p.add_argument("--zoo", action="store_true", help="the networks of zoo/ (needs torch)")
    p.add_argument("--exporter", choices=("script", "dynamo"), default="script", help="torch's, default %(default)s")
    p.add_argument("--folder", help="keep the exported networks here, and use those that are here already")
    p.add_argument("--threads", type=number, default=1, help="of every runtime, default %(default)s")
    p.add_argument("--rounds", type=number, default=9, help="default %(default)s")
    p.add_argument("--seconds", type=float, default=0.2, help="of a turn, default %(default)s")
    p.add_argument("--only", help="networks with one of these words in their names: resnet,vgg")
    p.add_argument("--accuracy", default="standard", help="of our convolutions, default %(default)s")
    types = "bfloat16: ours and OpenVINO's; int8: models that onnxruntime has quantised; default %(default)s"
    p.add_argument("--dtype", choices=TOLERANCES, default="float32", help=types)
    p.add_argument("--first", action="store_true", help="only first results, of new processes, and what they hold")
    p.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    args = p.parse_args(argv)
    # as installed: pip compiles what it installs, an editable install does not keep what it compiles
    compileall.compile_dir(Path(layoutkit.__file__).parent, quiet=1)
    print(f"{machine.cpu_model()}, {machine.identity()['isa']}, {args.threads} thread(s), batch 1, {args.accuracy}: ms "
          "a run; s until the first result, MB at most")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        if args.first:
            print_first_results(args, Path(folder))
            return 0
    print(f"{'':<16}" + "".join(f"{name:>26}" for name in RUNTIMES) + "   times as fast as the better")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(args, Path(folder)):
            r = play(case, args)
            if "refused" in r:
                why = "; ".join(f"{name}: {reason}" for name, reason in r["refused"].items())
                print(f"{r['title']:<16}refused: {why}", flush=True)
                continue
            rows.append(r)
            columns = (
                f"{r['milliseconds'][n]:11.2f} {r['first'][n]:6.2f} {r['bytes'][n] / 1e6:7.0f}" for n in r["bytes"]
            )
            print(f"{r['title']:<16}{''.join(columns)}   {r['ratio']:.2f}{differing(r)}", flush=True)
    if rows:
        print(f"geometric mean {geomean(r['ratio'] for r in rows):.2f}, least {min(r['ratio'] for r in rows):.2f}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
