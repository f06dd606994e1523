"""What decides in a case: the instruction set, and which of the candidates the cost table takes for the fastest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from layoutkit._core import registry
from layoutkit.choosing.costfile import Cost
from layoutkit.cost import cost_table

FORGET = 50  # decisions, after which the cost table is emptied: neighbours in it cost time
_made = 0


@contextmanager
def instruction_set(name: str) -> Iterator[None]:
    """Plans made inside use it."""
    before = registry.use_isa(name)
    try:
        yield
    finally:
        registry.use_isa(before)


def any_instruction_set(rng: np.random.Generator) -> str:
    """One that this machine has; the best one half of the time."""
    found = registry.isas()
    return found[-1] if rng.integers(2) else str(rng.choice(found))


def let_one_decide(rng: np.random.Generator, plan) -> str:
    """Make the cost table believe that a random candidate of `plan` is the fastest; returns its name."""
    global _made
    _made += 1
    if _made % FORGET == 0:
        cost_table._new.clear()
        cost_table.generation += 1
    candidate = plan.choices[rng.integers(len(plan.choices))].candidate
    cost_table.record(plan.title, candidate.name, Cost(1e-9, 1e-9, 0.0, 1))
    for step in candidate.steps:
        cost_table.record(step.key, step.name, Cost(1e-12, 1e-12, 0.0, 1))
    return candidate.name
