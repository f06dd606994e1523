"""Signatures and docstrings of functions that differ from another one in the number of spatial axes only.

The parameters are written and described once, where the function for two axes is; `help`, completion and type checkers
show all of them of each function.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_AXES = {1: "width", 2: "height, width", 3: "depth, height, width"}
_KERNEL = {1: "kernel width", 3: "kernel depth, kernel height, kernel width"}
_LETTERS = {1: "W", 3: "DHW"}
_PAIR = {1: "(int,)", 3: "triple of int"}
_SECTION = re.compile(r"^(?=[A-Z][a-zA-Z ]+\n-+$)", re.M)


def of_rank(rank: int, doc: str) -> str:
    """The docstring `doc` of a function for two spatial axes in the words of `rank` axes, without its examples.

    Examples
    --------
    >>> of_rank(3, "The gradient of `conv2d`: (N, C, height, width), pair of int, NCHW.")
    'The gradient of `conv3d`: (N, C, depth, height, width), triple of int, NCDHW.'
    """
    doc = doc.replace("Two-dimensional", {1: "One-dimensional", 3: "Three-dimensional"}[rank])
    text = re.sub(r"(?<=[a-z])2d(?=\b|_)", f"{rank}d", doc)
    text = text.replace("kernel height, kernel width", _KERNEL[rank]).replace("height, width", _AXES[rank])
    text = re.sub(r"\b(NC|OI|IO)HW\b", lambda match: match[1] + _LETTERS[rank], text)
    text = text.replace("pair of int", _PAIR[rank])
    return "".join(part for part in _SECTION.split(text) if not part.startswith("Examples\n")).rstrip()


def like(model: F, rank: int) -> Callable[[Callable[..., Any]], F]:
    """Give a function of `rank` spatial axes the parameters of `model`, the function of two, and their description.

    The function itself passes on ``**attributes``; `inspect.signature` and `help` show what these may be. Keywords that
    `model` does not have are a TypeError in the function's own name.
    """
    signature = inspect.signature(model)
    names = frozenset(signature.parameters)

    def decorate(function: Callable[..., Any]) -> F:
        @functools.wraps(function)
        def checked(*args: Any, **keywords: Any) -> Any:
            if not names.issuperset(keywords):
                unknown = next(name for name in keywords if name not in names)
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}")
            return function(*args, **keywords)

        if model.__doc__:  # not with python -OO
            checked.__doc__ = of_rank(rank, inspect.cleandoc(model.__doc__))
        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


def renamed(function: Callable[..., Any], name: str) -> Any:
    """A copy of a function whose errors about arguments call it `name`."""
    plain = cast(FunctionType, function)
    copy = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    copy.__kwdefaults__, copy.__doc__, copy.__qualname__ = plain.__kwdefaults__, plain.__doc__, name
    return copy


def with_parameters(model: Callable[..., Any], **changes: str) -> Callable[[F], F]:
    """Fill ``{PARAMETERS}`` in a docstring with the parameters that `model` describes, which the function has too.

    `changes` are descriptions in place of some; parameters described together are changed by the first of their names.
    ``**attributes`` of the function stand for the keywords of `model`, as in `like`.
    """

    def decorate(function: F) -> F:
        if model.__doc__ and function.__doc__:
            doc = inspect.cleandoc(model.__doc__)
            section = next(part for part in _SECTION.split(doc) if part.startswith("Parameters\n"))
            entries = {re.split(r"[ ,:\n]", e)[0]: e for e in re.split(r"^(?=\S)", section, flags=re.M)[3:]}
            described = "\n".join(filter(None, (changes.get(name, e).rstrip() for name, e in entries.items())))
            function.__doc__ = inspect.cleandoc(function.__doc__).replace("{PARAMETERS}", described)
        own = inspect.signature(function)
        if any(p.kind is p.VAR_KEYWORD for p in own.parameters.values()):
            kept = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
            shared = inspect.signature(model).parameters.values()
            kept += [p for p in shared if p.kind is p.KEYWORD_ONLY and p.name not in own.parameters]
            function.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
        return function

    return decorate
