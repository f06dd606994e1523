"""Nanoseconds of what estimates count, on one core of the machine whose `scale` is 1.

Least-squares fits to random reorders, level by level: `bench/fit.py` on the output of `bench/unseen.py --exhaustive
--json`.
"""

from __future__ import annotations

from typing import NamedTuple

INNER, SHARED, MEMORY = "inner", "shared", "memory"  # levels: see estimate.py


class Counts(NamedTuple):
    """What nests of tiles move."""

    calls: float  # of kernels
    rows: float = (
        0  # of copies, and those that fused and joined tiles store one by one; lines of runs that are far apart
    )
    lines: float = 0  # of copies; beyond the inner caches, of the whole destination as well
    ends: float = 0  # rows of copies, and those of fused tiles and scattered runs, that end within a line
    elements: float = 0  # gathered one by one, and runs that are put one after another
    vectors8: float = 0  # loaded and stored by full tiles of 8-bit elements
    vectors16: float = 0
    vectors32: float = 0
    vectors64: float = 0
    tails8: float = 0  # by other tiles
    tails16: float = 0
    tails32: float = 0
    tails64: float = 0
    near: float = 0  # elements of gathers that are within a line of the one before in the source
    far: float = 0  # runs of the source that are not near the one before


class SlabCounts(NamedTuple):
    """What slabs move."""

    lines: float
    pieces: float  # contiguous parts that are read
    partial: float  # runs of the destination that end within lines
    inside: float  # nanoseconds of assembling all slabs in the caches


class WindowCounts(NamedTuple):
    """What nests of windows move."""

    lines: float
    steps: float  # patterns
    shuffled: float  # nanoseconds of shuffling all lines
    starts: float = 0  # loads of the orders of a vector, for some steps


COSTS: dict[str, dict[str, Counts | SlabCounts | WindowCounts]] = {
    INNER: {
        "fused x1024": Counts(27.2, 1.38, 0, 3.89, 3.43, 0, 0, 0, 0, 2.33, 1.64, 1.91, 2.23),
        "joined": Counts(9.49, 0.378, 3.06, 0.436, 5.58, 2.16, 2.43, 1.13, 1.07, 0.33, 0.902, 0.666, 0.736, 0, 0.876),
        "runs": Counts(51.3, 0.707, 0.759, 0, 3.43),
        "store lines": Counts(
            4.31, 0.139, 0.55, 0.547, 0.334, 1, 1.38, 0.831, 0.675, 0.5, 0.419, 0.805, 0.699, 0.593, 0.302
        ),
        "store runs ahead": Counts(
            5.65, 0.0704, 0.555, 0.645, 0.323, 1.02, 1.26, 0.703, 0.528, 0.468, 0.382, 0.644, 0.492, 0.301, 0.208
        ),
        "store whole": Counts(
            5.74, 0.0232, 0.57, 0.748, 0.322, 0.997, 1.26, 0.692, 0.521, 0.474, 0.39, 0.627, 0.483, 0.239, 0.144
        ),
        "windows": WindowCounts(0.292, 0.491, 0.739, 1.62),
    },
    SHARED: {
        "fused x1024": Counts(34.5, 0, 1.75, 4.82, 3.63, 0, 0, 0, 0, 2.19, 1.28, 1.25, 0.658, 0, 0.787),
        "joined": Counts(9.63, 0.0216, 1.76, 0.408, 4.29, 1.21, 0.925, 0.3, 0.465, 0.843, 0.6, 0.577, 0.253, 0, 0.0421),
        "runs": Counts(30.8, 1.05, 0.351, 0, 3.63, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0048),
        "store lines": Counts(
            6.76, 0.388, 0.546, 0.653, 0.703, 1.52, 0.855, 0.767, 0.771, 0.497, 0.377, 0.558, 0.352, 0.133, 0.298
        ),
        "store runs ahead": Counts(
            6.68, 0.333, 0.531, 0.751, 0.601, 1.55, 0.991, 0.598, 0.587, 0.488, 0.347, 0.509, 0.451, 0.135, 0.254
        ),
        "store whole": Counts(
            7.04, 0.318, 0.515, 0.764, 0.499, 1.72, 0.942, 0.622, 0.612, 0.449, 0.341, 0.496, 0.357, 0.138, 0.26
        ),
        "windows": WindowCounts(0.228, 3.44, 1.04, 1.68),
    },
    MEMORY: {
        "fused x1024": Counts(68.3, 0.825, 1.27, 5.21, 5.72, 0, 0, 0, 0, 2.65, 1.93, 1.52, 1.37, 0, 0.246),
        "fused x256": Counts(91.8, 2.35, 0, 4.47, 5.72, 0, 0, 0, 0, 2.3, 1.92, 1.52, 1.43, 0, 0.164),
        "fused x64": Counts(92.4, 4.21, 0, 4.76, 5.72, 0, 0, 0, 0, 2.16, 1.44, 1.34, 1.54),
        "joined": Counts(40.9, 0.176, 1.89, 0.0117, 5, 1.72, 1.43, 0.893, 0.774, 0.349, 0.243, 0.533, 1.08, 0, 1.29),
        "panels": Counts(27.6, 0, 1.86, 4, 2.68, 3.11, 2.35, 1.89, 1.54, 1.15, 1.28, 1.43, 1.9, 0.25, 0.658),
        "runs": Counts(246, 2.63, 0, 0, 5.72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0878),
        "scattered": Counts(0, 1.93, 1.29, 0.597, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.824),
        "slabs": SlabCounts(2.5, 0.8, 55, 1.2),
        "store lines": Counts(
            3.74, 0.206, 3.12, 3.21, 1.18, 6.03, 5.21, 3.47, 3.07, 0.718, 1.48, 1.67, 2.08, 0.25, 1.29
        ),
        "store lines ahead": Counts(
            5.15, 0.177, 3.14, 3.3, 1.57, 4.6, 4.09, 3.04, 2.56, 0.763, 1.54, 1.55, 2.15, 0.25, 0.916
        ),
        "store runs ahead": Counts(
            5.68, 0.0774, 3.28, 3.7, 0.9, 3.72, 2.99, 1.9, 1.85, 0.749, 1.11, 1.56, 1.85, 0.25, 0.608
        ),
        "store whole": Counts(
            5.61, 0.123, 3.25, 3.36, 0.9, 4.42, 3.78, 2.41, 2.43, 0.654, 1.05, 1.35, 1.46, 0.25, 0.921
        ),
        "stream lines": Counts(16.4, 0, 1.57, 4.77, 0.9, 4.45, 1.73, 1.94, 1.87, 0.665, 1.69, 1.19, 0.433, 0.25, 0.489),
        "stream lines ahead": Counts(
            15.7, 0, 1.57, 4.57, 1.33, 3.15, 1.42, 1.4, 1.3, 0.681, 1.7, 1.34, 0.856, 0.25, 0.422
        ),
        "stream runs ahead": Counts(
            14.5, 0, 1.53, 4.79, 0.9, 3.41, 1.37, 1.4, 1.65, 0.701, 1.53, 1.51, 1.24, 0.25, 0.31
        ),
        "stream whole": Counts(15.7, 0, 1.56, 4.72, 0.9, 4.09, 1.62, 1.84, 2.15, 0.684, 1.48, 1.31, 0.958, 0.25, 0.413),
    },
}

LEAST_LINE_NS = {INNER: 0.5, SHARED: 0.5, MEMORY: 0.8}  # less than a line of the destination takes by any of these
