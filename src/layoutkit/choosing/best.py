"""The candidates of a problem in order, cached as long as nothing that their order depends on has changed."""

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
        for part in problem.measured_parts():
            first_use(part)
    return plans.of(_ranked, problem, registry.isa(), cost_table.generation)


def reconsider(problem: Problem) -> None:
    """Rank this problem again at the next call."""
    plans.pop((_ranked, problem, registry.isa(), cost_table.generation), None)


def _ranked(problem: Problem, isa: str, generation: int) -> tuple[Choice, ...]:
    ranked = tuple(rank(problem))
    with scaled(this_machine()):
        problem.on_ranked(ranked)
    return ranked
