"""A graph of operators and tensors: nodes in an order in which they can run, constants, inputs and outputs.

Operators are ONNX's, by name, with the meaning of their newest version; attributes hold plain Python values. Tensors
have names; `shapes.py` infers their shapes and types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

NOTHING = ""  # the name of an optional input or output that is omitted


class TensorType(NamedTuple):
    """Element type and logical shape; extents may be symbolic names until the inputs are known."""

    dtype: np.dtype
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Node:
    """An operator, applied."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        return f"{self.op} {self.name or self.outputs[0]}"

    def input(self, i: int) -> str:
        """The name of an input, `NOTHING` if it is omitted."""
        return self.inputs[i] if i < len(self.inputs) else NOTHING

    def present_inputs(self) -> list[str]:
        """The inputs that are not omitted."""
        return [name for name in self.inputs if name]

    def with_(self, **changes: Any) -> Node:
        """The same but for some fields."""
        return replace(self, **changes)


@dataclass
class Graph:
    """Nodes in topological order, inputs, outputs and constants."""

    nodes: list[Node]
    inputs: dict[str, TensorType]
    outputs: tuple[str, ...]
    constants: MutableMapping[str, np.ndarray]
    ends: frozenset[str] = field(init=False, repr=False, compare=False)  # the outputs, to look them up

    def __post_init__(self) -> None:
        self.ends = frozenset(self.outputs)
        self.nodes = in_order(self.nodes, {*self.inputs, *self.constants})
        results = {name for node in self.nodes for name in node.outputs}
        for name in self.outputs:
            if name not in results and name not in self.inputs and name not in self.constants:
                raise ValueError(f"graph: output {name!r} is made by no operator")

    def with_constants(self, values: Mapping[str, np.ndarray]) -> Graph:
        """The graph with these inputs replaced by constants."""
        inputs = {name: of for name, of in self.inputs.items() if name not in values}
        return Graph(self.nodes, inputs, self.outputs, {**self.constants, **values})

    def needed(self, outputs: Sequence[str]) -> Graph:
        """The part of the graph that computes these tensors."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if not needed.isdisjoint(node.outputs):
                nodes.append(node)
                needed.update(node.present_inputs())
        constants = {name: value for name, value in self.constants.items() if name in needed}
        return Graph(nodes[::-1], self.inputs, tuple(outputs), constants)

    def users(self) -> dict[str, list[Node]]:
        """By tensor, the nodes that read it; a node that reads it twice is listed twice."""
        users: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node.present_inputs():
                users.setdefault(name, []).append(node)
        return users

    def makers(self) -> dict[str, Node]:
        """By tensor, the node that computes it."""
        return {name: node for node in self.nodes for name in node.outputs if name}


@dataclass(eq=False)
class Body:
    """A graph inside a node: what a branch or an iteration computes.

    `inputs` are given by position, each with the axes that it is declared to have, if it is; `captured` are tensors
    around it by their names there, which the node lists as its last inputs.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[tuple[str, int | None], ...]
    captured: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    models: dict[Any, Any] = field(default_factory=dict, repr=False)  # that run it, by the types of its inputs

    def graph(self, types: Mapping[str, TensorType], values: Mapping[str, np.ndarray] | None = None) -> Graph:
        """The graph, for inputs and captured tensors of these types, or of these values."""
        return Graph(list(self.nodes), dict(types), self.outputs, {**self.constants, **(values or {})})


def in_order(nodes: Iterable[Node], available: set[str]) -> list[Node]:
    """Nodes in topological order; ValueError if a tensor is computed twice, by no node, or from itself."""
    nodes = list(nodes)
    maker: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in node.outputs:
            if name and (name in maker or name in available):
                raise ValueError(f"graph: tensor {name!r} is made twice, the second time by {node}")
            if name:
                maker[name] = i
    then: list[list[int]] = [[] for _ in nodes]
    left = []
    for i, node in enumerate(nodes):
        waits = set()
        for name in node.inputs:
            if name in maker:
                waits.add(maker[name])
            elif name and name not in available:
                raise ValueError(f"graph: {node} reads {name!r}, which is made by no operator")
        for j in waits:
            then[j].append(i)
        left.append(len(waits))
    ready, ordered = [i for i in range(len(nodes) - 1, -1, -1) if not left[i]], []
    while ready:
        i = ready.pop()
        ordered.append(nodes[i])
        for j in reversed(then[i]):
            left[j] -= 1
            if not left[j]:
                ready.append(j)
    if len(ordered) < len(nodes):
        circle = next(node for i, node in enumerate(nodes) if left[i])
        raise ValueError(f"graph: {circle} waits for a tensor that is made from its own result")
    return ordered


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """A node with its inputs renamed by `names`."""
    return node.with_(inputs=tuple(names.get(name, name) for name in node.inputs))


def fresh(name: str, taken: Sequence[str] | set[str] | Mapping[str, Any]) -> str:
    """A name like `name` that is not taken."""
    unique, i = name, 1
    while unique in taken:
        unique, i = f"{name}.{i}", i + 1
    return unique
