"""Reorders that nobody tuned: ``python bench/unseen.py [--seed N] [--count 60] [--threads 1] [--level memory]``.

Problems are drawn with a fresh seed unless one is given. Distribution: 30 to 70 MB (log-uniform; with `--level shared`
1 to 8 MB, which the last cache of many machines holds, with `--level inner` 30 to 400 KB, which L2 holds) of elements
of 4 bytes (four in seven), 1, 2 or 8; three to five dimensions, each extent log-uniform from 2 to 400 and then scaled
so that the bytes fit; source and destination differ in their order of dimensions or in their blocks. A fifth have 3,
20, 24 or 100 channels. Layouts: random permutations (half), named formats (a quarter), random blocks of 4, 8 or 16 on
one or two dimensions (a quarter).

Each problem runs by what a fresh installation picks, in turns with a copy of as many bytes as source and destination
have on average, the better of memcpy and streaming stores; a share is copy time over reorder time, least of the rounds
each. In the caches the copy is a loop that loads and stores a vector at a time, as a reorder has to (memcpy moves lines
by an instruction of its own, and is told beside). With `--exhaustive` every candidate runs as well, and the pick's time
over the best one's is told.
`--problem "reorder 8x1024x16x64 NCHW>NHCW x32"` takes problems that are given, by their keys in the cost table.
`--table portable-amd-25-17` or `--table none` estimates as on a machine of another kind, `--profile` by a profile of
this one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("LAYOUTKIT_CACHE_DIR", tempfile.mkdtemp())

import costs_of
from reorder import geomean, lines, touched

import layoutkit as lk
from layoutkit._core.runtime import machine
from layoutkit.choosing.best import choices
from layoutkit.memory.arrays import contiguous_strides
from layoutkit.reorders.box import Box
from layoutkit.reorders.costs import INNER, MEMORY, SHARED
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.program import Transfer, program

NAMED = {3: ("NCW", "NWC", "nCw16c", "WNC"), 4: ("NCHW", "NHWC", "CHWN", "HWCN", "nChw8c", "nChw16c"),
         5: ("NCDHW", "NDHWC", "nCdhw8c", "nCdhw16c")}  # fmt: skip
SIZES = {MEMORY: (30e6, 70e6), SHARED: (1e6, 8e6), INNER: (30e3, 400e3)}  # bytes of a tensor
UNTIMED = 3  # calls within the caches: after one, the last one still holds much of the arrays of others
ABANDON = 3.0  # candidates that take so many times the best are not timed again


def drawn(rng: random.Random, level: str = MEMORY) -> tuple[lk.Layout, lk.Layout, tuple[int, ...], int]:
    """Source, destination, logical shape and bytes of an element."""
    while True:
        rank, width = rng.choice((3, 4, 4, 4, 5)), rng.choice((4, 4, 4, 4, 1, 2, 8)[:7])
        sizes = [math.exp(rng.uniform(math.log(2), math.log(400))) for _ in range(rank)]
        few = rng.random() < 0.2
        if few:
            sizes[1] = rng.choice((3, 20, 24, 100))
        low, high = SIZES[level]
        target = math.exp(rng.uniform(math.log(low), math.log(high))) / width
        free = [d for d in range(rank) if not (few and d == 1)]
        scale = (target / math.prod(sizes)) ** (1 / len(free))
        shape = tuple(max(1, round(n * scale)) if d in free else int(n) for d, n in enumerate(sizes))
        src, dst = _layout(rng, rank), _layout(rng, rank)
        stored = max(math.prod(x.physical_shape(shape)) for x in (src, dst)) * width
        fits = 0.8 * low < math.prod(shape) * width < 1.15 * high and stored < 1.3 * high
        if fits and not lk.is_view(src, dst, shape):
            return src, dst, shape, width


def _layout(rng: random.Random, rank: int) -> lk.Layout:
    which = rng.random()
    if which < 0.25:
        return lk.Layout(rng.choice(NAMED[rank]))
    order = rng.sample("abcde"[:rank], rank)
    if which < 0.75:
        return lk.Layout("".join(order))
    blocked = rng.sample(order, rng.choice((1, 1, 2)))
    outer = "".join(d.upper() if d in blocked else d for d in order)
    return lk.Layout(outer + "".join(f"{rng.choice((4, 8, 16))}{d}" for d in blocked))


def copies(n: int, threads: int, level: str, batch: int) -> list[Callable[[], float]]:
    """What gives the seconds of a copy of n bytes that a reorder is held against; then of others, which are told."""
    a, b = touched((n,), 1), touched((n,), 1)
    by = [partial(machine.copy, a, b, threads, stream) for stream in (False, True)]
    if level == MEMORY:
        return [lambda: min(copy() for copy in by)]
    loop = lines(n, n, batch)
    return [lambda: seconds(loop, 1) / batch, lambda: seconds(by[0], batch)]


def seconds(call: Callable[[], object], batch: int, untimed: int = UNTIMED) -> float:
    """Seconds of a call, on average over a batch, after some that are not timed."""
    for _ in range(untimed):
        call()
    start = time.perf_counter()
    for _ in range(batch):
        call()
    return (time.perf_counter() - start) / batch


def judged(problem, threads: int, rounds: int, exhaustive: bool, level: str) -> dict:
    """The share of a problem, and the pick's time over the best candidate's."""
    src, dst, shape, width = problem
    x, y = touched(src.physical_shape(shape), width), touched(dst.physical_shape(shape), width)
    n = (x.nbytes + y.nbytes) // 2
    batch = max(1, 4_000_000 // n)
    references = copies(n, threads, level, batch)
    asked = ReorderProblem(src, dst, shape, width, threads)
    strides = [contiguous_strides(layout, shape, width) for layout in (src, dst)]
    transfer = Transfer(src, dst, width, *strides, Box.all_of(shape))
    ranked = choices(asked)
    names = [c.candidate.name for c in ranked] if exhaustive else [ranked[0].candidate.name]
    moves = {name: program(transfer, name, bytes(width)) for name in names}
    best, copy = dict.fromkeys(names, math.inf), [math.inf] * len(references)
    for _ in range(rounds):
        copy = [min(c, h()) for c, h in zip(copy, references)]
        for name, move in moves.items():
            if best[name] < math.inf and best[name] > ABANDON * min(best.values()) and name != names[0]:
                continue
            best[name] = min(best[name], seconds(partial(move, x, y, threads), batch, UNTIMED * (level != MEMORY)))
    winner = min(best, key=lambda name: best[name])
    return {"problem": str(asked), "share": copy[0] / best[names[0]], "best": copy[0] / best[winner], "pick": names[0],
            "winner": winner, "memcpy": copy[-1] / best[names[0]],
            "candidates": {k: copy[0] / v for k, v in best.items()}, "seconds": best}  # fmt: skip


def main(argv=None) -> int:
    """Run; returns the exit code."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    p.add_argument("--count", type=int, default=60)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--level", choices=SIZES, default=MEMORY, help="where the bytes are")
    p.add_argument("--problem", action="append", metavar="KEY", help="a problem to judge, instead of drawing any")
    p.add_argument("--exhaustive", action="store_true", help="time every candidate")
    p.add_argument("--json", metavar="FILE")
    costs_of.arguments(p)
    args = p.parse_args(argv)
    costs_of.take(args)
    rng = random.Random(args.seed)
    rows = []
    given = [ReorderProblem.parse(key) for key in args.problem or ()]
    problems = [(p.src, p.dst, p.shape, p.width) for p in given] or [drawn(rng, args.level) for _ in range(args.count)]
    for problem in problems:
        row = judged(problem, args.threads, args.rounds, args.exhaustive, args.level)
        rows.append(row)
        text = f" ({row['memcpy']:.2f} of memcpy)" * (args.level != MEMORY)
        text += f", best {row['best']:.2f} by {row['winner']}" if args.exhaustive else ""
        print(f"{row['problem']:<60} {row['share']:.2f} by {row['pick']}{text}", flush=True)
    shares = [r["share"] for r in rows]
    memcpy = f"; {geomean(r['memcpy'] for r in rows):.2f} of memcpy" * (args.level != MEMORY)
    seed = "" if given else f" seed {args.seed},"
    print(f"{len(rows)} reorders,{seed} {args.threads} thread(s): {geomean(shares):.2f} of a copy, "
          f"least {min(shares):.2f}{memcpy}")  # fmt: skip
    if args.exhaustive:
        lost = [r["best"] / r["share"] for r in rows]
        best = [r["best"] for r in rows]
        print(f"best of all candidates: {geomean(best):.2f} of a copy, least {min(best):.2f}; the pick takes "
              f"{geomean(lost):.2f} of its time, {max(lost):.2f} at most")  # fmt: skip
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
