"""The parts of results.md: which commands measure them, and how the figures are read from what those write."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from layoutkit.bench.report import geomean

PEAK, COPY, FASTER, LONGER = "of the FMA peak", "of a copy", "times as fast", "times as long"
DOT_PEAK = "of the peak of the type's dot products"
NETWORKS = "resnet50", "mobilenet_v2", "vgg16", "resnext101", "unet3d"
SUITES = {
    "large": "reorders of 100 MB",
    "odd": "reorders of odd sizes",
    "permutations": "permutations of four dimensions",
    "cache": "reorders in the caches",
}


class Figure(NamedTuple):
    """A mean, and the least (of shares) or the most (of times) of the values that it is of; None if there is none."""

    what: str
    value: float
    unit: str
    extreme: float | None = None


class Part(NamedTuple):
    """A command that measures, without ``--json FILE``, and how its file is read."""

    command: tuple[str, ...]  # of the folder `bench`
    quick: tuple[str, ...]  # further arguments that make it short, only to see that it works
    read: Callable[[Any], Iterator[Figure]]


def _means(rows: Sequence[dict], key: Callable[[dict], str], unit: str) -> Iterator[Figure]:
    """A figure for each key; a row counts as often as its `count` says."""
    for name in dict.fromkeys(map(key, rows)):
        shares = [r["share"] for r in rows if key(r) == name for _ in range(r.get("count", 1))]
        yield Figure(name, geomean(shares), unit, min(shares))


def _shapes(label: str | None = None, unit: str = PEAK):
    """Figures of shapes.py: each kind in each layout, the kind called `label` if that is given."""
    return lambda rows: _means(rows, lambda r: f"{label or r['kind']}, {r['layout']}", unit)


def _winograd(rows: Sequence[dict]) -> Iterator[Figure]:
    return _means(rows, lambda r: f"3x3 by Winograd, {'at 7x7' if r['size'] < 14 else 'from 14x14 on'}", PEAK)


def _reorders(threads: int):
    suffix = ", two threads" if threads == 2 else ", one thread"
    return lambda rows: _means(rows, lambda r: SUITES[r["case"]] + suffix, COPY)


def _unseen(threads: int):
    name = f"reorders drawn at random, {'two threads' if threads == 2 else 'one thread'}"
    return lambda rows: _means(rows, lambda r: name, COPY)


def _unseen_convs(rows: Sequence[dict]) -> Iterator[Figure]:
    return _means(rows, lambda r: f"convolutions drawn at random, {r['group']}", PEAK)


def _reproducible(ratios: dict[str, list[float]]) -> Iterator[Figure]:
    for kind, values in ratios.items():
        yield Figure(f'"reproducible" over "strict", {kind}', geomean(values), LONGER, max(values))


def _compared(name: str):
    def read(data: dict) -> Iterator[Figure]:
        rows = data["results"]
        for pair in dict.fromkeys(pair for r in rows for pair in r["ratios"]):
            values = [r["ratios"][pair] for r in rows if pair in r["ratios"]]
            yield Figure(f"{name}: {pair.replace('/ packed', '/ torch packed')}", geomean(values), FASTER, min(values))

    return read


def _resnet50(label: str, *arguments: str, unit: str = PEAK) -> Part:
    return Part(("shapes.py", "--only", "resnet50", *arguments), ("--quick",), _shapes(label, unit))


def _of_reorders(threads: int) -> Part:
    command = ("reorder.py", "--cases", ",".join(SUITES), "--threads", str(threads))
    return Part(command, ("--quick", "--rounds", "1"), _reorders(threads))


def _of_unseen(threads: int, seed: int) -> Part:
    command = ("unseen.py", "--threads", str(threads), "--seed", str(seed))
    quick = ("--count", "4", "--rounds", "1")
    return Part(command, quick, _unseen(threads))


def _of_torch(suite: str) -> Part:
    command = ("compare.py", "--quick", "--tuning", "measure", "--cases", "conv", "--suite", suite)
    return Part(command, ("--rounds", "1", "--tuning", "estimate"), _compared(suite))


def _networks(*arguments: str, what: str = "") -> Part:
    def figures(rows: Sequence[dict]) -> Iterator[Figure]:
        values = [r["ratio"] for r in rows]
        name = f"the nine light networks{what} / the better of onnxruntime and OpenVINO"
        yield Figure(name, geomean(values), FASTER, min(values))

    return Part(("networks.py", *arguments), ("--rounds", "1", "--only", "squeezenet"), figures)


def parts(seed: int | None = None) -> dict[str, Part]:
    """The parts by name, in the order in which they are measured; `seed` draws the reorders, a new one by default."""
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    return {
        "resnet50": _resnet50("ResNet-50, strict", "--accuracy", "strict"),
        "resnet50-threads": _resnet50("ResNet-50 on two threads", "--layout", "NHWC", "--threads", "2"),
        "resnet50-cold": _resnet50("ResNet-50, filters met cold", "--layout", "NHWC", "--cold"),
        "resnet50-batch": _resnet50("ResNet-50, batch 16", "--layout", "NHWC", "--batch", "16"),
        **{
            f"resnet50-{dtype}": _resnet50(f"ResNet-50, {dtype}", "--dtype", dtype, "--layout", "NHWC", unit=DOT_PEAK)
            for dtype in ("bfloat16", "int8")
        },
        "winograd": Part(("winograd.py",), ("--quick",), _winograd),
        "shapes": Part(("shapes.py",), ("--quick",), _shapes()),
        "reorder": _of_reorders(1),
        "reorder-threads": _of_reorders(2),
        "unseen": _of_unseen(1, seed),
        "unseen-threads": _of_unseen(2, seed),
        "unseen-convs": Part(
            ("unseen_convs.py", "--count", "12", "--seed", str(seed)), ("--rounds", "1"), _unseen_convs
        ),
        "reproducible": Part(("reproducible.py",), ("--quick", "--shapes", "8"), _reproducible),
        **{f"torch-{suite}": _of_torch(suite) for suite in NETWORKS},
        "random": Part(
            ("compare.py", "--suite", "random", "--seed", str(seed)),
            ("--rounds", "1", "--count", "1"),
            _compared("drawn at random"),
        ),
        **{f"networks-{threads}": _networks("--threads", str(threads)) for threads in (1, 2)},
        **{
            f"networks-{dtype}": _networks("--threads", "2", "--dtype", dtype, what=f", {dtype}")
            for dtype in ("bfloat16", "int8")
        },
        "numpy": Part(("compare.py", "--quick", "--cases", "reorder"), ("--rounds", "1"), _compared("reorders")),
    }
