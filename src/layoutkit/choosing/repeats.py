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
from ..formats.layout import Layout
from ..memory.arrays import empty, overlap
from . import decision_files
from .cache import Cache
from .table import cost_table
from .threads import get_num_threads
from .watching import watchers

F = TypeVar("F", bound=Callable[..., Any])
Nest = Callable[[np.ndarray, np.ndarray], object]

MOST_CALLS = 256
MOST_BYTES = 4 << 20  # of an input; the time of larger ones is that of their elements
MOST_ARGUMENT_BYTES = 4096  # of an array among the other arguments
MOST_ITEMS = 64  # of a list
VALUES = frozenset({int, bool, str, type(None), type})


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
    """The steps so far of the calls that are recorded in a thread; None among them: they cannot be kept."""

    steps: list[Step | None] | None = None


_thread = _ThreadState()
calls = Cache(MOST_CALLS)


def run(nest: Nest, x: np.ndarray, y: np.ndarray) -> None:
    """``nest(x, y)``, which writes all of y."""
    nest(x, y)
    if _thread.steps is not None:
        _thread.steps.append(Step(nest, x, y))


def copy(x: np.ndarray) -> np.ndarray:
    """A copy in C order."""
    y = np.array(x, order="C")
    if _thread.steps is not None:
        _thread.steps.append(Step(None, x, y))
    return y


def contiguous(x: np.ndarray) -> np.ndarray:
    """`x`, or a copy of it, contiguous and aligned."""
    return x if x.flags.c_contiguous and x.flags.aligned else copy(x)


def not_again() -> None:
    """Let the current call, and those of which it is a part, not be kept.

    An operation says so if it warns, depends on elements, or does anything with its result that is not a step.
    """
    if _thread.steps is not None:
        _thread.steps.append(None)


class Call:
    """A call that may be kept, and the context in which it is recorded."""

    def __init__(self, key: tuple[Any, ...], x: np.ndarray, out: np.ndarray | None) -> None:
        self.key, self.x, self.out, self._outermost = key, x, out, False

    @classmethod
    def of(cls, operation: Any, output: str, at: int, args: Sequence[Any], keywords: dict[str, Any]) -> Self | None:
        """The call of an operation that writes to `output`, its argument `at`; None if it is none that may be kept."""
        x, out = args[0] if args else None, None
        if type(x) is not np.ndarray or x.nbytes > MOST_BYTES or watchers or decision_files.current() is not None:
            return None
        parts = [operation, x.dtype, x.shape, x.strides, x.flags.aligned, get_num_threads(), registry.isa(),
                 cost_table.generation, *keywords]  # fmt: skip
        named = iter(keywords)
        for i, value in enumerate((*args[1:], *keywords.values()), 1):
            is_output = i == at if i < len(args) else next(named) == output
            if is_output and type(value) is np.ndarray:
                if overlap(x, value) or not value.flags.writeable:
                    return None
                out = value
                parts += [np.ndarray, out.dtype, out.shape, out.strides, out.flags.aligned]
            elif (part := _part(value)) is None:
                return None
            else:
                parts += part
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
        if _thread.steps is None:
            self._outermost, _thread.steps = True, []
        self._first = len(_thread.steps)
        return self

    def __exit__(self, *error: object) -> None:
        self._steps = (_thread.steps or [])[self._first :]
        if self._outermost:
            _thread.steps = None

    def keep(self, result: Any) -> None:
        """Keep what was recorded, if each step begins where the one before ended, the last at the result."""
        steps = [s for s in self._steps if s is not None]
        if not steps or len(steps) != len(self._steps) or type(result) is not np.ndarray:
            return
        at = [self.x, *(s.y for s in steps[:-1]), result]
        joined = all(_place(s.x) == _place(x) and _place(s.y) == _place(y) for s, x, y in zip(steps, at, at[1:]))
        made = at[1:] if self.out is None else at[1:-1]
        if joined and steps[-1].nest is not None and all(y.strides == np.empty(y.shape, y.dtype).strides for y in made):
            kept = (KeptStep(s.nest, s.x.dtype, s.y.dtype, y.shape, y.dtype) for s, y in zip(steps, at[1:]))
            calls.put(self.key, tuple(kept))


def _place(array: np.ndarray) -> tuple[Any, ...]:
    """Where the elements of an array are."""
    return array.__array_interface__["data"], array.shape, array.strides, array.itemsize


def _part(value: Any) -> tuple[Any, ...] | None:
    """An argument as a part of a key: by type and value; None if it is too large or of another kind."""
    kind = type(value)
    if kind in VALUES:
        return kind, value
    if kind is float:  # -0.0 is not 0.0 here, and NaN itself
        return kind, value if value and value == value else str(value)
    if kind is tuple or kind is list:
        parts = [kind, len(value)]
        for item in value[: MOST_ITEMS + 1]:
            part = _part(item)
            if part is None or len(value) > MOST_ITEMS:
                return None
            parts += part
        return tuple(parts)
    if isinstance(value, np.dtype):
        return np.dtype, value
    if kind is Layout:
        return kind, value
    if kind is np.ndarray and value.nbytes > MOST_ARGUMENT_BYTES:
        return None
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufc":
        return kind, value.dtype, value.shape, value.tobytes()
    return None


def repeated(operation: F) -> F:
    """Keep calls of an operation, or a step of one: its first argument is the input, one is `output` or `out`."""
    names = list(inspect.signature(operation).parameters)
    output = "output" if "output" in names else "out"
    at = names.index(output)

    @functools.wraps(operation)
    def called(*args: Any, **keywords: Any) -> Any:
        call = Call.of(operation, output, at, args, keywords)
        if call is None:
            return operation(*args, **keywords)
        result = call.again()
        if result is None:
            with call:
                result = operation(*args, **keywords)
            call.keep(result)
        return result

    return cast(F, called)
