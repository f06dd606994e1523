"""Warnings that point at the line of the user's code that led to them, however deep in the package they arise."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


class _ThreadState(threading.local):
    """The category that a thread does not warn of."""

    muted: type[Warning] | None = None


_thread = _ThreadState()


@contextlib.contextmanager
def without(category: type[Warning]) -> Iterator[None]:
    """A context in which this thread does not warn of a category."""
    before, _thread.muted = _thread.muted, category
    try:
        yield
    finally:
        _thread.muted = before


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the innermost line that is not this package's."""
    if category is _thread.muted:
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
