"""``python bench/accuracy.py``: how far Winograd's results are off, beside direct summation's and the bound.

A line for each algorithm and kind of numbers, 3x3, padded:

- the L2 norm of the error by that of the result, in units of 2^-24, with `--dtype bfloat16` of 2^-9;
- the same as a multiple of the error of direct summation;
- the largest error of an output, in such units of sum(abs(w)) * max(abs(x)), beside the bound of the sums, before they
  are rounded to the result's type (`layoutkit.winograd.error_factor`).

Errors are against float64. Random numbers: nothing is promised.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import layoutkit as lk
from layoutkit import winograd
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask
from layoutkit.convolutions.types import TYPES

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from oracle import reference

PADDING = ((1, 1), (1, 1))
ONES = (1, 1)
NHWC = lk.Layout("NHWC")
DTYPES = {"float32": ("f32", winograd.EPS), "bfloat16": ("bf16", 2.0**-9)}  # types of a problem, unit of errors


def one_tap(rng: np.random.Generator, shape) -> np.ndarray:
    """Filters of a single tap each."""
    w = np.zeros(shape, np.float32)
    w[..., rng.integers(3), rng.integers(3)] = rng.standard_normal(shape[:2])
    return w


def hot_pixel(rng: np.random.Generator, shape) -> np.ndarray:
    """One pixel a thousand times as large as the others."""
    x = rng.standard_normal(shape, np.float32)
    x[..., shape[-2] // 2, shape[-1] // 2] *= 1000
    return x


def normal(rng: np.random.Generator, shape) -> np.ndarray:
    return rng.standard_normal(shape, np.float32)


def positive(rng: np.random.Generator, shape) -> np.ndarray:
    """As after a relu."""
    return np.maximum(normal(rng, shape), 0)


KINDS: dict[str, tuple[Callable, Callable]] = {  # inputs, filters
    "normal": (normal, normal), "after relu": (positive, normal), "one tap": (normal, one_tap),
    "hot pixel": (hot_pixel, normal),
}  # fmt: skip


def run(algorithm: str, variant: str, x: np.ndarray, w: np.ndarray, dtype: str) -> np.ndarray:
    """The result of one algorithm, in N C H W."""
    p = ConvProblem(
        x.shape[0], x.shape[1], w.shape[0], x.shape[2:], (3, 3), ONES, PADDING, ONES, 1, NHWC, NHWC, "fast",
        types=TYPES[DTYPES[dtype][0]],
    )  # fmt: skip
    candidates = ConvTask(p, 1, algorithm).candidates()
    route = next(c for c in candidates if variant in c.name and not c.name.endswith(" as f32")).build()
    y = np.empty(p.dst.physical_shape(p.dst_shape), p.types.dst)
    route.run(lk.reorder(x, "NCHW", "NHWC"), *route.pack(w, None), y)
    return widened(y).transpose(0, 3, 1, 2)


def widened(x: np.ndarray) -> np.ndarray:
    """As float32, exactly."""
    return lk.reorder(x.reshape(-1), "a", "a", dtype="float32").reshape(x.shape)


def narrowed(x: np.ndarray, dtype: str) -> np.ndarray:
    """Rounded to `dtype`."""
    return lk.reorder(np.ascontiguousarray(x).reshape(-1), "a", "a", dtype=dtype).reshape(x.shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", default="8,32,128,512", help="input channels, comma-separated")
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    args = parser.parse_args()
    eps = DTYPES[args.dtype][1]
    columns = ("L2 error", 8), ("/ direct", 8), ("largest error", 14), ("bound", 8)
    print(f"{'':8} {'channels':>8}  {'numbers':<10}", *(f"{name:>{width}}" for name, width in columns))
    for channels in map(int, args.channels.split(",")):
        for kind, (inputs, filters) in KINDS.items():
            rng = np.random.default_rng((args.seed, channels))
            x = narrowed(inputs(rng, (1, channels, args.size, args.size)), args.dtype)
            w = narrowed(filters(rng, (32, channels, 3, 3)), args.dtype)
            exact = widened(x), widened(w)
            want = reference.conv(*exact, None, ONES, PADDING, ONES, 1)
            unit = eps * abs(exact[1]).astype(np.float64).sum((1, 2, 3))[:, None, None] * abs(exact[0]).max()
            norm = eps * np.linalg.norm(want)
            direct = np.linalg.norm(run("direct", "", x, w, args.dtype) - want)
            print(f"{'direct':8} {channels:8}  {kind:<10} {direct / norm:8.2f}", flush=True)
            for m in sorted(winograd.PAIRS):
                off = run("winograd", f"F({m},3)", x, w, args.dtype) - want
                factor = winograd.error_factor(m, channels, narrow=args.dtype != "float32") / eps
                l2 = np.linalg.norm(off)
                print(f"{f'F({m},3)':8} {channels:8}  {kind:<10} {l2 / norm:8.2f} {l2 / direct:8.2f} "
                      f"{(abs(off) / unit).max():14.2f} {factor:8.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
