"""Learning by use: the calls of a problem try its candidates, where all of them give the same bits.

The first calls run the pick, the candidate that is expected to be the best, and are timed. Later ones try others, each
in growing parts, so that a slower one is given up early; then the best one so far does all of the work again. Each is
compared with a call shortly before, since caches and other work make all calls faster or slower over time. When nothing
is left to try, the pick and the best of the others take turns until both have enough timings.

The time that this loses, compared with calls of the pick only, is counted, and stays below a tenth of the time of all
calls so far (ten at least): the next trial waits until it fits. Calls that write to new memory are not compared with
others, since their time includes page faults.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NamedTuple, Protocol

from . import decision_files, tuning
from .best import reconsider
from .costfile import Cost
from .problem import Choice, Problem
from .ranking import DOUBT_RATIO
from .table import cost_table

MIN_EXPECTED_SECONDS = 20e-6  # of the pick, for calls to learn: estimates may be several times too low
MIN_SECONDS = 100e-6  # of a call of the pick: shorter ones gain too little
LOSS_SHARE = 0.07  # of the time of all calls so far, FIRST_CALLS at least, that may be lost
FIRST_CALLS = 10
RISK = 0.3  # the most that a trial is expected to lose, in calls of the pick
BUILD_SECONDS = 0.5e-3  # expected at least for building the first candidate after the pick
RATIOS = (8.0, 5.0, 3.0, 2.0, 1.3, 1.5, 2.5)  # a trial is given up when it is so many times slower after 1/128, .., 1/2
SLACK_SECONDS = 10e-6  # in which it is not given up: caches may be cold, threads asleep
MAX_TRIALS, MAX_CALLS = 8, 1000
GAIN_RATIO = 0.97  # of the pick's time: candidates that take more do not replace it
EVEN_RATIO = 1.001  # of a candidate to the best one, at least, in the cost table
SCRATCH_FAULTS = 256  # page faults of the first use of a kernel: its code, its scratch memory
ENOUGH_TIMINGS = 3  # of the pick and of the best of the others, to decide between them
RECENT_CALLS = 3  # before a trial, in which the one that it is compared with was timed
MAX_LEARNT = 1024  # problems that one process adds to the table

_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class Runner(Protocol):
    """What a candidate builds."""

    def __call__(self, *call: Any) -> object:
        """Carry out a call."""
        ...

    def attempt(self, *call: Any) -> tuple[float, float]:
        """Carry out a call unless it takes too long: as `Program.attempt`, whose arguments follow those of the call.

        Returns seconds, and how much was done.
        """
        ...


def learns(ranked: Sequence[Choice]) -> bool:
    """Whether calls learn, given their ranked candidates."""
    return (
        tuning.mode() == "learn"
        and decision_files.current() is None  # a network is being planned: what that packs is packed once
        and len(ranked) > 1
        and ranked[0].source == "estimated"
        and ranked[0].seconds >= MIN_EXPECTED_SECONDS
    )


class Attempt:
    """The timings of a candidate that ran.

    Attributes
    ----------
    seconds : list of float
        Its timings, of whole calls during which no thread is known to have waited for a core.
    ratio : float
        Its time divided by the pick's in neighbouring calls; extrapolated if it was given up.
    """

    def __init__(self, name: str, run: Runner) -> None:
        self.name, self.run, self.ratio = name, run, 1.0
        self.seconds: list[float] = []


class Timing(NamedTuple):
    """Seconds of a call, and what disturbed it."""

    seconds: float
    faults: int  # pages that were touched for the first time
    clean: bool  # the thread did not wait for its core, as far as `seconds` show


class Stopwatch:
    """Takes timings of calls on so many threads.

    On one thread the seconds are CPU time, without waiting for a core.
    """

    def __init__(self, threads: int) -> None:
        self._alone = threads == 1
        self.now = time.thread_time if threads == 1 else time.perf_counter

    def time(self, run: Callable[..., Any], *call: Any) -> tuple[Timing, Any]:
        """A timing of `run`, and what it returned."""
        before, start = resource.getrusage(_THREAD), self.now()
        result = run(*call)
        seconds, after = self.now() - start, resource.getrusage(_THREAD)
        faults = after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt
        return Timing(seconds, faults, self._alone or before.ru_nivcsw == after.ru_nivcsw), result


class Learner:
    """Runs the calls of one problem, and learns from them which candidate is the best.

    Threads may call at the same time: one of them learns, the others run the best so far.

    Parameters
    ----------
    choices : sequence of Choice
        The candidates, best first.
    build : callable
        Returns what runs a candidate of that name: None if it is unfit, the same object if two do the same.
    threads : int
        That calls run on.
    problem : Problem, optional
        The problem to record in the cost table, if calls are like its measurements.

    Attributes
    ----------
    best : Runner
        The best one so far.
    finished : bool
        Nothing more will be learnt.
    """

    def __init__(
        self,
        choices: Sequence[Choice],
        build: Callable[[str], Runner | None],
        threads: int,
        problem: Problem | None = None,
    ) -> None:
        self._untried = [c.candidate.name for c in choices]
        self._expected = {c.candidate.name: c.seconds for c in choices}
        self._build, self._problem = build, problem
        self._stopwatch, self._build_seconds = Stopwatch(threads), 0.0
        self._pick = self._leader = self._first()  # leader: the best so far
        self._build_seconds = max(self._build_seconds, BUILD_SECONDS)
        self._tried = [self._pick]
        self._retries: set[str] = set()  # candidates whose first timing was unusable
        self._trials = self._calls = self._timed = 0
        self._least = self._recent = inf  # seconds of the pick at best, and of the leader in the call number `_timed`
        self._loss, self._deciding = 0.0, False
        self._undisturbed = True  # whether the last timing was
        self._token = [True]  # of the thread that learns
        self.best, self.finished = self._pick.run, False

    @property
    def name(self) -> str:
        """The name of the best one so far."""
        return self._leader.name

    def __call__(self, *call: Any) -> None:
        """Carry out a call."""
        if self.finished:
            self.best(*call)
            return
        try:
            token = self._token.pop()
        except IndexError:
            self.best(*call)
            return
        try:
            self._learn(call)
        finally:
            self._token.append(token)

    def report(self) -> str:
        """What was tried, in words."""
        verb = "learnt" if self.finished else "learning"
        if self._least == inf:
            return f"{verb} by use: nothing yet"
        texts = [f"{self._pick.name} {self._least * 1e6:.1f} us"]
        texts += [
            f"{t.name} {t.ratio:.2f}x" if t.seconds else f"{t.name} given up at {t.ratio:.1f}x" for t in self._tried[1:]
        ]
        return f"{verb} by use in {self._calls} calls: {', '.join(texts)}"

    def _first(self) -> Attempt:
        while self._untried:
            name = self._untried.pop(0)
            run = self._built(name)
            if run is not None:
                return Attempt(name, run)
        raise ValueError("no candidate is fit")

    def _built(self, name: str) -> Runner | None:
        start = self._stopwatch.now()
        run = self._build(name)
        self._build_seconds = self._stopwatch.now() - start
        return run

    def _learn(self, call: tuple) -> None:
        self._calls += 1
        trial = self._trial()
        start = self._stopwatch.now()
        if trial is not None:
            useful = self._attempt(trial, call)
        else:
            self._advance()
            useful = self._time(call) if self._wants_timing() else self._run_best(call)
        self._loss += self._stopwatch.now() - start - useful

    def _wants_timing(self) -> bool:
        return not self.finished and (self._deciding or (not self._is_recent() and self._is_affordable()))

    def _is_recent(self) -> bool:
        return self._undisturbed and self._recent < inf and self._calls - self._timed <= RECENT_CALLS

    def _run_best(self, call: tuple) -> float:
        start = self._stopwatch.now()
        self.best(*call)
        return self._stopwatch.now() - start

    def _time(self, call: tuple) -> float:
        """Run the best one so far, or in the end that and the pick in turns; returns the seconds."""
        timed = self._leader
        if self._deciding and len(self._pick.seconds) < len(timed.seconds):
            timed = self._pick
        timing, _ = self._stopwatch.time(timed.run, *call)
        self._undisturbed = timing.clean
        if timed is not self._pick and not timing.faults:
            self._loss += timing.seconds - self._least
        if timing.clean and not timing.faults:
            timed.seconds.append(timing.seconds)
            self._recent, self._timed = timing.seconds, self._calls
            if timed is self._pick:
                self._least = min(self._least, timing.seconds)
        return timing.seconds

    def _attempt(self, trial: Attempt, call: tuple) -> float:
        """Try a candidate; returns the seconds of all that ran."""
        self._trials += 1
        limit = self._recent
        timing, (seconds, share) = self._stopwatch.time(trial.run.attempt, *call, limit, SLACK_SECONDS, *RATIOS)
        seconds_run, slower = timing.seconds, share < 1 or timing.seconds > limit
        self._undisturbed = timing.clean
        if share < 1:
            seconds_run += self._run_best(call)
            self._loss += timing.seconds
            trial.ratio = self._leader.ratio * seconds / share / limit
        else:
            self._loss += timing.seconds - self._least
            trial.ratio = self._leader.ratio * timing.seconds / limit
            if timing.clean and timing.faults <= SCRATCH_FAULTS:
                trial.seconds.append(timing.seconds)
        if trial.name not in self._retries and slower and (timing.faults or not timing.clean):
            self._retries.add(trial.name)
            self._untried.append(trial.name)
        elif trial.seconds or share < 1:
            self._tried.append(trial)
            if trial.seconds and trial.ratio < min(GAIN_RATIO, self._leader.ratio):
                self._recent, self._timed = timing.seconds, self._calls
                self._set_leader(trial)
        return seconds_run

    def _set_leader(self, leader: Attempt) -> None:
        self._leader, self.best = leader, leader.run

    def _trial(self) -> Attempt | None:
        """The next candidate to try, if it may be tried now."""
        if self._deciding or not self._is_recent():
            return None
        while self._is_affordable() and (name := self._next()) is not None:
            self._untried.remove(name)
            run = self._built(name)
            self._loss += self._build_seconds
            if run is not None and not any(run is t.run for t in self._tried):
                return Attempt(name, run)
        return None

    def _is_affordable(self) -> bool:
        if self._least == inf:
            return True
        lost = self._loss + RISK * self._least + self._build_seconds
        return lost <= LOSS_SHARE * self._least * max(FIRST_CALLS, self._calls)

    def _next(self) -> str | None:
        """One candidate of each algorithm first, by estimate; then the others of the best algorithm; then those whose
        first timing was unusable."""
        if self.finished or self._trials >= MAX_TRIALS:
            return None
        new = [name for name in self._untried if name not in self._retries]
        tried = {_algorithm(t.name) for t in self._tried} | {_algorithm(name) for name in self._retries}
        for name in new:
            if _algorithm(name) not in tried:
                return name
        best = _algorithm(self._leader.name)
        return next((n for n in new if _algorithm(n) == best), next(iter(self._retries_left()), None))

    def _retries_left(self) -> list[str]:
        return [name for name in self._untried if name in self._retries]

    def _advance(self) -> None:
        """Begin to decide, or end, if it is time to."""
        late = self._calls > MAX_CALLS or self._least < MIN_SECONDS
        exhausted = self._least < inf and self._is_affordable() and self._next() is None
        if self.finished or not (late or self._deciding or exhausted):
            return
        if not late and not self._deciding and self._leader is not self._pick:
            self._deciding = True
            self._pick.seconds, self._leader.seconds = [], []
        pick, leader = self._pick, self._leader
        if self._deciding:
            if not late and min(len(pick.seconds), len(leader.seconds)) < ENOUGH_TIMINGS:
                return
            if pick.seconds and leader.seconds:
                leader.ratio = min(leader.seconds) / min(pick.seconds)
            if leader.ratio >= GAIN_RATIO:
                self._set_leader(pick)
        self.finished = True
        doubted = self._least > DOUBT_RATIO * self._expected[pick.name]  # other work may have disturbed all calls
        if self._problem is not None and pick.seconds and self._least >= MIN_SECONDS and not doubted:
            _record(self._problem, pick, self._leader, self._tried[1:])
        for t in self._tried:
            t.run = self.best  # the others are not needed any more


def _algorithm(name: str) -> str:
    """The first word of a candidate's name."""
    return name.partition(" ")[0]


def _record(problem: Problem, pick: Attempt, best: Attempt, others: Sequence[Attempt]) -> None:
    """Record whole calls in the cost table, scaled to the pick's present time. A candidate that was not better by
    enough to replace the best is not recorded as better."""
    others = [t for t in others if t.seconds]
    if not others or len(cost_table.learnt) >= MAX_LEARNT:
        return
    cost_table.learn(problem.key, pick.name, Cost.of(pick.seconds))
    for t in others:
        ratio = t.ratio if t is best else max(t.ratio, EVEN_RATIO * best.ratio)
        scale = ratio * min(pick.seconds) / min(t.seconds)
        cost_table.learn(problem.key, t.name, Cost.of(scale * x for x in t.seconds))
    reconsider(problem)
