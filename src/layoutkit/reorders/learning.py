"""Learning by calls of reorders, whose variants all give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._core.nests.moves.reorder import Program
from .._core.runtime.registry import isa
from ..choosing import tuning
from ..choosing.cache import plans
from ..choosing.learning import Learner, Runner, learns
from ..choosing.problem import Choice
from ..choosing.table import cost_table
from .problem import ReorderProblem
from .program import Transfer, program, suits_alignment


def learner_of(problem: ReorderProblem, ranked: Sequence[Choice], move: Transfer, pad: bytes) -> Learner | None:
    """The learner shared by all calls that move `move`; None if they do not learn."""
    key = learner_of, move, pad, problem.threads, isa(), tuning.changes(), cost_table.loads
    learner = plans.get(key)
    if learner is not None or not learns(ranked):
        return learner

    def build(name: str) -> Program | None:
        return program(move, name, pad) if suits_alignment(name, move) else None

    return plans.put(key, Learner(ranked, build, problem.threads, problem if problem.is_of(move) else None))


class LearningCall:
    """What a cached call runs while it learns; in the end `done` is called with what to run from then on."""

    def __init__(self, learner: Learner, done: Callable[[Runner], None]) -> None:
        self._learner, self._done = learner, done

    @property
    def name(self) -> str:
        """The best variant so far."""
        return self._learner.name

    def __call__(self, array: np.ndarray, out: np.ndarray, threads: int) -> None:
        """Move `array` to `out`."""
        self._learner(array, out, threads)
        if self._learner.finished:
            self._done(self._learner.best)
