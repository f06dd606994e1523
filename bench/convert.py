"""Conversions held against a copy of the bytes they read and write, and against the plain reorder, in turns.

``python bench/convert.py [--threads N] [--rounds N] [--isa NAME] [--only TEXT]``: gigabytes per second read and
written, the share of the better copy (memcpy or streaming stores of as many bytes), and the time as a multiple of
the plain reorder of the wider type. All arrays are touched before. A time is the least of a turn,
measured while no thread waited for a core; medians of ratios of one round are told.
"""

from __future__ import annotations

import argparse
import itertools
import time
from statistics import median

import numpy as np

import layoutkit as lk
from layoutkit._core.runtime import machine, registry
from layoutkit.bench.report import geomean
from layoutkit.choosing.machine import waited

CACHE, MEMORY = (1, 64, 56, 56), (16, 256, 56, 56)
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": "bfloat16", "s8": np.int8, "u8": np.uint8, "s32": np.int32,
         "f64": np.float64, "u4x2": "uint4x2"}  # fmt: skip
PAIRS = ["f32 bf16", "bf16 f32", "f32 f16", "f16 f32", "f32 s8", "s8 f32", "u8 f32", "s32 f32", "s32 s8", "f64 f32",
         "u4x2 f32", "f32 u4x2"]  # fmt: skip
MOVES = ["NCHW NCHW", "NCHW NHWC", "NHWC NCHW", "NCHW nChw16c", "nChw16c NCHW"]
SCALES = {"": {}, "scale": {"scale": 0.37}, "per channel": {"scale": None}}


def array(layout: str, shape, dtype) -> np.ndarray:
    """A touched array of small numbers."""
    physical = lk.Layout(layout).physical_shape(shape)
    x = np.random.default_rng(0).integers(0, 100, physical, np.uint8)
    if dtype == np.uint8:
        return x
    dtypes = ("uint8", dtype) if isinstance(dtype, str) and dtype.endswith("x2") else dtype
    return lk.reorder(x, layout, layout, dtype=dtypes, shape=shape)


def seconds(call, budget: float, least: int = 3) -> float:
    """The least time of a call, of those during which no thread waited for a core if there are any."""
    call()
    clean, spoilt, start = [], [], time.perf_counter()
    while len(clean) < least or time.perf_counter() - start < budget:
        before, t = waited(), time.perf_counter()
        call()
        t = time.perf_counter() - t
        (clean if waited() - before < 0.02 * t else spoilt).append(t)
        if time.perf_counter() - start > 20 * budget or len(clean) == 1000:
            break
    return min(clean or spoilt)


def copy_time(moved: int, threads: int, buffers: dict) -> float:
    """Seconds of the better copy that reads and writes `moved` bytes together."""
    n = moved // 2
    if n not in buffers:
        buffers.clear()
        buffers[n] = np.ones(n, np.uint8), np.ones(n, np.uint8)
    src, dst = buffers[n]
    return min(
        seconds(lambda: machine.copy(src, dst, t, stream), 0.005)  # noqa: B023
        for stream in (False, True) for t in {1, threads}
    )  # fmt: skip


def main() -> None:
    """Run and print."""
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--isa", choices=registry.isas())
    p.add_argument("--only", default="", help="lines that contain this")
    p.add_argument("--cache", action="store_true", help="only what stays in L2")
    p.add_argument("--memory", action="store_true", help="only what does not")
    args = p.parse_args()
    if args.isa:
        registry.use_isa(args.isa)
    shapes = [s for s, out in ((CACHE, args.memory), (MEMORY, args.cache)) if not out]
    for shape in shapes:
        shares = []
        for pair, move, name in itertools.product(PAIRS, MOVES, SCALES):
            (a, b), (src, dst) = pair.split(), move.split()
            title = f"{'x'.join(map(str, shape))} {a}>{b} {move} {name}"
            if args.only not in title:
                continue
            x = array(src, shape, TYPES[a])
            options = dict(SCALES[name], dtype=(TYPES[a], TYPES[b]), threads=args.threads, shape=shape)
            if "scale" in options and options["scale"] is None:
                options["scale"] = np.linspace(0.5, 2, shape[1])
            out = lk.reorder(x, src, dst, **options)
            moved = x.nbytes + out.nbytes
            wide = x if x.itemsize >= out.itemsize else array(src, shape, out.dtype)
            plain_out = lk.reorder(wide, src, dst)
            buffers: dict = {}
            share, times, plain = [], [], []
            for _ in range(args.rounds):
                t = seconds(lambda: lk.reorder(x, src, dst, out=out, **options), 0.01)  # noqa: B023
                q = seconds(lambda: lk.reorder(wide, src, dst, out=plain_out, threads=args.threads), 0.01)  # noqa: B023
                share.append(copy_time(moved, args.threads, buffers) / t)
                times.append(t)
                plain.append(t / q)
            shares.append(median(share))
            print(f"{title:<50} {moved / median(times) / 1e9:6.1f} GB/s {median(share):5.0%} of a copy "
                  f"{median(plain):5.2f} of the plain time", flush=True)  # fmt: skip
        if shares:
            print(f"{'geomean':<50} {'':11} {geomean(shares):5.0%}")


if __name__ == "__main__":
    main()
