"""Recurrent layers become a product of all inputs in time with a matrix, and the steps in time, which multiply only the
state."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import Graph, Node
from ..operators import Known
from ..operators.recurrent import GATES, Cell, cell_of, compiled_cell, hidden_bias
from .rewriting import Knowledge, Rewriting

F32 = np.dtype(np.float32)


def recurrent_products(graph: Graph, known: Knowledge) -> Graph:
    """LSTM, GRU and RNN with constant matrices, where a kernel has their steps."""
    r, nodes = Rewriting(graph, known), []
    for node in graph.nodes:
        nodes += _split(node, r) if node.op in GATES and _suits(node, known) else [node]
    return r.graph(nodes)


def _suits(node: Node, known: Mapping[str, Known]) -> bool:
    """Whether a layer has constant matrices, sequences of one length, and a cell that a kernel has."""
    inputs = [known[name] if name else None for name in (*node.inputs, *[""] * 5)[:8]]
    x, w, r, b, lengths, h, c, p = inputs
    if x is None or w is None or r is None or x.dtype != F32 or 0 in x.shape or 0 in r.shape or x.value is not None:
        return False
    cell = cell_of(node.op, node.attributes)
    steps = x.shape[1 if cell.batch_first else 0]
    full_length = lengths is None or (lengths.value is not None and bool((lengths.value == steps).all()))
    constant = all(v is None or v.value is not None for v in (w, r, b))
    states = all(v is None or v.value is None or not v.value.any() for v in (h, c))
    return constant and full_length and states and p is None and compiled_cell(cell) is not None


def _split(node: Node, r: Rewriting) -> list[Node]:
    """The nodes of a recurrent layer: a Reshape and a Gemm of the inputs of all steps, and the steps."""
    known, cell = r.known, cell_of(node.op, node.attributes)
    x = known[node.inputs[0]]
    w, hidden_w = (known[name].value for name in node.inputs[1:3])
    assert w is not None and hidden_w is not None
    b = known[node.inputs[3]].value if node.input(3) else None
    gates, hidden, first = w.shape[1], hidden_w.shape[2], node.outputs[0]
    biases = [] if b is None else [(bias[:gates], bias[gates:]) for bias in b]  # by direction
    steps, batch = x.shape[:2][:: -1 if cell.batch_first else 1]
    rows = r.tensor(first, "rows", F32, (steps * batch, x.shape[2]))
    products = r.tensor(first, "products", F32, (steps * batch, len(w) * gates))
    gemm_inputs = [rows, r.constant(first, "w", np.ascontiguousarray(w.reshape(-1, x.shape[2]).T))]
    if biases:
        bias = np.concatenate([_gemm_bias(cell, pair, hidden) for pair in biases])
        gemm_inputs.append(r.constant(first, "bias", bias))
    inner = [bias for pair in biases if cell.linear_first and (bias := hidden_bias(node.op, pair)) is not None]
    operands = [products, r.constant(first, "r", hidden_w)]
    operands.append(r.constant(first, "hidden_bias", np.stack(inner)) if inner else "")
    operands += [name if name and known[name].value is None else "" for name in (node.input(5), node.input(6))]
    state = _state_shape(x, cell, hidden)
    results = [name or r.tensor(first, f"state.{i}", F32, state) for i, name in enumerate((*node.outputs, "", "")[:3])]
    shape = r.constant(first, "shape", np.array([steps * batch, x.shape[2]]))
    attributes = {"of": {**node.attributes, "op": node.op}, "steps": steps, "batch": batch}
    return [
        Node("Reshape", (node.inputs[0], shape), (rows,)),
        Node("Gemm", tuple(gemm_inputs), (products,), {}, f"{node.name or first} products"),
        Node("RecurrentSteps", tuple(operands), tuple(results[: 3 if node.op == "LSTM" else 2]), attributes, node.name),
    ]


def _gemm_bias(cell: Cell, bias: tuple[np.ndarray, np.ndarray], hidden: int) -> np.ndarray:
    """The sum of both biases, but for one of a GRU's hidden gate that its reset gate multiplies."""
    before = bias[1].copy()
    if cell.op == "GRU" and cell.linear_first:
        before[2 * hidden :] = 0
    return bias[0] + before


def _state_shape(x: Known, cell: Cell, hidden: int) -> tuple[int, ...]:
    """The shape of the hidden state of all directions."""
    batch, dirs = x.shape[0 if cell.batch_first else 1], len(cell.directions)
    return (batch, dirs, hidden) if cell.batch_first else (dirs, batch, hidden)
