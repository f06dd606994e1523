"""What travels to workers once: the measured costs that their plans are made of."""

from __future__ import annotations

from typing import Any

from ..choosing import machine
from ..choosing.costfile import Costs
from ..choosing.table import cost_table


class Measured:
    """The costs of some kinds of problems that are known here, for workers on machines like this one.

    A worker adopts them when it is told of them first; one on another machine goes on with its own.
    """

    def __init__(self, *kinds: str) -> None:
        self.kinds, self.identity = kinds, machine.identity()
        self.costs: Costs | None = None  # looked up when they travel

    def __getstate__(self) -> dict[str, Any]:
        known = self.costs
        if known is None:
            known = {p: cost_table.costs(p) for p in cost_table.problems() if p.startswith(self.kinds)}
        return self.__dict__ | {"costs": known}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.costs and self.identity == machine.identity():
            cost_table.adopt(self.costs)
