"""Pausing Python's garbage collector while many objects are made that will last."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

__all__ = ["collection_paused"]

_pausing: set[int] = set()  # threads that will enable it again


@contextmanager
def collection_paused() -> Iterator[None]:
    """No collection of cycles inside, in all threads: each would look at all that has been made, and free nothing.

    Whoever finds the collector disabled leaves it so.
    """
    if not gc.isenabled():
        yield
        return
    try:
        _pausing.add(get_ident())
        gc.disable()
        yield
    finally:
        gc.enable()
        _pausing.discard(get_ident())


def _resume_in_child() -> None:
    """A forked process has none of the other threads."""
    if _pausing - {get_ident()}:
        gc.enable()
    _pausing.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_resume_in_child)
