"""Einsums of two tensors that are products of matrices become MatMuls."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..ir import Graph, Node, fresh
from ..operators import Known
from ..operators.einsum import Equation, equation_of


def einsums_as_products(graph: Graph, known: dict[str, Known]) -> Graph:
    """Where some axes are summed over, every other one is in the result, and none is repeated or broadcast."""
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        found = _product(node, known) if node.op == "Einsum" else None
        nodes += [node] if found is None else _Rewriting(node, found, known, constants).nodes()
    return Graph(nodes, graph.inputs, graph.outputs, constants)


def _product(node: Node, known: dict[str, Known]) -> Equation | None:
    """The equation of a node that is a product of matrices."""
    if len(node.inputs) != 2 or known[node.outputs[0]].dtype not in (np.float32, np.float64):
        return None
    shapes = [known[name].shape for name in node.inputs]
    found = equation_of(node.attributes["equation"], shapes)
    a, b = found.operands
    repeated = len(set(a)) < len(a) or len(set(b)) < len(b)
    spread = any(found.sizes[label] != n for axes, shape in zip((a, b), shapes) for label, n in zip(axes, shape))
    summed = set(a) & set(b) - set(found.result)
    alone = not (set(a) ^ set(b)) <= set(found.result)
    return None if repeated or spread or alone or not summed or 0 in found.sizes.values() else found


class _Rewriting:
    """The nodes that take an Einsum's place."""

    def __init__(self, node: Node, found: Equation, known: dict[str, Known], constants: dict[str, np.ndarray]) -> None:
        self.node, self.found, self.known, self.constants = node, found, known, constants
        self.made: list[Node] = []

    def nodes(self) -> list[Node]:
        """Operands whose axes are [batch, row, summed] and [batch, summed, column], their product, and its axes."""
        (a, b), result = self.found.operands, self.found.result
        batch = [label for label in result if label in a and label in b]
        summed = [label for label in a if label in b and label not in result]
        rows, columns = ([label for label in result if label in x and label not in y] for x, y in ((a, b), (b, a)))
        left = self._arranged(self.node.inputs[0], a, [*([label] for label in batch), rows, summed])
        right = self._arranged(self.node.inputs[1], b, [*([label] for label in batch), summed, columns])
        product = self._new((*self._sizes(batch), self._size(rows), self._size(columns)))
        self.made.append(Node("MatMul", (left, right), (product,), {}, self.node.name))
        apart = self._reshaped(product, self._sizes([*batch, *rows, *columns]))
        last = self._transposed(apart, [*batch, *rows, *columns], result)
        self.made.append(Node("Identity", (last,), self.node.outputs))
        return self.made

    def _sizes(self, labels: Sequence[str | int]) -> tuple[int, ...]:
        return tuple(self.found.sizes[label] for label in labels)

    def _size(self, labels: Sequence[str | int]) -> int:
        return prod(self._sizes(labels))

    def _arranged(self, name: str, axes: Sequence[str | int], groups: list[list[str | int]]) -> str:
        """An operand with its axes in groups, each of which becomes one."""
        order, shape = [label for group in groups for label in group], tuple(self._size(group) for group in groups)
        value = self.known[name].value
        if value is None:
            return self._reshaped(self._transposed(name, axes, order), shape)
        value = value.transpose([axes.index(label) for label in order]).reshape(shape)
        return self._constant(np.ascontiguousarray(value))

    def _transposed(self, name: str, axes: Sequence[str | int], order: Sequence[str | int]) -> str:
        perm = [list(axes).index(label) for label in order]
        if perm == sorted(perm):
            return name
        moved = self._new(self._sizes(order))
        self.made.append(Node("Transpose", (name,), (moved,), {"perm": perm}))
        return moved

    def _reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        if self.known[name].shape == shape:
            return name
        viewed = self._new(shape)
        self.made.append(
            Node("Reshape", (name, self._constant(np.array(shape, np.int64))), (viewed,), {"allowzero": 1})
        )
        return viewed

    def _new(self, shape: tuple[int, ...]) -> str:
        name = fresh(f"{self.node.outputs[0]}.part", self.known)
        self.known[name] = Known(self.known[self.node.outputs[0]].dtype, shape)
        return name

    def _constant(self, value: np.ndarray) -> str:
        name = fresh(f"{self.node.outputs[0]}.constant", self.known)
        self.known[name] = Known(value.dtype, value.shape, value)
        self.constants[name] = value
        return name
