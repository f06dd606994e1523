"""Functions that take what another one takes: one signature for `conv1d`, `conv2d` and `conv3d`, written once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def like(model: F) -> Callable[[Callable[..., Any]], F]:
    """A decorator that gives a function the signature of `model`, for `help`, completion and type checkers.

    Keywords that `model` does not have are a TypeError in the function's own name.
    """
    code = _plain(model).__code__
    names = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])

    def of(function: Callable[..., Any]) -> F:
        @functools.wraps(function)
        def checked(*args: Any, **given: Any) -> Any:
            if not names.issuperset(given):
                unknown = next(name for name in given if name not in names)
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}")
            return function(*args, **given)

        checked.__wrapped__ = model  # type: ignore[attr-defined]  # where `inspect.signature` looks
        return cast(F, checked)

    return of


def renamed(function: Callable[..., Any], name: str) -> Any:
    """A copy of a function whose errors about arguments name it `name`."""
    plain = _plain(function)
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    copy.__kwdefaults__, copy.__doc__, copy.__qualname__ = plain.__kwdefaults__, plain.__doc__, name
    return copy


def _plain(function: Any) -> FunctionType:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
