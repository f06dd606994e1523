"""Measuring candidates against one another on a machine that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..cost import cost_table
from ..plan import Candidate, Choice, budget, mode, rank
from . import machine
from .costfile import Cost
from .pools import held

MIN_TIMING = 30e-6  # seconds: shorter calls are timed in batches, the clock takes a tenth of a microsecond
MIN_ROUNDS, MAX_ROUNDS = 3, 200
TOLERANCE = 0.01  # of a timing that threads may have waited for a core
PATIENCE = 0.3  # seconds to go on for at least, while other work on the machine spoils the timings
HOPELESS = ((1, 3.0), (2, 2.0), (4, 1.5), (8, 1.2))  # after so many rounds, this many times the best
FEW, FIRST_USE = 5, 0.15  # candidates that are measured on first use, and seconds for their rounds
RIVAL = 0.9  # of the best measured: what is thought to cost less than that is measured after all
SECOND_LOOK = 10  # times the best: what looked slower than that is not timed again


class Contest(NamedTuple):
    """A problem's candidates, ready to be measured against one another.

    Attributes
    ----------
    key : str
        What the cost table knows the problem by.
    candidates : sequence of Candidate
    prepare : callable
        Makes what turns a built candidate into a call, on buffers that are already touched.
    """

    key: str
    candidates: Sequence[Candidate]
    prepare: Callable[[], Callable[[Any], Callable[[], object]]]


def measure(contest: Contest, seconds: float = 0.2) -> dict[str, Cost]:
    """Time the candidates and record them; those without a clean timing as doubtful.

    Returns
    -------
    dict of str to Cost
        What was measured now.
    """
    found = timed(contest.candidates, contest.prepare(), seconds)
    for name, t in found.items():
        cost_table.record(contest.key, name, t.cost, doubtful=not t.clean)
    return {name: t.cost for name, t in found.items()}


def timed(candidates: Sequence[Candidate], runner: Callable, seconds: float) -> dict[str, Timings]:
    """Timings of candidates by name.

    They alternate round by round, each round starting with another one, so that a noisy moment and what the one
    before left in the caches meet them all. Those that are hopelessly slower than the best are left where they are,
    and the time goes to those that could win. Rounds take `seconds`; but each candidate that is not hopeless gets
    three timings whatever they take, and where its threads had to wait for a core, more of them, until three are
    clean or patience ends.
    """
    timings = {c.name: Timings(runner(c.build())) for c in candidates}
    with held():
        _take_turns(list(timings.values()), seconds)
    return timings


def first_use(contest: Contest) -> None:
    """Measure the most promising candidates of a problem that the table lacks, if the budget of tuning allows it.

    The best `FEW` by estimate are measured; then those that are estimated to take less than the best of them took.
    """
    if mode() != "measure" or cost_table.costs(contest.key):
        return
    order = rank(contest.key, contest.candidates)
    few = order[:FEW]
    if len(order) < 2 or _needed(few) > budget():
        return
    cost_table.save_at_exit()
    start = time.perf_counter()
    runner = contest.prepare()

    def some(choices: Sequence[Choice], seconds: float) -> dict[str, Cost]:
        chosen = [c.candidate for c in choices]
        return measure(contest._replace(candidates=chosen, prepare=lambda: runner), seconds)

    found = some(few, min(FIRST_USE, budget() - _needed(few)))
    best = min(cost.min for cost in found.values())
    rivals = [c for c in order[FEW:] if c.seconds < RIVAL * best][:FEW]
    if rivals and _needed(rivals) < budget() - (time.perf_counter() - start):
        some([*rivals, few[0]], FIRST_USE / 2)
    budget(time.perf_counter() - start)


def _needed(choices: Sequence[Choice]) -> float:
    """Seconds that measuring takes at least: two runs to warm up, and the rounds."""
    return (2 + MIN_ROUNDS) * sum(c.seconds for c in choices)


def _take_turns(every: Sequence[Timings], seconds: float) -> None:
    for t in every:
        t.warm_up()
    start = time.perf_counter()
    alive = list(every)
    for rounds in range(1, MAX_ROUNDS):
        spent = time.perf_counter() - start
        calm = all(len(t.clean) >= MIN_ROUNDS for t in alive) or spent >= max(2 * seconds, PATIENCE)
        if rounds >= MIN_ROUNDS and spent >= seconds and calm:
            break
        factor = [f for after, f in HOPELESS if rounds >= after][-1]
        limit = factor * min(t.best for t in every)
        alive = [t for t in alive if not t.clean or t.best <= limit]
        first = rounds % len(alive)
        for t in alive[first:] + alive[:first]:
            t.add()
    best = min(t.best for t in every)
    for t in every:  # left behind after one or two timings, which something else may have met: once more
        for _ in range(MIN_ROUNDS - len(t.clean)):
            if t.best > SECOND_LOOK * best or t.add() > HOPELESS[-1][1] * best:
                break
            best = min(best, t.best)


class Timings:
    """The timings of one candidate; those during which its threads had to wait for a core are held apart."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run, self._calls = run, 1
        self.clean: list[float] = []
        self.spoilt: list[float] = []

    @property
    def cost(self) -> Cost:
        """The clean timings as a cost; all of them if none is."""
        return Cost.of(self.clean or self.spoilt)

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

    def add(self) -> float:
        """Take one more timing, and return it."""
        before = machine.waited()
        start = time.perf_counter()
        for _ in range(self._calls):
            self._run()
        seconds = max(time.perf_counter() - start, 1e-9)
        clean = machine.waited() - before <= TOLERANCE * seconds
        (self.clean if clean else self.spoilt).append(seconds / self._calls)
        return seconds / self._calls
