"""Means and extremes of long windows along an axis: of all elements, or of shorter windows; cost tells which.

    direct     y[i] = x[i] + x[i + 1] + .. + x[i + n - 1]
    running    windows of m elements make those of 2 m or 2 m + 1, or ends and beginnings of blocks make those between

How the second is done: `_core/nests/filters/separable.pyx`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log2, prod
from typing import Any

import numpy as np

from .._core.nests.filters.separable_plan import RUNNING_STRIP
from ..choosing.machine_profile import scale
from ..choosing.problem import Candidate
from . import windows as w
from .passes import REALS, is_points, one_pass
from .problem import FilterProblem, way_of
from .windows import Windows

LEAST_SPAN = 13  # elements from which on cost is asked for: of shorter ones, means of a part have the bits of the whole
DIRECT, RUNNING = "direct", "running"
# Measured on one core of AMD Zen 5, seconds for each byte of the result: what direct ones take, more for each element
# of a window; what running ones take, more for the logarithm of their number. Across rows; of elements along rows, and
# of several together.
SECONDS = {
    ("weigh", "lines"): (3.4e-11, 3.3e-12, 4.0e-11, 1.0e-11), ("fold", "lines"): (2.8e-11, 2.3e-12, 5.5e-11, 1.3e-11),
    ("weigh", "points"): (6.4e-11, 5.8e-12, 2.0e-11, 2.9e-11), ("fold", "points"): (4.8e-11, 6.2e-12, 1.5e-11, 3.0e-11),
    ("weigh", "units"): (3.6e-11, 5.7e-12, 5.7e-11, 1.5e-11), ("fold", "units"): (6.3e-11, 5.1e-12, 9.4e-11, 1.1e-11),
}  # fmt: skip


@dataclass(frozen=True)
class RunningProblem(FilterProblem):
    """Means, or extremes, of `span` elements along the second axis of an array of three."""

    kind: str  # as the nest takes it: "weigh" or "fold"
    shape: tuple[int, int, int]
    span: int
    element: str  # that means are made of

    @property
    def key(self) -> str:
        """Its key in the cost table."""
        what = "means" if self.kind == "weigh" else "extremes"
        return f"{what} {'x'.join(map(str, self.shape))} w{self.span} {self.element} t1"

    @property
    def work(self) -> int:
        """Sums, or comparisons."""
        return self.span * prod(self.shape)

    def candidates(self) -> Iterator[Candidate]:
        """Both ways."""
        unit, levels = self.shape[2], log2(self.span)
        along = "points" if unit == 1 else "units" if is_points(self.shape, 1) else "lines"
        if along != "lines":  # shorter windows are made for a piece of a row and as much behind it
            levels *= 1 + self.span / max(self.span, RUNNING_STRIP // unit)
        direct, each, running, level = SECONDS[self.kind, along]
        seconds = prod(self.shape) * self.dtype.itemsize * (scale().step(self.element) or 1.0)
        yield Candidate(DIRECT, (direct + each * self.span) * seconds, lambda *_: False)
        yield Candidate(RUNNING, (running + level * levels) * seconds, lambda *_: True)

    def prepare(self) -> Callable[[Any], Callable[[], object]]:
        """Arrays, and a function from what a candidate built to a call on them."""
        x, y = np.ones(self.shape, self.dtype), np.empty(self.shape, self.dtype)
        place = self.span, 1, self.span // 2, "reflect"
        window = w.box(*place) if self.kind == "weigh" else w.extreme(*place, w.LEAST)

        def call(runs: bool) -> Callable[[], object]:
            group = [replace(window, running=runs)]
            return lambda: one_pass(self.kind, x, y, group, (self.element,) * 3, 0.0, 1)

        return call


def decided(window: Windows, kind: str, shape: Sequence[int], element: str) -> Windows:
    """The windows, running if these take less time."""
    if window.span < LEAST_SPAN or window.weight is not None:
        return window
    if kind == "weigh" and (window.kind != w.PLAIN or element not in REALS):
        return window
    axis = window.axis
    axes = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    return replace(window, running=way_of(RunningProblem(kind, axes, window.span, element)) == RUNNING)
