"""From which size on a depthwise convolution after one of one tap is faster band by band than as a whole.

A ratio is of one round; two models of the same pair of layers, in turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from statistics import median

import numpy as np

from layoutkit.graph import bands
from layoutkit.graph.ir import Graph, Node, TensorType
from layoutkit.graph.model import Model


def pair(size: int, channels: int, wide: int, stride: int) -> Graph:
    """1x1 to `wide` channels, then 3x3 of each."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((wide, channels, 1, 1)).astype(np.float32),
        "d": rng.standard_normal((wide, 1, 3, 3)).astype(np.float32),
    }
    nodes = [
        Node("Conv", ("x", "w"), ("a",)),
        Node("Relu", ("a",), ("b",)),
        Node("Conv", ("b", "d"), ("y",), {"pads": [1] * 4, "group": wide, "strides": [stride] * 2}),
    ]
    x = TensorType(np.dtype(np.float32), (1, channels, size, size))
    return Graph(nodes, {"x": x}, ("y",), constants)


def program(graph: Graph, threads: int, least: int):
    """What runs the pair if tensors of so many bytes are cut into bands."""
    saved, bands.FROM_BYTES = bands.FROM_BYTES, least
    try:
        model = Model(graph, threads=threads, layouts="channels last")
        x = np.ones(graph.inputs["x"].shape, np.float32)
        model.run(x)
    finally:
        bands.FROM_BYTES = saved
    return lambda: model.run(x)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line a pair of layers."""
    p = argparse.ArgumentParser(prog="bands.py", description=__doc__.splitlines()[0])
    p.add_argument("--seed", type=int, default=1, help="of the layers, default %(default)s")
    p.add_argument("--count", type=int, default=20, help="default %(default)s")
    p.add_argument("--threads", type=int, default=1, help="default %(default)s")
    p.add_argument("--rounds", type=int, default=21, help="default %(default)s")
    args = p.parse_args(argv)
    rng = np.random.default_rng(args.seed)
    print(f"{'layers':<34}{'MB between':>12}{'as a whole, in bands':>24}   times as fast")
    for _ in range(args.count):
        size, channels = int(rng.choice([14, 28, 56, 80, 112, 150, 224])), 8 * int(rng.integers(2, 13))
        wide, stride = channels * int(rng.choice([1, 2, 6])), int(rng.integers(1, 3))
        graph = pair(size, channels, wide, stride)
        whole, cut = program(graph, args.threads, 1 << 60), program(graph, args.threads, 0)
        times: list[list[float]] = [[], []]
        for _ in range(args.rounds):
            for way, found in zip((whole, cut), times):
                start = time.perf_counter()
                way()
                found.append(time.perf_counter() - start)
        ratio = median(a / b for a, b in zip(*times))
        told = ", ".join(f"{1e3 * median(t):.2f} ms" for t in times)
        name = f"{channels} > {wide} at {size}x{size}, stride {stride}"
        print(f"{name:<34}{4 * wide * size * size / 2**20:12.2f}{told:>24}   {ratio:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
