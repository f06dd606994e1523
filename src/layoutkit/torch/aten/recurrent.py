"""Recurrent networks: LSTM and GRU, of several layers, in one or both directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from .base import Builder, NoTranslationError, Result, Value, require, translates

aten = torch.ops.aten
LSTM_GATES = 0, 3, 1, 2  # torch has input, forget, cell, output; ONNX input, output, forget, cell
GRU_GATES = 1, 0, 2  # torch has reset, update, new; ONNX update, reset, new


def _constant(b: Builder, value: Value) -> np.ndarray:
    if value.name not in b.constants:
        raise NoTranslationError("weights that are computed")
    return np.asarray(b.constants[value.name])


def _by_gates(b: Builder, weights: Sequence[Value], gates: Sequence[int]) -> np.ndarray:
    """Weights of each direction, gates in ONNX's order: (directions, gates * hidden, ..)."""
    arrays = [_constant(b, w) for w in weights]
    return np.stack([np.concatenate([np.split(a, len(gates))[g] for g in gates]) for a in arrays])


def _layers(
    b: Builder, y: Result, op: str, gates: Sequence[int], x: Value, states: Sequence[Value], weights: Sequence[Value],
    has_biases: bool, layers: int, train: bool, both: bool, batch_first: bool, **attributes: int,
) -> tuple[Value, ...]:  # fmt: skip
    """All layers; the results, and the last states of all layers and directions."""
    require(not train, f"{op} in training")
    ways = 2 if both else 1
    each = len(weights) // (layers * ways)
    require(each == (4 if has_biases else 2), f"{op} with projections")
    if batch_first:
        x = b.permuted(x, (1, 0, 2))
    hidden, dtype, (length, n) = states[0].shape[-1], y.dtype, x.shape[:2]
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(layers):
        of = [weights[(layer * ways + way) * each : (layer * ways + way + 1) * each] for way in range(ways)]
        w, r = (b.constant(_by_gates(b, [o[i] for o in of], gates)) for i in (0, 1))
        bias = None
        if has_biases:
            parts = [_by_gates(b, [o[i] for o in of], gates) for i in (2, 3)]
            bias = b.constant(np.concatenate(parts, axis=1))
        first = [_rows(b, state, layer * ways, ways) for state in states]
        shapes = [(length, ways, n, hidden)] + [(ways, n, hidden)] * len(states)
        found = b.add_split(
            op, [x, w, r, bias, None, *first], shapes, dtype, hidden_size=hidden,
            direction="bidirectional" if both else "forward", **attributes,
        )  # fmt: skip
        x = b.reshaped(b.permuted(found[0], (0, 2, 1, 3)), (length, n, ways * hidden))
        for each_last, state in zip(last, found[1:]):
            each_last.append(state)
    ends = [of[0] if layers == 1 else b.add("Concat", of, (layers * ways, n, hidden), dtype, axis=0) for of in last]
    return (b.permuted(x, (1, 0, 2)) if batch_first else x, *ends)


def _rows(b: Builder, state: Value, first: int, count: int) -> Value:
    """The states of a layer."""
    if state.shape[0] == count:
        return state
    shape = (count, *state.shape[1:])
    return b.add("Slice", [state, b.ints(first), b.ints(first + count), b.ints(0)], shape, state.dtype)


@translates(aten.lstm.input)
def lstm(
    b: Builder, y: Result, x: Value, states: Sequence[Value], weights: Sequence[Value], has_biases: bool, layers: int,
    dropout: float, train: bool, both: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    return _layers(b, y, "LSTM", LSTM_GATES, x, states, weights, has_biases, layers, train, both, batch_first)


@translates(aten.gru.input)
def gru(
    b: Builder, y: Result, x: Value, state: Value, weights: Sequence[Value], has_biases: bool, layers: int,
    dropout: float, train: bool, both: bool, batch_first: bool,
) -> tuple[Value, ...]:  # fmt: skip
    return _layers(
        b, y, "GRU", GRU_GATES, x, [state], weights, has_biases, layers, train, both, batch_first, linear_before_reset=1
    )  # fmt: skip
