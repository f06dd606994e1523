"""Measuring candidates against one another on a machine that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from math import inf
from typing import Any

from . import machine, progress, tuning
from .blas_threads import single_threaded
from .costfile import Cost
from .problem import Candidate, Choice, Problem
from .ranking import DOUBT_RATIO, candidates_of, rank
from .table import cost_table

MIN_TIMING_SECONDS = 30e-6  # shorter calls are timed in batches: reading the clock takes a tenth of a microsecond
MIN_ROUNDS, MAX_ROUNDS = 3, 200
WAITED_SHARE = 0.01  # of a clean timing, at most, its threads waited for a core
STEADY_RATIO = 1.5  # of the median of timings to the least: above it, more timings are taken
PATIENCE_SECONDS = 0.3  # to go on for at least, while other work on the machine spoils the timings
DROP_RATIOS = ((1, 3.0), (2, 2.0), (4, 1.5), (8, 1.2))  # (rounds, ratio to the best) beyond which candidates drop out
FIRST_USE_CANDIDATES, FIRST_USE_SECONDS = 5, 0.15  # measured on first use, and the time for their rounds
RIVAL_SHARE = 0.9  # of the best measured cost: candidates estimated below it are measured after all
# Candidates that took more than so many times the best, and more than so many seconds, are not timed again. A moment's
# disturbance may be many times a short call, which costs nothing to time again.
SECOND_LOOK_RATIO, SECOND_LOOK_SECONDS = 10, 1e-3


def measure(
    problem: Problem,
    seconds: float = 0.2,
    candidates: Sequence[Candidate] | None = None,
    runner: Callable[[Any], Callable[[], object]] | None = None,
) -> dict[str, Cost]:
    """Time the candidates of a problem, all or some, and record them; those that are not trusted as doubtful.

    A candidate is trusted if it has `MIN_ROUNDS` clean timings: ones during which its threads did not wait for a core.
    One is enough for candidates that are far behind. `runner` is what `problem.prepare` returned, if it was called.

    Returns
    -------
    dict of str to Cost
        What was measured now, without candidates that ran out of memory.
    """
    try:
        runner = runner or problem.prepare()
    except MemoryError:
        return {}
    timings = timed(candidates_of(problem) if candidates is None else candidates, runner, seconds)
    limit = DROP_RATIOS[-1][1] * min((t.best for t in timings.values()), default=inf)
    for name, t in timings.items():
        trusted = len(t.clean) >= (MIN_ROUNDS if t.best <= limit else 1)
        cost_table.record(problem.key, name, t.cost, doubtful=not trusted)
    return {name: t.cost for name, t in timings.items()}


def timed(candidates: Sequence[Candidate], runner: Callable, seconds: float) -> dict[str, Timings]:
    """Timings of candidates by name.

    They take turns round by round, each round starting with another one, so that a noisy moment, and what the previous
    candidate left in the caches, meets all of them alike. Candidates that are hopelessly slower than the best drop out,
    and the time goes to those that could win. Rounds take `seconds`; but each candidate still in the race gets three
    timings however long they take, and more while its threads have to wait for a core or its timings are far apart,
    until three are clean and near each other or `PATIENCE_SECONDS` are over. One that runs out of memory is left out.
    """
    timings = {}
    for c in candidates:
        try:
            timings[c.name] = Timings(runner(c.build()))
        except MemoryError:
            pass
    with single_threaded():
        _take_turns(list(timings.values()), seconds)
    return {name: t for name, t in timings.items() if t.fits}


_examined: dict[str, tuple] = {}  # by key, the `_state` in which a problem was last examined
MAX_EXAMINED = 1 << 16  # problems


def _state() -> tuple:
    return tuning.changes(), cost_table.loads, cost_table.path


def first_use(problem: Problem) -> None:
    """Measure the most promising candidates of a problem that the table lacks, as far as the budget of tuning allows.

    First the best `FIRST_USE_CANDIDATES` by estimate; then candidates that are estimated to take less than the best of
    those took, a few at a time; last, once more, candidates that took many times their estimate: it may have been a
    bad moment.
    """
    key = problem.key
    if tuning.mode() != "measure" or _examined.get(key) == _state():
        return
    todo = _rivals(problem, tried_candidates(key))
    if len(_examined) >= MAX_EXAMINED:
        _examined.clear()
    _examined[key] = _state()  # after `tried_candidates`, which may have loaded the table
    if len(candidates_of(problem)) < 2 or not todo or _needed(todo) > tuning.budget():
        return
    cost_table.save_at_exit()
    progress.step(f"measuring {key}")
    try:
        _Session(problem).run(todo)
    except MemoryError:  # no memory for the arrays: the estimates decide
        pass


def tried_candidates(key: str) -> list[str]:
    """Candidates of a problem that were measured, with or without success."""
    return [*cost_table.costs(key), *cost_table.doubtful(key)]


def _rivals(problem: Problem, tried: Container[str]) -> list[Choice]:
    """A few untried candidates that may beat the best measured one; none where all timings were disturbed."""
    ranked = rank(problem)
    measured = [c.seconds for c in ranked if c.source == "measured"]
    if not measured and cost_table.doubtful(problem.key):
        return []
    best = min(measured, default=inf)
    rivals = [c for c in ranked if c.candidate.name not in tried and c.seconds < RIVAL_SHARE * best]
    return rivals[:FIRST_USE_CANDIDATES]


class _Session:
    """Measuring one problem on first use."""

    def __init__(self, problem: Problem) -> None:
        self._start = time.perf_counter()
        self._expected = {c.candidate.name: c.seconds for c in rank(problem)}  # before anything is measured
        self._problem, self._runner = problem, problem.prepare()

    def run(self, todo: Sequence[Choice]) -> None:
        tried, seconds = set(tried_candidates(self._problem.key)), FIRST_USE_SECONDS
        try:
            while todo and _needed(todo) <= self._left():
                leader = self._measured()[:1]  # timed again beside the others, under the same conditions
                self._measure([*todo, *leader], min(seconds, self._left() - _needed(todo)))
                tried |= {c.candidate.name for c in todo}
                todo, seconds = _rivals(self._problem, tried), FIRST_USE_SECONDS / 2
            again = self._doubted()
            if again and _needed(again) <= self._left():
                self._measure(again, FIRST_USE_SECONDS / 2)
        finally:
            tuning.budget(time.perf_counter() - self._start)

    def _measured(self) -> list[Choice]:
        return [c for c in rank(self._problem) if c.source == "measured"]

    def _left(self) -> float:
        return tuning.budget() - (time.perf_counter() - self._start)

    def _measure(self, choices: Sequence[Choice], seconds: float) -> None:
        measure(self._problem, seconds, [c.candidate for c in choices], self._runner)

    def _doubted(self) -> list[Choice]:
        """Candidates that would be the best by their estimate, but took many times that."""
        measured = [(c, self._expected[c.candidate.name]) for c in self._measured()]
        best = min((c.seconds for c, _ in measured), default=inf)
        return [c for c, expected in measured if expected < best and DOUBT_RATIO * expected < c.seconds]


def _needed(choices: Sequence[Choice]) -> float:
    """Seconds that measuring takes at least: two runs to warm up, and the rounds."""
    return (2 + MIN_ROUNDS) * sum(c.seconds for c in choices)


def _take_turns(timings: Sequence[Timings], seconds: float) -> None:
    for t in timings:
        t.warm_up()
    start = time.perf_counter()
    alive = list(timings)
    for rounds in range(1, MAX_ROUNDS):
        spent = time.perf_counter() - start
        steady = all(t.steady for t in alive) or spent >= max(2 * seconds, PATIENCE_SECONDS)
        if rounds >= MIN_ROUNDS and spent >= seconds and steady:
            break
        factor = [f for after, f in DROP_RATIOS if rounds >= after][-1]
        limit = factor * min((t.best for t in timings), default=inf)
        alive = [t for t in alive if t.fits and (not t.clean or t.best <= limit)]
        if not alive:
            break
        first = rounds % len(alive)
        for t in alive[first:] + alive[:first]:
            t.add()
    best = min((t.best for t in timings), default=inf)
    for t in timings:  # those that dropped out after one or two timings, which may have been disturbed, get more
        for _ in range(MIN_ROUNDS - len(t.clean)):
            hopeless = t.best > max(SECOND_LOOK_RATIO * best, SECOND_LOOK_SECONDS)
            if not t.fits or hopeless or t.add() > DROP_RATIOS[-1][1] * best:
                break
            best = min(best, t.best)


class Timings:
    """The timings of one candidate, those during which its threads had to wait for a core separately.

    Attributes
    ----------
    fits : bool
        False once it ran out of memory; it is not run again then.
    """

    def __init__(self, run: Callable[[], object]) -> None:
        self._run, self._calls = run, 1
        self.fits = True
        self.clean: list[float] = []
        self.disturbed: list[float] = []

    @property
    def cost(self) -> Cost:
        """The clean timings as a cost; all of them if none is."""
        return Cost.of(self.clean or self.disturbed)

    @property
    def best(self) -> float:
        """The least time so far, a clean one if there is any; infinite if it does not fit."""
        return min(self.clean or self.disturbed) if self.fits else inf

    @property
    def steady(self) -> bool:
        """Whether there are clean timings enough, and near each other."""
        n = len(self.clean)
        return n >= MIN_ROUNDS and sorted(self.clean)[n // 2] <= STEADY_RATIO * self.best

    def warm_up(self) -> None:
        """Touch scratch memory, wake the threads, find out how many calls make a timing, and take the first one."""
        try:
            self._run()
        except MemoryError:
            self._give_up()
            return
        self.add()
        if not self.clean:
            self.add()
        if self.best < MIN_TIMING_SECONDS:
            self._calls += int(MIN_TIMING_SECONDS / self.best)
            self.clean, self.disturbed = [], []
            self.add()

    def add(self) -> float:
        """Take one more timing, and return it; infinite if memory runs out."""
        before = machine.waited()
        start = time.perf_counter()
        try:
            for _ in range(self._calls):
                self._run()
        except MemoryError:
            self._give_up()
            return inf
        seconds = max(time.perf_counter() - start, 1e-9)
        clean = machine.waited() - before <= WAITED_SHARE * seconds
        (self.clean if clean else self.disturbed).append(seconds / self._calls)
        return seconds / self._calls

    def _give_up(self) -> None:
        self.fits, self._run = False, lambda: None  # frees its memory
