"""What an operator is: a function of arrays, the shape of its result, and which layouts it runs in.

There are three kinds, as in MACE: `FIXED` operators have kernels for some layouts, one of which is chosen by cost;
`FOLLOWS` operators run in whatever layout their inputs have, with their axes renumbered; `SOURCE` operators depend on
the order of the elements and run in the layout of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...formats.layout import Layout
from ..ir import Graph, Node
from .filters import with_numbers

Attributes = Mapping[str, Any]


class Follows(Enum):
    """Which layouts an operator runs in."""

    FIXED = "fixed"
    FOLLOWS = "follows"
    SOURCE = "source"


class Unsupported(ValueError):
    """An operator, or one of its attributes, that is not supported."""


class DataDependent(Unsupported):
    """A shape that depends on the values of a tensor, which are not known yet; `node`: the one that must run before
    the shapes of its results are known, if it is not enough to know the tensor."""

    def __init__(self, message: str, tensor: str, node: Node | None = None) -> None:
        super().__init__(message)
        self.tensor, self.node = tensor, node
        self.graph: Graph | None = None  # that has the node or tensor

    def __reduce__(self) -> tuple:
        return type(self), (self.args[0], self.tensor, self.node)


MAX_RANK = 12  # of tensors stored in another type than their own: the most that `reorder` takes


class StoredType(NamedTuple):
    """The type that the numbers of a tensor are stored in; integers q stand for ``scale * (q - zero_point)``."""

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
def own_type(dtype: np.dtype) -> StoredType:
    """Numbers stored in their own type."""
    return StoredType(str(dtype))


class Known(NamedTuple):
    """What is known of a tensor before it is computed; `stored`: the type that its float32 numbers are stored in, if
    it is another one."""

    dtype: np.dtype
    shape: tuple[int, ...]
    value: np.ndarray | None = None
    stored: StoredType | None = None

    @property
    def stored_type(self) -> StoredType:
        """The type that it is stored in."""
        return self.stored or own_type(self.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element as it is stored."""
        return self.stored.itemsize if self.stored else self.dtype.itemsize


InputTypes = Sequence[Known | None]  # by input, None where an optional one is omitted
ResultTypes = Sequence[tuple[Any, Sequence[int]]]  # by output, element type and shape
Follow = Callable[[Attributes, Layout, Sequence[tuple[int, ...]]], "Attributes | None"]


class Operator(NamedTuple):
    """An operator.

    `run` takes the inputs as arrays, None where an optional one is omitted, and the attributes, and returns the
    outputs. `shape` returns their types and shapes; without it, the operator takes constants only. `follow` translates
    the attributes to the physical axes of a layout, for tensors of these shapes, and returns None where it cannot.
    `elementwise`: it works element by element, and smaller inputs are broadcast. `of_shape`: it reads only the shape
    of its first input. `moves`: the elements of its result are elements of its inputs, unchanged. `open`: the shapes of
    its results are known only once it has run. `into`: `run` also takes `out`, the arrays that its results
    are to be written to, None where one is omitted, or None.
    """

    name: str
    kind: Follows
    run: Callable[..., Sequence[np.ndarray]]
    shape: Callable[[Node, InputTypes], ResultTypes] | None
    follow: Follow | None = None
    elementwise: bool = False
    of_shape: bool = False
    moves: bool = False
    open: bool = False
    into: bool = False


def by_kernel(attributes: Attributes, layout: Layout, shapes: Sequence[tuple[int, ...]]) -> Attributes:
    """The `follow` of operators that run in other layouts than the model's only where a kernel does."""
    return attributes


OPERATORS: dict[str, Operator] = {}


def operator(
    *names: str, kind: Follows = Follows.SOURCE, shape=None, follow: Follow | None = None, elementwise: bool = False,
    of_shape: bool = False, moves: bool = False, open: bool = False, into: bool = False,
):  # fmt: skip
    """Register the function below as operators; the attribute `op` says which one is called."""

    def register(function):
        for name in names:
            OPERATORS[name] = Operator(name, kind, function, shape, follow, elementwise, of_shape, moves, open, into)
        return function

    return register


Out = Sequence["np.ndarray | None"]  # the arrays that results are written to, None where one is omitted


def run(
    node: Node, arrays: Sequence[np.ndarray | None], attributes: Attributes | None = None, out: Out | None = None
) -> Sequence[np.ndarray]:
    """The outputs of a node, by its operator's own function; ValueError if it cannot compute them.

    `out`, of operators that write `into` arrays: these; an output that is none of them was not written to it.
    """
    try:
        return applied(node, arrays, attributes, out)
    except Unsupported:
        raise
    except FAULTS as error:
        raise refusal(node, arrays, error) from error


def applied(
    node: Node, arrays: Sequence[np.ndarray | None], attributes: Attributes | None = None, out: Out | None = None
):
    """As `run`, but the function's exceptions pass through: shape rules use it, and their caller reports the error."""
    attributes = {**(node.attributes if attributes is None else attributes), "op": node.op}
    arrays = with_numbers(node, arrays)
    return OPERATORS[node.op].run(arrays, attributes, *(() if out is None else (out,)))


def result(out: Out | None, shape: Sequence[int], dtype: Any, i: int = 0) -> np.ndarray:
    """The array that output `i` is to be written to: a new one if none is given."""
    given = None if out is None or i >= len(out) else out[i]
    return np.empty(tuple(shape), dtype) if given is None else given


# What the functions of operators, and the numpy functions that they call, raise on inputs that do not fit.
FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)


def refusal(node: Node, inputs: Sequence[Any], error: Exception) -> ValueError:
    """The error to raise where the function or shape rule of a node has failed on these inputs."""
    shapes = ", ".join("-" if x is None else str(x.shape) for x in inputs)
    reason = f"{error} is missing" if type(error) is KeyError else str(error)
    return ValueError(f"{node} on shapes {shapes}: {reason}")


def normal(axis: int, rank: int, op: str) -> int:
    """An axis counted from the front; ValueError if it is out of range."""
    if not -rank <= axis < rank:
        raise ValueError(f"{op}: axis {axis} of a tensor with {rank} axes")
    return axis % rank


def physical_axes(layout: Layout) -> list[int | None]:
    """By dimension, its axis in the physical array; None where blocks split it over several."""
    factors = layout.factors
    count = [sum(f.dim == d for f in factors) for d in range(layout.rank)]
    return [next(i for i, f in enumerate(factors) if f.dim == d) if n == 1 else None for d, n in enumerate(count)]


# ---- for shape rules


def required(x: Known | None) -> Known:
    """An input that is not optional."""
    if x is None:
        raise ValueError("an input is missing")
    return x


def mean(x: np.ndarray, axis: tuple[int, ...], keepdims: bool = True) -> np.ndarray:
    """As numpy's, but without a warning where there is nothing to take the mean of: NaN, or 0 of integers."""
    if x.size:
        return x.mean(axis, keepdims=keepdims)
    shape = [1 if i in axis else n for i, n in enumerate(x.shape) if keepdims or i not in axis]
    return np.full(shape, 0 if x.dtype.kind in "biu" else np.nan, x.dtype)


def constants(node: Node, inputs: InputTypes, i: int, attribute: str | None = None) -> list | None:
    """The numbers of a constant input or of an attribute, None if both are omitted; DataDependent if the input is not
    constant."""
    x = inputs[i] if i < len(inputs) else None
    if x is None:
        values = node.attributes.get(attribute) if attribute else None
        return None if values is None else list(values)
    if x.value is None:
        name = node.input(i)
        raise DataDependent(f"{node}: the shape of its result depends on the values of {name!r}", name)
    return x.value.reshape(-1).tolist()


def same_shape(node: Node, inputs: InputTypes) -> ResultTypes:
    """Type and shape of the first input."""
    x = required(inputs[0])
    return [(x.dtype, x.shape)]


def broadcast_shape(node: Node, inputs: InputTypes) -> ResultTypes:
    """The shape that all inputs are broadcast to; the type is found by running the operator on single elements."""
    shape = np.broadcast_shapes(*(x.shape for x in inputs if x is not None))
    ones = [None if x is None else np.ones((1,) * len(x.shape), x.dtype) for x in inputs]
    return [(y.dtype, shape) for y in applied(node, ones)]


REALS = np.dtype(np.float32), np.dtype(np.float64)


def as_reals(x: np.ndarray) -> np.ndarray:
    """An array as nests of real numbers take it: in C order, narrow numbers in float32, integers in float64."""
    real = x.dtype if x.dtype in REALS else np.float64 if x.dtype.kind in "iub" else np.float32
    return np.asarray(x, real, order="C")
