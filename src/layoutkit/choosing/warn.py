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


class _Here(threading.local):
    """What is not warned of in a thread."""

    muted: type[Warning] | None = None


_here = _Here()


@contextlib.contextmanager
def without(category: type[Warning]) -> Iterator[None]:
    """A context in which this thread does not warn of a category: it was done where the user could see it."""
    before, _here.muted = _here.muted, category
    try:
        yield
    finally:
        _here.muted = before


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at the innermost line that is not this package's."""
    if category is _here.muted:
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
