"""Signatures and docstrings of lazy operations, and placeholders of arrays past memory."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import dask.array as da
import numpy as np

from ..formats.layout import Layout
from ..signatures import with_parameters
from .files import check_open

F = TypeVar("F", bound=Callable[..., Any])

_DOC = """`layoutkit.{name}` of an array past memory: the same arguments, a dask array of the result.

    Nothing is computed yet. Each tile of the result is a task that reads what it needs of `{first}` and no more: parts
    of chunks, or regions of a file. `plan` says what that comes to.

    Parameters
    ----------
    {{PARAMETERS}}
    chunks : optional
        Of the result, as dask takes them, by physical axis: by default it is cut where `{first}` is; a result of an
        array in a file into tiles of whole chunks of the file, up to dask's ``array.chunk-size``.

    Returns
    -------
    dask.array.Array
        The physical array of the result.

    Raises
    ------
    TypeError, ValueError
        At once: types, shapes, layouts or attributes do not fit. When it is computed: a chunk is not of the shape or
        type that its array says, or a region of a file cannot be read; the error names it.
    """
_FIRST = """\
{name} : dask array, or array of Zarr, HDF5 or numpy
    {text} Chunks of any sizes are taken as they are; of an array in a file tiles read regions.
"""
_THREADS = """\
threads : int, optional
    Of each task. One by default, as dask runs as many tasks as there are cores.
"""


def lazily(model: Callable[..., Any], text: str, **described: str) -> Callable[[F], F]:
    """Give the lazy form of `model` its signature, without `out`, and its description.

    `text` describes the array, `described` parameters that differ from those of `model`: "" drops one.
    """
    dropped = {"out", *(name for name, words in described.items() if not words)}

    def decorate(function: F) -> F:
        first = next(iter(inspect.signature(function).parameters))
        if model.__doc__:  # not with python -OO
            function.__doc__ = _DOC.format(name=model.__name__, first=first)
        changes = {first: _FIRST.format(name=first, text=text), "out": "", "threads": _THREADS, **described}
        whole = with_parameters(model, **changes)(function)
        if whole.__doc__:
            whole.__doc__ = re.sub(r"\n\n+(?=\S.* : )", "\n", whole.__doc__)
        signature = inspect.signature(whole)
        parameters = [p for p in signature.parameters.values() if p.name not in dropped]
        names = frozenset(p.name for p in parameters)

        @functools.wraps(whole)
        def checked(*args: Any, **keywords: Any) -> Any:
            unknown = next((name for name in keywords if name not in names), None)
            if unknown in dropped:
                text = f"{function.__name__}: {unknown}: the result is a new dask array"
                raise TypeError(f"{text}; layoutkit.dask.store writes it, also into a part of an array")
            if unknown is not None:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {unknown!r}")
            check_open(args[0] if args else keywords.get(first), function.__name__, first)
            return function(*args, **keywords)

        checked.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return cast(F, checked)

    return decorate


def placeholder(array: Any) -> np.ndarray:
    """An array of numpy of the shape and type of another one, which takes no memory: for checks."""
    return np.broadcast_to(np.zeros((), array.dtype), tuple(map(int, array.shape)))


def in_memory(value: Any, what: str, name: str) -> Any:
    """An argument that each task needs whole; TypeError if it is a dask array."""
    if isinstance(value, da.Array):
        raise TypeError(f"{what}: {name} is a dask array, which every task needs whole: give {name}.compute()")
    return value


def with_batch(x: Any, layout: Layout, what: str) -> tuple[Any, bool]:
    """A single input with an axis of the batch, and whether that was added."""
    if getattr(x, "ndim", None) != len(layout.factors) - 1 or layout.block(0) > 1:
        return x, False
    if not isinstance(x, da.Array | np.ndarray):
        raise ValueError(f"{what}: an array in a file needs the axis of the batch, got shape {tuple(x.shape)}")
    at = layout.digits(0)[0]
    return x[(slice(None),) * at + (None,)], True


def without_batch(y: da.Array, layout: Layout, single: bool) -> da.Array:
    """A result of a single input without the axis of the batch."""
    return y[(slice(None),) * layout.digits(0)[0] + (0,)] if single else y
