"""What elementwise operators make of a tensor of bytes is looked up: it has 256 values.

A tensor that depends on nothing but one tensor of bytes, number by number, and is stored as bytes itself, becomes a
`Table` of that one, however many operators are between the two: a sigmoid that is rounded, and its product with its
input. Where bytes are joined with others that have another scale, they are looked up too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..ir import Graph, Node
from ..operators import OPERATORS, run
from ..operators.base import StoredType
from ..operators.integers import to_integers, to_numbers
from ..operators.kernels.base import F32
from .rewriting import Knowledge, Rewriting


class Function(NamedTuple):
    """A tensor as a function of another, which is stored as bytes: its numbers, by the bits of those."""

    of: str
    numbers: np.ndarray


def bytes_as_tables(graph: Graph, known: Knowledge) -> Graph:
    """The graph with a `Table` for each tensor of bytes that is computed number by number from another one."""
    r, nodes = Rewriting(graph, known), []
    functions: dict[str, Function] = {}
    for node in graph.nodes:
        function = _function(node, functions, known)
        if function is not None:
            (y,) = node.outputs
            stored = known[y].stored
            if stored is not None and stored.integers:
                node = _table(function, y, known, node.name)
                numbers = to_numbers(node.attributes["table"], np.float32(stored.scale), stored.zero_point)
                function = Function(function.of, numbers)
            functions[y] = function
        elif node.op == "Concat":
            tables, node = _joined(node, r)
            nodes += tables
        nodes.append(node)
    return r.graph(nodes)


def _table(function: Function, y: str, known: Knowledge, name: str = "") -> Node:
    """The node that looks up a tensor of bytes."""
    x, stored = known[function.of].stored, known[y].stored
    assert stored is not None
    table = _integers(function.numbers, stored)
    return Node("Table", (function.of,), (y,), {"table": table, "x": x, "y": stored}, name)


def _joined(node: Node, r: Rewriting) -> tuple[list[Node], Node]:
    """A concatenation of bytes whose inputs all stand for numbers as its result does, and the tables that make such of
    others: they write to their places in the result."""
    stored, tables, inputs = r.known[node.outputs[0]].stored, [], []
    for name in node.inputs:
        function = _itself(name, r.known) if stored is not None and stored.integers else None
        if function is not None and r.known[name].stored != stored:
            x = r.known[name]
            rounded = r.tensor(node.outputs[0], "rounded", x.dtype, x.shape)
            r.known[rounded] = r.known[rounded]._replace(stored=stored)
            tables.append(_table(function, rounded, r.known))
            name = rounded
        inputs.append(name)
    return tables, node.with_(inputs=tuple(inputs))


def _function(node: Node, functions: dict[str, Function], known: Knowledge) -> Function | None:
    """What the only output of a node is as a function of bytes, None if it is none."""
    if not OPERATORS[node.op].elementwise or len(node.outputs) != 1 or known[node.outputs[0]].dtype != F32:
        return None
    given, roots = [], set()
    for name in node.inputs:
        value = known[name].value if name else None
        if not name or (value is not None and value.size == 1):
            given.append(None if value is None else value.reshape(()))
            continue
        function = functions.get(name) or _itself(name, known)
        if function is None or known[name].shape != known[node.outputs[0]].shape:
            return None
        roots.add(function.of)
        given.append(function.numbers)
    if len(roots) != 1:
        return None
    (numbers,) = run(node, given)
    return Function(roots.pop(), numbers)


def _itself(name: str, known: Knowledge) -> Function | None:
    """The numbers that bytes stand for."""
    stored = known[name].stored
    if stored is None or not stored.integers:
        return None
    q = np.arange(256, dtype=np.uint8).view(stored.dtype)
    return Function(name, to_numbers(q, np.float32(stored.scale), stored.zero_point))


def _integers(numbers: np.ndarray, stored: StoredType) -> np.ndarray:
    """The bytes that stand for numbers; for NaN that which stands for 0."""
    most = float(np.finfo(F32).max)
    finite = np.nan_to_num(numbers, nan=0.0, posinf=most, neginf=-most)
    with np.errstate(over="ignore"):
        return to_integers(finite, np.float32(stored.scale), stored.zero_point, np.dtype(stored.dtype))
