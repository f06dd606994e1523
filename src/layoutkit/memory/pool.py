"""The memory of results: aligned, in huge pages if large, and used again.

New pages cost about as much as the copy that fills them. Large blocks therefore have mappings of their own, advised to
be huge pages, and return to a pool when the last array over them is gone. `release_memory` gives them back to the
system, and so does the pool past its limit.
"""

from __future__ import annotations

import mmap
import os
from operator import index

from .._core.runtime.pool import Pool

HAS_MAPPINGS = hasattr(mmap, "MAP_ANONYMOUS")
MEMORY = "LAYOUTKIT_MEMORY"
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MAX_DIGITS = 18  # exabytes


def _default_limit() -> int:
    """The pool's initial limit in bytes: ``LAYOUTKIT_MEMORY``, or a sixteenth of the machine's memory, at most 1 GB."""
    setting = os.environ.get(MEMORY, "")
    if text := setting.strip().upper():
        number, unit = (text[:-1], text[-1]) if text[-1] in UNITS else (text, "")
        if not (number.isascii() and number.isdecimal() and len(number) <= MAX_DIGITS):
            raise ImportError(f"{MEMORY}={setting!r}: expected bytes, such as 268435456 or 256M")
        return int(number) * UNITS[unit]
    try:
        return min(1 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16)
    except (ValueError, OSError, AttributeError):
        return 1 << 28


pool = Pool(_default_limit())


def memory_limit(nbytes: int | None = None) -> int:
    """Set how much unused memory is kept for later large arrays and workspaces; returns the limit before.

    Memory that is in use does not count. One limit holds for the process: all arrays, plans and threads share what
    is kept. ``LAYOUTKIT_MEMORY`` (bytes, or with K, M or G) sets it from the start; by default it is a sixteenth of
    the machine's memory, at most 1 GB.

    Parameters
    ----------
    nbytes : int, optional
        The new limit, which holds at once; 0 keeps nothing. Without it nothing is changed.

    Returns
    -------
    int
        Bytes.

    Raises
    ------
    TypeError, ValueError
        `nbytes` is no integer, or negative.
    """
    before = pool.bound
    if nbytes is not None:
        pool.limit(_bytes(nbytes, "memory_limit: nbytes"))
    return before


def _bytes(value: int, what: str) -> int:
    try:
        count = index(value)
    except TypeError:
        raise TypeError(f"{what} must be bytes, an integer, got {value!r}") from None
    if count < 0:
        raise ValueError(f"{what} must be bytes, not negative, got {count}")
    return count


def release_memory(keep: int = 0) -> int:
    """Give unused memory back to the system.

    Large arrays that operations have returned, those of `empty`, and the workspaces of convolutions leave their memory
    to later ones; `memory_limit` says how much of it is kept.

    Parameters
    ----------
    keep : int, optional
        Bytes that may stay.

    Returns
    -------
    int
        Bytes given back.

    Raises
    ------
    TypeError, ValueError
        `keep` is no integer, or negative.
    """
    return pool.release(_bytes(keep, "release_memory: keep"))
