"""Signatures and docstrings of functions that differ from another one in the number of spatial axes only; errors about
arguments that a signature does not have.

The parameters are written and described once, where the function for two axes is; `help`, completion and type checkers
show all of them of each function.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

from .formats.nearest import near

F = TypeVar("F", bound=Callable[..., Any])

_AXES = {1: "width", 2: "height, width", 3: "depth, height, width"}
_KERNEL = {1: "kernel width", 3: "kernel depth, kernel height, kernel width"}
_LETTERS = {1: "W", 3: "DHW"}
_PAIR = {1: "(int,)", 3: "triple of int"}
_SECTION = re.compile(r"^(?=[A-Z][a-zA-Z ]+\n-+$)", re.M)

# What other libraries call keywords that functions here have.
_ELSEWHERE = {
    "strides": "stride", "pad": "padding", "pads": "padding", "auto_pad": "padding", "dilations": "dilation",
    "dilation_rate": "dilation", "group": "groups", "feature_group_count": "groups", "data_format": "layout",
    "memory_format": "layout", "format": "layout", "kernel_layout": "filter_layout", "weight": "w", "weights": "w",
    "filter": "w", "input": "x", "act": "activation", "num_threads": "threads", "n_jobs": "threads",
    "kernel_size": "kernel", "pool_size": "kernel", "border_mode": "padding_mode", "mode": "padding_mode",
    "output": "out", "residual": "add", "algo": "algorithm", "precision": "accuracy",
}  # fmt: skip
_UNKNOWN = re.compile(r"got an unexpected keyword argument '(\w+)'(?:\. Did you mean '\w+'\?)?$")  # of Python 3.13
_TOO_MANY = re.compile(r"takes (?:from \d+ to )?\d+ positional arguments? but \d+ (?:was|were) given$")
_WRAPPERS: set[CodeType] = set()  # the code of functions that pass on their arguments to another one


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
                hint = _near_keyword(unknown, names)
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}{hint}")
            try:
                return function(*args, **keywords)
            except TypeError as error:
                explain(error, signature, args)
                raise

        passes_on(checked)
        if model.__doc__:  # not with python -OO
            checked.__doc__ = of_rank(rank, inspect.cleandoc(model.__doc__))
        checked.__signature__ = signature  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


def passes_on(function: Callable[..., Any]) -> None:
    """Say that a function calls another one with its own arguments, see `explain`."""
    _WRAPPERS.add(cast(FunctionType, function).__code__)


def explain(error: TypeError, signature: inspect.Signature, args: tuple[Any, ...]) -> None:
    """Raise Python's error about the arguments of a call, `args` by position, with what was meant; return if `error` is
    another one. For functions that pass on their arguments and catch what comes back, so that calls take no longer."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or trace.tb_frame.f_code not in _WRAPPERS:
        return  # from inside of a function: its arguments were bound
    text, parameters = str(error), signature.parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    if match := _UNKNOWN.search(text):
        start = text[: match.start()] + f"got an unexpected keyword argument {match[1]!r}"
        raise TypeError(start + _near_keyword(match[1], signature.parameters)) from None
    if _TOO_MANY.search(text):
        keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        beyond = args[sum(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters) :]
        meant = ", ".join(f"{name}={_short(value)}" for name, value in zip(keywords, beyond))
        if meant:
            raise TypeError(f"{text}; attributes are keywords: {meant}?") from None


def _near_keyword(name: str, known: Iterable[str]) -> str:
    names = [*known]
    close = near(name, names, {other: own for other, own in _ELSEWHERE.items() if own in names})
    return f"; did you mean {close!r}?" if close else ""


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, int | float | str | tuple | list | None) else ".."
    return text if len(text) < 40 else ".."


def explaining(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with errors about arguments that say what was meant."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def passing_on(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            explain(error, signature, args)
            raise

    passes_on(passing_on)
    return passing_on


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
