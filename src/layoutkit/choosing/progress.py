"""A line on the terminal for what takes longer than two seconds, and is gone when that is done; elsewhere nothing.

Who begins something that may take long enters `shown`; what it consists of says `step`, wherever it is called from.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar

AFTER_SECONDS = 2.0
EVERY_SECONDS = 0.1


class _Line:
    """The line of the outermost activity of a thread."""

    def __init__(self, what: str) -> None:
        self._what, self._start, self._shown, self._steps = what, time.monotonic(), 0.0, 0

    def step(self, text: str) -> None:
        self._steps += 1
        now = time.monotonic()
        if now - self._start < AFTER_SECONDS or now - self._shown < EVERY_SECONDS:
            return
        self._shown = now
        self._print(f"{self._what}: {now - self._start:.0f} s, step {self._steps}, {text}")

    def clear(self) -> None:
        if self._shown:
            self._print("")

    def _print(self, text: str) -> None:
        from shutil import get_terminal_size  # importing layoutkit stays cheap

        width = get_terminal_size().columns - 1
        with contextlib.suppress(OSError, ValueError):  # a terminal that is gone is no reason to stop
            print(f"\r{text[:width]:<{width}}\r", end="", file=sys.stderr, flush=True)


_line: ContextVar[_Line | None] = ContextVar("progress", default=None)


@contextlib.contextmanager
def shown(what: str) -> Iterator[None]:
    """Show the steps of `what` on standard error if that is a terminal; within another activity they are its steps."""
    if _line.get() is not None or not on_terminal():
        yield
        return
    line = _Line(what)
    token = _line.set(line)
    try:
        yield
    finally:
        _line.reset(token)
        line.clear()


def step(text: str) -> None:
    """Say what is done next."""
    line = _line.get()
    if line is not None:
        line.step(text)


def on_terminal() -> bool:
    """Whether standard error is a terminal."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False
