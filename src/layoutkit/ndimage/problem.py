"""Filters as problems: several ways to a result, of which cost chooses one."""

from __future__ import annotations

import numpy as np

from ..choosing.best import choices
from ..choosing.problem import Problem
from .passes import FOLDED

_DTYPES = {element: np.dtype(name) for name, element in FOLDED.items() if name != "bool"}


class FilterProblem(Problem):
    """A filter on one thread: the way, and with it the last bits, must not depend on how many there are."""

    element: str  # that results are made of

    @property
    def dtype(self) -> np.dtype:
        """That of arrays."""
        return _DTYPES[self.element]

    def features(self) -> tuple[float, ...]:
        """None: estimates are not corrected by other problems."""
        raise ValueError("filters have no features")


def way_of(problem: FilterProblem) -> str:
    """The name of the candidate that takes the least time."""
    return choices(problem)[0].candidate.name
