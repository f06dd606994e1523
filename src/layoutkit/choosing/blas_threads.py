"""Other thread pools of the process, found by threadpoolctl: numpy's BLAS is limited, others are reported."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from .._core.runtime import process
from .._core.runtime.guard import Lock, TemporaryChange


def libraries() -> Any:
    """The libraries of the process that have threads of their own, as threadpoolctl finds them."""
    from threadpoolctl import ThreadpoolController  # imported late, as few calls need it

    return ThreadpoolController()


class _Request:
    """A limit that a thread has asked for."""

    def __init__(self, threads: int) -> None:
        self.threads, self.thread, self.process = threads, threading.get_ident(), process.forks()


class _Limit:
    """The threads that BLAS libraries may use while limits are asked for, and those that they had before.

    Within a thread the innermost limit applies, between threads the smallest: no BLAS uses more than was asked for.
    Any step may be interrupted by a signal; it is then repeated from the beginning.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._libraries: list[Any] | None = None
        self._requests: dict[_Request, None] = {}  # in the order in which they came
        self._before: dict[tuple[str, int | None], int] = {}  # by library, and thread where each has its own limit

    def find(self) -> None:
        """Find the libraries that the process has loaded."""
        self._libraries = libraries().select(user_api="blas").lib_controllers

    def enter(self, request: _Request) -> None:
        """Apply the limit of `request`."""
        self._requests[request] = None
        self._apply()

    def leave(self, request: _Request) -> None:
        """Remove the limit of `request`; without any limits left, the number of threads of before is restored."""
        self._requests.pop(request, None)
        self._apply()

    def _apply(self) -> None:
        with self._lock.held():
            if self._libraries is None:
                self.find()
            # Threads of the parent do not exist in a forked child.
            requests = [r for r in self._requests.copy() if r.process == process.forks()]
            innermost = {r.thread: r.threads for r in requests}
            for library in self._libraries or ():
                # OpenBLAS on OpenMP has a limit for each thread that calls it.
                thread = threading.get_ident() if getattr(library, "threading_layer", "") == "openmp" else None
                threads = min(innermost.values(), default=None) if thread is None else innermost.get(thread)
                self._set(library, (library.filepath, thread), threads)

    def _set(self, library: Any, key: tuple[str, int | None], threads: int | None) -> None:
        current = library.num_threads
        if current is None:
            return  # unknown
        if threads is not None:
            self._before.setdefault(key, current)
            _set_threads(library, threads, current)
        elif key in self._before:
            _set_threads(library, self._before[key], current)
            del self._before[key]


def _set_threads(library: Any, threads: int, current: int) -> None:
    if current != threads:
        # Newer threadpoolctl follows only the first thread that sets a limit, until it is told to forget that one.
        forget = getattr(library, "clear_controlling_thread", lambda force: None)
        forget(force=True)
        library.set_num_threads(threads)
        forget(force=True)


_limit = _Limit()


def limited(threads: int) -> TemporaryChange:
    """A context that limits numpy's BLAS to so many threads, except libraries loaded since the last `single_threaded`.

    Within a thread the innermost limit applies, between threads the smallest.
    """
    request = _Request(threads)
    return TemporaryChange(partial(_limit.enter, request), partial(_limit.leave, request))


def single_threaded() -> TemporaryChange:
    """A context that limits BLAS to one thread; candidates that call BLAS set its threads themselves."""
    _limit.find()
    return limited(1)


def notes() -> list[str]:
    """Notes on thread pools of the process that make measurements doubtful."""
    runtimes = [p for p in libraries().info() if p["user_api"] == "openmp"]
    if len(runtimes) < 2:
        return []
    names = ", ".join(f"{p['prefix']} ({p['num_threads']} threads)" for p in runtimes)
    return [
        f"this process has {len(runtimes)} OpenMP runtimes: {names}; the threads of one that spin while another "
        "works ruin each other's figures: measure in a process of its own"
    ]
