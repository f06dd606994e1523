"""Recurrent layers as a product for all steps in time, and the steps that are left."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Node, fresh
from ..operators import Known
from ..operators.recurrent import GATES, Cell, cell_of, compiled_cell, hidden_bias

F32 = np.dtype(np.float32)


def recurrent_products(graph: Graph, known: dict[str, Known]) -> Graph:
    """LSTM, GRU and RNN with constant matrices, where a kernel has their steps."""
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        nodes += _split(node, known, constants) if node.op in GATES and _suits(node, known) else [node]
    return Graph(nodes, graph.inputs, graph.outputs, constants)


def _suits(node: Node, known: Mapping[str, Known]) -> bool:
    inputs = [known[name] if name else None for name in (*node.inputs, *[""] * 5)[:8]]
    x, w, r, b, lengths, h, c, p = inputs
    if x is None or w is None or r is None or x.dtype != F32 or 0 in x.shape or 0 in r.shape or x.value is not None:
        return False
    cell = cell_of(node.op, node.attributes)
    steps = x.shape[1 if cell.batch_first else 0]
    whole = lengths is None or (lengths.value is not None and bool((lengths.value == steps).all()))
    constant = all(v is None or v.value is not None for v in (w, r, b))
    states = all(v is None or v.value is None or not v.value.any() for v in (h, c))
    return constant and whole and states and p is None and compiled_cell(cell) is not None


def _split(node: Node, known: dict[str, Known], constants: dict[str, np.ndarray]) -> list[Node]:
    cell = cell_of(node.op, node.attributes)
    x = known[node.inputs[0]]
    w, r = (known[name].value for name in node.inputs[1:3])
    assert w is not None and r is not None
    b = known[node.inputs[3]].value if node.input(3) else None
    gates, hidden, first = w.shape[1], r.shape[2], node.outputs[0]
    biases = [] if b is None else [(each[:gates], each[gates:]) for each in b]
    steps, batch = x.shape[:2][:: -1 if cell.batch_first else 1]

    def new(what: str, value: np.ndarray | None = None, shape: tuple[int, ...] = ()) -> str:
        name = fresh(f"{first}.{what}", known)
        known[name] = Known(F32, shape) if value is None else Known(value.dtype, value.shape, value)
        if value is not None:
            constants[name] = value
        return name

    rows = new("rows", shape=(steps * batch, x.shape[2]))
    z = new("products", shape=(steps * batch, len(w) * gates))
    product = [rows, new("w", np.ascontiguousarray(w.reshape(-1, x.shape[2]).T))]
    if biases:
        product.append(new("bias", np.concatenate([_added(cell, each, hidden) for each in biases])))
    inner = [bias for each in biases if cell.linear_first and (bias := hidden_bias(node.op, each)) is not None]
    operands = [z, new("r", r), new("hidden_bias", np.stack(inner)) if inner else ""]
    operands += [name if name and known[name].value is None else "" for name in (node.input(5), node.input(6))]
    state = _state_shape(x, cell, hidden)
    names = [name or new(f"state.{i}", shape=state) for i, name in enumerate((*node.outputs, "", "")[:3])]
    attributes = {"of": {**node.attributes, "op": node.op}, "steps": steps, "batch": batch}
    return [
        Node("Reshape", (node.inputs[0], new("shape", np.array([steps * batch, x.shape[2]]))), (rows,)),
        Node("Gemm", tuple(product), (z,), {}, f"{node.name or first} products"),
        Node("RecurrentSteps", tuple(operands), tuple(names[: 3 if node.op == "LSTM" else 2]), attributes, node.name),
    ]


def _added(cell: Cell, bias: tuple[np.ndarray, np.ndarray], hidden: int) -> np.ndarray:
    """What is added to the products: both biases, but for one of a GRU's hidden gate that its reset gate multiplies."""
    before = bias[1].copy()
    if cell.op == "GRU" and cell.linear_first:
        before[2 * hidden :] = 0
    return bias[0] + before


def _state_shape(x: Known, cell: Cell, hidden: int) -> tuple[int, ...]:
    """The shape of a state."""
    batch, dirs = x.shape[0 if cell.batch_first else 1], len(cell.directions)
    return (batch, dirs, hidden) if cell.batch_first else (dirs, batch, hidden)
