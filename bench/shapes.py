"""Shares of the FMA peak where libraries are weak: first layers, depthwise, small groups, odd channels, transposed.

    python bench/shapes.py [--threads 1] [--only depthwise]

Each figure is the best of several rounds; the peak is measured between them, on as many threads.
"""

import argparse
import time
from math import prod

import numpy as np

import layoutkit as lk
from layoutkit._core import machine
from layoutkit.arrays import empty

ROUNDS = 40
BURST = 200e-6  # seconds that a timing takes at least

# kind, layout, input channels, output channels, size, kernel, stride, padding, groups
CASES = [
    *(("first layer", layout, 3, 64, (224, 224), 7, 2, 3, 1) for layout in ("NHWC", "NCHW", "nChw16c")),
    *(("first layer", "NHWC", c, 32, (112, 112), 3, 1, 1, 1) for c in (1, 3, 4)),
    *(
        ("depthwise", layout, c, c, (size, size), k, s, k // 2, c)
        for layout in ("NHWC", "nChw16c", "NCHW")
        for c, size, k, s in ((32, 56, 3, 1), (128, 28, 3, 1), (512, 14, 3, 1), (144, 56, 3, 2), (120, 28, 5, 1),
                              (96, 28, 7, 1))
    ),
    *(("depthwise", layout, 32, 32, (16, 28, 28), 3, 1, 1, 32) for layout in ("NDHWC", "nCdhw16c")),
    *(
        ("groups", layout, c, c, (size, size), 3, 1, 1, 32)
        for layout in ("NHWC", "nChw16c")
        for c, size in ((128, 56), (256, 56), (512, 28), (1024, 14))
    ),
    *(("odd channels", layout, 20, 20, (56, 56), 3, 1, 1, 1) for layout in ("NHWC", "NCHW")),
    *(
        ("transposed", layout, ic, oc, (size, size), 4, 2, 1, 1)
        for layout in ("NHWC", "nChw16c", "NCHW")
        for ic, oc, size in ((256, 128, 14), (128, 64, 28))
    ),
]  # fmt: skip


def share(kind, layout, ic, oc, size, kernel, stride, padding, groups, threads: int) -> float:
    """Share of the peak."""
    layout, rank = lk.Layout(layout), len(size)
    rng = np.random.default_rng(0)
    kernel = (kernel,) * rank
    transposed = kind == "transposed"
    w = rng.standard_normal((ic, oc, *kernel) if transposed else (oc, ic // groups, *kernel), np.float32)
    cls = lk.ConvTranspose2d if transposed else {2: lk.Conv2d, 3: lk.Conv3d}[rank]
    op = cls(w, stride=stride, padding=padding, groups=groups, layout=layout, threads=threads, accuracy="strict")
    x = empty(layout.physical_shape((1, ic, *size)), np.dtype(np.float32), "x")
    x[...] = 1
    y = op(x)
    pixels = size if transposed else [(n + 2 * padding - k) // stride + 1 for n, k in zip(size, kernel)]
    flops = 2 * ic * oc // groups * prod(kernel) * prod(pixels)
    start = time.perf_counter()
    op(x, y)
    calls = 1 + int(BURST / (time.perf_counter() - start))
    best, peak = float("inf"), 0.0
    for _ in range(ROUNDS):
        peak = max(peak, machine.fma_peak(threads, 20_000))
        start = time.perf_counter()
        for _ in range(calls):
            op(x, y)
        best = min(best, (time.perf_counter() - start) / calls)
    return flops / best / peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="a kind of case")
    args = parser.parse_args()
    for case in CASES:
        kind, layout, ic, oc, size, kernel, stride, _, groups = case
        if args.only in (None, kind):
            shape = f"{ic}->{oc} @{'x'.join(map(str, size))} k{kernel} s{stride} g{groups}"
            print(f"{kind:12} {layout:8} {shape:34} {share(*case, args.threads):.2f}", flush=True)


if __name__ == "__main__":
    main()
