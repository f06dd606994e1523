"""Which of two ways to the same result is faster: for the first calls they take turns, and what they took decides."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")
ROUNDS = 4  # calls of each, the first of which, that plans and packs, does not count


class Trial:
    """Two ways that are being tried.

    Attributes
    ----------
    winner : int or None
        0 or 1, the faster way, once both were called so often; 0 if they take as long, or 1 fails.
    """

    def __init__(self) -> None:
        self.winner: int | None = None
        self._seconds: tuple[list[float], list[float]] = ([], [])

    def call(self, *ways: Callable[[], Result]) -> Result:
        """The result of one of the two ways."""
        if self.winner is not None:
            return ways[self.winner]()
        way = len(self._seconds[0]) > len(self._seconds[1])
        # Of one thread what it works: on a busy machine others take their turns meanwhile.
        clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
        start = clock()
        try:
            result = ways[way]()
        except RuntimeError:
            if not way:
                raise
            self.winner = 0  # the other cannot do it
            return ways[0]()
        self._seconds[way].append(clock() - start)
        if min(map(len, self._seconds)) >= ROUNDS:
            first, second = (min(seconds[1:]) for seconds in self._seconds)
            self.winner = int(second < first)
        return result
