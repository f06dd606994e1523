"""The translation of ATen operators to those of our graphs: what a translation is given, and the table of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...graph.ir import Graph, Node, TensorType

TYPES = {
    torch.float32: np.float32, torch.float64: np.float64, torch.float16: np.float16, torch.bool: np.bool_,
    torch.int8: np.int8, torch.int16: np.int16, torch.int32: np.int32, torch.int64: np.int64, torch.uint8: np.uint8,
}  # fmt: skip


class NoTranslationError(Exception):
    """An operator, or a use of it, that has no translation: it stays torch's."""


class Value(NamedTuple):
    """A tensor of the graph that is built."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)


Translation = Callable[..., Any]
TABLE: dict[Any, Translation] = {}  # by overload of an operator


def translates(*operators: Any) -> Callable[[Translation], Translation]:
    """Register a translation: a function of a `Builder`, the `Result` and the operator's arguments."""

    def register(function: Translation) -> Translation:
        for operator in operators:
            TABLE[operator] = function
        return function

    return register


class Result(NamedTuple):
    """The shape and type of a result, which torch has inferred."""

    shape: tuple[int, ...]
    dtype: torch.dtype


class Builder:
    """A graph that is built node by node."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: dict[str, TensorType] = {}
        self._count = 0

    def _new(self) -> str:
        self._count += 1
        return f"t{self._count}"

    def input(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Value:
        """A new input of the graph."""
        self.inputs[name] = TensorType(np.dtype(numpy_type(dtype)), tuple(shape))
        return Value(name, tuple(shape), dtype)

    def constant(self, tensor: torch.Tensor | np.ndarray) -> Value:
        """A constant, of the same memory where it can be."""
        if isinstance(tensor, np.ndarray):
            tensor = torch.from_numpy(tensor)
        numpy_type(tensor.dtype)
        name = self._new()
        self.constants[name] = tensor.detach().numpy()
        return Value(name, tuple(tensor.shape), tensor.dtype)

    def ints(self, *values: int) -> Value:
        """A vector of int64, as many operators take their axes and sizes."""
        return self.constant(np.array(values, np.int64))

    def number(self, value: float | bool, dtype: torch.dtype) -> Value:
        """A number."""
        try:
            return self.constant(np.array(value, numpy_type(dtype)))
        except (OverflowError, ValueError):  # NaN has no integer
            raise NoTranslationError(f"{value} as {dtype}") from None

    def add(
        self, op: str, inputs: Sequence[Value | None], shape: Sequence[int], dtype: torch.dtype, **attributes
    ) -> Value:
        """Append an operator of one result."""
        return self.add_split(op, inputs, [shape], dtype, **attributes)[0]

    def add_split(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shapes: Sequence[Sequence[int]],
        dtype: torch.dtype,
        **attributes: Any,
    ) -> tuple[Value, ...]:
        """Append an operator of several results."""
        numpy_type(dtype)
        results = tuple(Value(self._new(), tuple(shape), dtype) for shape in shapes)
        names = tuple("" if value is None else value.name for value in inputs)
        self.nodes.append(Node(op, names, tuple(value.name for value in results), attributes))
        return results

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """A tensor in another type."""
        if value.dtype == dtype:
            return value
        return self.add("Cast", [value], value.shape, dtype, to=np.dtype(numpy_type(dtype)))

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value:
        """A tensor in another shape."""
        if value.shape == tuple(shape):
            return value
        return self.add("Reshape", [value, self.ints(*shape)], shape, value.dtype, allowzero=1)

    def permuted(self, value: Value, axes: Sequence[int]) -> Value:
        """A tensor with its axes in another order."""
        axes = [a % max(1, value.rank) for a in axes]
        if axes == list(range(value.rank)):
            return value
        return self.add("Transpose", [value], [value.shape[a] for a in axes], value.dtype, perm=tuple(axes))

    def graph(self, outputs: Sequence[Value]) -> Graph:
        """The graph of these results; one that is given twice, or is an input, gets a name of its own."""
        names: list[str] = []
        for value in outputs:
            if value.name in names or value.name in self.inputs or value.name in self.constants:
                value = self.add("Identity", [value], value.shape, value.dtype)
            names.append(value.name)
        return Graph(self.nodes, self.inputs, tuple(names), self.constants).needed(names)


def numpy_type(dtype: torch.dtype) -> type:
    """The type of an array's elements."""
    if dtype not in TYPES:
        raise NoTranslationError(f"tensors of {dtype}")
    return TYPES[dtype]


def require(condition: bool, what: str) -> None:
    """Give up unless a condition holds."""
    if not condition:
        raise NoTranslationError(what)
