"""Plans: which candidate does a problem, and why. Every operation chooses here.

A problem has a key (a string: what the cost table knows it by) and candidates. Each candidate names
itself, estimates its seconds, and can be built into something that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .cost import cost_table

MODES = ("measure", "estimate", "off")
_mode = "estimate"


class Candidate(NamedTuple):
    """One way to do a problem."""

    name: str
    estimate: float  # seconds
    build: Callable[[], object]


class Choice(NamedTuple):
    """A candidate and what it is thought to cost."""

    candidate: Candidate
    seconds: float
    source: str  # "measured" or "estimated"


def tuning(mode: str) -> str:
    """Set how plans are made from now on; returns the mode before.

    Parameters
    ----------
    mode : {"estimate", "measure", "off"}
        "estimate" (the default) takes measured costs where the table has them and estimates elsewhere;
        "measure" measures what the table lacks, on first use; "off" only estimates.
    """
    global _mode
    if mode not in MODES:
        raise ValueError(f"tuning: expected one of {', '.join(MODES)}, got {mode!r}")
    before, _mode = _mode, mode
    cost_table.generation += 1
    return before


def mode() -> str:
    """The mode of tuning."""
    return _mode


def rank(key: str, candidates: Sequence[Candidate]) -> list[Choice]:
    """Candidates in order, best first: measured ones before estimated ones."""
    costs = {} if _mode == "off" else cost_table.costs(key)
    choices = [
        Choice(c, costs[c.name].min, "measured") if c.name in costs else Choice(c, c.estimate, "estimated")
        for c in candidates
    ]
    return sorted(choices, key=lambda c: (c.source != "measured", c.seconds))


class Plan:
    """The decision about one problem.

    Attributes
    ----------
    title : str
        The problem, as the cost table knows it.
    choices : sequence of Choice
        The candidates, best first.
    """

    def __init__(self, title: str, choices: Sequence[Choice], notes: Sequence[str] = ()) -> None:
        self.title, self.choices, self._notes = title, tuple(choices), notes

    def explain(self) -> str:
        """The candidates in order and what decided, in aligned lines."""
        lines = [self.title]
        width = max(len(c.candidate.name) for c in self.choices)
        best = self.choices[0]
        for i, c in enumerate(self.choices):
            lines.append(
                f"{'->' if i == 0 else '  '} {c.candidate.name:<{width}} {c.seconds * 1e6:10.1f} us"
                f"  {c.source}  {c.seconds / best.seconds:5.2f}x"
            )
        decided = "the only candidate" if len(self.choices) == 1 else f"decided by {best.source} cost"
        return "\n".join([*lines, *self._notes, decided])

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
