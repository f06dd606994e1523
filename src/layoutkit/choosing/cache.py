"""One bounded, counted cache for everything that planning makes: candidates, decisions, programs, routes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

MOST_PLANS = 8192


class Cache(OrderedDict[Any, Any]):
    """A dictionary of at most `most` entries: the oldest ones go first. A look-up is that of a dictionary.

    Attributes
    ----------
    most : int
        How many entries are kept.
    made, dropped : int
        How many have been put here so far, and how many of them had to go.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.made, self.dropped = most, 0, 0

    def put(self, key: Any, value: Any) -> Any:
        """Keep `value`, and return it."""
        while len(self) >= self.most:
            try:
                self.popitem(last=False)
                self.dropped += 1
            except KeyError:  # another thread has emptied it
                break
        self.made += 1
        self[key] = value
        return value

    def of(self, make: Callable[..., Any], *given: Any) -> Any:
        """``make(*given)``, made once; what is given must be hashable."""
        found = self.get((make, *given))
        return self.put((make, *given), make(*given)) if found is None else found


plans = Cache(MOST_PLANS)
