"""Filters of images and volumes against scipy.ndimage, OpenCV and torch, and against the copies that they need.

Every library has a process of its own, woken in turns, the idle ones blocked on a pipe; all get the same array
and an output that is there. Images of 16 to 64 MB and volumes of 64 MB, with types and windows drawn; the seed is told.
With `--small`, arrays of 64 to 16,000 elements, whose calls are timed a hundred at a time, as programs make them.
Ratios are of one round, medians are told. "copies": the time over that of numpy's copy of the input to an output of its
type, which a filter that reads and writes all needs at least once.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
from compare import POOLS

from layoutkit.bench.report import geomean

REST_SECONDS = 0.02
# docs/ndimage.md's table: its columns, and its filters with what they take.
COLUMNS = [((2048, 2048), "uint8"), ((2048, 2048), "float32"), ((128, 128, 128), "float32")]
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("gaussian_filter", {"sigma": 2}), ("uniform_filter", {"size": 5}), ("median_filter", {"size": 3}),
    ("minimum_filter", {"size": 9}), ("sobel", {}), ("white_tophat", {"size": 7}), ("zoom", {"zoom": 0.8, "order": 1}),
]  # fmt: skip
# Where scipy is as fast, or nearly: docs/ndimage.md.
LIMITS: list[tuple[str, tuple[int, ...], str, dict[str, Any]]] = [
    ("median_filter", (100_000,), "float32", {"size": 301}), ("median_filter", (500, 500), "uint8", {"size": 15}),
    ("uniform_filter", (2048, 2048), "float32", {"size": 101}),
    ("uniform_filter", (2048, 2048), "uint8", {"size": 101}),
    ("zoom", (2048, 2048), "uint8", {"zoom": 0.8, "order": 1}),
    ("affine_transform", (2048, 2048), "uint8", {"order": 1}),
    ("affine_transform", (1024, 1024), "float32", {"order": 3}),
]  # fmt: skip
ALONG_AXES = ("gaussian_filter", "uniform_filter")  # of which the copies are told once more by axis
SHAPES = [(4096, 4096), (2048, 4096), (3000, 5000), (256, 256, 256), (130, 360, 350)]
SMALL_SHAPES = [(8, 8), (16, 16), (28, 28), (32, 50), (64, 64), (128, 120), (8, 9, 10), (20, 20, 20)]
CALLS = 100  # of small arrays, in a burst


def cases(rng: random.Random, count: int, shapes: Sequence[tuple[int, ...]]) -> Iterator[dict]:
    """Filters with what they take, each as often as the others."""
    filters: dict[str, Callable[[int], dict]] = {
        "gaussian_filter": lambda rank: dict(sigma=rng.choice([1.0, 1.5, 2.0, 3.0])),
        "uniform_filter": lambda rank: dict(size=rng.choice([3, 5, 7, 11])),
        "minimum_filter": lambda rank: dict(size=rng.choice([3, 5, 9])),
        "median_filter": lambda rank: dict(size=3 if rank == 3 else rng.choice([3, 5])),
        "sobel": lambda rank: dict(axis=rng.randrange(rank)),
        "laplace": lambda rank: {},
        "correlate": lambda rank: dict(weights=[rng.choice([3, 5])] * rank),
        "grey_opening": lambda rank: dict(size=rng.choice([3, 7])),
        # elements are areas, as OpenCV has them: other zooms are of other points
        "zoom": lambda rank: dict(zoom=rng.choice([0.5, 0.8]), order=1, grid_mode=True, mode="nearest"),
        "affine_transform": lambda rank: dict(order=rng.choice([0, 1])),
    }
    names = list(filters) * (count // len(filters) + 1)
    for name in names[:count]:
        shape = rng.choice(shapes)
        dtype = rng.choice(["uint8", "uint16", "float32"])
        yield dict(name=name, shape=shape, dtype=dtype, arguments=filters[name](len(shape)))


def arguments(case: dict) -> dict[str, Any]:
    """The arguments of a case as scipy takes them."""
    rng, given = np.random.default_rng(1), dict(case["arguments"])
    rank = len(case["shape"])
    if "weights" in given:
        given["weights"] = rng.standard_normal(given["weights"]).round(2)
    if case["name"] == "affine_transform":
        given["matrix"] = np.eye(rank) + 0.02 * rng.standard_normal((rank, rank))
    return given


def data(case: dict) -> np.ndarray:
    """An image with noise."""
    rng = np.random.default_rng(0)
    x = rng.random(case["shape"], np.float32) * 250
    return x.astype(case["dtype"])


def call_of(library: str, case: dict, threads: int) -> Callable[[], np.ndarray] | None:
    """A call without arguments, or None if the library has no equivalent."""
    x, given, name = data(case), arguments(case), case["name"]
    if library in ("layoutkit", "scipy"):
        module = importlib.import_module("layoutkit.ndimage" if library == "layoutkit" else "scipy.ndimage")
        if name != "zoom":
            given["output"] = np.zeros_like(x)
        if library == "layoutkit":
            given["threads"] = threads
        return lambda: getattr(module, name)(x, **given)
    if library == "copy":
        out = np.zeros_like(x)
        return lambda: np.copyto(out, x)
    return opencv(x, name, given) if library == "opencv" else torches(x, name, given)


def opencv(x: np.ndarray, name: str, given: dict[str, Any]) -> Callable[[], np.ndarray] | None:
    """Of images: with its own edges, which the time does not depend on."""
    import cv2

    if x.ndim != 2:
        return None
    out, edge = np.zeros_like(x), cv2.BORDER_REFLECT
    if name == "gaussian_filter":
        size = 2 * int(4 * given["sigma"] + 0.5) + 1
        return lambda: cv2.GaussianBlur(x, (size, size), given["sigma"], out, borderType=edge)
    if name == "uniform_filter":
        return lambda: cv2.blur(x, (given["size"],) * 2, out, borderType=edge)
    if name == "median_filter":
        return lambda: cv2.medianBlur(x, given["size"], out)
    if name in ("minimum_filter", "grey_opening"):
        kernel = np.ones((given["size"],) * 2, np.uint8)
        if name == "minimum_filter":
            return lambda: cv2.erode(x, kernel, out, borderType=edge)
        return lambda: cv2.morphologyEx(x, cv2.MORPH_OPEN, kernel, out, borderType=edge)
    if name == "sobel" and x.dtype == np.float32:
        return lambda: cv2.Sobel(x, -1, int(given["axis"] == 1), int(given["axis"] == 0), out, borderType=edge)
    if name == "laplace" and x.dtype == np.float32:
        return lambda: cv2.Laplacian(x, -1, out, 1, borderType=edge)
    if name == "correlate" and x.dtype == np.float32:
        return lambda: cv2.filter2D(x, -1, given["weights"], out, borderType=edge)
    if name == "affine_transform":
        m = given["matrix"][::-1, ::-1]
        m = np.column_stack([m, np.zeros(2)])
        flags = cv2.WARP_INVERSE_MAP | (cv2.INTER_LINEAR if given["order"] else cv2.INTER_NEAREST)
        return lambda: cv2.warpAffine(x, m, x.shape[::-1], out, flags=flags)
    if name == "zoom":
        shape = tuple(round(n * given["zoom"]) for n in x.shape)
        return lambda: cv2.resize(x, shape[::-1], interpolation=cv2.INTER_LINEAR)
    return None


def torches(x: np.ndarray, name: str, given: dict[str, Any]) -> Callable[[], np.ndarray] | None:
    """Of float32: convolutions along the axes, and poolings."""
    import torch
    from torch.nn import functional as f

    if x.dtype != np.float32:
        return None
    t, rank = torch.from_numpy(x)[None, None], x.ndim
    conv = f.conv2d if rank == 2 else f.conv3d
    if name == "gaussian_filter":
        radius = int(4 * given["sigma"] + 0.5)
        at = torch.arange(-radius, radius + 1, dtype=torch.float32)
        w = torch.exp(-(at**2) / (2 * given["sigma"] ** 2))
        w /= w.sum()
        sides = [[-1 if i == j else 1 for j in range(rank)] for i in range(rank)]
        filters = [w.reshape(1, 1, *side) for side in sides]

        def run() -> torch.Tensor:
            y = t
            for i, w in enumerate(filters):
                y = conv(y, w, padding=[radius if i == j else 0 for j in range(rank)])
            return y

        return run
    if name == "uniform_filter":
        pool = f.avg_pool2d if rank == 2 else f.avg_pool3d
        return lambda: pool(t, given["size"], 1, given["size"] // 2)
    if name == "minimum_filter":
        pool = f.max_pool2d if rank == 2 else f.max_pool3d
        return lambda: pool(t, given["size"], 1, given["size"] // 2)
    if name == "correlate":
        w = torch.from_numpy(given["weights"].astype(np.float32))[None, None]
        return lambda: conv(t, w, padding=w.shape[-1] // 2)
    return None


def work(library: str, threads: int) -> None:
    """Serve one library: a line asks, a line answers."""
    if library == "opencv":
        import cv2

        cv2.setNumThreads(threads)
    elif library == "torch":
        import torch

        torch.set_num_threads(threads)
    call: Callable[[], Any] | None = None
    for line in sys.stdin:
        request = json.loads(line)
        if "case" in request:
            call = call_of(library, request["case"], threads)
            if call is not None:
                call()
            print(json.dumps({"has": call is not None}), flush=True)
        elif call is not None:
            calls = request["run"]
            start = time.perf_counter()
            for _ in range(calls):
                call()
            print(json.dumps({"seconds": (time.perf_counter() - start) / calls}), flush=True)


class Process:
    """A library in a process of its own."""

    def __init__(self, library: str, threads: int) -> None:
        env = os.environ | dict.fromkeys(POOLS, str(threads))
        self.name = f"{library} {threads}"
        command = [sys.executable, __file__, "--work", library, "--threads", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(self, request: dict) -> dict:
        """The answer to a request."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def cell(processes: Sequence[Process], case: dict, rounds: int) -> str:
    """Ours and theirs: medians of so many calls of each, and how many times as fast ours is."""
    times: list[list[float]] = [[] for _ in processes]
    for p in processes:
        p.ask({"case": case})
    for _ in range(rounds):
        for p, found in zip(processes, times):
            found.append(p.ask({"run": 1})["seconds"])
            time.sleep(REST_SECONDS)
    a, b = map(median, times)
    ours, theirs = (f"{t * 1e3:.{3 if t < 1e-3 else digits}f}" for t, digits in ((a, 1), (b, 0)))
    return f"{ours} ms, scipy {theirs}: {b / a:.{1 if b < 10 * a else 0}f} x"


def call_text(name: str, given: dict[str, Any]) -> str:
    """A call as it is written."""
    return f"`{name}({', '.join(f'{k}={v}' for k, v in given.items())})`"


def table(rounds: int) -> None:
    """Print the table of docs/ndimage.md, one thread."""
    processes = Process("layoutkit", 1), Process("scipy", 1)
    print("| | " + " | ".join(f"{' x '.join(map(str, shape))} {dtype}" for shape, dtype in COLUMNS) + " |")
    print("|---|" + "---|" * len(COLUMNS))
    for name, given in ROWS:
        cells = [
            cell(processes, dict(name=name, shape=shape, dtype=dtype, arguments=given), rounds)
            for shape, dtype in COLUMNS
        ]
        print(f"| {call_text(name, given)} | " + " | ".join(cells) + " |", flush=True)


def limits(rounds: int) -> None:
    """Print where scipy is as fast, or nearly, one thread."""
    processes = Process("layoutkit", 1), Process("scipy", 1)
    print("| | array | time |\n|---|---|---|")
    for name, shape, dtype, given in LIMITS:
        found = cell(processes, dict(name=name, shape=shape, dtype=dtype, arguments=given), rounds)
        print(f"| {call_text(name, given)} | {' x '.join(map(str, shape))} {dtype} | {found} |", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(1000))
    parser.add_argument("--count", type=int, default=20, help="cases")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="a filter")
    parser.add_argument("--small", action="store_true", help="of small arrays, without --table and --limits")
    parser.add_argument("--table", action="store_true", help="print the table of docs/ndimage.md instead")
    parser.add_argument("--limits", action="store_true", help="print where scipy is as fast, or nearly, instead")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.work, options.threads)
    if options.table:
        return table(options.rounds)
    if options.limits:
        return limits(options.rounds)
    processes = [Process("layoutkit", 1), Process("layoutkit", 2), Process("copy", 1), Process("scipy", 1)]
    for library, module in (("opencv", "cv2"), ("torch", "torch")):
        if importlib.util.find_spec(module):
            processes.append(Process(library, 1))
    print(
        f"seed {options.seed}; times of layoutkit on one thread and on two, and how many times theirs are those on one"
    )
    ratios: dict[str, list[float]] = {}
    by_filter: dict[str, dict[str, list[float]]] = {}
    axes: dict[str, list[tuple[float, float]]] = {}
    shapes, calls = (SMALL_SHAPES, CALLS) if options.small else (SHAPES, 1)
    for case in cases(random.Random(options.seed), options.count, shapes):
        if options.only and case["name"] != options.only:
            continue
        taking = [p for p in processes if p.ask({"case": case})["has"]]
        times: dict[str, list[float]] = {p.name: [] for p in taking}
        for i in range(options.rounds):
            for p in taking:
                if i and p.name == "scipy 1" and not options.small:
                    continue  # which is long, and steady
                times[p.name].append(p.ask({"run": calls})["seconds"])
                time.sleep(REST_SECONDS)
        at = {name: median(t) for name, t in times.items()}
        ours = at["layoutkit 1"]
        told = {
            name.split()[0]: at[name] / ours for name in at if not name.startswith("layoutkit") and name != "copy 1"
        }
        copies = [at[f"layoutkit {n}"] / at["copy 1"] for n in (1, 2)]
        for name, ratio in told.items():
            ratios.setdefault(name, []).append(ratio)
            by_filter.setdefault(name, {}).setdefault(case["name"], []).append(ratio)
        if case["name"] in ALONG_AXES:
            axes.setdefault(case["name"], []).append((copies[0], copies[0] / len(case["shape"])))
        what = f"{case['name']} {'x'.join(map(str, case['shape']))} {case['dtype']} " + " ".join(
            f"{k}={v}" for k, v in case["arguments"].items()
        )
        others = "  ".join(f"{name} {ratio:5.1f}" for name, ratio in told.items())
        unit, scale = ("us", 1e6) if options.small else ("ms", 1e3)
        print(
            f"{what:<58} {ours * scale:7.1f} {unit} {at['layoutkit 2'] * scale:7.1f} {unit}"
            f"  copies {copies[0]:4.1f} {copies[1]:4.1f}  {others}",
            flush=True,
        )
    for name, found in ratios.items():
        print(f"{name}: geometric mean {geomean(found):.1f}, least {min(found):.1f}, of {len(found)}")
        each = sorted((geomean(r), f) for f, r in by_filter[name].items())
        print("  by filter: " + ", ".join(f"{f} {mean:.1f}" for mean, f in each))
    for name, both in axes.items():
        alone, by_axis = (f"{min(c):.1f} to {max(c):.1f}" for c in zip(*both))
        print(f"{name}: {alone} copies; {by_axis} of the copies that it needs at least, one for each axis")


if __name__ == "__main__":
    main()
