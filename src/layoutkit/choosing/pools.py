"""Other thread pools of the process, found and held still by threadpoolctl while something is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def limited(threads: int):
    """A context in which numpy's BLAS has so many threads; libraries loaded after the first call are not met."""
    return _blas().limit(limits=threads)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """BLAS libraries use one thread inside: a candidate that wants them sets their threads itself."""
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        yield


def notes() -> list[str]:
    """What about the process's thread pools makes measurements doubtful."""
    runtimes = [p for p in ThreadpoolController().info() if p["user_api"] == "openmp"]
    if len(runtimes) < 2:
        return []
    names = ", ".join(f"{p['prefix']} ({p['num_threads']} threads)" for p in runtimes)
    return [
        f"this process has {len(runtimes)} OpenMP runtimes: {names}; the threads of one that spin while another "
        "works ruin each other's figures: measure in a process of its own"
    ]
