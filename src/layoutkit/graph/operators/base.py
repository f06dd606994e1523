"""What an operator is: a function of arrays, the shape of its result, and how it meets layouts.

Three kinds, as MACE has them: `FIXED` operators have kernels for some layouts, of which one is chosen by cost;
`FOLLOWS` operators run in whatever layout their inputs have, their axes renamed; `SOURCE` operators mean the order of
their elements and run in the layout of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...formats.layout import Layout
from ..ir import Node

Attributes = Mapping[str, Any]


class Follows(Enum):
    """How an operator meets layouts."""

    FIXED = "fixed"
    FOLLOWS = "follows"
    SOURCE = "source"


class Unsupported(ValueError):
    """An operator, or one of its attributes, that is not supported."""


class DataDependent(Unsupported):
    """A shape that depends on the values of a tensor, which are not known yet."""

    def __init__(self, message: str, tensor: str) -> None:
        super().__init__(message)
        self.tensor = tensor

    def __reduce__(self) -> tuple:
        return type(self), (self.args[0], self.tensor)


MAX_RANK = 12  # of tensors that are kept in another type than their own: what reorders take


class Kept(NamedTuple):
    """A type that numbers are kept in; of integers q they are ``scale * (q - zero_point)``."""

    dtype: str
    scale: float = 1.0
    zero_point: int = 0

    def __str__(self) -> str:
        return f"{self.scale:g} * ({self.dtype} - {self.zero_point})" if self.integers else self.dtype

    @property
    def integers(self) -> bool:
        """Whether integers stand for the numbers."""
        return "int" in self.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return {"uint8": 1, "int8": 1, "bfloat16": 2, "float16": 2}.get(self.dtype, 4)


@lru_cache(64)
def own_type(dtype: np.dtype) -> Kept:
    """Numbers as they are."""
    return Kept(str(dtype))


class Known(NamedTuple):
    """What is known of a tensor before data is seen; `stored`: how its float32 are kept, if otherwise."""

    dtype: np.dtype
    shape: tuple[int, ...]
    value: np.ndarray | None = None
    stored: Kept | None = None

    @property
    def kept(self) -> Kept:
        """How it is kept."""
        return self.stored or own_type(self.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element as it is kept."""
        return self.stored.itemsize if self.stored else self.dtype.itemsize


Given = Sequence[Known | None]  # by input, None where an optional one is left out
Told = Sequence[tuple[Any, Sequence[int]]]  # by output, element type and shape
Follow = Callable[[Attributes, Layout, Sequence[tuple[int, ...]]], "Attributes | None"]


class Operator(NamedTuple):
    """An operator by name.

    `run` takes inputs as arrays, None where an optional one is left out, and the attributes, and gives the outputs.
    `shape` tells their types and shapes; without it, the operator takes constants only. `follow` gives the attributes
    for arrays whose axes are those of a layout of tensors of these shapes; None if there are none. `spread` says
    whether it applies to single elements, so that smaller inputs are broadcast; `of_shape`, that of the first input it
    takes the shape only; `moves`, that its result has elements of its inputs, as they are.
    """

    name: str
    kind: Follows
    run: Callable[..., Sequence[np.ndarray]]
    shape: Callable[[Node, Given], Told] | None
    follow: Follow | None = None
    spread: bool = False
    of_shape: bool = False
    moves: bool = False


OPERATORS: dict[str, Operator] = {}


def operator(
    *names: str, kind: Follows = Follows.SOURCE, shape=None, follow: Follow | None = None, spread: bool = False,
    of_shape: bool = False, moves: bool = False,
):  # fmt: skip
    """Register the function below as operators; they are told their names as attribute `op`."""

    def register(function):
        for name in names:
            OPERATORS[name] = Operator(name, kind, function, shape, follow, spread, of_shape, moves)
        return function

    return register


def run(node: Node, arrays: Sequence[np.ndarray | None], attributes: Attributes | None = None) -> Sequence[np.ndarray]:
    """The outputs of a node, by its operator's own function; ValueError if it cannot compute them."""
    try:
        return applied(node, arrays, attributes)
    except Unsupported:
        raise
    except FAULTS as error:
        raise refusal(node, arrays, error) from error


def applied(node: Node, arrays: Sequence[np.ndarray | None], attributes: Attributes | None = None):
    """The same, with whatever the function raises: for rules of shapes, whose errors are told by who asks them."""
    return OPERATORS[node.op].run(arrays, {**(node.attributes if attributes is None else attributes), "op": node.op})


# What functions of operators, and numpy below them, raise on attributes and inputs that do not fit.
FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


def refusal(node: Node, given: Sequence[Any], error: Exception) -> ValueError:
    """What is raised of a node whose function or rule of shapes has failed on these inputs."""
    shapes = ", ".join("-" if x is None else str(x.shape) for x in given)
    told = f"{error} is missing" if type(error) is KeyError else str(error)
    return ValueError(f"{node} on shapes {shapes}: {told}")


def normal(axis: int, rank: int, what: str) -> int:
    """An axis counted from the front; ValueError if there is none."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what}: axis {axis} of a tensor with {rank} axes")
    return axis % rank


def places(layout: Layout) -> list[int | None]:
    """By dimension, the axis of the physical array that has all its indices; None where blocks divide them."""
    factors = layout.factors
    count = [sum(f.dim == d for f in factors) for d in range(layout.rank)]
    return [next(i for i, f in enumerate(factors) if f.dim == d) if n == 1 else None for d, n in enumerate(count)]


# ---- for rules of shapes


def there(x: Known | None) -> Known:
    """An input that is not optional."""
    if x is None:
        raise ValueError("an input is missing")
    return x


def constants(node: Node, given: Given, i: int, attribute: str | None = None) -> list | None:
    """The numbers that an input or an attribute holds, None if neither is there; DataDependent if it is data."""
    x = given[i] if i < len(given) else None
    if x is None:
        found = node.attributes.get(attribute) if attribute else None
        return None if found is None else list(found)
    if x.value is None:
        name = node.input(i)
        raise DataDependent(f"{node}: the shape of its result depends on the values of {name!r}", name)
    return x.value.reshape(-1).tolist()


def same_shape(node: Node, given: Given) -> Told:
    """Type and shape of the first input."""
    x = there(given[0])
    return [(x.dtype, x.shape)]


def spread_shape(node: Node, given: Given) -> Told:
    """All inputs broadcast; the types by trying single elements."""
    shape = np.broadcast_shapes(*(x.shape for x in given if x is not None))
    ones = [None if x is None else np.ones((1,) * len(x.shape), x.dtype) for x in given]
    return [(y.dtype, shape) for y in applied(node, ones)]
