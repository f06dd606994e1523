"""Candidates in the order of their cost: measured, or estimated and corrected by what was measured nearby."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .._core.runtime import registry
from . import model, packaged, tuning
from .cache import plans
from .costfile import Cost
from .machine_profile import MachineProfile, scaled
from .problem import Candidate, Choice, Problem
from .table import cost_table

DOUBT_RATIO = 8.0  # a measured cost of so many times an estimate is doubted: few estimates are that far off


def candidates_of(problem: Problem) -> Sequence[Candidate]:
    """The candidates of a problem, cached."""
    generation = cost_table.generation if problem.depends_on_others else None
    return plans.of(_candidates, problem, registry.isa(), generation, packaged.this_machine())


def _candidates(problem: Problem, isa: str, generation: int | None, scale: MachineProfile) -> tuple[Candidate, ...]:
    with scaled(scale):
        return tuple(problem.candidates())


def rank(problem: Problem, candidates: Sequence[Candidate] | None = None) -> list[Choice]:
    """Candidates of a problem, all or some, best first: measured ones before estimated ones.

    But an estimate goes before a measured cost of more than `DOUBT_RATIO` times as much. One of the two must be wrong:
    estimates are off by less than that, a measurement that was disturbed unnoticed may be off by more.
    """
    known: dict[Problem, _ProblemCosts] = {}

    def cost(problem: Problem, name: str, estimate: float) -> tuple[float, Cost | None]:
        if problem not in known:
            known[problem] = _ProblemCosts(problem)
        return known[problem].cost(name, estimate)

    choices = []
    for c in candidates_of(problem) if candidates is None else candidates:
        parts = [cost(problem, c.name, c.estimate), *(cost(*step) for step in c.steps)]
        seconds, measured = sum(part[0] for part in parts), parts[0][1]
        if measured and all(part[1] for part in parts):
            basis = f"{measured.count} timings +-{measured.spread / measured.median:.1%}"
            basis += ", learnt by use" * ((problem.key, c.name) in cost_table.learnt)
            choices.append(Choice(c, seconds, "measured", basis))
        else:
            basis = "its packing was not measured" if measured else known[problem].factors.basis
            choices.append(Choice(c, seconds, "estimated", basis))
    return sorted(choices, key=lambda c: c.seconds if c.source == "measured" else DOUBT_RATIO * c.seconds)


class _ProblemCosts:
    """The measured and doubtful costs of a problem, and the corrections of its estimates."""

    def __init__(self, problem: Problem) -> None:
        self._problem, self._off = problem, tuning.mode() == "off"
        key = problem.key
        self._costs: Mapping[str, Cost] = {} if self._off else cost_table.costs(key)
        self._doubtful: Mapping[str, Cost] = {} if self._off else cost_table.doubtful(key)
        self._factors: model.Corrections | None = None

    @property
    def factors(self) -> model.Corrections:
        """The corrections, looked up only where an estimate is needed."""
        if self._factors is None:
            self._factors = model.corrections(self._problem, own=not self._off)
        return self._factors

    def cost(self, name: str, estimate: float) -> tuple[float, Cost | None]:
        """Seconds of a candidate, and the measurement they come from, if any."""
        if name in self._costs:
            return self._costs[name].min, self._costs[name]
        seconds = estimate * self.factors[name]
        return min(seconds, self._doubtful[name].min) if name in self._doubtful else seconds, None
