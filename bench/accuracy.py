"""``python bench/accuracy.py``: how far Winograd's results are off, beside direct summation's and the bound.

A line for each algorithm and kind of numbers, 3x3, padded: the error in the L2 norm as a multiple of that of direct
summation, and the largest error of an output in units of 2^-24 * sum(abs(w)) * max(abs(x)), beside the bound in the
same units (`layoutkit.winograd.error_factor`). Errors are against float64. Random numbers: nothing is promised.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import layoutkit as lk
from layoutkit import reference, winograd
from layoutkit.convolutions.problem import ConvProblem
from layoutkit.convolutions.task import ConvTask

PADDING = ((1, 1), (1, 1))
ONES = (1, 1)
NHWC = lk.Layout("NHWC")


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


def run(algorithm: str, variant: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The result of one algorithm, in N C H W."""
    p = ConvProblem(x.shape[0], x.shape[1], w.shape[0], x.shape[2:], (3, 3), ONES, PADDING, ONES, 1, NHWC, NHWC, "fast")
    route = next(c for c in ConvTask(p, 1, algorithm).candidates() if variant in c.name).build()
    y = np.empty(p.dst.physical_shape(p.dst_shape), np.float32)
    route.run(lk.reorder(x, "NCHW", "NHWC"), *route.pack(w, None), y)
    return y.transpose(0, 3, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", default="8,32,128,512", help="input channels, comma-separated")
    parser.add_argument("--size", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(f"{'':8} {'channels':>8}  {'numbers':<10} {'L2 error / direct':>18} {'largest error':>14} {'bound':>8}")
    for channels in map(int, args.channels.split(",")):
        for kind, (inputs, filters) in KINDS.items():
            rng = np.random.default_rng((args.seed, channels))
            x = inputs(rng, (1, channels, args.size, args.size))
            w = filters(rng, (32, channels, 3, 3))
            want = reference.conv(x, w, None, ONES, PADDING, ONES, 1)
            unit = winograd.EPS * abs(w).astype(np.float64).sum((1, 2, 3))[:, None, None] * abs(x).max()
            direct = np.linalg.norm(run("direct", "", x, w) - want)
            for m in sorted(winograd.PAIRS):
                off = run("winograd", f"F({m},3)", x, w) - want
                factor = winograd.error_factor(m, channels) / winograd.EPS
                print(f"F({m},3)   {channels:8}  {kind:<10} {np.linalg.norm(off) / direct:18.2f} "
                      f"{(abs(off) / unit).max():14.2f} {factor:8.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
