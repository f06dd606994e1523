"""The cache of everything that planning makes: candidates, decisions, programs, routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._core.runtime.guard import Lock

MAX_PLANS = 8192


class Cache(dict[Any, Any]):
    """A dictionary of at most `most` entries: the oldest ones go first. A look-up is that of a dictionary.

    Look-ups need no lock, `put` takes one. If several threads make a value for one key at the same time, the first
    value is kept, and all of them get that.

    Attributes
    ----------
    most : int
        How many entries are kept.
    made, dropped : int
        How many values were put here so far, and how many of them were dropped.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.made, self.dropped = most, 0, 0
        self._lock = Lock(again=True)  # a key's own __eq__ may get here again

    def put(self, key: Any, value: Any) -> Any:
        """Keep `value` unless another thread has put something there since; returns what is kept."""
        with self._lock.held():
            if key in self:
                return self[key]
            while len(self) >= self.most:
                del self[next(iter(self))]
                self.dropped += 1
            self[key] = value
            self.made += 1
        return value

    def replace(self, key: Any, value: Any) -> None:
        """Keep `value` in place of what is kept there, if anything still is."""
        with self._lock.held():
            if key in self:
                self[key] = value

    def of(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """``make(*arguments)``, called once; arguments must be hashable, and the value not None."""
        value = self.get((make, *arguments))
        return self.put((make, *arguments), make(*arguments)) if value is None else value


plans = Cache(MAX_PLANS)
