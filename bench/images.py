"""Pictures to planes and back, the first and the last step of programs that see: shares of a copy of the wider side.

``python bench/images.py [--seed N] [--count 8] [--threads 1] [--rounds 7] [--cache | --memory]``. Drawn with a fresh
seed unless one is given: 1 to 8 images of 3 channels (half), 4, 1 or 2, sizes log-uniform and odd as they come, so that
the wider side has 20 to 80 MB (`--memory`), or that both sides are 60 to 600 KB together, which L2 holds (`--cache`).

Each way is one call of `lk.reorder`, ``(x / 255 - mean) / std`` or its inverse. It runs in turns with a copy of as many
bytes as the wider side has, the better of memcpy and streaming stores; a share is copy time over reorder time, least of
the rounds each. In memory the caches are swept before each. In the caches a call's overhead, the time of the same call
on one pixel, is taken off and told by itself, and so is the share of a loop that loads and stores the same lines, a
vector at a time, where the destination is not the narrower side.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from reorder import geomean, lines

import layoutkit as lk
from layoutkit._core.runtime import machine
from layoutkit.choosing.machine import last_level_cache

# The types of source and destination, their layouts, and whether numbers are normalised.
WAYS = {
    "u8 NHWC > f32 NCHW": ("u1", "f4", "NHWC", "NCHW", True),
    "f32 NCHW > u8 NHWC": ("f4", "u1", "NCHW", "NHWC", True),
    "u8 NHWC > f16 NCHW": ("u1", "f2", "NHWC", "NCHW", True),
    "u8 NHWC > f32 NHWC": ("u1", "f4", "NHWC", "NHWC", True),
    "f32 NHWC > f32 NCHW": ("f4", "f4", "NHWC", "NCHW", True),
    "u8 NHWC > u8 NCHW": ("u1", "u1", "NHWC", "NCHW", False),
    "u8 NCHW > u8 NHWC": ("u1", "u1", "NCHW", "NHWC", False),
}


def drawn(rng: random.Random, cache: bool) -> tuple[int, int, int, int]:
    """A logical shape (N, C, H, W)."""
    low, high = (60e3 / 5, 600e3 / 5) if cache else (20e6 / 4, 80e6 / 4)
    elements = math.exp(rng.uniform(math.log(low), math.log(high)))
    n, c = rng.choice((1, 1, 2) if cache else range(1, 9)), rng.choice((3, 3, 3, 4, 1, 2))
    aspect = math.exp(rng.uniform(-math.log(2), math.log(2)))
    width = max(1, round(math.sqrt(elements / n / c * aspect)))
    return n, c, max(1, round(elements / n / c / width)), width


def call_of(way: str, shape: tuple[int, ...], threads: int) -> tuple[Callable[[], object], int, int]:
    """One way on touched arrays, and the bytes of both sides."""
    source, result, src, dst, normalises = WAYS[way]
    c = shape[1]
    tensor = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    x = lk.reorder(tensor, "NCHW", src, dtype=source)
    how: dict = dict(dtype=result) if source != result else {}
    if normalises:
        mean, std = np.linspace(0.485, 0.406, c), np.linspace(0.229, 0.225, c)
        how |= dict(scale=1 / (255 * std), offset=-mean / std)
    y = lk.reorder(x, src, dst, **how)
    y[...] = 0
    return partial(lk.reorder, x, src, dst, out=y, threads=threads, **how), x.nbytes, y.nbytes


def seconds(call: Callable[[], object], batch: int, sweep: np.ndarray | None) -> float:
    """Seconds of a call, after `sweep` was read, or one of a batch."""
    if sweep is not None:
        sweep.max()
    start = time.perf_counter()
    for _ in range(batch):
        call()
    return (time.perf_counter() - start) / batch


def main() -> None:
    """Run and print."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    p.add_argument("--count", type=int, default=8)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--cache", action="store_true", help="only what L2 holds")
    p.add_argument("--memory", action="store_true", help="only what no cache holds")
    args = p.parse_args()
    for cache in (False, True):
        if args.memory if cache else args.cache:
            continue
        rng = random.Random(args.seed)
        sweep = None if cache else np.ones(2 * last_level_cache(), np.uint8)
        shares: dict[str, list[float]] = {way: [] for way in WAYS}
        of_lines: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(args.count):
            shape = drawn(rng, cache)
            columns = []
            for way in WAYS:
                call, read, written = call_of(way, shape, args.threads)
                wide = max(read, written)
                a, b = lk.empty((wide,), "a", "u1"), lk.empty((wide,), "a", "u1")
                a[...], b[...] = 1, 2
                batch = max(1, 4_000_000 // wide)
                copies = [partial(machine.copy, a, b, args.threads, stream) for stream in (False, True)]
                tiny, _, _ = call_of(way, (1, shape[1], 1, 1), 1)
                calls = [(call, batch), *((copy, batch) for copy in copies), (tiny, 200)]
                if cache and read <= written:
                    calls.append((lines(read, written, batch), 1))
                best = [math.inf] * len(calls)
                for i in (*range(len(calls)), *list(range(len(calls))) * args.rounds):
                    best[i] = min(best[i], seconds(*calls[i], sweep if i < 3 else None))
                took = best[0] - best[3] if cache else best[0]
                shares[way].append(min(best[1:3]) / took)
                if len(best) > 4:
                    of_lines[way].append(best[4] / batch / took)
                columns.append(f"{shares[way][-1]:.2f}" + f" ({best[3] * 1e6:.1f} us)" * cache)
            print(f"{'x'.join(map(str, shape)):<18} {'  '.join(columns)}", flush=True)
        for way in WAYS:
            text = f"{geomean(shares[way]):.2f} of a copy of the wider side, least {min(shares[way]):.2f}"
            if of_lines[way]:
                text += f"; {geomean(of_lines[way]):.2f} of a loop over the same lines"
            print(f"{'cache' if cache else 'memory':<7}{way:<22} {text}")
        print(f"seed {args.seed}, {args.threads} thread(s)")


if __name__ == "__main__":
    main()
