"""Reorders between random views against numpy's copies of the same elements: ``python bench/strided.py --count 150``.

Axes of both sides are in any order, reversed, of every other element; those of the source may be repeated, as
`numpy.broadcast_to` does. Both alternate, on one thread; a ratio is of the least times. ``--slowest N`` lists some.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np

import layoutkit as lk
from layoutkit.bench.report import geomean
from layoutkit.choosing import machine

TYPES = ("u1", "f2", "f4", "f8", "c16")
ELEMENTS = (1 << 16, 1 << 18, 1 << 20, 1 << 22)  # at least
PRIMES = (2, 3, 5, 7)
STEPS = {"as it is": 1, "reversed": -1, "every other": 2, "repeated": 1}
LEARNING_CALLS = 12  # the first calls of a large reorder try its candidates
TURNS, CALLS = 2, 7


class Views(NamedTuple):
    """The two sides of a copy."""

    source: np.ndarray
    target: np.ndarray

    def __str__(self) -> str:
        return f"{self.source.shape} {self.source.dtype} {self.source.strides} > {self.target.strides}"


def drawn(rng: random.Random) -> Views:
    """Two views of one shape and type."""
    shape, dtype = [1] * rng.choice((2, 3, 4, 4, 5)), rng.choice(TYPES)
    elements = rng.choice(ELEMENTS)
    while prod(shape) < elements:
        shape[rng.randrange(len(shape))] *= rng.choice(PRIMES)
    source, target = (view(rng, shape, dtype, written) for written in (False, True))
    return Views(source, target)


def view(rng: random.Random, shape: list[int], dtype: str, written: bool) -> np.ndarray:
    """An array seen through steps, half of the time with its axes in another order."""
    kinds = [rng.choice(["as it is"] * 4 + list(STEPS)[1 : 3 + (not written)]) for _ in shape]
    room = [1 if kind == "repeated" else n * abs(STEPS[kind]) for n, kind in zip(shape, kinds)]
    order = list(range(len(shape)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    array = np.ones([room[axis] for axis in order], dtype).transpose(np.argsort(order))
    array = array[tuple(slice(None, None, STEPS[kind]) for kind in kinds)]
    return array if written else np.broadcast_to(array, shape)


def least(call: Callable[[], object]) -> float:
    """Seconds of the fastest call of a turn."""
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def times_as_fast(views: Views) -> float:
    """How many times as fast as numpy's a copy by `reorder` is."""
    tag = "abcde"[: views.source.ndim]
    calls = (
        lambda: lk.reorder(views.source, tag, tag, out=views.target, threads=1),
        lambda: np.copyto(views.target, views.source),
    )
    for _ in range(LEARNING_CALLS):
        calls[0]()
    ours, theirs = (min(times) for times in zip(*([least(call) for call in calls] for _ in range(TURNS))))
    return theirs / ours


def main(argv=None) -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--count", type=int, default=150)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="a new one by default")
    p.add_argument("--slowest", type=int, default=5, metavar="N")
    args = p.parse_args(argv)
    rng = random.Random(args.seed)
    found = sorted((times_as_fast(views), str(views)) for views in (drawn(rng) for _ in range(args.count)))
    for ratio, views in found[: args.slowest]:
        print(f"{ratio:6.2f}  {views}")
    ratios = [ratio for ratio, _ in found]
    print(f"{machine.cpu_model()}, seed {args.seed}: {geomean(ratios):.2f} times as fast as numpy, geometric mean of "
          f"{args.count}, least {ratios[0]:.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
