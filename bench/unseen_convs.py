"""Convolutions that nobody tuned: ``python bench/unseen_convs.py [--seed N] [--count 6] [--threads 1] [--exhaustive]``.

Problems are drawn with a fresh seed unless one is given, `--count` of every group, in NHWC, NCHW or nChw16c alike,
batch 1 (four in five) or 2 to 8. Sizes are log-uniform: of maps 7 to 112, of channels 8 to 512 (half of them multiples
of 16, a quarter of 4), and drawn again until the layer has 20 to 800 million operations (depthwise: 2 to 200).
Groups:

- dense: strict accuracy, 1x1 (a third), 3x3, 5x5, 7x7, 1x3 or 3x1; stride 1, a quarter 2; dilation 1, a sixth 2;
  padded so that size stays (four in five), or not at all
- 3x3: standard accuracy, 32 channels and more, stride 1, padded by 1 (four in five) or 0
- depthwise: 3x3 (half), 5x5, 7x7; stride 1, a third 2
- groups: 4 to 32 channels in each of 2 to 32
- odd: as dense, channels from 17 to 100 that are no multiple of 8
- 3-D: 3x3x3 (two in three) or 1x3x3, 8 to 128 channels
- first: 1 to 4 channels to 16 to 128, 3x3 to 11x11, stride 1 or 2, maps of 64 to 320

Each runs by what a fresh installation picks, with its filter packed, in turns with the FMA peak of as many threads; a
share is of that peak, least times of the rounds each, direct operations counted whatever runs. With `--exhaustive` all
candidates run as well, and the pick's time over the best one's is told. `--dtype bfloat16`, `float16`, `float64` or
`int8` (uint8 in and out): the peak is that of the type's multiply-adds, of float16 that of float32.

Instead of what is drawn, layers that are given: ``--layer ic=64,oc=64,size=56,kernel=5,groups=8``, as often as wanted,
with the fields of `layoutkit.bench.layers.Layer` (padded so that size stays, if not given), in all layouts or that of
`--layout`, with `--accuracy`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tempfile
from collections.abc import Callable
from functools import partial

os.environ.setdefault("LAYOUTKIT_CACHE_DIR", tempfile.mkdtemp())


import costs_of
from shapes import BURST, burst, clock, meant, names_of, numbers

import layoutkit as lk
from layoutkit._core.runtime import machine
from layoutkit.bench.layers import Layer, with_axes
from layoutkit.bench.report import geomean
from layoutkit.bench.suites import DTYPES
from layoutkit.choosing.best import choices
from layoutkit.convolutions.task import ConvTask

LAYOUTS = "NHWC", "NCHW", "nChw16c"
ROUNDS = 12
ABANDON = 3.0  # candidates that take so many times the best are not timed again


class Draw:
    """Numbers of layers."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def about(self, low: float, high: float, multiple: int = 1) -> int:
        """Log-uniform, a multiple of some number."""
        return max(multiple, round(low * (high / low) ** self.rng.random() / multiple) * multiple)

    def channels(self, low: int = 8, high: int = 512) -> int:
        return self.about(low, high, self.rng.choice((16, 16, 4, 1)))

    def batch(self) -> int:
        return self.rng.randint(2, 8) if self.rng.random() < 0.2 else 1

    def spatial(self, ic: int, oc: int) -> Layer:
        """A dense layer between so many channels."""
        choice = self.rng.choice
        kernel = choice((1, 1, 3, 5, 7, choice(((1, 3), (3, 1)))))
        dilation = choice((1, 1, 1, 1, 1, 2)) if kernel != 1 else 1
        padding = Layer.centred(kernel, dilation) if self.rng.random() < 0.8 else 0
        return Layer(ic, oc, self.about(7, 112), kernel, choice((1, 1, 1, 2)), padding, 1, dilation, self.batch())

    def dense(self) -> Layer:
        return self.spatial(self.channels(), self.channels())

    def square(self) -> Layer:
        padding = 1 if self.rng.random() < 0.8 else 0
        return Layer(self.channels(32), self.channels(32), self.about(7, 112), 3, 1, padding, n=self.batch())

    def kernels(self) -> Layer:
        """Other kernels and strides than 3x3 without a stride: what Winograd cuts into pieces."""
        choice = self.rng.choice
        kernel = choice((2, 3, 4, 5, 7, (1, self.rng.randint(3, 11)), (self.rng.randint(3, 11), 1)))
        stride = 2 if kernel == 3 else choice((1, 2, 2, 3)) if isinstance(kernel, int) else 1
        dilation = choice((1, 1, 2, 3)) if stride == 1 else 1
        return Layer(self.channels(16), self.channels(16), self.about(10, 130), kernel, stride,
                     Layer.centred(kernel, dilation), 1, dilation, self.batch())  # fmt: skip

    def depthwise(self) -> Layer:
        c, k = self.channels(), self.rng.choice((3, 3, 5, 7))
        return Layer(c, c, self.about(7, 112), k, self.rng.choice((1, 1, 2)), k // 2, c, n=self.batch())

    def groups(self) -> Layer:
        groups, each = self.about(2, 32), self.about(4, 32, self.rng.choice((1, 4)))
        out = each if self.rng.random() < 0.7 else self.about(4, 64)
        k = self.rng.choice((1, 3, 3, 3))
        return Layer(groups * each, groups * out, self.about(7, 112), k, self.rng.choice((1, 1, 2)), k // 2, groups,
                     n=self.batch())  # fmt: skip

    def odd(self) -> Layer:
        ic, oc = (self.rng.choice([c for c in range(17, 101) if c % 8]) for _ in range(2))
        return self.spatial(ic, oc)

    def solid(self) -> Layer:
        kernel = self.rng.choice(((3, 3, 3), (3, 3, 3), (1, 3, 3)))
        size = self.about(4, 32), *(self.about(7, 64),) * 2
        return Layer(self.channels(8, 128), self.channels(8, 128), size, kernel, 1, Layer.centred(kernel, 1))

    def first(self) -> Layer:
        k = self.rng.choice((3, 3, 5, 7, 11))
        return Layer(self.rng.choice((1, 2, 3, 3, 4)), self.about(16, 128, self.rng.choice((1, 16))),
                     self.about(64, 320), k, self.rng.choice((1, 2)), k // 2)  # fmt: skip


GROUPS: dict[str, tuple[str, Callable[[Draw], Layer]]] = {  # accuracy, layers
    "dense": ("strict", Draw.dense), "3x3": ("standard", Draw.square),
    "kernels": ("standard", Draw.kernels), "depthwise": ("strict", Draw.depthwise),
    "groups": ("strict", Draw.groups), "odd": ("strict", Draw.odd), "3-D": ("strict", Draw.solid),
    "first": ("strict", Draw.first),
}  # fmt: skip
OPERATIONS = {"depthwise": (2e6, 200e6)}


def drawn(draw: Draw, group: str) -> tuple[Layer, str]:
    """A layer of a group, and a layout."""
    low, high = OPERATIONS.get(group, (20e6, 800e6))
    while True:
        layer = GROUPS[group][1](draw)
        p = layer.problem("NHWC")
        if p.fits and low < p.flops < high:
            return layer, draw.rng.choice(LAYOUTS)


def judged(layer: Layer, layout: str, accuracy: str, args: argparse.Namespace) -> dict:
    """The share of a layer, and what its candidates reach."""
    threads, exhaustive = args.threads, args.exhaustive
    of_x, of_w, _ = names_of(args.dtype)
    p = layer.problem(layout)
    w = numbers((p.oc, p.ic // p.groups, *p.kernel), of_w)
    op = getattr(lk, f"Conv{layer.rank}d")(
        w, stride=p.stride, padding=p.padding, dilation=p.dilation, groups=p.groups, threads=threads,
        layout=with_axes(layout, layer.rank), accuracy=accuracy, **meant(args.dtype),
    )  # fmt: skip
    x = numbers(p.src.physical_shape(p.src_shape), of_x)
    y = op(x)
    task = ConvTask.parse(op.plan(p.src_shape).title)
    candidates = [c.candidate for c in choices(task)]
    pick, now = candidates[0].name, clock(threads)
    runs: dict[str, Callable] = {pick: op}
    if exhaustive:
        prepared = task.prepare()  # all on the same arrays: those of the pick alone would be evicted by the others
        runs = {c.name: partial(_ignoring, prepared(c.build())) for c in candidates}
    calls = {name: 1 + int(BURST / burst(2, [run], x, y, now)) for name, run in runs.items()}
    best, peak, unit = dict.fromkeys(runs, math.inf), 0.0, DTYPES[args.dtype].peak
    for _ in range(args.rounds):
        peak = max(peak, *(machine.fma_peak(threads, 20_000, unit) for _ in range(3)))
        for name, run in runs.items():
            if name == pick or best[name] == math.inf or best[name] < ABANDON * min(best.values()):
                best[name] = min(best[name], burst(calls[name], [run], x, y, now))
    shares = {name: p.flops / seconds / peak for name, seconds in best.items()}
    winner = max(shares, key=lambda name: shares[name])
    return {"problem": task.key, "layer": str(layer), "layout": layout, "share": shares[pick], "pick": pick,
            "best": shares[winner], "winner": winner, "candidates": shares}  # fmt: skip


def _ignoring(run: Callable[[], object], x, y) -> None:
    run()


def text_of(row: dict, exhaustive: bool) -> str:
    """A layer that was judged, in a line."""
    best = f", best {row['best']:.2f} by {row['winner']}" if exhaustive else ""
    return f"{row['group']:<10}{row['layout']:<8}{row['layer']:<32} {row['share']:.2f} by {row['pick']}{best}"


def given(text: str) -> Layer:
    """The layer that ``name=number,..`` describes."""
    fields = {name: int(number) for name, number in (field.split("=") for field in text.split(","))}
    if not {"ic", "oc", "size", "kernel"} <= set(fields) <= set(Layer._fields):
        raise ValueError("ic, oc, size and kernel are needed, others are those of Layer")
    return Layer(**{"padding": Layer.centred(fields["kernel"], fields.get("dilation", 1)), **fields})


def main(argv=None) -> int:
    """Run; returns the exit code."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    p.add_argument("--count", type=int, default=6, help="of every group")
    p.add_argument("--only", default=",".join(GROUPS), help=f"some of {', '.join(GROUPS)}")
    p.add_argument("--layer", type=given, action="append", default=[], help="this one, instead of what is drawn")
    p.add_argument("--accuracy", default="strict", help="of such layers")
    p.add_argument("--layout", choices=LAYOUTS, help="only this one")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--exhaustive", action="store_true", help="time every candidate")
    p.add_argument("--dtype", choices=DTYPES, default="float32")
    p.add_argument("--json", metavar="FILE")
    costs_of.arguments(p)
    args = p.parse_args(argv)
    costs_of.take(args)
    print(f"seed {args.seed}, {args.dtype}, {args.threads} thread(s): shares of the FMA peak")
    rows = []
    for layer in args.layer:
        for layout in [args.layout] if args.layout else LAYOUTS:
            rows.append({"group": "given", **judged(layer, layout, args.accuracy, args)})
            print(text_of(rows[-1], args.exhaustive), flush=True)
    for group in [] if args.layer else args.only.split(","):
        draw, of_group = Draw(args.seed), []
        while len(of_group) < args.count:
            layer, layout = drawn(draw, group)
            if args.layout not in (None, layout):
                continue
            of_group.append({"group": group, **judged(layer, layout, GROUPS[group][0], args)})
            print(text_of(of_group[-1], args.exhaustive), flush=True)
        shares = [r["share"] for r in of_group]
        text = f"{group}: geometric mean {geomean(shares):.2f}, least {min(shares):.2f}"
        if args.exhaustive:
            best, lost = [r["best"] for r in of_group], [r["best"] / r["share"] for r in of_group]
            text += (f"; best of all candidates {geomean(best):.2f}, least {min(best):.2f}; the pick takes "
                     f"{geomean(lost):.2f} of its time, {max(lost):.2f} at most")  # fmt: skip
        print(text)
        rows += of_group
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
