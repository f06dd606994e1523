"""Shares of the FMA peak: ResNet-50's layers, and the shapes where libraries are weak.

    python bench/shapes.py --only resnet50 --layout NHWC [--batch 16] [--cold] [--threads 2]
    python bench/shapes.py --only resnet50 --dtype bfloat16        (or float16, float64, int8: uint8 in and out)
    python bench/shapes.py [--only depthwise]
    python bench/shapes.py --only overhead
    python bench/shapes.py --only mobilenet_v2 --depthwise --dtype int8 --against float32 [--layout NHWC]

`--json FILE` writes the shares, `--quick` measures every fourth layer in a few rounds.

The peak is that of the type's multiply-adds (of float16 those of float32, which it is widened to). Each figure is the
best of several rounds, on one thread in time that the thread had a core; the peak is measured
between them, on as many threads. With `--against DTYPE` it is the rate over that of the same layer in another type, in
turns: the median of the ratios. `--depthwise` leaves out all other layers of a network. With `--cold` every
call has a filter of its own that has left the caches since it was last used, as in a network, and a round is the
median of its calls. Means over a network count every layer as often as the network has it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from math import prod

import numpy as np

import layoutkit as lk
from layoutkit._core.runtime import machine
from layoutkit.bench.layers import NETWORKS, Layer, with_axes
from layoutkit.bench.report import geomean
from layoutkit.bench.suites import DTYPES
from layoutkit.convolutions.problem import ACCURACIES
from layoutkit.reorders.convert import NUMBERS

ROUNDS, COLD_ROUNDS, QUICK_ROUNDS = 40, 5, 2
BURST = 200e-6  # seconds that a timing takes at least
COLD_BYTES, COLD_COPIES = 96 << 20, 4096  # filters that are met in turn
EVERY = "NHWC", "nChw16c", "NCHW"

CASES: dict[str, tuple[tuple[str, ...], tuple[Layer, ...]]] = {  # kind: layouts, layers
    "stem": (EVERY, (Layer(3, 64, 224, 7, 2, 3),)),
    "first layer": (("NHWC",), tuple(Layer(c, 32, 112, 3, 1, 1) for c in (1, 3, 4))),
    "depthwise": (EVERY, tuple(
        Layer(c, c, size, k, s, k // 2, c)
        for c, size, k, s in ((32, 56, 3, 1), (128, 28, 3, 1), (512, 14, 3, 1), (144, 56, 3, 2), (120, 28, 5, 1),
                              (96, 28, 7, 1))
    )),
    "depthwise 3-D": (EVERY, tuple(
        Layer(c, c, (d, n, n), (3,) * 3, 1, 1, c) for c, d, n in ((32, 16, 28), (64, 8, 14))
    )),
    "groups": (EVERY[:2], tuple(
        Layer(c, c, size, 3, 1, 1, 32) for c, size in ((128, 56), (256, 56), (256, 28), (512, 28), (1024, 14))
    )),
    "odd channels": (EVERY, tuple(Layer(20, 20, size, 3, 1, 1) for size in (28, 56))),
    "3-D": (EVERY, tuple(
        Layer(c, c, (d, n, n), (3,) * 3, 1, 1) for c, d, n in ((32, 16, 32), (64, 16, 28), (128, 8, 14))
    )),
    "transposed": (EVERY, tuple(Layer(ic, oc, n, 4, 2, 1) for ic, oc, n in ((256, 128, 14), (128, 64, 28)))),
}  # fmt: skip


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Normally distributed, or integers of all that the type holds."""
    rng = np.random.default_rng(0)
    if dtype.endswith("int8"):
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return lk.reorder(rng.standard_normal(shape, np.float32).reshape(-1), "a", "a", dtype=dtype).reshape(shape)


def names_of(dtype: str) -> tuple[str, str, str]:
    """The types of the input, the filter and the result, as callers name them."""
    names = {element: name for name, element in NUMBERS.items()}
    src, filter, _, dst = DTYPES[dtype].elements
    return names[src], names[filter], names[dst]


def meant(dtype: str) -> dict:
    """The arguments of a convolution that say its types, and what integers mean."""
    src, _, dst = names_of(dtype)
    scale = dict(scale=np.float32(1e-4)) if DTYPES[dtype].integers else {}
    return dict(dtype=(src, dst), **scale)


def layers_of(kind: str) -> tuple[tuple[str, ...], Counter[Layer]]:
    """The layouts and the layers of a kind, and how often each counts."""
    if kind in CASES:
        layouts, layers = CASES[kind]
        return layouts, Counter(layers)
    return EVERY, Counter(NETWORKS[kind]())


def operation(kind: str, layer: Layer, layout: lk.Layout, w: np.ndarray, args: argparse.Namespace):
    """A kept convolution."""
    name = "ConvTranspose" if kind == "transposed" else "Conv"
    return getattr(lk, f"{name}{layer.rank}d")(
        w, stride=layer.stride, padding=layer.padding, groups=layer.groups, layout=layout, threads=args.threads,
        accuracy=args.accuracy, algorithm="depthwise" if args.depthwise else "auto", **meant(args.dtype),
    )  # fmt: skip


def clock(threads: int) -> Callable[[], float]:
    """Seconds: those of a lone thread do not run while other work has its core."""
    return time.thread_time if threads == 1 else time.perf_counter


def burst(calls: int, ops: list, x: np.ndarray, y: np.ndarray, now: Callable[[], float]) -> float:
    """Seconds of a call, of so many with the same filter."""
    start = now()
    for _ in range(calls):
        ops[0](x, y)
    return (now() - start) / calls


def tour(ops: list, x: np.ndarray, y: np.ndarray, now: Callable[[], float]) -> float:
    """Seconds of a call, the median, each with the next filter."""
    times = []
    for op in ops:
        start = now()
        op(x, y)
        times.append(now() - start)
    return sorted(times)[len(times) // 2]


def share(kind: str, layer: Layer, name: str, args: argparse.Namespace) -> float:
    """Share of the peak."""
    layer = layer._replace(n=args.batch)
    p, layout = layer.problem(name), with_axes(name, layer.rank)
    transposed = kind == "transposed"
    shape = (p.ic, p.oc, *p.kernel) if transposed else (p.oc, p.ic // p.groups, *p.kernel)
    of_x, of_w, _ = names_of(args.dtype)
    w, unit = numbers(shape, of_w), DTYPES[args.dtype].peak
    copies = max(2, min(COLD_COPIES, COLD_BYTES // w.nbytes)) if args.cold else 1
    ops = [operation(kind, layer, layout, w, args) for _ in range(copies)]
    x = numbers(layout.physical_shape(p.src_shape), of_x)
    y = ops[0](x)
    for op in ops:
        op(x, y)
    flops = 2 * p.n * w.size * prod(p.size if transposed else p.out)
    now = clock(args.threads)
    calls = 1 + int(BURST / burst(1, ops, x, y, now))
    best, peak = float("inf"), 0.0
    for _ in range(QUICK_ROUNDS if args.quick else COLD_ROUNDS if args.cold else ROUNDS):
        peak = max(peak, *(machine.fma_peak(args.threads, 20_000, unit) for _ in range(3)))
        best = min(best, tour(ops, x, y, now) if args.cold else burst(calls, ops, x, y, now))
    return flops / best / peak


def rate_over(kind: str, layer: Layer, name: str, args: argparse.Namespace) -> float:
    """The rate in a type over that in another one, by the algorithm that does depthwise ones if it is such a layer."""
    layer, now = layer._replace(n=args.batch), clock(args.threads)
    layout, runs = with_axes(name, layer.rank), []
    p = layer.problem(name)
    for dtype in (args.dtype, args.against):
        of_x, of_w, _ = names_of(dtype)
        w = numbers((p.oc, p.ic // p.groups, *p.kernel), of_w)
        op = operation(kind, layer, layout, w, argparse.Namespace(**{**vars(args), "dtype": dtype}))
        x = numbers(layout.physical_shape(p.src_shape), of_x)
        runs.append(([op], x, op(x), now))
    calls = [1 + int(5 * BURST / burst(3, *run)) for run in runs]
    ratios = []
    for _ in range(QUICK_ROUNDS if args.quick else ROUNDS):
        of, against = (burst(n, *run) for n, run in zip(calls, runs))
        ratios.append(against / of)
    return sorted(ratios)[len(ratios) // 2]


def overhead() -> float:
    """Seconds of a call that has next to nothing to do."""
    x = np.ones((1, 1, 1, 16), np.float32)
    op = lk.Conv2d(np.ones((16, 16, 1, 1), np.float32), layout="NHWC", threads=1)
    y = op(x)
    return min(burst(2000, [op], x, y, clock(1)) for _ in range(ROUNDS))


def show(kind: str, layout: str, layers: Counter[Layer], args: argparse.Namespace) -> list[dict]:
    """Prints a line a layer and what they are together; returns a row a layer."""
    figures: dict[Layer, float] = {}
    for layer in layers:
        figures[layer] = (rate_over if args.against else share)(kind, layer, layout, args)
        print(f"{kind:13} {layout:8} {layer!s:38} {figures[layer]:.3f}", flush=True)
    worst = min(figures, key=figures.get)
    mean = geomean(figures[layer] for layer in layers.elements())
    print(f"{kind:13} {layout:8} geometric mean {mean:.3f}, least {figures[worst]:.3f} ({worst})", flush=True)
    return [
        {"kind": kind, "layout": layout, "layer": str(layer), "count": layers[layer], "share": figures[layer]}
        for layer in figures
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*CASES, *NETWORKS, "overhead"]
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=known, metavar="KIND", help=f"one of {', '.join(known)}")
    parser.add_argument("--layout", help="only this one")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--accuracy", choices=ACCURACIES, default="strict")
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--against", choices=DTYPES, help="ratios to the rate in this type, not shares of the peak")
    parser.add_argument("--depthwise", action="store_true", help="only such layers, by that algorithm")
    parser.add_argument("--cold", action="store_true", help="a filter of its own for every call")
    parser.add_argument("--tuning", choices=("measure", "estimate", "off"), default="measure")
    parser.add_argument("--quick", action="store_true", help="every fourth layer, few rounds")
    parser.add_argument("--json", metavar="FILE", help="write the shares of the layers to FILE")
    args = parser.parse_args()
    lk.tuning(args.tuning)
    rows: list[dict] = []
    kinds: Iterator[str] = iter([args.only] if args.only else CASES)
    for kind in kinds:
        if kind == "overhead":
            print(f"a call of a kept Conv2d: {overhead() * 1e6:.2f} us")
            continue
        layouts, layers = layers_of(kind)
        if args.depthwise:
            layers = Counter({layer: n for layer, n in layers.items() if layer.groups == layer.ic})
        if args.quick:
            layers = Counter({layer: n for i, (layer, n) in enumerate(layers.items()) if i % 4 == 0})
        for layout in [args.layout] if args.layout else layouts:
            rows += show(kind, layout, layers, args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
