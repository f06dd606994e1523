"""Kernels on the threads of torch.

Torch's threads of OpenMP spin for some milliseconds after an operator, and ours for a while after a call. Operators of
both in turn would keep each other from the cores, in each layer.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

from .._core.runtime import team

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def _lend() -> None:
    """Tell our regions where torch's threads are; they keep to their own if it has no OpenMP."""
    try:
        library = ctypes.CDLL(torch._C.__file__)  # symbols of what it depends on are found as well
        functions = library.GOMP_parallel, library.omp_get_thread_num
    except (OSError, AttributeError):
        return
    if torch.backends.openmp.is_available():
        parallel, number = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions)
        team.lend(parallel, number)


_lend()


def on_torch_threads(kernel: Kernel) -> Kernel:
    """The kernel of an operator, on the threads that torch's own run on."""

    @wraps(kernel)
    def borrowing(*args: Any, **more: Any) -> Any:
        team.borrow(True)
        try:
            return kernel(*args, **more)
        finally:
            team.borrow(False)

    return borrowing  # type: ignore[return-value]
