"""What decides in a case: the instruction set, and which of the candidates the cost table takes for the fastest.

Both belong to the process. Where other threads run cases meanwhile (`shared`), they stay as they are: another plan than
the one that was looked at would run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from zlib import crc32

import numpy as np

import layoutkit as lk
from layoutkit._core.runtime import registry
from layoutkit.choosing.costfile import Cost
from layoutkit.choosing.table import cost_table

FORGET = 5  # decisions, after which the cost table is emptied: after each, all neighbours in it are estimated anew
shared = False  # whether other threads of the process run cases meanwhile
_made = 0


@contextmanager
def instruction_set(name: str) -> Iterator[None]:
    """Plans made inside use it."""
    if shared:
        yield
        return
    before = registry.use_isa(name)
    try:
        yield
    finally:
        registry.use_isa(before)


def any_instruction_set(rng: np.random.Generator) -> str:
    """One that this machine has or emulates; the best one half of the time."""
    own = registry.isas()
    return own[-1] if rng.integers(2) else str(rng.choice(own + registry.isas(emulated=True)))


class MadeUp(Mapping[str, Cost]):
    """Measured costs of whatever is asked for, a function of its name."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getitem__(self, name: str) -> Cost:
        seconds = 1e-6 * (1 + crc32(f"{self.text} {name}".encode()) % 1000)
        return Cost(seconds, seconds, 0.0, 1)

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


@contextmanager
def any_costs(seed: int | None) -> Iterator[None]:
    """Costs made up from `seed` decide inside, so that any candidate may win; None: estimates do."""
    if shared:
        yield
        return
    before = lk.tuning("off" if seed is None else "estimate")
    if seed is not None:
        cost_table.costs = lambda key: MadeUp(f"{seed} {key}")  # type: ignore[method-assign]
    cost_table.generation += 1
    try:
        yield
    finally:
        cost_table.__dict__.pop("costs", None)
        cost_table.generation += 1
        lk.tuning(before)


def forget() -> None:
    """Empty the cost table."""
    cost_table._unsaved.clear()
    cost_table.generation += 1


def let_one_decide(rng: np.random.Generator, plan) -> str:
    """Make the cost table believe that a random candidate of `plan` is the fastest; returns its name."""
    global _made
    candidate = plan.choices[rng.integers(len(plan.choices))].candidate
    if shared:
        return plan.choices[0].candidate.name
    _made += 1
    if _made % FORGET == 0:
        forget()
    cost_table.record(plan.title, candidate.name, Cost(1e-9, 1e-9, 0.0, 1))
    for step in candidate.steps:
        cost_table.record(step.key, step.name, Cost(1e-12, 1e-12, 0.0, 1))
    return candidate.name
