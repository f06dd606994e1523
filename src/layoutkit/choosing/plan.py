"""Plans: which candidate does a problem, and why. Every operation chooses here.

A problem has a key (a string: what the cost table knows it by) and candidates. Each candidate names
itself, estimates its seconds, and can be built into something that runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from . import model
from .costfile import Cost
from .table import cost_table

SHOWN = 8  # candidates that a plan tells of
MODES = ("measure", "estimate", "off")
MODE = "LAYOUTKIT_TUNING"
DOUBT = 8.0  # times an estimate, past which a measured cost is doubted: few estimates are that far off
_mode, _budget, _changes = os.environ.get(MODE) or "estimate", inf, 0
if _mode not in MODES:
    raise ImportError(f"{MODE}={_mode!r}: expected one of {', '.join(MODES)}")


class SlowPathWarning(RuntimeWarning):
    """All ways to do a problem are slow for what it is: said once for each, and by every explanation of its plan."""


class Step(NamedTuple):
    """What a candidate does beside its own problem, a problem of its own: packing a filter that is met once."""

    key: str
    name: str
    estimate: float  # seconds


class Candidate(NamedTuple):
    """One way to do a problem."""

    name: str
    estimate: float  # seconds, by counting
    build: Callable[[], Any]
    steps: tuple[Step, ...] = ()


class Choice(NamedTuple):
    """A candidate and what it is thought to cost, its steps included."""

    candidate: Candidate
    seconds: float
    source: str  # "measured" or "estimated"
    basis: str = ""  # what that rests on, in words


def tuning(mode: str, budget: float | None = None) -> str:
    """Set how plans are made from now on; returns the mode before. ``LAYOUTKIT_TUNING`` sets it from the start.

    Parameters
    ----------
    mode : {"estimate", "measure", "off"}
        "estimate" (the default) takes measured costs where the table has them and estimates elsewhere, from what
        was measured nearby; "measure" measures the most promising candidates of problems that the table lacks, on
        first use, and saves them when the process ends; "off" never looks at the table.
    budget : float, optional
        Seconds that "measure" may spend from now on, all problems together. A problem that would take more than is
        left is estimated.
    """
    global _mode, _budget, _changes
    if mode not in MODES:
        raise ValueError(f"tuning: expected one of {', '.join(MODES)}, got {mode!r}")
    if budget is not None and (mode != "measure" or not budget >= 0):
        raise ValueError(f"tuning: budget is seconds for 'measure', got {budget!r} for {mode!r}")
    before, _mode, _budget = _mode, mode, inf if budget is None else float(budget)
    _changes += 1
    cost_table.generation += 1
    return before


def mode() -> str:
    """The mode of tuning."""
    return _mode


def changes() -> int:
    """How often `tuning` has been called."""
    return _changes


def budget(spent: float = 0.0) -> float:
    """Seconds left for measuring, after `spent` more."""
    global _budget
    _budget -= spent
    return _budget


def rank(key: str, candidates: Sequence[Candidate]) -> list[Choice]:
    """Candidates in order, best first: measured ones before estimated ones.

    But an estimate goes before a measured cost of more than `DOUBT` times as much: then one of the two is wrong, and
    estimates are off by less than that, measurements that something disturbed unnoticed by more.
    """
    off = _mode == "off"
    known: dict[str, Mapping[str, Cost]] = {}
    doubtful: dict[str, Mapping[str, Cost]] = {}
    factors: dict[str, model.Corrections] = {}

    def cost(key: str, name: str, estimate: float) -> tuple[float, Cost | None]:
        if key not in known:
            known[key], doubtful[key] = ({}, {}) if off else (cost_table.costs(key), cost_table.doubtful(key))
        if name in known[key]:
            return known[key][name].min, known[key][name]
        if key not in factors:
            factors[key] = model.corrections(key, own=not off)
        seconds = estimate * factors[key][name]
        return min(seconds, doubtful[key][name].min) if name in doubtful[key] else seconds, None

    choices = []
    for c in candidates:
        parts = [cost(key, c.name, c.estimate), *(cost(*step) for step in c.steps)]
        seconds, measured = sum(part[0] for part in parts), parts[0][1]
        if measured and all(part[1] for part in parts):
            basis = f"{measured.count} timings +-{measured.spread / measured.median:.1%}"
            choices.append(Choice(c, seconds, "measured", basis))
        else:
            basis = "its packing was not measured" if measured else factors[key].basis
            choices.append(Choice(c, seconds, "estimated", basis))
    return sorted(choices, key=lambda c: c.seconds if c.source == "measured" else DOUBT * c.seconds)


class Plan:
    """The decision about one problem.

    Attributes
    ----------
    title : str
        The problem, as the cost table knows it.
    choices : sequence of Choice
        The candidates, best first.
    note : callable, optional
        Makes lines about the best one when the plan is explained.
    run : callable, optional
        Does it: ``run(array, out)`` for arrays of the shapes, strides and dtypes that were planned, in a fraction of
        a microsecond above the work. Of moves only; a kept convolution is `lk.Conv2d`.
    """

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        note: Callable[[], str] | None = None,
        run: Callable[..., None] | None = None,
    ) -> None:
        self.title, self.choices, self._note, self.run = title, tuple(choices), note, run

    def explain(self) -> str:
        """The candidates in order and what decided, in aligned lines."""
        name = max(len(c.candidate.name) for c in self.choices[:SHOWN])
        best = self.choices[0]
        lines = [self.title]
        for i, c in enumerate(self.choices[:SHOWN]):
            line = (
                f"{'->' if i == 0 else '  '} {c.candidate.name:<{name}} {c.seconds * 1e6:10.1f} us"
                f"  {c.source:<9} {c.seconds / best.seconds:6.2f}x  {c.basis if c.source == 'measured' else ''}"
            )
            lines.append(line.rstrip())
        if len(self.choices) > SHOWN:
            last = self.choices[-1].seconds / best.seconds
            lines.append(f"   and {len(self.choices) - SHOWN} more, up to {last:.2f}x")
        if any(c.candidate.steps for c in self.choices):
            lines.append("packing the filter is part of the cost: a convolution object packs it once")
        decided = "the only candidate" if len(self.choices) == 1 else f"decided by {best.source} cost"
        if best.source == "estimated":
            decided += f", {best.basis or 'by counting: nothing like it was measured'}"
        if self._note:
            lines.append(self._note())
        return "\n".join([*lines, decided])

    def __repr__(self) -> str:
        return self.explain()


_planners: dict[Callable, Callable[..., Plan]] = {}


def planner(operation: Callable) -> Callable:
    """Register the function that plans `operation`; it takes the same arguments."""

    def register(function: Callable[..., Plan]) -> Callable[..., Plan]:
        _planners[operation] = function
        return function

    return register


def plan(operation: Callable, *args, **kwargs) -> Plan:
    """What ``operation(*args, **kwargs)`` would do, without doing it.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.zeros((1, 64, 56, 56), np.float32)
    >>> print(lk.plan(lk.reorder, x, "NCHW", "NHWC").explain())    # doctest: +ELLIPSIS
    reorder 1x64x56x56 NCHW>NHWC x32 t...
    """
    if operation not in _planners:
        known = ", ".join(sorted(f.__name__ for f in _planners))
        raise TypeError(f"plan: {operation!r} has no plans; those that have: {known}")
    return _planners[operation](*args, **kwargs)
