"""Tensors of torch as arguments: results are tensors of torch too, in the memory format of the input.

The axes of a tensor of torch are logical (N, C, H, W), its strides are its memory format. One that torch would call
channels_last is taken as such where no layout is given; with a layout the axes are the physical ones, as of any array.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from ..formats.channels_last import suggest
from ..formats.layout import Layout
from ..formats.written import order_of
from ..signatures import explain, passes_on
from .arrays import as_array
from .tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
CHANNELS_LAST = {"channels_last": Layout("NHWC"), "channels_last_3d": Layout("NDHWC")}
LIKE_INPUT = ("out", "add", "grad_output")  # arguments in the memory format of the input


def is_torch(value: Any) -> bool:
    """Whether `value` is a tensor of torch, which need not be installed."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def channels_last_of(x: Any) -> Layout | None:
    """The layout of a tensor of torch that is in channels_last, else None."""
    strided = x.layout is sys.modules["torch"].strided
    return CHANNELS_LAST.get(suggest(tuple(x.shape), tuple(x.stride()))) if strided else None


def memory_of(x: Any, what: str) -> np.ndarray:
    """The memory of a tensor of torch, writeable, its axes as torch has them; `what` names the argument."""
    if x.requires_grad:
        name = what.rpartition(": ")[2]
        raise TypeError(f"{what} requires gradients, which layoutkit.torch computes; {name}.detach() has none")
    return as_array(x, what)


def in_layout(x: Any, layout: Layout, what: str) -> Tensor:
    """The same memory as a `Tensor` in a plain layout, whatever the strides."""
    return Tensor(memory_of(x, what).transpose(order_of(layout)), layout)


def as_torch_like(result: Any, like: Any) -> Any:
    """A result as a tensor of torch if `like`, an argument, is one."""
    if not is_torch(like):
        return result
    if not isinstance(result, Tensor):
        result = Tensor(result, Layout.from_factors([(d, 0) for d in range(result.ndim)]))
    return result.torch()


def takes_torch(operation: F) -> F:
    """Let an operation of arrays take tensors of torch, and return them where its input is one."""
    names = operation.__code__.co_varnames[: operation.__code__.co_argcount]
    name = operation.__name__

    @functools.wraps(operation)
    def wrapped(*args: Any, **keywords: Any) -> Any:
        try:
            many = len(args) > len(names)  # which is an error
            if type(args[0] if args else None) is np.ndarray or many or not _any_torch(args, keywords):
                return operation(*args, **keywords)
            return in_torch(*args, **keywords)
        except TypeError as error:
            explain(error, inspect.signature(operation), args)
            raise

    def in_torch(*args: Any, **keywords: Any) -> Any:
        keywords = {**dict(zip(names, args)), **keywords}
        first = keywords.get(names[0])  # a shape of gradients of inputs
        like = first if isinstance(first, Tensor | np.ndarray) else next(v for v in keywords.values() if is_torch(v))
        out = keywords.get("out")
        has_layout = any(keywords.get(key) is not None for key in ("layout", "out_layout"))  # axes are physical ones
        last = channels_last_of(first) if is_torch(first) and not has_layout else None
        for key, value in keywords.items():
            if is_torch(value):
                what = f"{name}: {key}"
                if last is not None and key in (names[0], *LIKE_INPUT):
                    keywords[key] = in_layout(value, last, what)
                else:
                    keywords[key] = memory_of(value, what)
        result = operation(**keywords)
        if out is not None:
            return out
        if type(result) is tuple:
            return tuple(as_torch_like(each, like) for each in result)
        return as_torch_like(result, like)

    passes_on(wrapped)
    passes_on(in_torch)
    return cast(F, wrapped)


def _any_torch(args: tuple, keywords: dict[str, Any]) -> bool:
    return "torch" in sys.modules and any(map(is_torch, (*args, *keywords.values())))
