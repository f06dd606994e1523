"""Whole networks against onnxruntime and OpenVINO: the nine that the onnx package carries, or models of your own.

Every runtime has its own process for each network; they are woken in turns, the idle ones blocked on a pipe. A ratio is
of one round; medians are told, and who computed something else than we did: the tests hold ours against the results
that come with the networks.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import onnx
from compare import Contender, number
from quantise import quantised

from layoutkit.bench.report import geomean
from layoutkit.choosing import machine

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RUNTIMES = "layoutkit", "onnxruntime", "openvino"
REST_SECONDS = 0.05  # between turns: runtimes spin for a while after a call
TOLERANCES = {"float32": 2e-3, "bfloat16": 0.1, "int8": 0.5}  # of the largest result


def cases(args: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """The networks: of which file, and what they take; in int8 they are quantised into `folder`."""
    files = [Path(name) for name in args.models] or sorted(LIGHT.glob("light_*.onnx"))
    for path in files:
        title = path.stem.removeprefix("light_")
        if args.only and not any(word in title for word in args.only.split(",")):
            continue
        model = onnx.load(path, load_external_data=False)
        given = {t.name for t in model.graph.initializer}
        (value,) = (v for v in model.graph.input if v.name not in given)
        shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
        if args.dtype == "int8":
            path = quantised(path, folder, value.name, shape)
        yield {"kind": "network", "title": title, "path": str(path), "input": value.name, "shape": shape,
               "accuracy": args.accuracy, "dtype": "float32" if args.dtype == "int8" else args.dtype,
               "openvino": "bf16" if args.dtype == "bfloat16" else "f32"}  # fmt: skip


def play(case: dict, args: argparse.Namespace) -> dict:
    """All runtimes on one network; milliseconds, seconds until the first result, peak memory."""
    contenders = [Contender(name, args.threads, "estimate") for name in RUNTIMES]
    there = [c for c in contenders if not c.missing]
    ready = {c.name: c.ask(do="prepare", case=case) for c in there}
    want = ready["layoutkit"]["digests"]["layoutkit"]
    differ, most = [], TOLERANCES[args.dtype] * max(map(abs, want))
    for name, answer in ready.items():
        got = answer["digests"][name]
        if len(got) != len(want) or max(abs(a - b) for a, b in zip(got, want)) > most:
            differ.append(name)
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
        "differ": differ, "ratio": median(b / a for a, b in zip(times["layoutkit"], times[best])),
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; returns its exit code."""
    p = argparse.ArgumentParser(prog="networks.py", description=__doc__.splitlines()[0])
    p.add_argument("models", nargs="*", help="ONNX files with one input; default: those of the onnx package")
    p.add_argument("--threads", type=number, default=1, help="of every runtime, default %(default)s")
    p.add_argument("--rounds", type=number, default=9, help="default %(default)s")
    p.add_argument("--seconds", type=float, default=0.2, help="of a turn, default %(default)s")
    p.add_argument("--only", help="networks with one of these words in their names: resnet,vgg")
    p.add_argument("--accuracy", default="standard", help="of our convolutions, default %(default)s")
    types = "bfloat16: ours and OpenVINO's; int8: models that onnxruntime has quantised; default %(default)s"
    p.add_argument("--dtype", choices=TOLERANCES, default="float32", help=types)
    p.add_argument("--json", metavar="FILE", help="write every figure to FILE")
    args = p.parse_args(argv)
    print(f"{machine.cpu_model()}, {machine.identity()['isa']}, {args.threads} thread(s), batch 1, {args.accuracy}: ms "
          "a run; s until the first result, MB at most")  # fmt: skip
    print(f"{'':<14}" + "".join(f"{name:>26}" for name in RUNTIMES) + "   times as fast as the better")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(args, Path(folder)):
            r = play(case, args)
            rows.append(r)
            told = (f"{r['milliseconds'][n]:11.2f} {r['first'][n]:6.2f} {r['bytes'][n] / 1e6:7.0f}" for n in r["bytes"])
            differ = f", {' and '.join(r['differ'])} computed something else" * bool(r["differ"])
            print(f"{r['title']:<14}{''.join(told)}   {r['ratio']:.2f}{differ}", flush=True)
    if rows:
        print(f"geometric mean {geomean(r['ratio'] for r in rows):.2f}, least {min(r['ratio'] for r in rows):.2f}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
