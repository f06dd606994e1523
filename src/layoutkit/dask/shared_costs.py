"""Measured costs that are sent to workers, once."""

from __future__ import annotations

from typing import Any

from ..choosing import machine
from ..choosing.costfile import Costs
from ..choosing.table import cost_table


class SharedCosts:
    """The costs of problems whose keys have some prefixes, for workers on machines like this one.

    A worker adopts them when it first unpickles them; on another machine it keeps its own.
    """

    def __init__(self, *key_prefixes: str) -> None:
        self.key_prefixes, self.identity = key_prefixes, machine.identity()
        self.costs: Costs | None = None  # looked up when it is pickled

    def __getstate__(self) -> dict[str, Any]:
        costs = self.costs
        if costs is None:
            costs = {p: cost_table.costs(p) for p in cost_table.problems() if p.startswith(self.key_prefixes)}
        return self.__dict__ | {"costs": costs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.costs and self.identity == machine.identity():
            cost_table.adopt(self.costs)
