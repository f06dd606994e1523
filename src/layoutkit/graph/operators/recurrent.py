"""Recurrent networks of one layer: LSTM, GRU and RNN, in one or both directions of time.

The rows of W and R are those of gates in this order: input, output, forget, cell of an LSTM; update, reset, hidden of a
GRU. ``X W^T`` and the biases are one product for all steps; each step computes only ``h R^T``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..ir import Node
from .base import applied, operator, required

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULT_ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
FUNCTIONS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "Softsign": (), "Softplus": (), "LeakyRelu": (0.01,), "Elu": (1.0,),
    "ThresholdedRelu": (1.0,), "HardSigmoid": (0.2, 0.5), "Affine": (1.0, 0.0), "ScaledTanh": (1.0, 1.0),
}  # fmt: skip
Activation = tuple[str, tuple[float, ...]]


class Cell(NamedTuple):
    """The attributes of a recurrent operator."""

    op: str
    directions: tuple[bool, ...]  # whether time runs backward, by direction
    activations: tuple[tuple[Activation, ...], ...]  # by direction
    clip: float | None
    batch_first: bool
    coupled: bool  # of an LSTM: the forget gate is one minus the input gate
    linear_first: bool  # of a GRU: the reset gate multiplies R's product


def cell_of(op, attributes) -> Cell:
    """The attributes, checked."""
    direction = attributes.get("direction", "forward")
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if directions is None:
        raise ValueError(f"direction {direction!r}: expected forward, reverse or bidirectional")
    names = attributes.get("activations") or [*DEFAULT_ACTIVATIONS[op]] * len(directions)
    count = len(DEFAULT_ACTIVATIONS[op])
    if op == "RNN" and len(names) == 2 and len(directions) == 1:  # the default that the specification writes
        names = names[:1]
    if len(names) != count * len(directions):
        raise ValueError(f"{len(names)} activations, expected {count * len(directions)}")
    names = [next((function for function in FUNCTIONS if function.lower() == name.lower()), name) for name in names]
    unknown = [name for name in names if name not in FUNCTIONS]
    if unknown:
        raise ValueError(f"activations {', '.join(unknown)}: expected {', '.join(FUNCTIONS)}")
    alphas, betas = (list(attributes.get(k) or ()) for k in ("activation_alpha", "activation_beta"))
    activations = []
    for name in names:  # numbers are consumed by the functions that take them
        numbers = list(FUNCTIONS[name])
        for i, values in enumerate((alphas, betas)):
            if i < len(numbers) and values:
                numbers[i] = float(values.pop(0))
        activations.append((name, tuple(numbers)))
    clip = attributes.get("clip")
    if clip is not None and not clip >= 0:
        raise ValueError(f"clip {clip}: expected a number from 0 on")
    return Cell(
        op, directions, tuple(tuple(activations[i : i + count]) for i in range(0, len(activations), count)),
        None if not clip else float(clip), bool(attributes.get("layout", 0)), bool(attributes.get("input_forget", 0)),
        bool(attributes.get("linear_before_reset", 0)),
    )  # fmt: skip


def _recurrent_shape(node, inputs):
    cell = cell_of(node.op, node.attributes)
    x, w, r = (required(v) for v in inputs[:3])
    b, lengths, h, c, p = (*inputs[3:], *[None] * 5)[:5]
    dirs, gates = len(cell.directions), GATES[node.op]
    if len(x.shape) != 3 or len(w.shape) != 3 or len(r.shape) != 3:
        raise ValueError("expected tensors with 3 axes")
    hidden = r.shape[2]
    steps, batch = x.shape[:2][:: -1 if cell.batch_first else 1]
    hidden_size = node.attributes.get("hidden_size", hidden)
    state = (batch, dirs, hidden) if cell.batch_first else (dirs, batch, hidden)
    expected = {
        "W": (w, (dirs, gates * hidden, x.shape[2])), "R": (r, (dirs, gates * hidden, hidden)),
        "B": (b, (dirs, 2 * gates * hidden)), "sequence_lens": (lengths, (batch,)), "initial_h": (h, state),
        "initial_c": (c, state), "P": (p, (dirs, 3 * hidden)),
    }  # fmt: skip
    for name, (operand, shape) in expected.items():
        if operand is not None and operand.shape != shape:
            raise ValueError(f"{name} of shape {operand.shape}, expected {shape}")
    if hidden_size != hidden:
        raise ValueError(f"hidden_size {hidden_size}, R is of {hidden}")
    y = (batch, steps, dirs, hidden) if cell.batch_first else (steps, dirs, batch, hidden)
    return [(x.dtype, y), (x.dtype, state), (x.dtype, state)][: 3 if node.op == "LSTM" else 2]


@operator(*GATES, shape=_recurrent_shape)
def _recurrent(inputs, attributes):
    cell = cell_of(attributes["op"], attributes)
    x, w, r, b, lengths, h, c, p = (*inputs, *[None] * 5)[:8]
    if cell.batch_first:
        x, h, c = (None if v is None else v.swapaxes(0, 1) for v in (x, h, c))
    steps, batch, _ = x.shape
    if lengths is not None and ((lengths < 0) | (lengths > steps)).any():
        raise ValueError(f"sequence_lens {lengths.tolist()} of {steps} steps")
    gates, hidden = GATES[cell.op], r.shape[2]
    y = np.zeros((steps, len(cell.directions), batch, hidden), x.dtype)
    last = [np.zeros((len(cell.directions), batch, hidden), x.dtype) for _ in range(2)]
    for d, backward in enumerate(cell.directions):
        bias = None if b is None else (b[d, : gates * hidden], b[d, gates * hidden :])
        state = [np.zeros((batch, hidden), x.dtype) if v is None else v[d] for v in (h, c)]
        order = _order(steps, lengths, backward)
        of_cell = Step(cell, d, r[d], hidden_bias(cell.op, bias), None if p is None else p[d])
        results, *states = _stepped(_in_time(products(cell.op, x, w[d], bias), order), state, of_cell.advance, lengths)
        y[:, d] = _in_time(results, order)
        last[0][d], last[1][d] = states
    if cell.batch_first:
        y, last = y.transpose(2, 0, 1, 3), [v.swapaxes(0, 1) for v in last]
    return [np.ascontiguousarray(v) for v in (y, *last[: 2 if cell.op == "LSTM" else 1])]


def _order(steps, lengths, backward):
    """By step and sequence, the step of the input; None if it is the same one. It is its own inverse."""
    if not backward:
        return None
    at = np.arange(steps)[:, None]
    return at[::-1] if lengths is None else np.where(at < lengths, lengths - 1 - at, at)


def _in_time(x, order):
    """Steps in the order in which they are computed, or back."""
    return x if order is None else np.take_along_axis(x, order[:, :, None], 0)


def products(op, x, w, bias):
    """The products of the inputs of all steps with W, with the biases that are no part of `hidden_bias`."""
    if bias is None:
        return x @ w.T
    inner, n = bias[1], len(bias[1]) // GATES[op]
    if op == "GRU":
        inner = np.concatenate([inner[: 2 * n], np.zeros_like(inner[2 * n :])])
    return x @ w.T + (bias[0] + inner)


def hidden_bias(op, bias):
    """The bias of a GRU that its reset gate may multiply, None of others."""
    return None if op != "GRU" or bias is None else bias[1][len(bias[1]) // 3 * 2 :]


def _stepped(products, state, advance, lengths):
    """All steps: the results of each, and the states after the last step of each sequence."""
    results = np.zeros((len(products), *state[0].shape), state[0].dtype)
    for t, product in enumerate(products):
        new = advance(product, *state)
        if lengths is not None:
            new = [np.where((t < lengths)[:, None], n, old) for n, old in zip(new, state)]
        state = new
        results[t] = state[0] if lengths is None else np.where((t < lengths)[:, None], state[0], 0)
    return results, *state


def _functions(cell: Cell, direction: int) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The activations of a direction, with their clipping."""

    def applying(activation):
        name, numbers = activation

        def function(z):
            z = z if cell.clip is None else np.clip(z, -cell.clip, cell.clip)
            return activated(name, numbers, z)

        return function

    return [applying(activation) for activation in cell.activations[direction]]


def activated(name: str, numbers: tuple[float, ...], z: np.ndarray) -> np.ndarray:
    """An activation of a recurrent operator."""
    if name == "Affine":
        return (z * numbers[0] + numbers[1]).astype(z.dtype)
    if name == "ScaledTanh":
        return (numbers[0] * np.tanh(numbers[1] * z)).astype(z.dtype)
    attributes = dict(zip(("alpha", "beta"), numbers))
    with np.errstate(all="ignore"):
        return applied(Node(name, ("z",), ("y",), attributes), [z])[0]


class Step(NamedTuple):
    """A step of a direction of a layer, after the products with its input."""

    cell: Cell
    direction: int
    r: np.ndarray
    bias: np.ndarray | None  # of a GRU's hidden gate
    p: np.ndarray | None

    def advance(self, product, hidden, c):
        """The state after a step."""
        return _ADVANCE[self.cell.op](self, _functions(self.cell, self.direction), product, hidden, c)


def _lstm(step, functions, product, hidden, c):
    (f, g, h), peep = functions, [c.dtype.type(0)] * 3 if step.p is None else np.split(step.p, 3)
    i, o, forget, new = np.split(product + hidden @ step.r.T, 4, -1)
    i = f(i + peep[0] * c)
    forget = 1 - i if step.cell.coupled else f(forget + peep[2] * c)
    c = forget * c + i * g(new)
    return f(o + peep[1] * c) * h(c), c


def _gru(step, functions, product, hidden, unused):
    (f, g), n, r = functions, step.r.shape[1], step.r
    before = hidden.dtype.type(0) if step.bias is None else step.bias
    z, reset = np.split(f(product[:, : 2 * n] + hidden @ r[: 2 * n].T), 2, -1)
    if step.cell.linear_first:
        inner = reset * (hidden @ r[2 * n :].T + before)
    else:
        inner = (reset * hidden) @ r[2 * n :].T + before
    return (1 - z) * g(product[:, 2 * n :] + inner) + z * hidden, unused


def _rnn(step, functions, product, hidden, unused):
    return functions[0](product + hidden @ step.r.T), unused


_ADVANCE = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}


# ---- the steps without the products of their inputs


def compiled_cell(cell: Cell) -> str | None:
    """The name of the cell in `_core.nests.products.recurrent`; None if it has no kernel."""
    names = {tuple(name for name, _ in functions) for functions in cell.activations}
    if cell.clip is not None or cell.coupled or len(names) > 1:
        return None
    if cell.op == "RNN":
        ((name,),) = names
        return name if name in ("Tanh", "Relu") else None
    if names != {DEFAULT_ACTIVATIONS[cell.op]}:
        return None
    return "GRU, reset first" if cell.op == "GRU" and not cell.linear_first else cell.op


@operator("RecurrentSteps")
def _steps(inputs, attributes):
    """The steps of a layer, from the products of its inputs, [step and sequence, direction * gate * unit]."""
    z, r, bias, h, c = inputs
    cell = cell_of(attributes["of"]["op"], attributes["of"])
    steps, batch = attributes["steps"], attributes["batch"]
    z = z.reshape((batch, steps, -1) if cell.batch_first else (steps, batch, -1))
    if cell.batch_first:
        z, h, c = (None if v is None else v.swapaxes(0, 1) for v in (z, h, c))
    hidden, dirs = r.shape[2], len(cell.directions)
    y, last = np.zeros((steps, dirs, batch, hidden), z.dtype), np.zeros((2, dirs, batch, hidden), z.dtype)
    for d, backward in enumerate(cell.directions):
        state = [np.zeros((batch, hidden), z.dtype) if v is None else v[d] for v in (h, c)]
        order, of_cell = _order(steps, None, backward), Step(cell, d, r[d], None if bias is None else bias[d], None)
        part = np.split(z, dirs, -1)[d]
        results, *states = _stepped(part if order is None else part[::-1], state, of_cell.advance, None)
        y[:, d] = results if order is None else results[::-1]
        last[0, d], last[1, d] = states
    if cell.batch_first:
        y, last = y.transpose(2, 0, 1, 3), last.swapaxes(1, 2)
    return [np.ascontiguousarray(v) for v in (y, *last[: 2 if cell.op == "LSTM" else 1])]
