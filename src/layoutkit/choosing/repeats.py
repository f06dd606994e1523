"""Calls that are made again: where nests alone made the result from the input, they are kept and run at once.

Small arrays are filtered, or pooled, in less time than checking and planning takes. What a nest was planned by is the
key: the operation, its arguments by value and type, types, shapes and strides of arrays, threads, instruction set, cost
table.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np

from .._core.runtime import registry
from ..memory.arrays import empty, overlap
from . import decision_files
from .cache import Cache, token
from .table import cost_table
from .threads import get_num_threads
from .watching import watchers

F = TypeVar("F", bound=Callable[..., Any])
Nest = Callable[[np.ndarray, np.ndarray], object]

MOST_CALLS = 128
MOST_BYTES = 4 << 20  # of an input; the time of larger ones is that of their elements
MOST_EXTENTS = 8192  # of input and result together: nests have tables of up to 80 bytes for each position of an axis
MOST_ARGUMENT_BYTES = 4096  # of another argument: see `token`


class Step(NamedTuple):
    """A nest that has run from array to array, or, without one, a copy of an array in C order."""

    nest: Nest | None
    x: np.ndarray
    y: np.ndarray


class KeptStep(NamedTuple):
    """A step on arrays to come: as which types it reads and writes, and what is made for it to write to."""

    nest: Nest | None
    x: np.dtype
    y: np.dtype
    shape: tuple[int, ...]
    dtype: np.dtype

    def run(self, x: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """The result from x, in `out` unless that is None."""
        if self.nest is None:
            return copy(x)
        y = empty(self.shape, self.dtype, "layoutkit", used_with=x) if out is None else out
        run(self.nest, x if x.dtype is self.x else x.view(self.x), y if y.dtype is self.y else y.view(self.y))
        return y


class _ThreadState(threading.local):
    """The innermost call that a thread is in the middle of."""

    call: Call | None = None


_thread = _ThreadState()
calls = Cache(MOST_CALLS)


def run(nest: Nest, x: np.ndarray, y: np.ndarray) -> None:
    """``nest(x, y)``, which writes all of y."""
    nest(x, y)
    _record(nest, x, y)


def _record(nest: Nest | None, x: np.ndarray, y: np.ndarray) -> None:
    call = _thread.call
    if call is not None and call.steps is not None:
        call.steps.append(Step(nest, x, y))


def copy(x: np.ndarray) -> np.ndarray:
    """A copy in C order."""
    y = np.array(x, order="C")
    _record(None, x, y)
    return y


def contiguous(x: np.ndarray) -> np.ndarray:
    """`x`, or a copy of it, contiguous and aligned."""
    return x if x.flags.c_contiguous and x.flags.aligned else copy(x)


def not_again() -> None:
    """Let the current call, and those of which it is a part, not be kept.

    An operation says so if it warns, depends on elements, or does anything with its result that is not a step.
    """
    if _thread.call is not None:
        _thread.call.steps = None


class Call:
    """A call that may be kept, and the context in which it is recorded."""

    def __init__(self, key: tuple[Any, ...], x: np.ndarray, out: np.ndarray | None) -> None:
        self.key, self.x, self.out = key, x, out
        self.steps: list[Step] | None = []  # so far; None: it cannot be kept
        self.around: Call | None = None

    @classmethod
    def of(
        cls, operation: Any, names: Sequence[str], output: str, args: Sequence[Any], keywords: dict[str, Any]
    ) -> Self | None:
        """The call of an operation whose parameters have these names, one of them where it writes to; None if it is
        none that may be kept."""
        x, out = args[0] if args else None, None
        if type(x) is not np.ndarray or x.nbytes > MOST_BYTES or len(args) > len(names):  # too many: an error
            return None
        if watchers or decision_files.current() is not None:
            return None
        parts = [operation, x.dtype, x.shape, x.strides, x.flags.aligned, get_num_threads(), registry.isa(),
                 cost_table.generation, *keywords]  # fmt: skip
        try:
            for name, value in zip((*names[1 : len(args)], *keywords), (*args[1:], *keywords.values())):
                if name == output and type(value) is np.ndarray:
                    out = value
                    parts.append((out.dtype, out.shape, out.strides, out.flags.aligned))
                else:
                    parts.append(token(value, MOST_ARGUMENT_BYTES))
        except TypeError:
            return None
        if out is not None and (overlap(x, out) or not out.flags.writeable):
            return None
        return cls(tuple(parts), x, out)

    def again(self) -> np.ndarray | None:
        """The result by what is kept of an earlier call; None if nothing is."""
        steps = calls.get(self.key)
        if steps is None:
            return None
        x = self.x
        for step in steps[:-1]:
            x = step.run(x, None)
        return steps[-1].run(x, self.out)

    def __enter__(self) -> Self:
        self.around, _thread.call = _thread.call, self
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        around = _thread.call = self.around
        if around is not None and around.steps is not None:  # these are steps of that call, too
            around.steps = around.steps + self.steps if kind is None and self.steps is not None else None

    def keep(self, result: Any) -> None:
        """Keep what was recorded, if each step begins where the one before ended, the last at the result."""
        steps = self.steps
        if not steps or type(result) is not np.ndarray or sum(self.x.shape) + sum(result.shape) > MOST_EXTENTS:
            return
        at = [self.x, *(s.y for s in steps[:-1]), result]
        joined = all(_place(s.x) == _place(x) and _place(s.y) == _place(y) for s, x, y in zip(steps, at, at[1:]))
        made = at[1:] if self.out is None else at[1:-1]
        if joined and steps[-1].nest is not None and all(map(_is_in_order, made)):
            kept = (KeptStep(s.nest, s.x.dtype, s.y.dtype, y.shape, y.dtype) for s, y in zip(steps, at[1:]))
            calls.put(self.key, tuple(kept))


def _place(array: np.ndarray) -> tuple[Any, ...]:
    """Where the elements of an array are."""
    return array.__array_interface__["data"], array.shape, array.strides, array.itemsize


def _is_in_order(array: np.ndarray) -> bool:
    """Whether an array has the strides of a new one."""
    step = array.itemsize
    for n, stride in zip(reversed(array.shape), reversed(array.strides)):
        if stride != step:
            return False
        step *= n
    return True


def repeated(operation: F) -> F:
    """Keep calls of an operation, or a step of one: its first argument is the input, one is `output` or `out`."""
    names = tuple(inspect.signature(operation).parameters)
    output = "output" if "output" in names else "out"

    @functools.wraps(operation)
    def called(*args: Any, **keywords: Any) -> Any:
        call = Call.of(operation, names, output, args, keywords)
        if call is None:
            return operation(*args, **keywords)
        result = call.again()
        if result is None:
            with call:
                result = operation(*args, **keywords)
            call.keep(result)
        return result

    return cast(F, called)
