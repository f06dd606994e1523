"""Measuring candidates against one another on a machine that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from . import machine
from .cost import cost_table
from .costfile import Cost
from .plan import Candidate, budget, mode, rank
from .pools import held

MIN_TIMING = 30e-6  # seconds: shorter calls are timed in batches, the clock takes a tenth of a microsecond
MIN_ROUNDS, MAX_ROUNDS = 3, 200
TOLERANCE = 0.01  # of a timing that threads may have waited for a core
PATIENCE = 0.3  # seconds to go on for at least, while other work on the machine spoils the timings
HOPELESS = ((1, 3.0), (2, 2.0), (4, 1.5), (8, 1.2))  # after so many rounds, this many times the best
FEW, FIRST_USE = 3, 0.1  # candidates that are measured on first use, and seconds for their rounds
RIVAL = 0.9  # of the best measured: what is thought to cost less than that is measured after all
SECOND_LOOK = 10  # times the best: what looked slower than that is not timed again


def measure(
    key: str,
    candidates: Sequence[Candidate],
    runner: Callable[[object], Callable[[], object]],
    seconds: float = 0.2,
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
    seconds : float
        To spend on rounds. Each candidate that is not hopeless gets three timings whatever they take,
        and where its threads had to wait for a core, more of them, until three are clean or patience ends.

    Returns
    -------
    dict of str to Cost
        What was measured now.
    """
    timings = {c.name: Timings(runner(c.build())) for c in candidates}
    with held():
        _take_turns(list(timings.values()), seconds)
    found = {name: Cost.of(t.clean or t.spoilt) for name, t in timings.items()}
    for name, cost in found.items():
        cost_table.record(key, name, cost, doubtful=not timings[name].clean)
    return found


def first_use(key: str, candidates: Sequence[Candidate], prepare: Callable[[], Callable]) -> None:
    """Measure the most promising candidates of a problem that the table lacks, if the budget of tuning allows it.

    The best `FEW` by estimate are measured; then those that are estimated to take less than the best of them took.
    `prepare` makes the `runner` that `measure` takes, on first need.
    """
    if mode() != "measure" or cost_table.costs(key):
        return
    order = rank(key, candidates)
    few = order[:FEW]
    need = (2 + MIN_ROUNDS) * sum(c.seconds for c in few)
    if len(order) < 2 or need > budget():
        return
    cost_table.save_at_exit()
    start = time.perf_counter()
    runner = prepare()
    found = measure(key, [c.candidate for c in few], runner, min(FIRST_USE, budget() - need))
    best = min(cost.min for cost in found.values())
    rivals = [c for c in order[FEW:] if c.seconds < RIVAL * best][:FEW]
    if rivals and (2 + MIN_ROUNDS) * sum(c.seconds for c in rivals) < budget() - (time.perf_counter() - start):
        measure(key, [c.candidate for c in (*rivals, few[0])], runner, FIRST_USE / 2)
    budget(time.perf_counter() - start)


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
