"""Reorders against a copy of the same bytes in the same memory, candidate by candidate, in turns.

The copy is the better of memcpy and of streaming stores, measured in the same rounds; a share is copy time over
reorder time, least of the rounds each. All buffers are touched before.

    python bench/reorder.py [--threads 1] [--rounds 5] [--cases large,cache,permutations,odd,widths] [--json FILE]
        [--quick]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable

import numpy as np

import layoutkit as lk
from layoutkit._core.nests.moves.reorder import Program
from layoutkit._core.runtime import machine
from layoutkit.memory.arrays import empty
from layoutkit.reorders.box import Box
from layoutkit.reorders.loops import Loop
from layoutkit.reorders.nest import Nest
from layoutkit.reorders.problem import ReorderProblem
from layoutkit.reorders.program import Transfer, program
from layoutkit.reorders.variants import VARIANTS

LAYOUTS = ("NCHW", "NHWC", "CHWN", "HWCN", "nChw8c", "nChw16c")
FILTERS = ("HWIO", "OHWI", "IHWO", "Oihw16o", "OIhw16i16o", "OIhw8i8o", "Ohwi16o", "Ohwi64o")


def cases(name: str):
    """(shape, source, destination, element bytes) of a named set."""
    pairs = list(itertools.permutations(LAYOUTS, 2))
    if name == "large":
        yield from (((32, 256, 56, 56), s, d, 4) for s, d in pairs)
        volumes = itertools.permutations(("NCDHW", "NDHWC", "nCdhw16c"), 2)
        yield from (((4, 64, 16, 64, 64), s, d, 4) for s, d in volumes)
        yield from (((2048, 1024, 3, 3), "OIHW", d, 4) for d in FILTERS)
    elif name == "cache":
        for shape in ((1, 64, 56, 56), (1, 256, 14, 14)):
            yield from ((shape, s, d, 4) for s, d in pairs)
    elif name == "permutations":
        tags = ["".join(p) for p in itertools.permutations("abcd")]
        yield from (((64, 64, 64, 64), s, d, 4) for s, d in itertools.permutations(tags, 2) if s == "abcd")
    elif name == "odd":
        for shape in ((64, 3, 224, 224), (64, 20, 112, 112), (64, 100, 56, 56), (512, 512, 7, 7), (128, 384, 17, 19)):
            yield from ((shape, s, d, 4) for s, d in pairs if {s, d} & {"NHWC", "nChw16c"})
    elif name == "widths":
        for width in (1, 2, 8):
            yield from (((32, 256, 112 // width, 56), s, d, width) for s, d in pairs if {s, d} & {"NHWC", "nChw16c"})


def touched(shape, width: int) -> np.ndarray:
    """A contiguous aligned array whose pages exist."""
    array = empty(shape, np.dtype(f"u{width}"), "bench")
    array[...] = 1
    return array


def lines(read: int, written: int, passes: int) -> Callable[[], object]:
    """What loads the lines of `read` bytes and stores those of `written`, not fewer, a vector at a time, so many times:
    a reorder cannot move them faster, memcpy can, by an instruction of its own."""
    run = 256
    rows, step = written // run, run * read // written
    src, dst = touched((read + run,), 1), touched((written,), 1)
    tile = (Loop(rows, step, run), Loop(run, 1, 1))
    loop = Program([Nest("copy", 8, (Loop(passes, 0, 0),), tile, 0, 0)], 1, bytes(1), False)
    return lambda: loop(src, dst, 1)


def share(shape, src: str, dst: str, width: int, threads: int, rounds: int) -> tuple[float, float, str]:
    """Share of the copy, GB/s, and the best candidate's name."""
    s, d = lk.Layout(src), lk.Layout(dst)
    x, y = touched(s.physical_shape(shape), width), touched(d.physical_shape(shape), width)
    work = max(x.nbytes, y.nbytes)
    a, b = touched((work,), 1), touched((work,), 1)
    large = work > 8 << 20
    batch = 1 if large else max(1, (8 << 20) // work)
    moves, candidates = {}, {c.name for c in ReorderProblem(s, d, tuple(shape), width, threads).candidates()}
    for variant in VARIANTS:
        if variant in candidates and (large or not VARIANTS[variant].stream):
            moves[variant] = program(
                Transfer(s, d, width, x.strides, y.strides, Box.all_of(tuple(shape))), variant, bytes(width)
            )
    best = dict.fromkeys(moves, math.inf)
    copy = math.inf
    for _ in range(rounds):
        for stream in (False, True):
            copy = min(copy, *(machine.copy(a, b, threads, stream) for _ in range(batch)))
        for variant, move in moves.items():
            if best[variant] > 3 * min(best.values()) and best[variant] < math.inf:
                continue
            start = time.perf_counter()
            for _ in range(batch):
                move(x, y, threads)
            best[variant] = min(best[variant], (time.perf_counter() - start) / batch)
    winner = min(best, key=best.get)
    return copy / best[winner], (x.nbytes + y.nbytes) / best[winner] / 1e9, winner


def geomean(values) -> float:
    """Geometric mean."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def main(argv=None) -> int:
    """Run; returns the exit code."""
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--cases", default="large,cache,permutations,odd,widths")
    p.add_argument("--quick", action="store_true", help="every eighth pair")
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args(argv)
    rows, summary = [], []
    for name in args.cases.split(","):
        shares = []
        for shape, src, dst, width in itertools.islice(cases(name), 0, None, 8 if args.quick else 1):
            ratio, rate, winner = share(shape, src, dst, width, args.threads, args.rounds)
            shares.append(ratio)
            rows.append(dict(case=name, shape=shape, src=src, dst=dst, bits=8 * width, share=ratio, rate=rate))
            size = "x".join(map(str, shape))
            print(f"{name:<13}{size:<20}{src:>9} > {dst:<11}x{8 * width:<3}{rate:8.1f} GB/s {ratio:6.2f}  {winner}")
        if not shares:
            p.error(f"no cases are named {name!r}")
        line = f"{name}: {len(shares)} pairs, geomean {geomean(shares):.2f}, least {min(shares):.2f} of a copy"
        summary.append(f"{line}, {args.threads} thread(s)")
    print("\n".join(summary))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
