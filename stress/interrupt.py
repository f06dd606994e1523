"""How soon long calls answer Ctrl-C: ``python stress/interrupt.py [--rounds 60] [--seed 0]``.

Random calls that take long (reorders and conversions of gigabytes, convolutions by every algorithm, transposed ones,
packing a large filter, measuring, filters of images), on one thread and two. A signal comes at a random moment of each;
told is how long after it Python's handler runs. Exit code 1 if that took a second or more anywhere.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path

os.environ["LAYOUTKIT_CACHE_DIR"] = os.devnull
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # random_cases

import numpy as np
from random_cases.deciding import instruction_set
from random_cases.layouts import activation_layout, any_layout, fitting

import layoutkit as lk
import layoutkit.ndimage as ndi
from layoutkit._core.runtime import registry
from layoutkit.convolutions.algorithms import NAMES

LIMIT = 1.0  # seconds
BYTES = 1 << 30  # of what a reorder writes
FLOPS = {"portable": 4e10, "avx2": 2e11, "avx512": 4e11}  # of sets that begin so: a convolution takes seconds
WINDOW = 0.02, 0.5  # seconds after its beginning in which a call is interrupted


class Interrupted(Exception):
    """Raised by the handler."""


@contextmanager
def handled(times: list[float]) -> Iterator[Callable[[float], None]]:
    """Inside, the function that is given asks for a signal after so many seconds; how late it was answered is kept."""
    due = 0.0

    def handler(*_) -> None:
        times.append(time.monotonic() - due)
        raise Interrupted

    def ask(after: float) -> None:
        nonlocal due
        due = time.monotonic() + after
        signal.setitimer(signal.ITIMER_REAL, after)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield ask
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def a_reorder(rng: np.random.Generator, threads: int) -> tuple[str, Callable[[], object]]:
    """Of a source all of whose elements are one, into memory that is there."""
    rank = int(rng.integers(2, 6))
    sizes = [int(n) for n in rng.integers(3, 40, rank)]
    long = int(rng.integers(rank))
    sizes[long] = max(1, BYTES // 4 * sizes[long] // prod(sizes))
    shape = tuple(sizes)
    src = fitting(lk.Layout("abcde"[:rank]), shape)
    dst = fitting(any_layout(rng, rank), shape, BYTES // 3)
    dtype = rng.choice((None, "uint8", "float64"))
    x = np.broadcast_to(np.float32(1), src.physical_shape(shape))
    out = np.zeros(dst.physical_shape(shape), dtype or np.float32)
    return f"reorder {shape} {dst} {dtype}", lambda: lk.reorder(x, src, dst, out=out, dtype=dtype, threads=threads)


def a_convolution(rng: np.random.Generator, threads: int) -> tuple[str, Callable[[], object]]:
    """By one of the algorithms, on an instruction set; the first call, packing included."""
    isa, algorithm = str(rng.choice(registry.isas())), str(rng.choice(NAMES))
    groups, each = {"depthwise": (256, 1), "strips": (256, 1), "grouped": (32, 8)}.get(algorithm, (1, 128))
    channels, kernel = groups * each, 3
    if algorithm == "folded":
        channels = each = 3
    size = int((FLOPS[isa.split("_")[0]] / (2 * 128 * each * kernel**2)) ** 0.5)
    size = max(9, min(size, int((BYTES / 8 / max(channels, 128)) ** 0.5)))
    oc = channels if groups > 1 else 128
    layout = fitting(activation_layout(rng, 4), (1, channels, size, size), BYTES // 3)
    w = np.ones((oc, each, kernel, kernel), np.float32)
    x = np.ones(layout.physical_shape((1, channels, size, size)), np.float32)

    def call() -> object:
        with instruction_set(isa):
            op = lk.Conv2d(w, padding=1, groups=groups, layout=layout, algorithm=algorithm, threads=threads)
            return op(x, shape=(1, channels, size, size))

    return f"conv2d {channels}->{oc} @{size} g{groups} {layout} {algorithm} {isa}", call


def a_transposed(rng: np.random.Generator, threads: int) -> tuple[str, Callable[[], object]]:
    """A transposed convolution."""
    isa, layout = str(rng.choice(registry.isas())), str(rng.choice(("NCHW", "NHWC")))
    size = int((FLOPS[isa.split("_")[0]] / (2 * 64 * 64 * 16)) ** 0.5)
    x = np.ones((1, 64, size, size) if layout == "NCHW" else (1, size, size, 64), np.float32)
    w = np.ones((64, 64, 4, 4), np.float32)

    def call() -> object:
        with instruction_set(isa):
            return lk.conv_transpose2d(x, w, stride=2, padding=1, layout=layout, threads=threads)

    return f"conv_transpose2d 64->64 @{size} {layout} {isa}", call


def a_large_filter(rng: np.random.Generator, threads: int) -> tuple[str, Callable[[], object]]:
    """A small input, so that packing the filter takes the time."""
    w = np.ones((4096, 2048, 3, 3), np.float32)
    layout, accuracy = str(rng.choice(("NCHW", "NHWC"))), str(rng.choice(("strict", "fast")))
    x = np.ones((1, 2048, 9, 9) if layout == "NCHW" else (1, 9, 9, 2048), np.float32)
    return f"filter {w.shape} {layout} {accuracy}", lambda: lk.conv2d(
        x, w, padding=1, layout=layout, accuracy=accuracy, threads=threads
    )


def a_measurement(rng: np.random.Generator, threads: int) -> tuple[str, Callable[[], object]]:
    """A first call that measures its candidates."""
    size = int(rng.integers(300, 700))
    x, w = np.ones((1, 64, size, size), np.float32), np.ones((64, 64, 3, 3), np.float32)

    def call() -> object:
        before = lk.tuning("measure")
        try:
            return lk.conv2d(x, w, padding=1, threads=threads)
        finally:
            lk.tuning(before)

    return f"measuring 64->64 @{size}", call


def a_filter(rng: np.random.Generator, threads: int) -> tuple[str, Callable[[], object]]:
    """A filter of an image or a volume, with a large window."""
    name = str(rng.choice(("gaussian_filter", "uniform_filter", "minimum_filter", "median_filter", "affine_transform")))
    shape = (6000, 5000) if rng.integers(2) else (300, 300, 300)
    given: dict[str, object] = {"size": int(rng.integers(20, 90))}
    if name == "gaussian_filter":
        given = {"sigma": float(rng.integers(5, 60))}
    elif name == "median_filter":
        given = {"size": 9 if len(shape) == 2 else 5}
    elif name == "affine_transform":
        given = {"matrix": np.eye(len(shape)) * 0.99 + 0.001, "order": 3}
    x = np.ones(shape, rng.choice(("uint8", "float32", "float64")))
    return f"{name} {shape} {x.dtype}", lambda: getattr(ndi, name)(x, threads=threads, **given)


KINDS = {
    "reorder": a_reorder,
    "convolution": a_convolution,
    "transposed": a_transposed,
    "filter": a_large_filter,
    "measuring": a_measurement,
    "ndimage": a_filter,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    p = argparse.ArgumentParser(prog="python stress/interrupt.py", description=(__doc__ or "").split("\n")[0])
    p.add_argument("--rounds", type=int, default=60)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args(argv)
    lk.cost_table.read_only = True
    by_kind: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for i in range(args.rounds):
        rng = np.random.default_rng((args.seed, i))
        kind, threads = str(rng.choice(list(KINDS), p=(0.25, 0.35, 0.1, 0.1, 0.1, 0.1))), int(rng.integers(1, 3))
        what, call = KINDS[kind](rng, threads)
        times: list[float] = []
        with handled(times) as ask:
            ask(float(rng.uniform(*WINDOW)))
            try:
                while not times:
                    call()
            except Interrupted:
                pass
            except ValueError as error:  # an algorithm that cannot do it
                what += f": {str(error)[:60]}"
        if times:
            by_kind[kind].append(times[0])
            if times[0] > LIMIT / 2:
                print(f"{times[0]:.2f} s after the signal, {threads} threads: {what}", flush=True)
        del call
    for kind, found in by_kind.items():
        if found:
            print(f"{kind:12} {len(found):3} calls answered after {np.median(found):.3f} s (median), {max(found):.3f} s"
                  " at most")  # fmt: skip
    return int(any(max(found, default=0) >= LIMIT for found in by_kind.values()))


if __name__ == "__main__":
    sys.exit(main())
