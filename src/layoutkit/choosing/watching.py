"""Events of executed calls, for `profile` and ``LAYOUTKIT_VERBOSE``.

A call checks whether there are `watchers`; without any, that is its only overhead. Operations inside a watched call,
such as the reorders of a pooling, are part of it and make no events of their own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class CallInfo(NamedTuple):
    """What watchers are told of a call."""

    operation: str
    problem: str  # its key in the cost table, if it has one
    candidate: str
    threads: int


class Event(NamedTuple):
    """One executed call.

    Attributes
    ----------
    operation : str
        By its public name: "reorder", "conv2d", "grad.conv2d_weight", ..; "pack" packs a filter.
    problem : str
        Its key in the cost table, if it has one.
    candidate : str
        The candidate that ran, by its name in the cost table.
    threads : int
        The most that the call may use.
    start, seconds : float
        By `time.perf_counter`, without checking and planning the call.
    thread : int
        The calling thread's `threading.get_ident`.
    """

    operation: str
    problem: str
    candidate: str
    threads: int
    start: float
    seconds: float
    thread: int


watchers: list[Callable[[Event], None]] = []


class _ThreadState(threading.local):
    """The state of a thread: whether it is inside a watched call."""

    watched = False


_thread = _ThreadState()


def watched(info: Callable[[], CallInfo], run: Callable[..., Any], *call: Any) -> Any:
    """``run(*call)``, reported to watchers unless it is inside a watched call; `info` is called afterwards."""
    if not watchers or _thread.watched:
        return run(*call)
    _thread.watched = True
    try:
        start = time.perf_counter()
        result = run(*call)
        seconds = time.perf_counter() - start
        event = Event(*info(), start, seconds, threading.get_ident())
        for watcher in tuple(watchers):
            watcher(event)
    finally:
        _thread.watched = False
    return result


def watched_in_steps(run: Callable[[], T], steps: Callable[[], Iterable[tuple[CallInfo, float, float]]]) -> T:
    """``run()``, whose `steps`, with their beginning and seconds, are reported to watchers when it has ended."""
    if not watchers or _thread.watched:
        return run()
    _thread.watched = True
    try:
        result = run()
        for info, start, seconds in steps():
            event = Event(*info, start, seconds, threading.get_ident())
            for watcher in tuple(watchers):
                watcher(event)
    finally:
        _thread.watched = False
    return result
