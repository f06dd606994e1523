"""Recorded calls: as a list, as a table, as a trace that browsers draw."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Self

from .watching import Event, watchers

SHOWN_CHARACTERS = 100  # of a problem in a table
HEAD = ("operation", "calls", "total ms", "mean ms", "share", "problem")


class Total(NamedTuple):
    """All calls of one problem: how many, and their seconds."""

    operation: str
    problem: str
    calls: int
    seconds: float


class Profile(AbstractContextManager):
    """The calls that were executed, of all threads, while it was entered; see `profile`. Print it for a table.

    Attributes
    ----------
    events : list of Event
        In the order in which they ended: operation, problem, candidate, threads, start, seconds, thread.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._watcher = self.events.append

    def __enter__(self) -> Self:
        """Watch from now on."""
        if any(watcher is self._watcher for watcher in watchers):
            raise RuntimeError("profile: this one is entered already; lk.profile() makes another")
        watchers.append(self._watcher)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching; the events stay."""
        watchers[:] = [watcher for watcher in watchers if watcher is not self._watcher]

    def totals(self) -> list[Total]:
        """By operation and problem, what took longest first."""
        seconds_of: dict[tuple[str, str], list[float]] = {}
        for e in self.events.copy():
            seconds_of.setdefault((e.operation, e.problem), []).append(e.seconds)
        totals = [Total(*what, len(seconds), sum(seconds)) for what, seconds in seconds_of.items()]
        return sorted(totals, key=lambda t: -t.seconds)

    def __repr__(self) -> str:
        return f"Profile({len(self.events)} calls, {1e3 * sum(e.seconds for e in self.events.copy()):.3f} ms)"

    def _repr_html_(self) -> str:
        from ..pages import fragment

        totals = self.totals()
        whole = sum(t.seconds for t in totals)
        return fragment([repr(self)], HEAD, [_row(t, whole) for t in totals])

    def __str__(self) -> str:
        """Calls, milliseconds and share of all that was executed, by operation and problem."""
        totals = self.totals()
        if not totals:
            return "no calls"
        whole = sum(t.seconds for t in totals)
        rows = [HEAD, *(_row(t, whole) for t in totals)]
        if len(totals) > 1:
            rows.append(_row(Total("all", "", sum(t.calls for t in totals), whole), whole))
        width = max(len(row[0]) for row in rows)
        lines = (f"{what:<{width}} {n:>7} {total:>10} {mean:>9} {share:>6}  {problem}"
                 for what, n, total, mean, share, problem in rows)  # fmt: skip
        return "\n".join(map(str.rstrip, lines))

    def save(self, path: str | os.PathLike) -> Path:
        """Write a trace to the file `path`, which chrome://tracing and https://ui.perfetto.dev draw; returns the path.

        It is JSON in Chrome's trace event format: an event ``"ph": "X"`` for each call, times in microseconds.
        """
        path, events = Path(path), self.events.copy()
        try:
            path.write_text(json.dumps({"traceEvents": _trace(events), "displayTimeUnit": "ms"}), encoding="utf-8")
        except OSError as error:
            raise type(error)(error.errno, f"profile.save: {error.strerror}", str(path)) from None
        return path


def profile() -> Profile:
    """A context in which executed calls are recorded, those of all threads. Contexts nest, each sees all calls.

    What is timed is what a call executes. Its checks and its plan are not, packing a filter is an event of its own.
    A `plan.run` that is called directly is not seen.

    Returns
    -------
    Profile
        To be entered by ``with``; its times are in seconds.

    Examples
    --------
    >>> import numpy as np, layoutkit as lk
    >>> x = np.zeros((1, 64, 56, 56), np.float32)
    >>> with lk.profile() as p:
    ...     y = lk.reorder(x, "NCHW", "NHWC", threads=1)
    >>> print(p)                                                                     # doctest: +ELLIPSIS
    operation   calls   total ms   mean ms  share  problem
    reorder         1 ... 100.0%  reorder 1x64x56x56 NCHW>NHWC x32 t1
    >>> p.events[0].operation, p.events[0].threads
    ('reorder', 1)
    """
    return Profile()


def _row(t: Total, whole: float) -> tuple[str, ...]:
    mean, share = t.seconds / t.calls, t.seconds / whole if whole else 0.0
    problem = t.problem if len(t.problem) <= SHOWN_CHARACTERS else f"{t.problem[:SHOWN_CHARACTERS]}.."
    return t.operation, str(t.calls), f"{1e3 * t.seconds:.3f}", f"{1e3 * mean:.4f}", f"{share:.1%}", problem


def _trace(events: Sequence[Event]) -> list[dict[str, object]]:
    """The events as Chrome has them, from the first one on."""
    origin = min((e.start for e in events), default=0.0)
    return [
        {
            "name": e.operation, "cat": "layoutkit", "ph": "X", "pid": os.getpid(), "tid": e.thread,
            "ts": 1e6 * (e.start - origin), "dur": 1e6 * e.seconds,
            "args": {"problem": e.problem, "candidate": e.candidate, "threads": e.threads},
        }
        for e in events
    ]  # fmt: skip
