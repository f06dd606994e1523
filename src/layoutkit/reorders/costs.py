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
        "tiles fused x1024": TileCounts(55, 2.33, 1.53, 3.99, 2.4, 0, 0, 0, 0, 1.96, 1.83, 1.26, 0.802),
        "tiles joined": TileCounts(13.4, 0.254, 2.09, 0.22, 2.03, 1.63, 1.53, 0.966, 0.972, 0.744, 0.809, 0.818, 0.714),
        "tiles store lines": TileCounts(5.39, 0.292, 0.834, 0.776, 0.878, 0.944, 0.967, 0.682, 0.658, 0.461, 0.483, 0.668, 0.764),
        "tiles store runs ahead": TileCounts(5.51, 0.197, 0.814, 0.877, 0.865, 0.889, 0.891, 0.63, 0.594, 0.433, 0.423, 0.577, 0.528),
        "tiles store whole": TileCounts(5.75, 0.109, 0.796, 0.964, 0.861, 0.835, 0.865, 0.601, 0.54, 0.429, 0.42, 0.565, 0.513),
        "windows": WindowCounts(0.336, 1.05, 0.712, 1.83),
    },
    SHARED: {
        "tiles fused x1024": TileCounts(88.6, 2.32, 0, 4.51, 1.72, 0, 0, 0, 0, 1.85, 1.76, 0.903, 0.447),
        "tiles joined": TileCounts(17.7, 0.0537, 1.15, 0, 2.19, 1.17, 1.03, 0.403, 0.343, 0.689, 0.673, 0.58, 0.508),
        "tiles store lines": TileCounts(5.83, 0.339, 0.61, 0.824, 1.06, 1.15, 0.973, 0.655, 0.587, 0.451, 0.453, 0.644, 0.663),
        "tiles store runs ahead": TileCounts(5.87, 0.25, 0.608, 0.961, 0.996, 1.19, 0.89, 0.553, 0.484, 0.42, 0.405, 0.551, 0.517),
        "tiles store whole": TileCounts(5.97, 0.172, 0.59, 1.02, 0.983, 1.12, 0.881, 0.553, 0.475, 0.426, 0.407, 0.554, 0.524),
        "windows": WindowCounts(0.704, 0.869, 0.879, 1.63),
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
