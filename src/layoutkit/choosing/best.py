"""The candidates of a problem in order, cached as long as nothing that their order depends on has changed."""

from __future__ import annotations

from .._core.runtime import registry
from . import decision_files, tuning
from .cache import plans
from .machine_profile import scaled
from .measuring import first_use
from .packaged import this_machine
from .problem import Choice, Problem
from .ranking import rank
from .table import cost_table


def choices(problem: Problem) -> tuple[Choice, ...]:
    """The candidates of a problem, best first; where tuning measures, they are measured first."""
    rankings = decision_files.current()
    if rankings is not None and (found := rankings.of(problem)) is not None:
        return found
    if tuning.mode() == "measure" and problem.work:
        for part in problem.measured_parts():
            first_use(part)
    ranked = plans.of(_ranked, problem, registry.isa(), cost_table.generation)
    if rankings is not None:
        for part in problem.rests_on:  # which were ranked with it, and are in another process that reads its ranking
            choices(part)
        rankings.add(problem, ranked)
    return ranked


def reconsider(problem: Problem) -> None:
    """Rank this problem again at the next call."""
    plans.pop((_ranked, problem, registry.isa(), cost_table.generation), None)


def _ranked(problem: Problem, isa: str, generation: int) -> tuple[Choice, ...]:
    ranked = tuple(rank(problem))
    with scaled(this_machine()):
        problem.on_ranked(ranked)
    return ranked
