"""How many threads a call may use."""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import numpy as np

from .._core.runtime import process
from .._core.runtime.guard import TemporaryChange
from .._core.runtime.team import allowed

MAX_THREADS = 4 * (os.cpu_count() or 1)  # more only wait for one another
_most = MAX_THREADS  # of a call without `threads=`
_UNCHANGED = nullcontext()


class _ThreadState(threading.local):
    """The limit of `at_most` in a thread."""

    most = MAX_THREADS


_thread = _ThreadState()


def set_num_threads(n: int | None) -> None:
    """Let every call use at most `n` threads.

    Parameters
    ----------
    n : int or None
        None: as many as there are processors that the process may use, and OpenMP allows (the default).

    Raises
    ------
    TypeError, ValueError
        `n` is no integer, less than 1, or more than four times the cores of the machine.

    Notes
    -----
    ``LAYOUTKIT_NUM_THREADS`` sets the default. A call's ``threads=`` goes before both. More than four times the cores
    of the machine are refused.
    """
    global _most
    _most = MAX_THREADS if n is None else check_threads(n)


def get_num_threads() -> int:
    """Threads that a call may use now: the limit set, and never more than OpenMP (threadpoolctl) allows, or than there
    are processors that the process may use.

    Where the system refuses to start so many, calls run on those that it grants. One in the child of a fork: what was
    planned for more runs on one there too.

    Returns
    -------
    int
    """
    return allowed(min(_most, _thread.most))


def at_most(threads: int | None) -> AbstractContextManager[None]:
    """A context in which calls without `threads=`, those that a call consists of, use so many threads at most.

    None: as many as before.
    """
    if threads is None:
        return _UNCHANGED
    before, most = _thread.most, min(_thread.most, check_threads(threads))
    return TemporaryChange(partial(setattr, _thread, "most", most), partial(setattr, _thread, "most", before))


def check_threads(threads: int | None) -> int:
    """`threads` as a positive number; None: get_num_threads()."""
    if threads is None:
        return get_num_threads()
    if type(threads) is not int:
        if not isinstance(threads, np.integer):
            raise TypeError(f"threads: expected an int, got {threads!r}")
        threads = int(threads)
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads: expected 1 to {MAX_THREADS} (four times the cores of this machine), got {threads}")
    return 1 if process.forks() else threads


if _text := os.environ.get("LAYOUTKIT_NUM_THREADS"):
    if not (_text.isascii() and _text.isdigit()) or not _text.strip("0") or len(_text) > 9:
        raise ImportError(f"LAYOUTKIT_NUM_THREADS={_text!r}: expected a positive number")
    if int(_text) > MAX_THREADS:  # it may be set for several machines: taken as a limit
        why = f"{MAX_THREADS} are used at most, four times the cores of this machine"
        warnings.warn(f"LAYOUTKIT_NUM_THREADS={_text}: {why}", RuntimeWarning, stacklevel=2)
    set_num_threads(min(int(_text), MAX_THREADS))
