"""What compare.py compares: a network's convolutions and named reorders, or both drawn at random.

A case is what contenders.py reads: sizes in plain numbers, since every contender is a process of its own.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from math import prod

from layoutkit import Layout
from layoutkit.bench.layers import NETWORKS, Layer
from layoutkit.bench.suites import FEW_CHANNELS

RANDOM = "random"  # the suite that is drawn
SUITES = (*NETWORKS, RANDOM)
MOVES = ("NCHW", "NHWC"), ("NHWC", "NCHW"), ("NCHW", "nChw16c"), ("nChw16c", "NCHW")
BEYOND_CACHE, IN_CACHE = (32, 256, 56, 56), (1, 64, 56, 56)


def convolutions(args: argparse.Namespace) -> Iterator[dict]:
    """A network's distinct convolutions, or `--count` of every group that unseen_convs.py draws."""
    if args.suite != RANDOM:
        for i, layer in enumerate(dict.fromkeys(NETWORKS[args.suite]())):
            if not args.quick or i % 4 == 0:
                yield _convolution(layer._replace(n=args.batch), args.dtype, str(layer))
        return
    from unseen_convs import GROUPS, Draw, drawn

    for group in GROUPS:
        draw = Draw(args.seed)
        for _ in range(args.count):
            layer, _ = drawn(draw, group)
            yield _convolution(layer, args.dtype, f"{group}: {layer}")


def _convolution(layer: Layer, dtype: str, title: str) -> dict:
    p = layer.problem("NCHW")
    return {
        "kind": "conv", "title": title, "batch": p.n, "work": p.flops, "ic": p.ic, "oc": p.oc, "dtype": dtype,
        "groups": p.groups, "size": p.size, "kernel": p.kernel, "stride": p.stride, "dilation": p.dilation,
        "padding": [a for a, _ in p.padding],
    }  # fmt: skip


def gradients(args: argparse.Namespace) -> Iterator[dict]:
    """The gradients of input and filter of each convolution, but of the input of a first layer, which nobody needs."""
    for case in convolutions(args):
        for of in ("input", "weight"):
            if of == "weight" or case["ic"] > FEW_CHANNELS:
                yield case | {"kind": "backward", "of": of, "title": f"{case['title']} {of}"}


def reorders(args: argparse.Namespace) -> Iterator[dict]:
    """Named ones, beyond the caches and inside them, or `--count` that unseen.py draws."""
    if args.suite != RANDOM:
        for shape in (IN_CACHE, BEYOND_CACHE) if not args.quick else (IN_CACHE, (4, *BEYOND_CACHE[1:])):
            for src, dst in MOVES:
                yield _reorder(Layout(src), Layout(dst), shape, 4)
        return
    from unseen import drawn

    rng, count = random.Random(args.seed), 0
    while count < args.count:
        src, dst, shape, width = drawn(rng)
        if all(prod(layout.physical_shape(shape)) == prod(shape) for layout in (src, dst)):  # numpy does not pad
            count += 1
            yield _reorder(src, dst, shape, width)


def _reorder(src: Layout, dst: Layout, shape: tuple[int, ...], width: int) -> dict:
    """As a user of numpy or torch writes it: the digits of both layouts as a view of the source, then a transpose."""
    digits = sorted(src.refine(dst, shape), key=lambda digit: -digit[1])
    return {
        "kind": "reorder", "title": f"{src}>{dst} {'x'.join(map(str, shape))} x{8 * width}", "src": str(src),
        "dst": str(dst), "shape": shape, "width": width, "work": 2 * width * prod(shape),
        "src_shape": src.physical_shape(shape), "view": [axis.extent for axis, _, _ in digits],
        "order": sorted(range(len(digits)), key=lambda i: -digits[i][2]),
    }  # fmt: skip


CASES: dict[str, Callable[[argparse.Namespace], Iterator[dict]]] = {
    "conv": convolutions, "reorder": reorders, "backward": gradients,
}  # fmt: skip
