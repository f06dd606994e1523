"""Plans: which candidate does a problem, and why. Every operation chooses here.

A problem has a key (a string: what the cost table knows it by) and candidates. Each candidate names
itself, estimates its seconds, and can be built into something that runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import machine
from .cost import cost_table
from .costfile import Cost

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


MIN_TIMING = 30e-6  # seconds: shorter calls are timed in batches, the clock takes a tenth of a microsecond
MIN_ROUNDS, MAX_ROUNDS = 3, 200
TOLERANCE = 0.01  # of a timing that threads may have waited for a core
PATIENCE = 0.3  # seconds to go on for at least, while other work on the machine spoils the timings
HOPELESS = ((1, 3.0), (2, 2.0), (4, 1.5), (8, 1.2))  # after so many rounds, this many times the best


def measure(
    key: str,
    candidates: Sequence[Candidate],
    runner: Callable[[object], Callable[[], object]],
    budget: float = 0.2,
    again: bool = False,
) -> dict[str, Cost]:
    """Time the candidates and record them; those without a clean timing as doubtful.

    Candidates alternate round by round, each round starting with another one, so that a noisy moment and
    what the one before left in the caches meet them all. Those that are hopelessly slower than the best
    are left where they are, and the time goes to those that could win.

    Parameters
    ----------
    key : str
        What the cost table knows the problem by.
    candidates : sequence of Candidate
    runner : callable
        Turns what a candidate builds into a call on buffers that are already touched.
    budget : float
        Seconds to spend on rounds. Each candidate that is not hopeless gets three timings whatever they take,
        and where its threads had to wait for a core, more of them, until three are clean or patience ends.
    again : bool
        Measure even if the table has all of them.

    Returns
    -------
    dict of str to Cost
        What was measured now; what the table knows if nothing had to be.
    """
    known = cost_table.costs(key)
    if not again and all(c.name in known for c in candidates):
        return {c.name: known[c.name] for c in candidates}
    runs = [(c.name, runner(c.build())) for c in candidates]
    timings = {name: Timings(run) for name, run in runs}
    for t in timings.values():
        t.warm_up()
    start = time.perf_counter()
    alive = list(timings.values())
    for rounds in range(1, MAX_ROUNDS):
        spent = time.perf_counter() - start
        calm = all(len(t.clean) >= MIN_ROUNDS for t in alive) or spent >= max(2 * budget, PATIENCE)
        if rounds >= MIN_ROUNDS and spent >= budget and calm:
            break
        factor = [f for after, f in HOPELESS if rounds >= after][-1]
        limit = factor * min(t.best for t in timings.values())
        alive = [t for t in alive if not t.clean or t.best <= limit]
        first = rounds % len(alive)
        for t in alive[first:] + alive[:first]:
            t.add()
    found = {name: Cost.of(t.clean or t.spoilt) for name, t in timings.items()}
    for name, cost in found.items():
        cost_table.record(key, name, cost, doubtful=not timings[name].clean)
    return found


class Timings:
    """The timings of one candidate; those during which its threads had to wait for a core are held apart."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run, self._calls = run, 1
        self.clean: list[float] = []
        self.spoilt: list[float] = []

    @property
    def best(self) -> float:
        """The least time so far, a clean one if there is any."""
        return min(self.clean or self.spoilt)

    def warm_up(self) -> None:
        """Touch scratch memory, wake the threads, learn how many calls make a timing; take the first one."""
        self._run()
        self.add()
        if not self.clean:
            self.add()
        if self.best < MIN_TIMING:
            self._calls += int(MIN_TIMING / self.best)
            self.clean, self.spoilt = [], []
            self.add()

    def add(self) -> None:
        """Take one more timing."""
        before = machine.waited()
        start = time.perf_counter()
        for _ in range(self._calls):
            self._run()
        seconds = max(time.perf_counter() - start, 1e-9)
        clean = machine.waited() - before <= TOLERANCE * seconds
        (self.clean if clean else self.spoilt).append(seconds / self._calls)


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
