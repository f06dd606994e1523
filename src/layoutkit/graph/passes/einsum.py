"""Einsums of two tensors that are products of matrices become MatMuls."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..ir import Graph, Node
from ..operators.einsum import Equation, equation_of
from .rewriting import Knowledge, Rewriting


def einsums_as_products(graph: Graph, known: Knowledge) -> Graph:
    """Where some axes are summed over, every other one is in the result, and none is repeated or broadcast."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        equation = _equation_of_product(node, known) if node.op == "Einsum" else None
        nodes += [node] if equation is None else _Product(node, equation, r).nodes()
    return r.graph(nodes)


def _equation_of_product(node: Node, known: Knowledge) -> Equation | None:
    """The equation of a node that is a product of matrices, None if it is none."""
    if len(node.inputs) != 2 or known[node.outputs[0]].dtype not in (np.float32, np.float64):
        return None
    shapes = [known[name].shape for name in node.inputs]
    equation = equation_of(node.attributes["equation"], shapes)
    a, b = equation.operands
    repeated = len(set(a)) < len(a) or len(set(b)) < len(b)
    broadcast = any(equation.sizes[label] != n for axes, shape in zip((a, b), shapes) for label, n in zip(axes, shape))
    summed = set(a) & set(b) - set(equation.result)
    summed_alone = not (set(a) ^ set(b)) <= set(equation.result)  # an axis of one operand only
    return None if repeated or broadcast or summed_alone or not summed or 0 in equation.sizes.values() else equation


class _Product:
    """The nodes that take an Einsum's place."""

    def __init__(self, node: Node, equation: Equation, r: Rewriting) -> None:
        self.node, self.equation, self.r = node, equation, r
        self.added: list[Node] = []

    def nodes(self) -> list[Node]:
        """Operands whose axes are [batch, row, summed] and [batch, summed, column], their product, and its axes."""
        (a, b), result = self.equation.operands, self.equation.result
        batch = [label for label in result if label in a and label in b]
        summed = [label for label in a if label in b and label not in result]
        rows, columns = ([label for label in result if label in x and label not in y] for x, y in ((a, b), (b, a)))
        left = self._arranged(self.node.inputs[0], a, [*([label] for label in batch), rows, summed])
        right = self._arranged(self.node.inputs[1], b, [*([label] for label in batch), summed, columns])
        product = self._new((*self._sizes(batch), self._size(rows), self._size(columns)))
        self.added.append(Node("MatMul", (left, right), (product,), {}, self.node.name))
        split = self._reshaped(product, self._sizes([*batch, *rows, *columns]))
        last = self._transposed(split, [*batch, *rows, *columns], result)
        self.added.append(Node("Identity", (last,), self.node.outputs))
        return self.added

    def _sizes(self, labels: Sequence[str | int]) -> tuple[int, ...]:
        return tuple(self.equation.sizes[label] for label in labels)

    def _size(self, labels: Sequence[str | int]) -> int:
        return prod(self._sizes(labels))

    def _arranged(self, name: str, axes: Sequence[str | int], groups: list[list[str | int]]) -> str:
        """An operand with its axes in groups, each of which becomes one."""
        order, shape = [label for group in groups for label in group], tuple(self._size(group) for group in groups)
        value = self.r.known[name].value
        if value is None:
            return self._reshaped(self._transposed(name, axes, order), shape)
        value = value.transpose([axes.index(label) for label in order]).reshape(shape)
        return self._constant(np.ascontiguousarray(value))

    def _transposed(self, name: str, axes: Sequence[str | int], order: Sequence[str | int]) -> str:
        perm = [list(axes).index(label) for label in order]
        if perm == sorted(perm):
            return name
        moved = self._new(self._sizes(order))
        self.added.append(Node("Transpose", (name,), (moved,), {"perm": perm}))
        return moved

    def _reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        if self.r.known[name].shape == shape:
            return name
        reshaped = self._new(shape)
        inputs = name, self._constant(np.array(shape, np.int64))
        self.added.append(Node("Reshape", inputs, (reshaped,), {"allowzero": 1}))
        return reshaped

    def _new(self, shape: tuple[int, ...]) -> str:
        result = self.node.outputs[0]
        return self.r.tensor(result, "part", self.r.known[result].dtype, shape)

    def _constant(self, value: np.ndarray) -> str:
        return self.r.constant(self.node.outputs[0], "constant", value)
