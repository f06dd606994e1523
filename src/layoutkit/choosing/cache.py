"""The cache of everything that planning makes: candidates, decisions, programs, routes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from .._core.runtime.guard import Lock
from ..formats.layout import Layout

MAX_PLANS = 8192
MAX_TOKEN_BYTES = 1 << 16  # of an argument by which a call is found again
ITEM_BYTES = 16  # of these, for each item of a list


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


def token(value: Any, most: int = MAX_TOKEN_BYTES) -> Hashable:
    """A key of an argument, equal only for equal ones of the same types.

    TypeError for what has more bytes than `most`, and for all but numbers, texts, types, layouts, arrays, and tuples,
    lists and slices of them: other objects may change and stay the same ones.
    """
    kind = type(value)
    if value is None or kind is int or (kind is str and len(value) <= most):
        return value
    if kind is float or kind is complex:
        return kind, repr(value)  # 0.0 == -0.0
    if kind is bool or kind is type:
        return kind, value
    if (kind is tuple or kind is list) and ITEM_BYTES * len(value) <= most:
        return kind, *(token(item, most // len(value)) for item in value)
    if kind is slice:
        return kind, *(token(end, most) for end in (value.start, value.stop, value.step))
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.nbytes <= most and not value.dtype.hasobject:
        return kind, value.dtype, value.shape, value.tobytes()
    if isinstance(value, np.dtype):
        return np.dtype, value
    if kind is Layout:  # equal ones may have other names
        return kind, value, value.dims, value.family is not None
    raise TypeError(f"no key for a {kind.__name__}, or too long a one")
