"""Docstrings of functions that differ from another one in the number of spatial axes only.

The parameters are described once, where the function for two axes is; `help` shows all of them of each function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

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
    text = re.sub(r"(?<=[a-z])2d(?=\b|_)", f"{rank}d", doc)
    text = text.replace("kernel height, kernel width", _KERNEL[rank]).replace("height, width", _AXES[rank])
    text = re.sub(r"\b(NC|OI|IO)HW\b", lambda found: found[1] + _LETTERS[rank], text)
    text = text.replace("pair of int", _PAIR[rank])
    return "".join(part for part in _SECTION.split(text) if not part.startswith("Examples\n")).rstrip()


def like(model: Callable[..., Any], rank: int) -> Callable[[F], F]:
    """Give a function of `rank` spatial axes the parameters of `model`, the function of two, and their description.

    The function itself passes on ``**attributes``; `inspect.signature` and `help` show what these may be.
    """

    def decorate(function: F) -> F:
        if model.__doc__:  # not with python -OO
            function.__doc__ = of_rank(rank, inspect.cleandoc(model.__doc__))
        function.__signature__ = inspect.signature(model)  # type: ignore[attr-defined]
        return function

    return decorate


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
            given = inspect.signature(model).parameters.values()
            kept += [p for p in given if p.kind is p.KEYWORD_ONLY and p.name not in own.parameters]
            function.__signature__ = own.replace(parameters=kept)  # type: ignore[attr-defined]
        return function

    return decorate
