"""Who is told of what calls execute: `profile`, and whoever reads what ``LAYOUTKIT_VERBOSE`` prints.

A call looks whether there are `watchers`; while there are none that is all it does. What a watched call consists of,
such as the reorders of a pooling, is a part of it and not told by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Ran(NamedTuple):
    """What a call ran."""

    operation: str
    problem: str  # as the cost table knows it, where it does
    candidate: str
    threads: int


class Event(NamedTuple):
    """One executed call.

    Attributes
    ----------
    operation : str
        By its public name: "reorder", "conv2d", "grad.conv2d_weight", ..; "pack" packs a filter.
    problem : str
        As the cost table knows it, where it does.
    candidate : str
        The way that was taken, as the cost table knows it.
    threads : int
        At most so many.
    start, seconds : float
        By `time.perf_counter`. What it took to check and plan the call is not in it.
    thread : int
        The thread that called, as `threading.get_ident` numbers it.
    """

    operation: str
    problem: str
    candidate: str
    threads: int
    start: float
    seconds: float
    thread: int


watchers: list[Callable[[Event], None]] = []


class _Here(threading.local):
    """What a thread is in."""

    watched = False


_here = _Here()


def executed(ran: Callable[[], Ran], run: Callable[..., Any], *call: Any) -> Any:
    """``run(*call)``; watchers are told of it, unless it is a part of what they are told of. `ran` says afterwards
    what ran."""
    if not watchers or _here.watched:
        return run(*call)
    _here.watched = True
    try:
        start = time.perf_counter()
        result = run(*call)
        seconds = time.perf_counter() - start
        event = Event(*ran(), start, seconds, threading.get_ident())
        for watcher in tuple(watchers):
            watcher(event)
    finally:
        _here.watched = False
    return result
