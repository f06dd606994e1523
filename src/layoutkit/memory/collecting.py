"""Pausing Python's garbage collector while many objects are made that will last."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collection_paused"]


@contextmanager
def collection_paused() -> Iterator[None]:
    """No collection of cycles inside, in all threads: each would look at all that has been made, and free nothing.

    Whoever finds the collector disabled leaves it so.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
