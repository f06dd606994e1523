"""Unsaved changes of a process to its cost table: measured, merged from other tables, forgotten."""

from __future__ import annotations

from collections.abc import Callable, Container

from .costfile import Cost, Costs, adopt, merge


class Unsaved:
    """Changes to a cost table."""

    def __init__(self) -> None:
        self.forgotten: set[str] = set()  # problems of the table below, not of what is new
        self.new: Costs = {}
        self.merged: Costs = {}  # from other tables, as far as the table does not cover it: see `adopt`

    def __bool__(self) -> bool:
        return bool(self.forgotten or self.new or self.merged)

    @property
    def problems(self) -> set[str]:
        """Those that are changed."""
        return {*self.forgotten, *self.new, *self.merged}

    @property
    def costs(self) -> int:
        """How many are new or merged."""
        return sum(map(len, (*self.new.values(), *self.merged.values())))

    def record(self, problem: str, candidate: str, cost: Cost) -> None:
        """Remember a measurement."""
        merge(self.new, {problem: {candidate: cost}})

    def forget(self, problems: Container[str]) -> None:
        """Drop what is new about problems."""
        for costs in (self.new, self.merged):
            for problem in [p for p in costs if p in problems]:
                del costs[problem]

    def apply(self, costs: Costs) -> None:
        """Change a whole table."""
        for problem in self.forgotten:
            costs.pop(problem, None)
        merge(costs, self.new)
        adopt(costs, self.merged)

    def restore(self, other: Unsaved) -> None:
        """Add older changes, which could not be saved."""
        self.forgotten |= other.forgotten
        merge(self.new, other.new)
        adopt(self.merged, other.merged)


def costs_with(problem: str, saved: Callable[[str], dict[str, Cost]], changes: list[Unsaved]) -> dict[str, Cost]:
    """The costs of a problem in a table with changes to it."""
    forgotten = any(problem in unsaved.forgotten for unsaved in changes)
    costs: Costs = {problem: {} if forgotten else saved(problem)}
    for unsaved in changes:
        merge(costs, {problem: unsaved.new.get(problem, {})})
    for unsaved in changes:
        adopt(costs, {problem: unsaved.merged.get(problem, {})})
    return costs[problem]
