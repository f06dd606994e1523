"""Nanoseconds of what estimates count, on one core of the machine whose `scale` is 1.

Least-squares fits to random reorders, level by level: `bench/fit.py` on the output of `bench/unseen.py --exhaustive
--json`.
"""

from __future__ import annotations

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
    vectors8: float = 0  # loaded and stored by full tiles of 8-bit elements
    vectors16: float = 0
    vectors32: float = 0
    vectors64: float = 0
    tails8: float = 0  # by other tiles
    tails16: float = 0
    tails32: float = 0
    tails64: float = 0


class WindowCounts(NamedTuple):
    """What nests of windows move."""

    lines: float
    steps: float  # patterns
    shuffled: float  # nanoseconds of shuffling all lines
    starts: float = 0  # of a vector of the pattern, for some steps


COSTS: dict[str, dict[str, Counts | TileCounts | WindowCounts]] = {
    INNER: {
        "tiles fused x1024": TileCounts(55.8, 2.26, 1.24, 2.76, 0.0247, 0, 0, 0, 0, 1.93, 1.8, 1.24, 0.791),
        "tiles store lines": TileCounts(
            5.22, 0.283, 0.807, 0.75, 0.853, 0.909, 0.93, 0.662, 0.637, 0.446, 0.47, 0.647, 0.742
        ),
        "tiles store runs ahead": TileCounts(
            5.34, 0.192, 0.788, 0.849, 0.841, 0.853, 0.855, 0.611, 0.574, 0.42, 0.412, 0.559, 0.513
        ),
        "tiles store whole": TileCounts(
            5.57, 0.106, 0.77, 0.933, 0.837, 0.801, 0.83, 0.583, 0.522, 0.417, 0.408, 0.547, 0.499
        ),
        "windows": WindowCounts(0.323, 1.02, 0.69, 1.78),
    },
    SHARED: {
        "tiles fused x1024": TileCounts(86.8, 2.27, 0, 4.38, 0.59, 0, 0, 0, 0, 1.79, 1.71, 0.869, 0.444),
        "tiles joined": TileCounts(10.5, 0, 0.994, 1.37, 1.2, 0, 0, 0, 0, 1.76, 1.65, 1.43, 1.31),
        "tiles store lines": TileCounts(
            5.65, 0.33, 0.589, 0.804, 1.03, 1.12, 0.946, 0.638, 0.573, 0.433, 0.438, 0.625, 0.659
        ),
        "tiles store runs ahead": TileCounts(
            5.69, 0.244, 0.589, 0.936, 0.967, 1.15, 0.863, 0.538, 0.47, 0.404, 0.392, 0.534, 0.511
        ),
        "tiles store whole": TileCounts(
            5.76, 0.167, 0.572, 0.992, 0.955, 1.09, 0.854, 0.537, 0.463, 0.41, 0.393, 0.537, 0.518
        ),
        "windows": WindowCounts(0.679, 0.899, 0.853, 1.58),
    },
    MEMORY: {
        "copy fused": Counts(4.96, 1.84, 0, 0, 0, 0, 0),
        "copy store": Counts(7.84, 0.348, 0.0705, 0, 0, 0, 0),
        "copy stream": Counts(6.96, 0, 0.374, 0, 0, 0, 0),
        "fused x1024": Counts(3.28, 1.19, 10.6, 1.05, 0.682, 0.191, 0),
        "fused x256": Counts(3.3, 0.931, 10.4, 1.15, 0.917, 0.543, 0),
        "fused x64": Counts(3.62, 0, 10.3, 2.27, 2.08, 1.58, 0),
        "joined": Counts(3.44, 1.68, 0, 0.229, 0.409, 0.396, 0),
        "panels": Counts(3.12, 28.5, 1.67, 0.552, 0.649, 0.73, 0),
        "runs": Counts(2.62, 5.18, 0, 0, 0, 0, 0),
        "slabs": Counts(5.11, 1.92, 24.4, 0.0274, 0.0206, 0.0549, 0.198),
        "store lines": Counts(10, 1.15, 0, 0.167, 0.423, 0.0482, 0.673),
        "store lines ahead": Counts(9.23, 0.868, 0.00299, 0.214, 0.685, 0.336, 0.57),
        "store runs ahead": Counts(7.93, 0.589, 0.438, 0.215, 0.616, 0, 0),
        "store whole": Counts(8.18, 0.6, 0.347, 0.249, 0.584, 0, 0),
        "stream lines": Counts(6.66, 1.08, 0.207, 0.181, 0.52, 0, 0.48),
        "stream lines ahead": Counts(5.96, 1.04, 0, 0.145, 0.599, 0.0798, 0.783),
        "stream runs ahead": Counts(5.44, 0.608, 0.282, 0.224, 0.729, 0, 0.113),
        "stream whole": Counts(5.77, 0.664, 0.36, 0.221, 0.652, 0, 0),
        # The random reorders had none so scattered; measured on a gather of 4-byte elements from memory.
        "gather slabs": Counts(4, 2, 0, 0, 0, 0, 0),
        "gather store": Counts(8, 2, 0, 0, 0, 0, 0),
        "gather stream": Counts(7, 2, 0, 0, 0, 0, 0),
    },
}
