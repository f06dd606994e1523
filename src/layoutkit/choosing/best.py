"""The best candidate of a problem: decided once, and again when anything that the decision depends on has changed."""

from __future__ import annotations

from .._core.runtime import registry
from . import tuning
from .cache import plans
from .machine_profile import scaled
from .measuring import first_use
from .model import this_machine
from .problem import Choice, Problem
from .ranking import rank
from .table import cost_table


def choices(problem: Problem) -> tuple[Choice, ...]:
    """The candidates of a problem, best first; where tuning measures, they are measured first."""
    if tuning.mode() == "measure" and problem.work:
        for part in problem.parts():
            first_use(part)
    return plans.of(_ranked, problem, registry.isa(), cost_table.generation)


def reconsider(problem: Problem) -> None:
    """Decide about this problem once more."""
    plans.pop((_ranked, problem, registry.isa(), cost_table.generation), None)


def _ranked(problem: Problem, isa: str, generation: int) -> tuple[Choice, ...]:
    ranked = tuple(rank(problem))
    with scaled(this_machine()):
        problem.decided(ranked)
    return ranked
