"""What checking plans costs: planning with and without it, in turns, medians: ``python bench/checks.py``."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from statistics import median

os.environ["LAYOUTKIT_CACHE_DIR"] = os.devnull

import numpy as np

import layoutkit as lk
from layoutkit.choosing.cache import plans
from layoutkit.convolutions import route
from layoutkit.reorders import program

ROUNDS = 15
WIDE = np.ones((9, 2, 9, 8, 12), np.float32)
PROBLEMS = {  # what is planned
    "reorder NCHW -> NHWC": lambda: lk.reorder(np.ones((1, 20, 9, 8), np.float32), "NCHW", "NHWC", threads=1),
    "reorder NCHW -> nChw16c": lambda: lk.reorder(np.ones((1, 20, 9, 8), np.float32), "NCHW", "nChw16c", threads=1),
    "reorder aBcd12b -> ABcd16b4a": lambda: lk.reorder(WIDE, "aBcd12b", "ABcd16b4a", threads=1),
    "conv2d NHWC": lambda: lk.Conv2d(W, layout="NHWC", padding=1, threads=1)(np.ones((1, 9, 9, 32), np.float32)),
    "conv2d NCHW": lambda: lk.Conv2d(W, padding=1, threads=1)(np.ones((1, 32, 9, 9), np.float32)),
    "depthwise nChw16c": lambda: lk.Conv2d(DEPTHWISE, layout="nChw16c", groups=512, threads=1)(
        np.ones((1, 32, 9, 9, 16), np.float32)),
}  # fmt: skip
W, DEPTHWISE = np.ones((32, 32, 3, 3), np.float32), np.ones((512, 1, 3, 3), np.float32)


@contextmanager
def unchecked():
    """Plans made inside are not checked."""
    kept = program.check_reach, route.check_executor
    program.check_reach, route.check_executor = (lambda *_: None), (lambda *_: (0, 0))
    try:
        yield
    finally:
        program.check_reach, route.check_executor = kept


def forget() -> None:
    """Nothing that was planned is known any more, but for the costs."""
    plans.clear()
    lk.cost_table.generation += 1


def seconds(plan) -> float:
    """What a first call takes."""
    forget()
    start = time.thread_time()
    plan()
    return time.thread_time() - start


def main() -> int:
    """Run the command; returns its exit code."""
    for name, plan in PROBLEMS.items():
        with_check, without = [], []
        for _ in range(ROUNDS):
            with_check.append(seconds(plan))
            with unchecked():
                without.append(seconds(plan))
        checked, bare = median(with_check), median(without)
        print(f"{name:<30} first call {checked * 1e6:7.0f} us, of which the check {(checked - bare) * 1e6:5.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
