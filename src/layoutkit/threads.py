"""How many threads a call may use."""

from __future__ import annotations

import os

import numpy as np

from ._core import machine, process

_limit: int | None = None


def set_num_threads(n: int | None) -> None:
    """Let every call use at most `n` threads; None: as many as OpenMP allows (the default).

    ``LAYOUTKIT_NUM_THREADS`` sets the default. A call's ``threads=`` goes before both.
    """
    global _limit
    _limit = None if n is None else check_threads(n)


def get_num_threads() -> int:
    """Threads that a call may use now: the limit set, and never more than OpenMP (threadpoolctl) allows.

    One in the child of a fork: what was planned for more runs on one there too.
    """
    allowed = machine.omp_max_threads()
    return allowed if _limit is None else min(_limit, allowed)


def check_threads(threads: int | None) -> int:
    """`threads` as a positive number; None: get_num_threads()."""
    if threads is None:
        return get_num_threads()
    if type(threads) is not int:
        if not isinstance(threads, np.integer):
            raise TypeError(f"threads: expected an int, got {threads!r}")
        threads = int(threads)
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads: expected 1 to 1024, got {threads}")
    return process.team(threads)


if _text := os.environ.get("LAYOUTKIT_NUM_THREADS"):
    if not _text.isdigit() or int(_text) < 1:
        raise ImportError(f"LAYOUTKIT_NUM_THREADS={_text!r}: expected a positive number")
    set_num_threads(int(_text))
