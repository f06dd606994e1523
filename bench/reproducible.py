"""Accuracy "reproducible": what it costs, and whether it holds.

    python bench/reproducible.py [--shapes 60] [--seed 0] [--threads 2]
    python bench/reproducible.py --check 2000 [--seed 3] [--only 1234]

Without --check: what a call takes with accuracy "reproducible" over what it takes with "strict", for ResNet-50's layers
in three layouts and for shapes drawn at random. Both choose by measuring; they take turns, the medians' ratio is told.

With --check: random problems, each carried out on every instruction set that has fused multiply-adds, with other
numbers of threads and tables of costs that were made up, so that any candidate may win: all bits are the same, and
those of the numpy reference. The portable instruction set, where it has none, has to agree with itself.
The user's cost table is neither read nor written.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import NamedTuple
from zlib import crc32

import numpy as np
import random_cases

import layoutkit as lk
from layoutkit import reference
from layoutkit._core import registry
from layoutkit.arrays import empty
from layoutkit.bench.layers import NETWORKS
from layoutkit.bench.report import geomean
from layoutkit.choosing.costfile import Cost
from layoutkit.convolution import order
from layoutkit.convolution.activation import ACTIVATIONS
from layoutkit.convolution.problem import ConvProblem
from layoutkit.cost import cost_table

LAYOUTS = "NHWC", "nChw16c", "NCHW"
MOST = 300_000  # elements of an array of a random problem
MOST_SUMMED = 4_000_000  # products of one, which numpy adds up one after another
WAYS = 3  # in which a random problem is carried out on each instruction set
OPERATIONS = {
    (rank, transposed): getattr(lk, f"Conv{'Transpose' * transposed}{rank}d")
    for rank in (1, 2, 3)
    for transposed in (0, 1)
}
ROUNDS, TURN = 15, 2e-3  # seconds that a turn takes at least
LIMIT = 1.10  # what "reproducible" may take, of "strict"


class AnyCosts(Mapping[str, Cost]):
    """Measured costs of whatever is asked for, made up."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, name: str) -> Cost:
        seconds = 1e-6 * (1 + crc32(f"{self.text} {name}".encode()) % 1000)
        return Cost(seconds, seconds, 0.0, 1)

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


@contextmanager
def any_table(seed: int):
    """Costs made up from `seed` decide, so that any candidate may win."""
    cost_table.costs = lambda key: AnyCosts(f"{seed} {key}")
    cost_table.generation += 1
    try:
        yield
    finally:
        del cost_table.costs
        cost_table.generation += 1


class Way(NamedTuple):
    """How a problem is carried out."""

    isa: str
    threads: int
    table: int | None  # seed of the costs that decide; None: as without any table


def ways(rng: np.random.Generator, count: int = WAYS) -> list[list[Way]]:
    """Ways on each instruction set, those together that have to agree."""
    alone = {"portable"} if platform.machine() == "x86_64" else set()
    groups = [[isa for isa in registry.isas() if isa not in alone], sorted(alone)]
    return [
        [Way(isa, int(rng.integers(1, 5)), int(rng.integers(2**31)) if i else None)
         for isa in isas for i in range(count)]
        for isas in groups if isas
    ]  # fmt: skip


@contextmanager
def carried_out(way: Way):
    """What is planned inside goes this way, but for the threads."""
    before = lk.tuning("off") if way.table is None else None
    try:
        with random_cases.instruction_set(way.isa):
            if way.table is None:
                yield
            else:
                with any_table(way.table):
                    yield
    finally:
        if before is not None:
            lk.tuning(before)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the floats have the same bits; those of NaNs do not matter."""
    return bool(((a.view(np.int32) == b.view(np.int32)) | (np.isnan(a) & np.isnan(b))).all())


def values(rng: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    """Numbers of a kind: normal ones; such whose products underflow, with zeros of either sign; with Inf and NaN."""
    x = rng.standard_normal(shape, np.float32)
    if kind == "tiny":
        x *= np.float32(2.0 ** -rng.integers(60, 80))
        x[rng.random(shape) < 0.4] = 0
        np.copysign(x, rng.choice((-1.0, 1.0), shape), out=x)
    if kind == "wild":
        x *= np.exp2(rng.integers(-30, 30, shape)).astype(np.float32)
        x[rng.random(shape) < 0.01] = np.inf
        x[rng.random(shape) < 0.01] = np.nan
    return x


class Case(NamedTuple):
    """A convolution of logical arrays, and everything that a caller says of it."""

    transposed: bool
    x: np.ndarray
    w: np.ndarray
    bias: np.ndarray | None
    add: np.ndarray | None
    src: lk.Layout
    dst: lk.Layout
    attributes: dict  # of the sums
    finish: dict  # activation, scale

    def __str__(self) -> str:
        said = {k: v for k, v in self.finish.items() if v is not None}
        return (
            f"{'transposed ' * self.transposed}{self.x.shape} {self.w.shape} {self.attributes} "
            f"bias {self.bias is not None} add {self.add is not None} {said} {self.src} -> {self.dst}"
        )

    def run(self, way: Way, given: np.ndarray) -> np.ndarray:
        """The logical result, of `given` in the input's layout."""
        cls = OPERATIONS[self.x.ndim - 2, self.transposed]
        with carried_out(way):
            op = cls(self.w, self.bias, layout=self.src, out_layout=self.dst, threads=way.threads,
                     accuracy="reproducible", **self.attributes, **self.finish)  # fmt: skip
            if self.add is None:
                y = op(given)
            elif way.table is not None and way.table % 2:  # onto the residual
                y = reference.to_physical(self.add, self.dst)
                op(given, y, add=y)
            else:
                y = op(given, add=reference.to_physical(self.add, self.dst))
        return reference.to_logical(y, self.dst, self.out)

    @property
    def out(self) -> tuple[int, ...]:
        """Logical shape of the result."""
        a = self.attributes
        if self.transposed:
            size = [(n - 1) * s - sum(p) + d * (k - 1) + 1 for n, s, p, d, k in zip(
                self.x.shape[2:], a["stride"], a["padding"], a["dilation"], self.w.shape[2:])]  # fmt: skip
            return (self.x.shape[0], self.w.shape[1] * a["groups"], *size)
        size = [(n + sum(p) - d * (k - 1) - 1) // s + 1 for n, s, p, d, k in zip(
            self.x.shape[2:], a["stride"], a["padding"], a["dilation"], self.w.shape[2:])]  # fmt: skip
        return (self.x.shape[0], self.w.shape[0], *size)

    def wrong(self, groups: Sequence[Sequence[Way]]) -> str | None:
        """What differs between these ways, or from the reference; None if nothing does."""
        stored = reference.to_physical(self.x, self.src, pad_value=np.nan)  # what pads hold must not matter
        for group in groups:
            first = self.run(group[0], stored)
            for way in group[1:]:
                if not same(self.run(way, stored), first):
                    return f"{group[0]} and {way} differ: {self}"
            plain = not self.transposed and self.add is None and not any(v is not None for v in self.finish.values())
            if plain and group[0].isa != "portable":
                op = OPERATIONS[self.x.ndim - 2, False](self.w, **self.attributes)
                by_channel = order.by_channel(op._filter.problem(self.x.shape))
                want = reference.conv_in_order(self.x, self.w, self.bias, **self.attributes, by_channel=by_channel)
                if not same(first, want):
                    return f"{group[0]} differs from the reference: {self}"
        return None


def case(seed: int, index: int) -> Case:
    """A random problem, a function of the two numbers."""
    rng = np.random.default_rng((seed, 2, index))
    rank = int(rng.choice((1, 2, 2, 2, 3)))
    transposed = rng.integers(6) == 0
    size, kernel, stride, dilation, padding = zip(*(random_cases.a_window(rng) for _ in range(rank)))
    if rng.integers(3) == 0:  # one that the special ways take
        kernel, dilation, padding = (3,) * rank, (1,) * rank, ((1, 1),) * rank
        stride = (int(rng.integers(1, 3)),) * rank
    grown = int(rng.choice((1, 1, 2, 3)))  # so that some have work for several threads
    size = tuple(n * grown for n in size)
    groups = int(rng.choice((1, 1, 1, 2, 4, 16, 32)))
    ic, oc = groups * int(rng.choice((1, 1, 2, 3, 4, 8, 16, 20))), groups * int(rng.choice((1, 1, 2, 4, 7, 16, 37)))
    if groups > 4 and rng.integers(2):
        oc = ic
    if transposed:
        padding = tuple((min(a, d * (k - 1)), 0) for (a, _), k, d in zip(padding, kernel, dilation))
    n = int(rng.integers(1, 3))
    while n * ic * prod(size) > MOST or n * oc * prod(size) * ic // groups * prod(kernel) > MOST_SUMMED * grown:
        if max(size) <= 4:
            ic, oc = max(groups, ic // 2 // groups * groups), max(groups, oc // 2 // groups * groups)
        size = tuple(max(4, m // 2) for m in size)
    padding = tuple((a, b + max(0, d * (k - 1) + 1 - m - a - b)) if not transposed else (a, b)
                    for (a, b), m, k, d in zip(padding, size, kernel, dilation))  # fmt: skip
    src, dst = (random_cases.a_layout(rng, rank + 2) if rng.integers(2) else _usual(rng, rank) for _ in range(2))
    if rng.integers(3) == 0:
        dst = src
    kind = str(rng.choice(("normal", "normal", "tiny", "wild")))
    x = values(rng, kind, n, ic, *size)
    shape = (ic, oc // groups) if transposed else (oc, ic // groups)
    w = values(rng, "tiny" if kind == "tiny" else "normal", *shape, *kernel)
    bias = values(rng, kind, oc) * np.float32(kind != "tiny" or rng.integers(2)) if rng.integers(2) else None
    finish = dict(activation=None, scale=None)
    name = str(rng.choice(list(ACTIVATIONS)))
    numbers = {"clip": (-0.5, 0.7), "leaky_relu": (0.1,), "prelu": (rng.standard_normal(oc, np.float32),)}
    if rng.integers(2):
        finish["activation"] = (name, *numbers.get(name, ()))
    if rng.integers(4) == 0:
        finish["scale"] = rng.standard_normal(oc, np.float32)
    attributes = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    found = Case(bool(transposed), x, w, bias, None, src, dst, attributes, finish)
    if any(prod(f.physical_shape(shape)) > 4 * MOST for f, shape in ((src, x.shape), (dst, found.out))):
        found = found._replace(src=_usual(rng, rank), dst=_usual(rng, rank))
    held = found.src.padded_shape(found.src.physical_shape(x.shape))
    if (n, *size) != (held[0], *held[2:]):  # an array's pads are taken for what it holds, but those of channels
        found = found._replace(src=_usual(rng, rank))
    if rng.integers(3) == 0:
        found = found._replace(add=values(rng, kind, *found.out))
    return found


def _usual(rng: np.random.Generator, rank: int) -> lk.Layout:
    return lk.Layout(str(rng.choice(random_cases.CONV_LAYOUTS[rank])))


def check(count: int, seed: int, only: int | None) -> int:
    """How many of so many random problems have results that differ."""
    wrong, start = 0, time.perf_counter()
    for index in range(count) if only is None else [only]:
        text = case(seed, index).wrong(ways(np.random.default_rng((seed, 3, index))))
        if text:
            wrong += 1
            print(f"--seed {seed} --only {index}  {text}", file=sys.stderr, flush=True)
    done = count if only is None else 1
    print(f"{done} random problems: {wrong} not reproducible, {time.perf_counter() - start:.0f} s, seed {seed}")
    return wrong


# ---- what it costs


def random_problem(rng: np.random.Generator) -> ConvProblem:
    """A layer of the sizes that networks have, of any kind, in one of the usual layouts."""
    kind = str(rng.choice(("dense", "dense", "dense", "first", "depthwise", "groups")))
    size, k, stride = int(rng.integers(7, 113)), int(rng.choice((1, 1, 3, 3, 3, 5, 7))), int(rng.choice((1, 1, 1, 2)))
    ic, oc = (int(2 ** rng.uniform(4, 9)) for _ in range(2))
    groups = 1
    if kind == "first":
        ic, k = int(rng.integers(1, 5)), int(rng.choice((3, 5, 7)))
    if kind == "depthwise":
        groups = oc = ic
    if kind == "groups":
        groups = int(rng.choice((2, 4, 8, 16, 32)))
        ic = oc = groups * int(rng.choice((2, 3, 4, 8, 12, 16, 32)))
    while ic * oc // groups * k * k * size * size > 4e8 and size > 7:
        size = max(7, size * 2 // 3)
    layout = lk.Layout(str(rng.choice((*LAYOUTS, "nChw8c"))))
    pad = (k // 2, k // 2) if rng.integers(4) else (0, 0)
    size = max(size, k)
    return ConvProblem(1, ic, oc, (size, size), (k, k), (stride,) * 2, (pad,) * 2, (1, 1), groups, layout, layout)


def problems(args: argparse.Namespace) -> Iterator[tuple[str, ConvProblem]]:
    """What is measured, by kind."""
    for layout in LAYOUTS:
        for layer in dict.fromkeys(NETWORKS["resnet50"]()):
            yield f"resnet50 {layout}", layer.problem(layout)
    rng = np.random.default_rng(args.seed)
    for _ in range(args.shapes):
        yield "random", random_problem(rng)


def turns(p: ConvProblem, args: argparse.Namespace) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds of a call, turn by turn, of either accuracy; what each chose."""
    w = np.random.default_rng(0).standard_normal((p.oc, p.ic // p.groups, *p.kernel), np.float32)
    x = empty(p.src.physical_shape(p.src_shape), w.dtype, "x")
    x[...] = 1
    calls: dict[str, Callable[[], object]] = {}
    chosen = {}
    now = time.thread_time if args.threads == 1 else time.perf_counter
    y = lk.empty(p.dst.physical_shape(p.dst_shape), np.float32)
    for accuracy in ("strict", "reproducible"):
        op = lk.Conv2d(w, stride=p.stride, padding=p.padding, groups=p.groups, layout=p.src, threads=args.threads,
                       accuracy=accuracy)  # fmt: skip
        op(x, y)
        chosen[accuracy] = op.plan(p.src_shape).choices[0].candidate.name
        calls[accuracy] = lambda op=op: op(x, y)
    start = now()
    calls["strict"]()
    repeat = 1 + int(TURN / max(now() - start, 1e-7))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for i in range(ROUNDS):
        for name in list(calls)[:: 1 if i % 2 else -1]:
            call, start = calls[name], now()
            for _ in range(repeat):
                call()
            found[name].append((now() - start) / repeat)
    return found, chosen


def cost(args: argparse.Namespace) -> int:
    """Print what "reproducible" takes of what "strict" does; how many kinds are beyond the limit on the average."""
    lk.tuning(args.tuning)
    by_kind: dict[str, list[float]] = {}
    for kind, p in problems(args):
        found, chosen = turns(p, args)
        ratio = float(np.median(np.divide(found["reproducible"], found["strict"])))
        by_kind.setdefault(kind, []).append(ratio)
        ways = " and ".join(dict.fromkeys(chosen.values()))
        print(f"{kind:18} {ratio:6.3f}  {str(p).removesuffix(' f32 standard'):70} {ways}", flush=True)
    for kind, ratios in by_kind.items():
        beyond = sum(r > LIMIT for r in ratios)
        print(f"{kind:18} geometric mean {geomean(ratios):.3f}, median {np.median(ratios):.3f}, most {max(ratios):.3f},"
              f" {beyond} of {len(ratios)} beyond {LIMIT}")  # fmt: skip
    return sum(geomean(ratios) > LIMIT for ratios in by_kind.values())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 1 if a result differs, or the cost is beyond the limit."""
    p = argparse.ArgumentParser(prog="python bench/reproducible.py", description=__doc__.split("\n")[0])
    p.add_argument("--check", type=int, metavar="N", help="random problems, instead of costs")
    p.add_argument("--only", type=int, metavar="NUMBER", help="of --check: run one again")
    p.add_argument("--shapes", type=int, default=60, metavar="N", help="random ones, of costs")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=1, help="of costs")
    p.add_argument("--tuning", choices=("measure", "estimate", "off"), default="measure", help="of costs")
    args = p.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="layoutkit-reproducible-") as cache:
        os.environ["LAYOUTKIT_CACHE_DIR"] = cache
        cost_table.read_only = True
        if args.check is not None or args.only is not None:
            return bool(check(args.check or 1, args.seed, args.only))
        return bool(cost(args))


if __name__ == "__main__":
    sys.exit(main())
