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
    rows: float = 0  # of copies, and those that fused and joined tiles store one by one
    lines: float = 0  # of copies; beyond the inner caches, of the whole destination as well
    ends: float = 0  # rows of copies that end within a line; those of fused tiles that are shorter than 16 bytes
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


class SlabCounts(NamedTuple):
    """What slabs move."""

    lines: float
    pieces: float  # contiguous parts that are read
    partial: float  # runs of the destination that end within lines


class WindowCounts(NamedTuple):
    """What nests of windows move."""

    lines: float
    steps: float  # patterns
    shuffled: float  # nanoseconds of shuffling all lines
    starts: float = 0  # loads of the orders of a vector, for some steps


COSTS: dict[str, dict[str, Counts | SlabCounts | WindowCounts]] = {
    INNER: {
        "fused x1024": Counts(56.1, 2.38, 1.56, 4.06, 2.45, 0, 0, 0, 0, 2, 1.87, 1.29, 0.818),
        "joined": Counts(13.7, 0.259, 2.14, 0.224, 2.07, 1.66, 1.56, 0.985, 0.991, 0.758, 0.824, 0.834, 0.728),
        "runs": Counts(56.1, 0, 1.3, 0, 2.8),
        "store lines": Counts(
            5.5, 0.298, 0.851, 0.791, 0.35, 0.962, 0.987, 0.696, 0.671, 0.47, 0.492, 0.681, 0.779, 0.25
        ),
        "store runs ahead": Counts(5.62, 0.2, 0.83, 0.89, 0.35, 0.91, 0.91, 0.64, 0.61, 0.44, 0.43, 0.59, 0.54, 0.25),
        "store whole": Counts(
            5.87, 0.111, 0.812, 0.983, 0.35, 0.852, 0.882, 0.613, 0.551, 0.438, 0.428, 0.576, 0.524, 0.25
        ),
        "windows": WindowCounts(0.343, 1.07, 0.726, 1.87),
    },
    SHARED: {
        "fused x1024": Counts(90.3, 2.37, 0, 4.6, 1.76, 0, 0, 0, 0, 1.88, 1.79, 0.921, 0.455),
        "joined": Counts(18.1, 0.0547, 1.19, 0, 2.24, 1.19, 1.05, 0.411, 0.35, 0.702, 0.687, 0.591, 0.518),
        "runs": Counts(90.3, 0, 0.65, 0, 2.8),
        "store lines": Counts(5.94, 0.346, 0.63, 0.84, 0.4, 1.18, 0.992, 0.668, 0.598, 0.46, 0.462, 0.657, 0.676, 0.27),
        "store runs ahead": Counts(5.99, 0.26, 0.63, 0.98, 0.4, 1.21, 0.91, 0.56, 0.49, 0.43, 0.41, 0.56, 0.53, 0.27),
        "store whole": Counts(
            6.08, 0.176, 0.61, 1.04, 0.4, 1.14, 0.899, 0.564, 0.485, 0.435, 0.415, 0.565, 0.535, 0.27
        ),
        "windows": WindowCounts(0.728, 0.886, 0.897, 1.67),
    },
    MEMORY: {
        "fused x1024": Counts(118, 3.64, 0, 5.92, 4.26, 0, 0, 0, 0, 1.74, 1.14, 0.375, 0),
        "fused x256": Counts(111, 3.98, 0, 6.37, 4.21, 0, 0, 0, 0, 1.58, 1.1, 0.463, 0),
        "fused x64": Counts(105, 4.92, 0, 7.39, 3.89, 0, 0, 0, 0, 1.61, 1.28, 0.539, 0),
        "joined": Counts(28.3, 0, 2.64, 0.613, 5.9, 1.19, 0.754, 0.52, 0.561, 0.362, 0.641, 0.538, 0.399),
        "panels": Counts(31.7, 0.635, 1.64, 4.69, 0.9, 2.39, 1.93, 1.43, 1.03, 0.69, 0.97, 1.46, 1.82, 0.25),
        "runs": Counts(100, 0, 1.47, 0, 1.2),
        "scattered": Counts(30, 1, 1.2, 10),
        "slabs": SlabCounts(5.49, 1.37, 25.6),
        "store lines": Counts(20.2, 2.2, 1.88, 2.63, 0.9, 3.97, 3.87, 2.36, 1.93, 1.31, 1.36, 2.22, 2.79, 0.25),
        "store lines ahead": Counts(25, 1.22, 1.85, 3.62, 0.9, 3.16, 3.29, 2.22, 1.8, 1.35, 1.42, 2.2, 2.47, 0.25),
        "store runs ahead": Counts(22.2, 0.731, 1.89, 4.19, 0.9, 2.69, 2.78, 1.49, 1.33, 1.13, 1.27, 1.92, 2.54, 0.25),
        "store whole": Counts(23.6, 1.02, 1.84, 3.9, 0.9, 3.14, 3, 1.55, 1.37, 1.1, 1.21, 1.84, 2.48, 0.25),
        "stream lines": Counts(15.3, 2.26, 1.54, 3.16, 0.9, 3.87, 3.6, 2.11, 1.62, 1.26, 1.44, 2.15, 2.94, 0.25),
        "stream lines ahead": Counts(21.4, 0.918, 1.51, 4.57, 0.9, 3.08, 2.9, 1.93, 1.47, 1.28, 1.47, 2.14, 2.76, 0.25),
        "stream runs ahead": Counts(16.2, 0.624, 1.58, 4.97, 0.9, 2.64, 2.57, 1.44, 1.31, 1.11, 1.34, 1.89, 2.61, 0.25),
        "stream whole": Counts(19.5, 1.54, 1.47, 3.92, 0.9, 3.13, 2.97, 1.58, 1.43, 1.07, 1.28, 1.87, 2.63, 0.25),
    },
}

LEAST_LINE_NS = {INNER: 0.7, SHARED: 0.7, MEMORY: 0.8}  # less than a line of the destination takes by any of these
