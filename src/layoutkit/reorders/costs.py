"""Nanoseconds of what estimates count, on one core of the machine whose `scale` is 1.

Least-squares fits to random reorders, level by level: `bench/fit.py` on the output of `bench/unseen.py --exhaustive
--json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

INNER, SHARED, MEMORY = "inner", "shared", "memory"  # levels: see estimate.py


class Counts(NamedTuple):
    """What a reorder moves beyond the inner caches."""

    lines: float
    pieces: float  # contiguous parts of runs of the source
    partial: float  # runs of the destination that end within lines
    tiles8: float  # cache lines moved by tiles of 8-bit elements
    tiles16: float
    tiles: float  # of wider elements
    rest: float  # of those lines, the part that is empty at the ends of runs of the destination


class TileCounts(NamedTuple):
    """What nests of tiles move within L1 and L2."""

    calls: float  # of kernels
    rows: float = 0  # of copies
    lines: float = 0  # of copies
    ends: float = 0  # rows that end within a line
    elements: float = 0  # moved one by one
    vectors8: float = 0  # loaded and stored by transposes of 8-bit elements
    vectors16: float = 0
    vectors32: float = 0
    vectors64: float = 0


class WindowCounts(NamedTuple):
    """What nests of windows move."""

    lines: float
    steps: float  # patterns
    shuffled: float  # nanoseconds of shuffling all lines


COSTS: dict[str, dict[str, Sequence[float]]] = {
    INNER: {
        "copy fused": Counts(5.68, 1.9, 0, 0, 0, 0, 0),
        "fused x1024": Counts(3.67, 2.14, 7.1, 1.25, 0.741, 0.368, 1.63),
        "fused x256": Counts(3.19, 1.92, 7.07, 1.64, 1.22, 1.03, 1.65),
        "fused x64": Counts(3.53, 0.0673, 8.98, 2.87, 2.77, 2.74, 1.74),
        "gather stream": Counts(0, 1.54, 0, 0, 0, 0, 0),
        "joined": Counts(2.99, 1.08, 0, 0.373, 0.589, 0.59, 0.0598),
        "tiles store lines": TileCounts(6.69, 1.41, 1.28, 0, 1.07, 0.619, 0.598, 1.07, 1.04),
        "tiles store lines ahead": TileCounts(6.56, 1.41, 1.28, 0, 1.15, 0.639, 0.6, 1.09, 1.07),
        "tiles store runs ahead": TileCounts(7.01, 1.41, 1.27, 0, 1.16, 0.602, 0.557, 0.878, 0.867),
        "tiles store whole": TileCounts(7.34, 1.39, 1.29, 0, 1.1, 0.585, 0.547, 0.833, 0.824),
        "windows": WindowCounts(0.938, 0.402, 0.99),
    },
    SHARED: {
        "copy fused": Counts(3.31, 4.22, 0, 0, 0, 0, 0),
        "copy store": Counts(2.13, 0, 0.781, 0, 0, 0, 0),
        "copy stream": Counts(2.7, 0.651, 0.737, 0, 0, 0, 0),
        "fused x1024": Counts(2.88, 1.53, 7.7, 1.42, 2.58, 1.09, 1.56),
        "fused x256": Counts(2.83, 1.44, 7.56, 1.5, 2.73, 1.48, 1.71),
        "fused x64": Counts(3.01, 0, 9.67, 2.68, 3.71, 3.16, 1.67),
        "joined": Counts(3.04, 1.37, 0, 0.315, 0.934, 0.675, 0),
        "panels": Counts(3.37, 26.4, 0.673, 0.951, 1.81, 1.65, 0),
        "slabs": Counts(6.14, 0.824, 86, 0.0603, 0.0745, 0.0139, 0.281),
        "store lines": Counts(2.78, 0.504, 0.09, 0.168, 0.589, 0.243, 0),
        "store lines ahead": Counts(2.77, 0.501, 0.105, 0.166, 0.567, 0.247, 0),
        "store runs ahead": Counts(2.55, 0.208, 0.135, 0.198, 0.585, 0.217, 0),
        "store whole": Counts(2.5, 0.233, 0.105, 0.21, 0.589, 0.197, 0),
        "windows": WindowCounts(0.961, 2.57, 1.37),
    },
    MEMORY: {
        "copy fused": Counts(4.96, 1.84, 0, 0, 0, 0, 0),
        "copy store": Counts(7.84, 0.348, 0.0705, 0, 0, 0, 0),
        "copy stream": Counts(6.96, 0, 0.374, 0, 0, 0, 0),
        "fused x1024": Counts(3.57, 0.702, 11.8, 2.64, 3.17, 1.56, 0),
        "fused x256": Counts(3.45, 0.0361, 10, 3.19, 3.43, 2.43, 1.12),
        "fused x64": Counts(4.95, 0, 10.3, 2.98, 3.51, 2.39, 2.73),
        "joined": Counts(2.94, 1.52, 0, 0.71, 2.97, 1.42, 0),
        "panels": Counts(4.52, 34.6, 3.26, 0.889, 1.69, 1.2, 0),
        "slabs": Counts(6.53, 2.49, 60.1, 0.00382, 0, 0.135, 0.363),
        "store lines": Counts(11.7, 1.05, 0, 0.00344, 0.574, 0, 1.32),
        "store lines ahead": Counts(10.5, 0.84, 0.604, 0.101, 0.573, 0, 0.357),
        "store runs ahead": Counts(8.16, 0.617, 1.14, 0.161, 0.557, 0, 0),
        "store whole": Counts(9.46, 0.467, 0.942, 0.2, 0.585, 0, 0),
        "stream lines": Counts(9.75, 0.968, 0, 0.156, 0.476, 0, 0.657),
        "stream lines ahead": Counts(8.11, 1.12, 0.931, 0.107, 0.578, 0, 0),
        "stream runs ahead": Counts(7, 0.837, 1.09, 0.125, 0.317, 0, 0),
        "stream whole": Counts(8.8, 0.664, 0.132, 0.165, 0.302, 0, 0.898),
        # The random reorders had none so scattered; measured on a gather of 4-byte elements from memory.
        "gather slabs": Counts(4, 2, 0, 0, 0, 0, 0),
        "gather store": Counts(8, 2, 0, 0, 0, 0, 0),
        "gather stream": Counts(7, 2, 0, 0, 0, 0, 0),
    },
}
